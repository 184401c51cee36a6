from layernorm_roles.job import job

with job(snakemake):
    for name, meaning in snakemake.params.targets.items():
        print(f"    {name:18} {meaning}", flush=True)
