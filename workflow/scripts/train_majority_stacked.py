from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles.majority import data, stacked, train

    params, out, device = snakemake.params, snakemake.output, snakemake.params.device
    title = f"majority {params.experiment}"
    # In the order of the output files.
    members = [
        (variant, stacked.Member(params.norms[variant], seed, f"{title} {variant} seed {seed}"))
        for variant, seed in params.runs
    ]
    paths = {seed: path for (_, seed), path in zip(params.runs, snakemake.input.data, strict=True)}
    sets = {seed: data.load(path) for seed, path in paths.items()}
    results = stacked.train(params.task, [member for _, member in members], sets, device, title)
    files = zip(out.metrics, out.vectors, out.weights, strict=True)
    for (variant, member), result, outputs in zip(members, results, files, strict=True):
        run = {"experiment": params.experiment, "variant": variant, "seed": member.seed}
        train.write(result, run, params.task, member.norm, device, outputs)
