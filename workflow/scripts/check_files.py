from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import files

    run = snakemake.params.run
    if found := files.faults(run, beside=("logs", "benchmarks")):
        raise ValueError("\n".join([f"{run}: {len(found)} files are not as they were written", *found]))
    print(f"{run}: every file is as it was written", flush=True)
