"""Claims about the heads of pretrained models: which keys can win, how much attention they can get, and do get.

Questions of this repository, and a statement of another paper. A document is the unit of every interval; the tests
take the name of a model in the column `model` of the tables first. The ceiling of a key is the largest share of a
query's attention that some query of a set gives it, certified from both sides.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, percent_over_seeds
from layernorm_roles.evidence.analysis.pretrained import (
    below,
    by_layer,
    cut_heads,
    number_below,
    ones_ratios,
    unselectable_in_heads,
)
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    OPPOSITE,
    Finding,
    Outcome,
    Tables,
    Untestable,
    above,
    all_of,
    at_most,
    direction,
    more_than_half,
    statement,
    untrained_too,
)
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

ONES, SHIFTS = "ones_share", "projection_shift"
KEYS, CEILINGS, LAW = "pretrained_keys", "attention_ceilings", "gaussian_law"

EVERY_PAIR = 100.0
"""Per cent. "Most" pairs of a key and a head are more than half of all."""


def of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows of one model; Untestable if there are none, or those of a single document."""
    part = table[table.model == model]
    if part.context.nunique() < 2:
        number = "one document" if len(part) else "no documents"
        raise Untestable(f"The run has {number} of {model}: no interval over documents.")
    return part


def none(certified: pd.DataFrame, worst: pd.DataFrame, number: int) -> Finding:
    """Whether no layer has more than ZERO per cent; both frames have a row a document and a column a layer.

    In `worst` the cases that the proofs leave open count as well. A layer has `number` cases in all documents.
    """
    shares = ((percent_over_seeds(percents[i], number) for percents in (certified, worst)) for i in certified)
    return all_of(*(at_most(*pair) for pair in shares))


def means(shares: pd.DataFrame) -> str:
    """The means over documents, for a sentence; `shares` has a column a layer, in per cent."""
    return ", ".join(f"{mean:.1f}" if mean >= 1 else f"{mean:.2g}" for mean in shares.mean()) + " %"


def heads_of_practical_width(model: str, tables: Tables) -> Outcome:
    """Whether no key of the heads is unselectable, and whether most are once the heads are cut to few dimensions."""
    keys = of_model(tables[KEYS], model)
    heads = keys[keys.site == "head"]
    d, number = int(heads.dimensions.iloc[0]), int(heads.n_keys.sum())
    certified = unselectable_in_heads(keys, "head")
    per_layer = number // certified.shape[1]
    part = none(certified, unselectable_in_heads(keys, "head", undecided=True), per_layer)
    cuts = keys[keys.site == "head_cut"]
    if cuts.empty:
        raise Untestable(f"The run has no heads of {model} that were cut to fewer dimensions.")
    fewest = int(cuts.dimensions.min())
    cut = unselectable_in_heads(cuts[cuts.dimensions == fewest], "head_cut").mean(axis=1)
    shares = cut_heads(keys)
    gaussian = shares[shares.dimensions == fewest].gaussian_percent.mean()
    measured, control = percent_over_seeds(certified.mean(axis=1), number), Estimate.of(cut)
    some = f"{measured:.2g} % are" if measured.mean else "none is"
    reason = (
        f"Of {number:,} pairs of a key and a head of {d} dimensions, {some} certified unselectable"
        f"{_undecided(heads)}. Cut to their first {fewest} principal components, {control:.3g} % are, where of as many "
        f"Gaussian keys {gaussian:.3g} % would be."
    )
    passes = None
    if (keys.site == "head_without_norm").any():
        bare = unselectable_in_heads(keys, "head_without_norm")
        worst = unselectable_in_heads(keys, "head_without_norm", undecided=True)
        if none(bare, worst, per_layer) == Finding.SEEN:
            passes = "the same heads without the norm"
        mean = bare.to_numpy().mean()
        reason += f" Keys made without the norm: {f'{mean:.2g} % unselectable' if mean else 'none'}."
    return statement(
        [part],
        measured,
        len(certified),
        reason + _law(tables[LAW], d),
        control,
        cause=more_than_half(control, gaussian),
        also_passed_by=passes,
    )


