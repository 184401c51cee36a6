from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.majority.train import MajorityRun, Outputs, train_batch
    from layernorm_roles.settings.majority import MajorityTraining

    named, params = snakemake.wildcards, snakemake.params
    point = {"d_model": int(named.d_model), "base_learning_rate": float(named.base_learning_rate)}
    runs = {
        MajorityRun(named.experiment, named.variant, params.norm, seed, **point): data
        for seed, data in zip(params.seeds, snakemake.input.data, strict=True)
    }
    settings, code = MajorityTraining.model_validate(params.settings), [params.code, params.norm_code]
    train_batch(settings, runs, Outputs(*snakemake.output), params.device, code, params.device_check)
