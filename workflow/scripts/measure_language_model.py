from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.language_model.measure import measure_batch

    given, outputs = dict(snakemake.input.items()), dict(snakemake.output.items())
    measure_batch(plan, given["weights"], given, outputs, snakemake.threads)
