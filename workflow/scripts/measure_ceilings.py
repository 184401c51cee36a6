from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.ceilings import measure_run
    from layernorm_roles.language_model.runs import LanguageModelRun

    for number, run in enumerate(LanguageModelRun.of_job(snakemake)):
        weights = {name: Path(snakemake.input[name][number]) for name in ("initial", "final")}
        out = Path(snakemake.output.ceilings[number])
        measure_run(run, weights, out, snakemake.threads, snakemake.params.contexts)
