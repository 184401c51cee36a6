from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.language_model.measure import measure_batch

    text, outputs = {"manifest": snakemake.input.manifest}, dict(snakemake.output.items())
    measure_batch(plan, snakemake.input.weights, text, outputs, snakemake.threads)
