"""Numbers of pretrained models: how much attention keys can get and do get, and heads cut to fewer dimensions.

A pair is a key of a context with a head that it is a key of. A context is the unit of every interval: its keys, and the
heads and layers of one model, are not independent of each other.
"""

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.legends import FRACTIONS
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.schemas import CEILING_SHARES

THRESHOLDS = tuple(FRACTIONS)
"""Shares of a query's attention that a key may reach or not; a key with more than half has the highest score."""

_PLACE = ["model", "queries", "normalised", "layer"]


def number_below(ceilings: pd.DataFrame, threshold: float, bound: str = "upper") -> pd.Series:
    """Return, for each row of `ceilings`, in how many (key, head) pairs the ceiling has a bound below `threshold`.

    `ceilings` has rows of table attention_ceilings or language_model_ceilings, each of which counts the pairs of a
    layer or a model. `bound` is "upper" or "lower". Raises ValueError if CEILING_SHARES lacks the threshold.
    """
    counts = ceilings[f"{bound}_below"].map(lambda counts: counts[CEILING_SHARES.index(threshold)])
    return counts.astype(float)


def by_layer(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table of attention ceilings that are about a single layer, not all layers together."""
    return ceilings[ceilings.layer.notna()].astype({"layer": int})


def below(ceilings: pd.DataFrame, threshold: float, bound: str = "upper") -> pd.DataFrame:
    """Return the percentage of (key, head) pairs to which no query gives the share `threshold` of its attention.

    `ceilings` is the table attention_ceilings. A pair counts if its certified upper bound is below `threshold` or, with
    `bound` = "lower", if no query is known that gives it this share. There is a row for each context and a column for
    each model, set of queries, kind of keys (as used or without the norm) and layer.
    """
    rows = by_layer(ceilings)
    counts = rows.assign(hits=number_below(rows, threshold, bound)).groupby(["context", *_PLACE])
    totals = counts[["hits", "pairs"]].sum()
    return (100 * totals.hits / totals.pairs).unstack(_PLACE)


def shares_below(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return, for each of THRESHOLDS, the percentage of (key, head) pairs that cannot get this share of attention.

    `ceilings` is the table attention_ceilings. Columns: model, queries (the set of queries), normalised (the kind of
    keys), layer, threshold, percent (mean over contexts), low, high (95 % interval over contexts; NaN for one),
    contexts and heads (numbers), undecided_percent (pairs whose bounds enclose the threshold, not counted in percent).
    """
    rows, ceilings = [], by_layer(ceilings)
    ceilings = ceilings.assign(heads=ceilings.pairs // ceilings.n_keys)
    for threshold in THRESHOLDS:
        open_ = number_below(ceilings, threshold, "lower") - number_below(ceilings, threshold)
        places = ceilings.assign(open=open_).groupby(_PLACE)
        heads, undecided = places.heads.max(), 100 * places.open.sum() / places.pairs.sum()
        for place, values in below(ceilings, threshold).items():
            shares, counted = values.dropna(), (heads[place], undecided[place])
            rows.append((*place, threshold, *Estimate.of_any(shares), len(shares), *counted))
    columns = ["threshold", "percent", "low", "high", "contexts", "heads", "undecided_percent"]
    return pd.DataFrame(rows, columns=[*_PLACE, *columns])


def unselectable_in_heads(keys: pd.DataFrame, site: str, undecided: bool = False) -> pd.DataFrame:
    """Return the percentage of certified unselectable keys in heads, by context (rows) and layer (columns).

    `keys` is the table pretrained_keys. Taken are its rows at `site` in which a key has to beat all keys of its
    context. With `undecided`, keys that the data's precision cannot decide count as unselectable, too.
    """
    part = keys[(keys.site == site) & ~keys.causal]
    hits = part.n_unselectable + (part.n_borderline if undecided else 0)
    return (100 * hits / part.n_keys).groupby([part.context, part.layer]).mean().unstack("layer")


def cut_heads(keys: pd.DataFrame) -> pd.DataFrame:
    """Return the percentage of unselectable keys by the number of principal components that a head's keys are cut to.

    `keys` is the table pretrained_keys. Columns: model, layer, dimensions (number of components, up to all of a
    head's), n_keys (of a context, mean), percent (mean over contexts and heads), low, high (95 % interval over
    contexts; NaN for one), contexts (their number), undecided_percent (keys that the data's precision cannot decide),
    gaussian_percent (expected for as many Gaussian keys in as many dimensions).
    """
    rows = []
    part = keys[keys.site.isin(["head_cut", "head"]) & ~keys.causal]
    for (model, layer, d), here in part.groupby(["model", "layer", "dimensions"]):
        shares = (100 * here.n_unselectable / here.n_keys).groupby(here.context).mean()
        undecided = 100 * here.n_borderline.sum() / here.n_keys.sum()
        n = round(here.n_keys.mean())
        gaussian = 100 * expected_unselectable(n, int(d)) / n
        rows.append((model, layer, d, n, *Estimate.of_any(shares), len(shares), undecided, gaussian))
    columns = ["percent", "low", "high", "contexts", "undecided_percent", "gaussian_percent"]
    return pd.DataFrame(rows, columns=["model", "layer", "dimensions", "n_keys", *columns])


def ones_ratios(shares: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `shares` with a column ratio: d times the share of squared length along the ones vector.

    A random direction in d dimensions has a ratio of 1 on average. `shares` is the table ones_share or
    language_model_ones_share; the rows on norms of the residual stream are returned.
    """
    stream = shares[shares.dimensions == shares.groupby("model").dimensions.transform("max")]
    return stream.assign(ratio=stream.ones_share * stream.dimensions)
