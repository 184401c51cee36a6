from layernorm_roles.job import job
from layernorm_roles.majority import data
from layernorm_roles.settings.majority import MajorityData

with job(snakemake.log[0]):
    settings = MajorityData.model_validate(snakemake.params.settings)
    data.write(settings, int(snakemake.wildcards.seed), snakemake.output[0])
