from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import made_from

    made_from.check(snakemake.params.run, snakemake.params.outdated)
    print(
        f"{snakemake.params.run}: every file is as it was written, with these settings and this code",
        flush=True,
    )
