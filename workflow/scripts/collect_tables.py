"""One table from the tables of many runs."""

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import store

    params = snakemake.params
    store.collect(snakemake.input, params.table, snakemake.output[0], params.settings, params.identities)
