from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.language_model.runs import Run
    from layernorm_roles.language_model.train import Outputs
    from layernorm_roles.text.contexts import Prepared

    run, corpus = snakemake.wildcards, Prepared(Path(snakemake.input.manifest).parent)
    files = [Path(snakemake.output[name]) for name in ("initial", "final", "metrics")]
    out = Outputs(*files, files[0].with_name("checkpoint.safetensors"))
    code = [snakemake.params.code, snakemake.params.norm_code]
    Run(
        run.model, run.variant, int(run.seed), snakemake.params.norm, snakemake.params.settings, corpus
    ).train(out, snakemake.params.device, snakemake.threads, code)
