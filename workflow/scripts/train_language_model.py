from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.language_model.train import train_batch

    train_batch(plan, dict(snakemake.input.items()), dict(snakemake.output.items()), snakemake.threads)
