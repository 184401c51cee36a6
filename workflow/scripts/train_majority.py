from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.majority.data import experiment_of
    from layernorm_roles.majority.train import MajorityRun, RunFiles, train_runs

    params, out = snakemake.params, snakemake.output
    files = map(RunFiles, snakemake.input.data, out.metrics, out.vectors, out.weights)
    runs = (
        MajorityRun(params.experiment, variant, params.norms[variant], seed) for variant, seed in params.runs
    )
    code = {variant: [params.code, norm_code] for variant, norm_code in params.norm_code.items()}
    train_runs(experiment_of(params.settings), list(zip(runs, files, strict=True)), params.device, code)
