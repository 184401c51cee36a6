from layernorm_roles.job import job
from layernorm_roles.majority import data

with job(snakemake.log[0]):
    settings = data.experiment_of(snakemake.params.settings)
    data.write(settings, int(snakemake.wildcards.seed), snakemake.output[0])
