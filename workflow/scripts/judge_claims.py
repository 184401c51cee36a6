from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.evidence import claims

    params = snakemake.params
    claims.judge_files(map(Path, snakemake.input), snakemake.output[0], params.rules, params.settings)
