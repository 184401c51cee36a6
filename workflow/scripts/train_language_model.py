from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.runs import LanguageModelRun
    from layernorm_roles.language_model.train import Outputs, train_run

    params, output = snakemake.params, snakemake.output
    files = zip(output.initial, output.final, output.metrics, strict=True)
    for run, paths in zip(LanguageModelRun.of_job(snakemake), files, strict=True):
        out = Outputs(*map(Path, paths), Path(paths[0]).with_name("checkpoint.safetensors"))
        code = [params.code, params.norm_code[run.variant]]
        train_run(
            run, out, params.device, snakemake.threads, code, params.device_check, Path(params.downloads)
        )
