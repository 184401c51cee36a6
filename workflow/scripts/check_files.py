from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import plan

    plan.check(snakemake.params.run, snakemake.params.undone)
    print(
        f"{snakemake.params.run}: every file is as it was written, with these settings and this code",
        flush=True,
    )
