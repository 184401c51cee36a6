from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import plan

    plan.check(snakemake.params.folder, snakemake.params.undone)
    print(
        f"{snakemake.params.folder}: every file is as it was written, with these settings and this code",
        flush=True,
    )
