from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.activations import record_run
    from layernorm_roles.language_model.runs import LanguageModelRun

    params, final, out = snakemake.params, snakemake.input.final, snakemake.output.activations
    contexts = (params.block_contexts, params.head_contexts)
    for run, weights, activations in zip(LanguageModelRun.of_job(snakemake), final, out, strict=True):
        record_run(run, weights, activations, *contexts, snakemake.threads)
