from layernorm_roles.job import job

with job(snakemake):
    from layernorm_roles.majority.train import MajorityRun, Outputs, train_batch
    from layernorm_roles.settings.majority import MajorityTraining

    params, output = snakemake.params, snakemake.output
    settings = MajorityTraining.model_validate(params.settings)
    data = dict(zip(params.seeds, snakemake.input.data, strict=True))
    files = map(Outputs, output.metrics, output.vectors, output.weights)
    for batch, out in zip(params.runs, files, strict=True):
        shared = {name: value for name, value in batch.items() if name != "seeds"}
        norm, norm_code = (of_norm[batch["variant"]] for of_norm in (params.norms, params.norm_code))
        runs = {MajorityRun(**shared, norm=norm, seed=seed): data[seed] for seed in batch["seeds"]}
        code = [params.code, norm_code]
        train_batch(settings, runs, out, params.device, code, params.device_check)
