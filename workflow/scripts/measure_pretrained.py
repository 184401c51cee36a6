from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.pretrained.measure import measure_files

    measure_files(plan, snakemake.input.manifest, dict(snakemake.output.items()))
