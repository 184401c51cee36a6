from itertools import chain

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.statements import SEED_RULE, fusion, trained

    settings = snakemake.params.settings
    contexts = trained.long_contexts(store.read(snakemake.input.contexts, "contexts"), settings["contexts"])
    blocks = chain(
        fusion.random_blocks(settings), *(trained.blocks(path, contexts) for path in snakemake.input.models)
    )
    about = store.provenance(settings, "cpu", SEED_RULE)
    store.write(fusion.measure(blocks), "fusion", snakemake.output[0], about)
