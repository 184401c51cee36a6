from pathlib import Path

from layernorm_roles.job import job

with job(snakemake.log[0]):
    from layernorm_roles import store
    from layernorm_roles.language_model.runs import Run
    from layernorm_roles.language_model.train import SEED_RULE
    from layernorm_roles.text.contexts import Prepared

    run, corpus = snakemake.wildcards, Prepared(Path(snakemake.input.manifest).parent)
    this = Run(
        run.model, run.variant, int(run.seed), snakemake.params.norm, snakemake.params.settings, corpus
    )
    weights = {name: Path(snakemake.input[name]) for name in ("initial", "final")}
    verdicts = this.keys(weights, snakemake.threads)
    about = store.provenance(this.identity, "cpu", SEED_RULE)
    store.write(verdicts.tokens, "sentence_tokens", snakemake.output.tokens, about)
    store.write(verdicts.selectability, "key_selectability", snakemake.output.verdicts, about)
