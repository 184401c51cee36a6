"""The paper's claims about scaling: random keys, and the language models' keys and losses.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.language_model import PAPER_VARIANTS
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.analysis.random_keys import share_of_matrices, z_scores
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOTHING,
    OPPOSITE,
    Finding,
    Outcome,
    Tables,
    Untestable,
    above,
    all_of,
    effect,
    if_any,
    over_seeds,
    paired,
    paper_claim,
    statement,
)

RANDOM, PRECISION, KEYS, LOSSES = (
    "random_keys",
    "random_keys_precision",
    "key_selectability",
    "language_model_metrics",
)


# Figures 1c and 1d


def of_norm(table: pd.DataFrame, norm: str) -> pd.DataFrame:
    """The cells of one norm; Untestable if there are none."""
    part = table[table.norm == norm]
    if part.empty:
        raise Untestable(f"The run has no random keys with the norm {norm}.")
    return part


def unselectable_without(tables: Tables) -> Outcome:
    """Figure 1c: Gaussian keys without norm, many in few dimensions and any from HIGH_DIMENSION on."""
    bare = of_norm(tables[RANDOM], "none")
    high = bare[bare.d >= rules.HIGH_DIMENSION]
    if high.empty:
        raise Untestable(
            f"The run's dimensions end at {bare.d.max()}; the paper finds none from {rules.HIGH_DIMENSION} "
            "on."
        )
    most = bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())]
    many, few = share_of_matrices(most), share_of_matrices(high)
    z = z_scores(bare).query("comparable").z.dropna()
    if len(z) and abs(z.mean()) * np.sqrt(len(z)) > rules.CONTRADICTION:
        raise Untestable(
            f"The simulation contradicts the exact expectation (mean z {z.mean():.2f}, {len(z)} cells)."
        )
    own = all_of(above(many, rules.ALL), OPPOSITE[above(few, rules.ZERO)])
    reason = (
        f"With {most.n.iloc[0]} keys in d = {most.d.iloc[0]}, {many:.1f} % of {most.matrices.sum():,} "
        f"matrices have an unselectable key; from d = {rules.HIGH_DIMENSION} on {few:.3f} % of "
        f"{high.matrices.sum():,} have. The unit of the interval is the matrix."
    )
    if len(z):
        reason += (
            f" Against the exact expectation the {len(z)} comparable cells have z-scores of mean "
            f"{z.mean():.2f} and standard deviation {z.std():.2f}."
        )
    return paper_claim(own, Finding.SEEN, many, int(most.matrices.sum()), reason)


def unselectable_with(tables: Tables) -> Outcome:
    """Figure 1d: Gaussian keys after LayerNorm, in all cells, beside projection and scaling alone."""
    norms = tables[RANDOM]
    layernorm, bare = of_norm(norms, "layernorm"), of_norm(norms, "none")
    share, before = share_of_matrices(layernorm), share_of_matrices(bare)
    own, isolated = OPPOSITE[above(share, rules.ZERO)], above(before, rules.ZERO)
    borderline = int(layernorm.n_borderline.sum())
    reason = (
        f"After LayerNorm (float64, without eps) {share:.3f} % of {layernorm.matrices.sum():,} matrices have "
        f"an unselectable key{f' ({borderline} keys undecided)' if borderline else ''}; before it "
        f"{before:.1f} % of the same matrices."
    )
    control = NOTHING
    for norm, name in (("projection", "projection alone"), ("scale", "scaling alone")):
        if (norms.norm == norm).any():
            other = share_of_matrices(norms[norms.norm == norm])
            reason += f" With {name} it is {other.mean:.2f} %."
            some = above(other, rules.ZERO)
            isolated = all_of(isolated, some if norm == "projection" else OPPOSITE[some])
            control = other if norm == "projection" else control
    reason += _in_practice(tables)
    return paper_claim(own, isolated, share, int(layernorm.matrices.sum()), reason, control)


def _in_practice(tables: Tables) -> str:
    """A sentence about LayerNorm with an eps in float32; empty if the run has none."""
    if PRECISION not in tables:
        return ""
    practice = tables[PRECISION].query("eps > 0")
    worst = practice[practice.d == practice.d.min()].query("dtype == 'float32'")
    if worst.empty:
        return ""
    return (
        f" As it is used, with eps = {worst.eps.max():g} in float32, {share_of_matrices(worst).mean:.1f} % of the "
        f"matrices at d = {worst.d.min()} have one: the eps leaves short vectors inside the sphere."
    )


# Tables 1 to 4 and the heads


def choose(keys: pd.DataFrame, variant: str, **where: str) -> pd.DataFrame:
    """The rows of one variant for which every column of `where` has its value; Untestable if there are none."""
    part = keys[keys.variant == variant]
    for column, value in where.items():
        part = part[part[column] == value]
    if part.empty:
        raise Untestable(f"The run has no key verdicts of: {', '.join([variant, *where.values()])}.")
    return part


def share(keys: pd.DataFrame, variant: str, **where: str) -> pd.Series:
    """Per cent of keys unselectable, one value a seed: mean over contexts, layers and heads."""
    part = choose(keys, variant, **where)
    return (100 * part.n_unselectable / part.n_keys).groupby(part.seed).mean()


def contexts_with_any(keys: pd.DataFrame, variant: str, **where: str) -> pd.Series:
    """Per cent of contexts with an unselectable key in some layer, one value a seed."""
    part = choose(keys, variant, **where)
    hit = (part.n_unselectable > 0).groupby([part.seed, part.context]).any()
    return 100 * hit.groupby("seed").mean()


def per_cent(series: pd.Series) -> str:
    """Mean and interval as text, or the mean alone where there is one seed."""
    return f"{Estimate.of(series):.1f} %" if len(series) > 1 else f"{series.mean():.1f} % (one seed)"


def optional(keys: pd.DataFrame, sentence: str, variant: str, **where: str) -> str:
    """The sentence with a share filled in, about a control that the run may leave out; then empty."""
    try:
        return " " + sentence.format(per_cent(share(keys, variant, **where)))
    except Untestable:
        return ""


def table_1(tables: Tables) -> Outcome:
    """Table 1: keys at the attention input, without scaling and with it; the control is untrained."""
    keys = tables[KEYS]
    here = {"model": "gpt", "texts": "long", "site": "after_norm"}
    seeds = share(keys, "projection", checkpoint="final", **here)
    without = over_seeds(seeds, "projection")
    with_scaling = over_seeds(share(keys, "layernorm", checkpoint="final", **here), "layernorm")
    first = {v: share(keys, v, checkpoint="initial", **here) for v in ("projection", "layernorm")}
    learnt = paired(seeds, first["projection"], "projection")
    paper = float(np.mean(reported()["language_model"]["table_1"]["projection"]))
    own = all_of(effect(without, paper), OPPOSITE[above(with_scaling, rules.ZERO)])
    reason = (
        f"At the attention input {without:.1f} % of the keys are unselectable without scaling and "
        f"{with_scaling:.2f} % with it (mean over layers). Untrained, the same models have "
        f"{per_cent(first['projection'])} and {per_cent(first['layernorm'])}: the geometry is there before "
        f"training, which changes the first by {learnt:+.1f} points."
    )
    exact = {"model": "gpt", "texts": "long", "site": "after_norm_exact", "checkpoint": "final"}
    reason += optional(keys, "With LayerNorm's eps set to 0 it is {}.", "layernorm", **exact)
    reason += optional(keys, "With scaling alone it is {}.", "scale", checkpoint="final", **here)
    return paper_claim(own, Finding.SEEN, without, len(seeds), reason, if_any(first["projection"]))


def table_2(tables: Tables) -> Outcome:
    """Table 2: input and output of LayerNorm in the model that has it; the control is untrained."""
    keys = tables[KEYS]
    here = {"model": "gpt", "texts": "long"}
    before, after = (
        share(keys, "layernorm", checkpoint="final", site=s, **here) for s in ("before_norm", "after_norm")
    )
    inputs, outputs = over_seeds(before, "layernorm"), over_seeds(after, "layernorm")
    start = share(keys, "layernorm", checkpoint="initial", site="before_norm", **here)
    learnt = paired(before, start, "layernorm")
    paper = float(np.mean(reported()["language_model"]["table_2"]["before_norm"]))
    own = all_of(effect(inputs, paper), OPPOSITE[above(outputs, rules.ZERO)])
    reason = (
        f"In the model with LayerNorm {inputs:.1f} % of its inputs would be unselectable as keys and "
        f"{outputs:.2f} % of its outputs are (mean over layers). Untrained, {per_cent(start)} of the inputs "
        f"would be: training changes this by {learnt:+.1f} points."
    )
    exact = {"site": "after_norm_exact", "checkpoint": "final", **here}
    reason += optional(keys, "With the eps set to 0 it is {} of the outputs.", "layernorm", **exact)
    return paper_claim(own, Finding.SEEN, inputs, len(before), reason, if_any(start))


def loss_gap(tables: Tables) -> Outcome:
    """Figure 4: by how much the final losses without scaling are higher; the control is untrained."""
    losses = tables[LOSSES]
    for variant in PAPER_VARIANTS:
        if variant not in set(losses.variant):
            raise Untestable(f"The run has no language model with {variant}.")
    last = int(losses.step.max())

    def pairs(column: str, step: int) -> tuple[pd.Series, pd.Series]:
        wide = losses[losses.step == step].pivot(index="seed", columns="variant", values=column)
        wide = wide.reindex(columns=PAPER_VARIANTS)
        return wide.projection, wide.layernorm

    gaps = {column: paired(*pairs(column, last), "projection") for column in ("train_loss", "valid_loss")}
    paper = reported()["language_model"]
    expected = {c: paper["projection"][c] - paper["layernorm"][c] for c in gaps}
    own = all_of(*(effect(gaps[c], expected[c]) for c in gaps))
    reason = (
        f"At step {last:,}, of the same seed, the loss without scaling minus that with it is "
        f"{gaps['train_loss']:+.3f} nats per token in training and {gaps['valid_loss']:+.3f} in validation; "
        f"the paper's figure has {expected['train_loss']:+.3f} and {expected['valid_loss']:+.3f} at step "
        f"{paper['sizes']['steps']:,}, of one run."
    )
    projection, layernorm = pairs("valid_loss", 0)
    untrained = (projection - layernorm).dropna()
    if len(untrained):
        reason += f" Untrained, the validation losses differ by {untrained.mean():+.3f}."
    projection, layernorm = pairs("valid_loss", last)
    n_seeds = len((projection - layernorm).dropna())
    return paper_claim(own, Finding.SEEN, gaps["valid_loss"], n_seeds, reason, if_any(untrained))


def sentences(model: str, without: str, tables: Tables) -> Outcome:
    """Tables 3 (gpt, projection) and 4 (bert, none): sentences with an unselectable key."""
    keys = tables[KEYS]
    here = {"model": model, "texts": "sentences", "site": "after_norm"}
    hit = {c: contexts_with_any(keys, without, checkpoint=c, **here) for c in ("final", "initial")}
    sentences_hit = over_seeds(hit["final"], without)
    with_layernorm = contexts_with_any(keys, "layernorm", checkpoint="final", **here)
    own = above(sentences_hit, rules.ZERO)
    kept_keys = over_seeds(share(keys, "layernorm", checkpoint="final", **here), "layernorm")
    isolated = OPPOSITE[above(kept_keys, rules.ZERO)]
    reason = (
        f"{sentences_hit:.1f} % of the sentences have an unselectable key in some layer "
        f"({per_cent(share(keys, without, checkpoint='final', **here))} of the keys); untrained "
        f"{per_cent(hit['initial'])} of the sentences. With LayerNorm it is {per_cent(with_layernorm)} of the "
        f"sentences and {kept_keys:.2f} % of the keys."
    )
    return paper_claim(own, isolated, sentences_hit, len(hit["final"]), reason, if_any(with_layernorm))


def heads(variant: str, control: str, tables: Tables) -> Outcome:
    """Keys in the heads, after W_K, of the models with `variant`, beside those of the models with `control`.

    What the paper says of its own variants is a claim of the paper; that of another is a question of ours.
    """
    keys = tables[KEYS]
    here = {"model": "gpt", "texts": "long", "checkpoint": "final"}
    seeds = share(keys, variant, site="head", **here)
    estimate = over_seeds(seeds, variant)
    at_input = share(keys, variant, site="after_norm", **here)
    zero = OPPOSITE[above(estimate, rules.ZERO)]
    others = over_seeds(share(keys, control, site="head", **here), control)
    # Without unselectable keys in the control's heads there would be nothing for the norm to eliminate.
    isolated = above(others, rules.ZERO)
    names = {"projection": "without scaling", "layernorm": "with LayerNorm alone"}
    reason = (
        f"In the heads, after W_K, {estimate:.1f} % of the keys are unselectable; at the attention input of "
        f"the same models {per_cent(at_input)}. In the heads of the models {names[control]} it is "
        f"{others:.1f} %."
    )
    untrained = {"site": "head", **here, "checkpoint": "initial"}
    reason += optional(keys, "Untrained, {} of the keys in the heads are.", variant, **untrained)
    reason += optional(keys, "With eps = 0 it is {}.", variant, site="head_exact", **here)
    if variant in PAPER_VARIANTS:
        return paper_claim(zero, isolated, estimate, len(seeds), reason, others)
    return statement([zero], estimate, len(seeds), reason, others, cause=isolated)


TESTS: dict[str, Callable[[Tables], Outcome]] = {
    "random_keys": unselectable_without,
    "random_keys_layernorm": unselectable_with,
    "table_1": table_1,
    "table_2": table_2,
    "loss_gap": loss_gap,
    "table_3": partial(sentences, "gpt", "projection"),
    "table_4": partial(sentences, "bert", "none"),
    "heads": partial(heads, "layernorm", "projection"),
    "heads_qk_norm": partial(heads, "layernorm_qk", "layernorm"),
}