def norm_lets_keys_win(model: str, tables: Tables) -> Outcome:
    """Whether every key can get half of some query's attention, and whether fewer could without the norm."""
    pairs = by_layer(of_model(tables[CEILINGS], model))
    used, without = (_below(pairs, 0, NORM, kind) for kind in (AS_USED, WITHOUT_NORM))
    chosen = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    number = int(chosen.pairs.sum())
    part = none(used, _below(pairs, 0, NORM, AS_USED, "lower"), number // used.shape[1])
    measured = percent_over_seeds(used.mean(axis=1), number)
    more = Estimate.of((without - used).mean(axis=1))
    tenth = [_below(pairs, 1, NORM, kind).iloc[:, -1].mean() for kind in (AS_USED, WITHOUT_NORM)]
    anywhere = _below(pairs, 0, ANY, AS_USED).to_numpy().mean()
    reason = (
        f"No query that a head can make behind its norm gives half of its attention to {means(used)} of the pairs "
        f"of a key and a head, by layer; to {means(without)} for keys made without the norm. A tenth is out of "
        f"reach for {tenth[0]:.3g} % of the last layer's pairs with the norm and for {tenth[1]:.3g} % without. From "
        f"queries that no norm confines, half is out of reach for {f'{anywhere:.2g} %' if anywhere else 'none'}."
    )
    return statement([part, direction(more)], measured, len(used), reason, more)


def ceilings_not_used(model: str, tables: Tables) -> Outcome:
    """Whether most of the pairs that could get half of a query's attention do not get it from their text's queries."""
    pairs = by_layer(of_model(tables[CEILINGS], model))
    half, tenth = rules.SHARES_OF_ATTENTION[:2]
    can = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    can = can.assign(able=can.pairs - number_below(can, half, "lower"))
    if not can.able.sum():
        raise Untestable(f"No key of {model} is certified to reach half of a query's attention.")
    counts = can.groupby(["context", "layer"])[["idle", "able"]].sum().astype(float)
    layers = (100 * counts.idle / counts.able).unstack("layer")
    counts = counts.groupby("context").sum()
    seeds = (100 * counts.idle / counts.able).dropna()
    measured = Estimate.of(seeds)
    own = pairs[pairs.queries == OWN]
    tenth = 100 * number_below(own, tenth).sum() / own.pairs.sum()
    reason = (
        "Of the pairs of a key and a head that some query behind the norm gives half of its attention, "
        f"{measured:.3g} % do not get it from any query of their text; by layer {means(layers)}. {tenth:.3g} % of "
        "all pairs never get a tenth."
    )
    control = Estimate.of(_below(pairs, 0, NORM, AS_USED).mean(axis=1))
    return statement([more_than_half(measured, EVERY_PAIR)], measured, len(seeds), reason, control)


def _below(
    pairs: pd.DataFrame, threshold: int, queries: str, normalised: str, bound: str = "upper"
) -> pd.DataFrame:
    """Per cent of the pairs below a share of attention: a row a document, a column a layer; Untestable if none."""
    chosen = pairs[(pairs.queries == queries) & (pairs.normalised == normalised)]
    if chosen.empty:
        raise Untestable(f"The run has no ceilings for queries “{queries}” and keys “{normalised}”.")
    shares = below(chosen, rules.SHARES_OF_ATTENTION[threshold], bound)
    return shares.droplevel(["model", "queries", "normalised"], axis=1)


def projections_idle(model: str, tables: Tables) -> Outcome:
    """Whether norms receive less along the ones vector than a random direction has, and attention does without it."""
    ratios = ones_ratios(of_model(tables[ONES], model))
    ratios = ratios.assign(untrained=ratios.checkpoint == "random")
    by_document = np.log(ratios.groupby(["untrained", "context"]).ratio.mean())
    trained, untrained = (Estimate.of(by_document[kind]).map(np.exp) for kind in (False, True))
    moved = of_model(tables[SHIFTS], model)
    shift = Estimate.of(moved.groupby("context").total_variation.mean())
    layers = moved.groupby("layer").total_variation.mean()
    norms = ratios[~ratios.untrained].groupby("norm").ratio.mean()
    reason = (
        f"What enters the {len(norms)} norms has {trained:.2g} times the share of its squared length along the ones "
        f"vector that a random direction has, from {norms.min():.2g} to {norms.max():.2g} by norm; with freshly drawn "
        f"weights {untrained:.2g} times. With the projection {moved.change.iloc[0]} in every norm "
        f"{100 * shift.mean:.2g} % of a query's attention goes to other keys, from {100 * layers.min():.2g} % to "
        f"{100 * layers.max():.2g} % by layer; as much along a random direction moves "
        f"{100 * moved.random_direction.mean():.2g} %."
    )
    parts = [OPPOSITE[above(trained, 1.0)], OPPOSITE[above(shift, rules.MOVED)]]
    passes = untrained_too(above(untrained, 1.0) == Finding.ABSENT)
    return statement(parts, trained, len(by_document[False]), reason, untrained, also_passed_by=passes)


def _undecided(keys: pd.DataFrame) -> str:
    share = 100 * keys.n_borderline.sum() / keys.n_keys.sum()
    return f", {share:.2g} % undecided" if share else ""


def _law(law: pd.DataFrame, d: int) -> str:
    """A sentence on the fewest Gaussian keys of which the smallest share in the table is unselectable."""
    rows = law[(law.d == d) & ~law.causal].sort_values("share")
    if rows.empty:
        return ""
    share, n = f"{100 * rows.share.iloc[0]:g} %", rows.n.iloc[0]
    if pd.isna(n):
        return f" Of {law.n.max():,.0f} Gaussian keys in {d} dimensions fewer than {share} are unselectable."
    return f" Of Gaussian keys in {d} dimensions {share} are unselectable from {n:,.0f} keys on."


TESTS: dict[str, Callable[..., Outcome]] = {
    "heads_of_practical_width": heads_of_practical_width,
    "norm_lets_keys_win": norm_lets_keys_win,
    "ceilings_not_used": ceilings_not_used,
    "projections_idle": projections_idle,
}
