from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.keys import collect_run
    from layernorm_roles.language_model.runs import LanguageModelRun

    run = LanguageModelRun.of_rule(snakemake)
    weights = {name: Path(snakemake.input[name]) for name in ("initial", "final")}
    names = {"selectability": "verdicts", "tokens": "tokens", "ones": "ones_share"}
    out = {table: Path(snakemake.output[name]) for table, name in names.items()}
    collect_run(run, weights, out, snakemake.threads)
