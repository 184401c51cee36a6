from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles import plan

    folder = snakemake.params.folder
    plan.check(folder)
    print(f"{folder}: every file is as it was written, with these settings and this code", flush=True)
