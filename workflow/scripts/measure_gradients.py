from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.language_model.gradients import measure_files

    measure_files(plan, snakemake.input.manifest, snakemake.output.table)
