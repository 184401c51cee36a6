"""Numbers of pretrained models: how much attention keys can get and do get, and heads cut to fewer dimensions.

A pair is a key of a context together with a head that it is a key of. A context is the unit of every interval: its
keys, and the heads and layers of one model, are not independent of each other.
"""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.schemas import ANY, AS_USED, NORM

THRESHOLDS = (0.5, 0.1, 0.01)
"""Shares of a query's attention that a key may reach or not. With more than half of it a key has the highest score."""

OWN = "own"
"""The queries that a head makes on the context itself, a third set within those of `schemas.NORM`, and these within
`schemas.ANY`. Table attention_ceilings has the ceilings of the other two, and what this one gives as received_max."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Quantiles of the ceilings: both tails, and what lies between."""

_PLACE = ["model", "queries", "normalised", "layer"]


def ceilings_of_all_sets(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Table attention_ceilings with the context's own queries as a third set of queries, `OWN`.

    Columns model, queries, normalised, layer, context, head, position, token, lower and upper; of the own queries the
    last two are both the largest attention that one of them gives the key.
    """
    columns = [*_PLACE, "context", "head", "position", "token", "lower", "upper"]
    # The rows of ANY are there for every head; those of NORM may lack for want of a known norm.
    own = ceilings[(ceilings.queries == ANY) & (ceilings.normalised == AS_USED)]
    own = own.assign(queries=OWN, lower=own.received_max, upper=own.received_max)
    return pd.concat([ceilings[columns], own[columns]], ignore_index=True)


def below(ceilings: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """Per cent of the pairs that no query of a set gives the threshold: a row a context, columns _PLACE.

    `ceilings` is made by `ceilings_of_all_sets`. Only certified bounds count.
    """
    hits = 100 * (ceilings.upper < threshold)
    return hits.groupby([ceilings.context, *(ceilings[name] for name in _PLACE)]).mean().unstack(_PLACE)


def shares_below(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Per cent of the pairs that no query of a set gives a threshold, from table attention_ceilings.

    Columns model, queries, normalised, layer, threshold, percent (mean over contexts), low, high (95 % interval over
    contexts; NaN for a single one), contexts and heads (numbers), undecided_percent (pairs whose bounds enclose the
    threshold; they do not count as below).
    """
    pairs = ceilings_of_all_sets(ceilings)
    heads = pairs.groupby(_PLACE)["head"].nunique()
    rows = []
    for threshold in THRESHOLDS:
        undecided = 100 * ((pairs.lower < threshold) & (threshold <= pairs.upper))
        undecided = undecided.groupby([pairs[name] for name in _PLACE]).mean()
        for place, values in below(pairs, threshold).items():
            shares = values.dropna()
            rows.append(
                (*place, threshold, *_over_contexts(shares), len(shares), heads[place], undecided[place])
            )
    columns = ["threshold", "percent", "low", "high", "contexts", "heads", "undecided_percent"]
    return pd.DataFrame(rows, columns=[*_PLACE, *columns])


def quantiles(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Quantiles of the ceilings of a layer's pairs, from table attention_ceilings.

    Columns model, queries, normalised, layer, quantile, ceiling (upper bounds; mean over contexts of the quantile in
    each), low, high (95 % interval over contexts; NaN for a single one).
    """
    pairs = ceilings_of_all_sets(ceilings)
    found = pairs.groupby([*_PLACE, "context"]).upper.quantile(np.array(QUANTILES)).unstack("context")
    rows = [(*place, *_over_contexts(values.dropna())) for place, values in found.iterrows()]
    return pd.DataFrame(rows, columns=[*_PLACE, "quantile", "ceiling", "low", "high"])


def tokens_below(ceilings: pd.DataFrame) -> pd.DataFrame:
    """How often the keys of each token cannot get half of a query's attention, in the layer where most keys cannot.

    The queries are those behind the norm, the keys those in use. Columns model, layer, token, occurrences (positions
    in all contexts), contexts (in which it occurs), percent (of its pairs that are certified to be below; mean over
    these contexts), low, high (95 % interval over them; NaN for a single one), ceiling (median), received (largest
    attention that a query of the contexts gives it). Tokens come by falling percent, then by rising median.
    """
    chosen = ceilings[(ceilings.queries == NORM) & (ceilings.normalised == AS_USED)]
    chosen = chosen.assign(hit=100 * (chosen.upper < THRESHOLDS[0]))
    rows = []
    for model, of_model in chosen.groupby("model", sort=False):
        layer = of_model.groupby("layer").hit.mean().idxmax()
        for token, part in of_model[of_model.layer == layer].groupby("token"):
            contexts = part.groupby("context").hit.mean()
            occurrences = len(part[["context", "position"]].drop_duplicates())
            numbers = (occurrences, len(contexts), *_over_contexts(contexts))
            rows.append((model, layer, token, *numbers, part.upper.median(), part.received_max.max()))
    columns = ["occurrences", "contexts", "percent", "low", "high", "ceiling", "received"]
    found = pd.DataFrame(rows, columns=["model", "layer", "token", *columns])
    order = found.assign(rising=-found.percent).sort_values(
        ["model", "rising", "ceiling", "token"], kind="stable"
    )
    return found.loc[order.index].reset_index(drop=True)


def unselectable_in_heads(keys: pd.DataFrame, site: str, undecided: bool = False) -> pd.DataFrame:
    """Per cent of the keys of a layer's heads that are certified unselectable: a row a context, a column a layer.

    keys: table pretrained_keys, of which the rows of one site (and of one number of dimensions) among all keys of a
    context are taken. With `undecided` the keys that the data's precision cannot decide count too.
    """
    part = keys[(keys.site == site) & ~keys.causal]
    hits = part.n_unselectable + (part.n_borderline if undecided else 0)
    return (100 * hits / part.n_keys).groupby([part.context, part.layer]).mean().unstack("layer")


def cut_heads(keys: pd.DataFrame) -> pd.DataFrame:
    """Per cent of unselectable keys by the number of principal components that are left of a head's keys.

    keys: table pretrained_keys. Columns model, layer, dimensions (all of the head's in the last row of a layer),
    n_keys (mean), percent (mean over contexts and heads), low, high (95 % interval over contexts; NaN for a single
    one), contexts, undecided_percent, gaussian_percent (expected of as many Gaussian keys in as many dimensions).
    """
    rows = []
    part = keys[keys.site.isin(["head_cut", "head"]) & ~keys.causal]
    for (model, layer, d), here in part.groupby(["model", "layer", "dimensions"]):
        shares = (100 * here.n_unselectable / here.n_keys).groupby(here.context).mean()
        undecided = 100 * here.n_borderline.sum() / here.n_keys.sum()
        n = round(here.n_keys.mean())
        gaussian = 100 * expected_unselectable(n, int(d)) / n
        rows.append((model, layer, d, n, *_over_contexts(shares), len(shares), undecided, gaussian))
    columns = ["percent", "low", "high", "contexts", "undecided_percent", "gaussian_percent"]
    return pd.DataFrame(rows, columns=["model", "layer", "dimensions", "n_keys", *columns])


def _over_contexts(values: pd.Series) -> Estimate:
    """Mean over contexts with its interval; of a single context its value alone."""
    estimate = Estimate.of(values)
    return estimate if len(values) > 1 else Estimate(estimate.mean, np.nan, np.nan)
