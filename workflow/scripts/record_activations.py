from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.activations import record_run
    from layernorm_roles.language_model.runs import LanguageModelRun

    params, files = snakemake.params, snakemake.input
    run = LanguageModelRun.of_rule(snakemake)
    contexts = (params.block_contexts, params.head_contexts)
    record_run(run, files.final, snakemake.output[0], *contexts, snakemake.threads)
