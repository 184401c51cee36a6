from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.pretrained.measure import measure_files

    params, out = snakemake.params, snakemake.output
    measure_files(
        snakemake.wildcards.pretrained, params.settings, snakemake.input.manifest, dict(out.items())
    )
