from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.ceilings import measure_run
    from layernorm_roles.language_model.runs import LanguageModelRun

    run = LanguageModelRun.of_rule(snakemake)
    weights = {name: Path(snakemake.input[name]) for name in ("initial", "final")}
    measure_run(run, weights, Path(snakemake.output[0]), snakemake.threads, snakemake.params.contexts)
