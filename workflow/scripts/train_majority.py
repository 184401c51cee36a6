from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.majority.train import MajorityRun, RunFiles, train_runs
    from layernorm_roles.settings.majority import MajorityTraining

    params, out = snakemake.params, snakemake.output
    files = map(RunFiles, snakemake.input.data, out.metrics, out.vectors, out.weights)
    runs = (
        MajorityRun(experiment=params.experiment, norm=params.norms[run["variant"]], **run)
        for run in params.runs
    )
    code = {variant: [params.code, norm_code] for variant, norm_code in params.norm_code.items()}
    settings = MajorityTraining.model_validate(params.settings)
    train_runs(settings, list(zip(runs, files, strict=True)), params.device, code, params.device_check)
