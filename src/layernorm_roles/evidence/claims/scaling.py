"""The paper's claims about scaling: random keys, and the language models' keys and losses.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    OPPOSITE,
    Finding,
    Outcome,
    Untestable,
    above,
    all_of,
    effect,
    over_seeds,
    paired,
)
from layernorm_roles.evidence.paper import reported
from layernorm_roles.evidence.random_keys import z_scores
from layernorm_roles.evidence.statement_findings import Estimate

RANDOM, PRECISION, KEYS, LOSSES = (
    "random_keys",
    "random_keys_precision",
    "key_selectability",
    "language_model_metrics",
)
Tables = Mapping[str, pd.DataFrame]


# Figures 1c and 1d


def per_cent(cells: pd.DataFrame) -> Estimate:
    """Per cent of the matrices with an unselectable key, with the exact (Clopper-Pearson) interval."""
    matrices = int(cells.matrices.sum())
    hits = round(float((cells.any_unselectable * cells.matrices).sum()))
    interval = stats.binomtest(hits, matrices).proportion_ci()
    return Estimate(100 * hits / matrices, 100 * interval.low, 100 * interval.high)


def of_norm(table: pd.DataFrame, norm: str) -> pd.DataFrame:
    part = table[table.norm == norm]
    if part.empty:
        raise Untestable(f"The run has no random keys with the norm {norm}.")
    return part


def unselectable_without(tables: Tables) -> Outcome:
    bare = of_norm(tables[RANDOM], "none")
    high = bare[bare.d >= rules.HIGH_DIMENSION]
    if high.empty:
        raise Untestable(
            f"The run's dimensions end at {bare.d.max()}; the paper finds none from {rules.HIGH_DIMENSION} "
            "on."
        )
    most = bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())]
    many, few = per_cent(most), per_cent(high)
    z = z_scores(bare).query("comparable").z.dropna()
    if len(z) and abs(z.mean()) * np.sqrt(len(z)) > 5:
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
    return Outcome(
        rules.verdict(own, Finding.SEEN), many, int(most.matrices.sum()), reason + rules.undecided(own)
    )


def unselectable_with(tables: Tables) -> Outcome:
    norms = tables[RANDOM]
    mine, bare = of_norm(norms, "layernorm"), of_norm(norms, "none")
    share, control = per_cent(mine), per_cent(bare)
    own, isolated = OPPOSITE[above(share, rules.ZERO)], above(control, rules.ZERO)
    borderline = int(mine.n_borderline.sum())
    reason = (
        f"After LayerNorm (float64, without eps) {share:.3f} % of {mine.matrices.sum():,} matrices have an "
        f"unselectable key{f' ({borderline} keys undecided)' if borderline else ''}; before it "
        f"{control:.1f} % of the same matrices."
    )
    for norm, name in (("projection", "projection alone"), ("scale", "scaling alone")):
        if (norms.norm == norm).any():
            other = per_cent(norms[norms.norm == norm])
            reason += f" With {name} it is {other.mean:.2f} %."
            wanted = above(other, rules.ZERO)
            isolated = all_of(isolated, wanted if norm == "projection" else OPPOSITE[wanted])
    if PRECISION in tables:
        practice = tables[PRECISION].query("eps > 0")
        if len(practice):
            worst = practice[practice.d == practice.d.min()].query("dtype == 'float32'")
            if len(worst):
                reason += (
                    f" As it is used, with eps = {worst.eps.max():g} in float32, {per_cent(worst).mean:.1f} "
                    f"% of the matrices at d = {worst.d.min()} have one: the eps leaves short vectors "
                    "inside the sphere."
                )
    return Outcome(
        rules.verdict(own, isolated), share, int(mine.matrices.sum()), reason + rules.undecided(own, isolated)
    )


# Tables 1 to 4 and the heads


def choose(keys: pd.DataFrame, variant: str, **where: str) -> pd.DataFrame:
    """The rows of one variant; Untestable if there are none."""
    part = keys[keys.variant == variant]
    for column, value in where.items():
        part = part[part[column] == value]
    if part.empty:
        told = ", ".join([variant, *where.values()])
        raise Untestable(f"The run has no key verdicts of: {told}.")
    return part


def share(keys: pd.DataFrame, variant: str, **where: str) -> pd.Series:
    """Per cent of keys unselectable, one value a seed: mean over contexts, layers and heads."""
    part = choose(keys, variant, **where)
    return (100 * part.n_unselectable / part.n_keys).groupby(part.seed).mean()


def value(series: pd.Series) -> str:
    """Mean and interval, or the mean alone where there is one seed."""
    return f"{Estimate.of(series):.1f} %" if len(series) > 1 else f"{series.mean():.1f} % (one seed)"


def optional(keys: pd.DataFrame, sentence: str, variant: str, **where: str) -> str:
    """A sentence about a control that the run may leave out."""
    try:
        return " " + sentence.format(value(share(keys, variant, **where)))
    except Untestable:
        return ""


def table_1(tables: Tables) -> Outcome:
    keys = tables[KEYS]
    here = {"model": "gpt", "texts": "long", "site": "after_norm"}
    without = over_seeds(share(keys, "projection", checkpoint="final", **here), "projection")
    seeds = share(keys, "layernorm", checkpoint="final", **here)
    with_scaling = over_seeds(seeds, "layernorm")
    first = {v: share(keys, v, checkpoint="initial", **here) for v in ("projection", "layernorm")}
    learnt = paired(share(keys, "projection", checkpoint="final", **here), first["projection"], "projection")
    paper = float(np.mean(reported()["language_model"]["table_1"]["projection"]))
    own = all_of(effect(without, paper), OPPOSITE[above(with_scaling, rules.ZERO)])
    reason = (
        f"At the attention input {without:.1f} % of the keys are unselectable without scaling and "
        f"{with_scaling:.2f} % with it (mean over layers). Untrained, the same models have "
        f"{value(first['projection'])} and {value(first['layernorm'])}: the geometry is there before "
        f"training, which changes the first by {learnt:+.1f} points."
    )
    exact = {"model": "gpt", "texts": "long", "site": "after_norm_exact", "checkpoint": "final"}
    reason += optional(keys, "With LayerNorm's eps set to 0 it is {}.", "layernorm", **exact)
    reason += optional(keys, "With scaling alone it is {}.", "scale", checkpoint="final", **here)
    return Outcome(rules.verdict(own, Finding.SEEN), without, len(seeds), reason + rules.undecided(own))


def table_2(tables: Tables) -> Outcome:
    keys = tables[KEYS]
    here = {"model": "gpt", "texts": "long"}
    before, after = (
        share(keys, "layernorm", checkpoint="final", site=s, **here) for s in ("before_norm", "after_norm")
    )
    input_, output = over_seeds(before, "layernorm"), over_seeds(after, "layernorm")
    start = share(keys, "layernorm", checkpoint="initial", site="before_norm", **here)
    learnt = paired(before, start, "layernorm")
    paper = float(np.mean(reported()["language_model"]["table_2"]["before_norm"]))
    own = all_of(effect(input_, paper), OPPOSITE[above(output, rules.ZERO)])
    reason = (
        f"In the model with LayerNorm {input_:.1f} % of its inputs would be unselectable as keys and "
        f"{output:.2f} % of its outputs are (mean over layers). Untrained, {value(start)} of the inputs "
        f"would be: training changes this by {learnt:+.1f} points."
    )
    exact = {"site": "after_norm_exact", "checkpoint": "final", **here}
    reason += optional(keys, "With the eps set to 0 it is {} of the outputs.", "layernorm", **exact)
    return Outcome(rules.verdict(own, Finding.SEEN), input_, len(before), reason + rules.undecided(own))


def loss_gap(tables: Tables) -> Outcome:
    losses = tables[LOSSES]
    for variant in ("layernorm", "projection"):
        if variant not in set(losses.variant):
            raise Untestable(f"The run has no language model with {variant}.")
    last = losses.step.max()
    end = losses[losses.step == last].pivot(
        index="seed", columns="variant", values=["train_loss", "valid_loss"]
    )
    gaps = {
        c: paired(end[c].projection, end[c].layernorm, "projection") for c in ("train_loss", "valid_loss")
    }
    paper = reported()["language_model"]
    expected = {c: paper["projection"][c] - paper["layernorm"][c] for c in gaps}
    own = all_of(*(effect(gaps[c], expected[c]) for c in gaps))
    reason = (
        f"At step {last:,}, of the same seed, the loss without scaling minus that with it is "
        f"{gaps['train_loss']:+.3f} nats per token in training and {gaps['valid_loss']:+.3f} in validation; "
        f"the paper's figure has {expected['train_loss']:+.3f} and {expected['valid_loss']:+.3f} at step "
        "50,000, of one run."
    )
    start = losses[losses.step == 0].pivot(index="seed", columns="variant", values="valid_loss")
    if {"layernorm", "projection"} <= set(start):
        reason += (
            f" Untrained, the validation losses differ by {(start.projection - start.layernorm).mean():+.3f}."
        )
    pairs = len((end["valid_loss"].projection - end["valid_loss"].layernorm).dropna())
    return Outcome(rules.verdict(own, Finding.SEEN), gaps["valid_loss"], pairs, reason + rules.undecided(own))


def with_any(keys: pd.DataFrame, variant: str, **where: str) -> pd.Series:
    """Per cent of contexts with an unselectable key in some layer, one value a seed."""
    part = choose(keys, variant, **where)
    hit = (part.n_unselectable > 0).groupby([part.seed, part.context]).any()
    return 100 * hit.groupby("seed").mean()


def sentences(model: str, without: str, tables: Tables) -> Outcome:
    """Tables 3 (gpt, projection) and 4 (bert, none)."""
    keys = tables[KEYS]
    here = {"model": model, "texts": "sentences", "site": "after_norm"}
    hit = {c: with_any(keys, without, checkpoint=c, **here) for c in ("final", "initial")}
    own_share = over_seeds(hit["final"], without)
    kept_hit = with_any(keys, "layernorm", checkpoint="final", **here)
    own = above(own_share, rules.ZERO)
    kept_keys = over_seeds(share(keys, "layernorm", checkpoint="final", **here), "layernorm")
    isolated = OPPOSITE[above(kept_keys, rules.ZERO)]
    reason = (
        f"{own_share:.1f} % of the sentences have an unselectable key in some layer "
        f"({value(share(keys, without, checkpoint='final', **here))} of the keys); untrained "
        f"{value(hit['initial'])} of the sentences. With LayerNorm it is {value(kept_hit)} of the sentences "
        f"and {kept_keys:.2f} % of the keys."
    )
    return Outcome(
        rules.verdict(own, isolated), own_share, len(hit["final"]), reason + rules.undecided(own, isolated)
    )


def heads(variant: str, tables: Tables) -> Outcome:
    """No unselectable key where attention happens, after W_K?"""
    keys = tables[KEYS]
    here = {"model": "gpt", "texts": "long", "checkpoint": "final"}
    mine = share(keys, variant, site="head", **here)
    estimate = over_seeds(mine, variant)
    at_input = share(keys, variant, site="after_norm", **here)
    zero = OPPOSITE[above(estimate, rules.ZERO)]
    control = "projection" if variant == "layernorm" else "layernorm"
    others = share(keys, control, site="head", **here)
    # Without unselectable keys in the control's heads there would be nothing for the norm to eliminate.
    isolated = above(over_seeds(others, control), rules.ZERO)
    names = {"projection": "without scaling", "layernorm": "with LayerNorm alone"}
    reason = (
        f"In the heads, after W_K, {estimate:.1f} % of the keys are unselectable; at the attention input of "
        f"the same models {value(at_input)}. In the heads of the models {names[control]} it is "
        f"{value(others)}."
    )
    untrained = {"site": "head", **here, "checkpoint": "initial"}
    reason += optional(keys, "Untrained, {} of the keys in the heads are.", variant, **untrained)
    reason += optional(keys, "With eps = 0 it is {}.", variant, site="head_exact", **here)
    return Outcome(
        rules.verdict(zero, isolated), estimate, len(mine), reason + rules.undecided(zero, isolated)
    )


TESTS = {
    "random_keys": unselectable_without,
    "random_keys_layernorm": unselectable_with,
    "table_1": table_1,
    "table_2": table_2,
    "loss_gap": loss_gap,
    "table_3": partial(sentences, "gpt", "projection"),
    "table_4": partial(sentences, "bert", "none"),
    "heads": partial(heads, "layernorm"),
    "heads_qk_norm": partial(heads, "layernorm_qk"),
}
