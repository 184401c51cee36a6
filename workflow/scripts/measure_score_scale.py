from itertools import chain

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.statements import SEED_RULE, score_scale, trained

    settings = snakemake.params.settings
    contexts = trained.long_contexts(store.read(snakemake.input.contexts, "contexts"), settings["contexts"])
    heads = chain(
        score_scale.random_heads(settings),
        trained.majority_heads(store.read(snakemake.input.vectors, "majority_vectors"), "d8"),
        *(trained.language_model_heads(path, contexts) for path in snakemake.input.models),
    )
    about = store.provenance(settings, "cpu", SEED_RULE)
    store.write(score_scale.measure(heads), "score_scale", snakemake.output[0], about)
