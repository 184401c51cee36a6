from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    import torch

    from layernorm_roles import checkpoint
    from layernorm_roles.majority import data, train

    torch.set_num_threads(1)  # the processes share the cores, not the threads of one
    params, out, kept = snakemake.params, snakemake.output, []
    files = zip(snakemake.input.data, out.metrics, out.vectors, out.weights, strict=True)
    for (variant, seed), (sequences, metrics, vectors, weights) in zip(params.runs, files, strict=True):
        norm, run = params.norms[variant], {"experiment": params.experiment, "variant": variant, "seed": seed}
        identity = {"norm": norm, "seed": seed, "task": params.task}
        code = {"device": params.device, "code": [params.code, params.norm_code[variant]]}
        kept.append(
            checkpoint.Checkpoint(Path(weights).with_name("checkpoint.safetensors"), {**identity, **code})
        )
        title = f"majority {params.experiment} {variant} seed {seed}"
        result = train.train(
            params.task, norm, seed, data.load(sequences), params.device, title, checkpoint=kept[-1]
        )
        train.write(result, run, params.task, norm, params.device, (metrics, vectors, weights))
    # Not before the last run: Snakemake deletes what a killed job has written for the others.
    for finished in kept:
        finished.remove()
