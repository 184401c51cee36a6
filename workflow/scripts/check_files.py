from layernorm_roles.script import job

with job(snakemake):
    plans = snakemake.params.plans
    left = plans.check()
    print(f"{plans.folder}: every file is as it was written, with these settings and this code", flush=True)
    if left:
        print(f"{plans.folder}: {left} of the planned jobs are not done", flush=True)
