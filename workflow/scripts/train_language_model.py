from layernorm_roles.job import job

with job(snakemake) as plan:
    from layernorm_roles.language_model.train import train_batch

    given, outputs = dict(snakemake.input.items()), dict(snakemake.output.items())
    train_batch(plan, given, outputs, snakemake.threads)
