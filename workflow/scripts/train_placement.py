from layernorm_roles.job import job

with job(snakemake.log[0]):
    import torch

    from layernorm_roles import store
    from layernorm_roles.statements import SEED_RULE, placement
    from layernorm_roles.text import contexts

    settings = snakemake.params.settings
    torch.set_num_threads(snakemake.threads)
    tokens = contexts.stream(snakemake.input[0], 2**32, settings["context"])
    losses, gradients = placement.measure(tokens, snakemake.wildcards.placement, settings)
    about = store.provenance(settings, "cpu", SEED_RULE)
    store.write(losses, "placement", snakemake.output.losses, about)
    store.write(gradients, "placement_gradients", snakemake.output.gradients, about)
