from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.keys import collect_run
    from layernorm_roles.language_model.runs import LanguageModelRun

    names = {"selectability": "verdicts", "tokens": "tokens", "ones": "ones_share"}
    for number, run in enumerate(LanguageModelRun.of_job(snakemake)):
        weights = {name: Path(snakemake.input[name][number]) for name in ("initial", "final")}
        out = {table: Path(snakemake.output[name][number]) for table, name in names.items()}
        collect_run(run, weights, out, snakemake.threads)
