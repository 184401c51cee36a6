from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    import torch

    from layernorm_roles import checkpoint, store
    from layernorm_roles.majority import data, train

    torch.set_num_threads(1)  # the processes share the cores, not the threads of one
    params, out = snakemake.params, snakemake.output
    task, device, run = params.task, params.device, dict(snakemake.wildcards)
    run["seed"] = int(run["seed"])
    identity = {"norm": params.norm, "seed": run["seed"], "task": task}
    saved = checkpoint.Checkpoint(
        Path(out.weights).with_name("checkpoint.safetensors"),
        {**identity, "device": device, "code": [params.code, params.norm_code]},
    )
    result = train.train(
        task,
        params.norm,
        run["seed"],
        data.load(snakemake.input.data),
        device,
        title="majority {experiment} {variant} seed {seed}".format(**run),
        checkpoint=saved,
    )
    about = store.provenance(task | {"norm": params.norm}, device, train.SEED_RULE)
    checkpoint.save(result.model.state_dict(), out.weights, {"identity": identity})
    store.write(result.vectors.assign(**run), "majority_vectors", out.vectors, about)
    store.write(result.metrics.assign(**run), "majority_metrics", out.metrics, about)
    saved.remove()
