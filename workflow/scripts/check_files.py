from layernorm_roles.script import job

with job(snakemake):
    from layernorm_roles import plan

    folder = snakemake.params.folder
    left = plan.check(folder)
    print(f"{folder}: every file is as it was written, with these settings and this code", flush=True)
    if left:
        print(f"{folder}: {left} of the planned jobs are not done", flush=True)
