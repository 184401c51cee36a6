"""One table from the tables of many runs."""

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store

    store.collect(snakemake.input, snakemake.params.table, snakemake.output[0], snakemake.params.settings)
