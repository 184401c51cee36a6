from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.statements import worked_numbers

    worked_numbers.write(snakemake.output[0])
