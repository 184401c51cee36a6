from layernorm_roles.script import job

with job(snakemake) as plan:
    from layernorm_roles.majority.train import train_batch

    train_batch(plan, snakemake.input.data, dict(snakemake.output.items()))
