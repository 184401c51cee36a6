from layernorm_roles.job import job

with job(snakemake.log[0]):
    import torch

    from layernorm_roles import store
    from layernorm_roles.job import Progress
    from layernorm_roles.selectability import random_keys

    torch.set_num_threads(1)
    settings = snakemake.params.settings
    about = store.provenance(settings, device="cpu", seed_rule=random_keys.SEED_RULE)

    norms = random_keys.table(
        settings,
        snakemake.params.norms,
        Progress("random keys", len(random_keys.cells(settings, settings["dimensions"])), "sizes"),
    )
    store.write(norms, "random_keys", snakemake.output.norms, about)

    dimensions = settings["precision"]["dimensions"]
    precision = random_keys.precision_table(
        settings, Progress("random keys, precision", len(random_keys.cells(settings, dimensions)), "sizes")
    )
    store.write(precision, "random_keys_precision", snakemake.output.precision, about)
