from layernorm_roles.job import job

with job(snakemake.log[0]):
    import torch

    from layernorm_roles import store
    from layernorm_roles.majority import data, train

    torch.set_num_threads(1)  # the processes share the cores, not the threads of one
    task, device, run = snakemake.params.task, snakemake.params.device, dict(snakemake.wildcards)
    run["seed"] = int(run["seed"])
    result = train.train(
        task,
        snakemake.params.norm,
        run["seed"],
        data.load(snakemake.input.data),
        device,
        title="majority {experiment} {variant} seed {seed}".format(**run),
    )
    about = store.provenance(task | {"norm": snakemake.params.norm}, device, train.SEED_RULE)
    train.save_weights(result.model, snakemake.output.weights)
    store.write(result.vectors.assign(**run), "majority_vectors", snakemake.output.vectors, about)
    store.write(result.metrics.assign(**run), "majority_metrics", snakemake.output.metrics, about)
