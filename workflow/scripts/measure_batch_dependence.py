from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.statements import SEED_RULE, batch_dependence

    settings = snakemake.params.settings
    about = store.provenance(settings, "cpu", SEED_RULE)
    store.write(batch_dependence.measure(settings), "batch_dependence", snakemake.output[0], about)
