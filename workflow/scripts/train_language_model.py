from pathlib import Path

from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.language_model.runs import LanguageModelRun
    from layernorm_roles.language_model.train import Outputs, train_run

    params, run = snakemake.params, LanguageModelRun.of_rule(snakemake)
    files = [Path(snakemake.output[name]) for name in ("initial", "final", "metrics")]
    out = Outputs(*files, files[0].with_name("checkpoint.safetensors"))
    code = [params.code, params.norm_code]
    train_run(run, out, params.device, snakemake.threads, code, params.device_check, Path(params.downloads))
