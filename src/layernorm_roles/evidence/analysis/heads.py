"""Numbers of the language models' heads: unselectable keys by their width, and how much attention keys can get."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.pretrained import THRESHOLDS, number_below
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.schemas import OWN


def in_heads(keys: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `keys` on attention heads of models with LayerNorm, tested on long contexts.

    `keys` is the table key_selectability, whose column `texts` tells long contexts from sentences.
    """
    return keys[(keys.variant == "layernorm") & (keys.texts == "long") & (keys.site == "head")]


def narrower(keys: pd.DataFrame, model: str) -> dict[int, str]:
    """Return the names of the models that are like `model` but have narrower heads, by d_head, the narrowest first.

    They have the d_model and the context length of `model`. `keys` is the table key_selectability. If several models
    have heads of one width, the first in the table is taken. The result is empty if the table has no such model.
    """
    stream = keys[(keys.site == "after_norm") & (keys.texts == "long") & (keys.variant == "layernorm")]
    sizes = stream.groupby("model", sort=False)[["dimensions", "n_keys"]].max()
    widths = in_heads(keys).groupby("model", sort=False).dimensions.max()
    if model not in sizes.index.intersection(widths.index):
        return {}
    alike = sizes.index[(sizes == sizes.loc[model]).all(axis=1)].intersection(widths.index, sort=False)
    narrow = widths[alike][lambda d: d < widths[model]].drop_duplicates().sort_values()
    return {int(d): name for name, d in narrow.items()}


def by_width(keys: pd.DataFrame) -> pd.DataFrame:
    """Return the percentage of unselectable keys in the heads of models with LayerNorm on long contexts, by layer.

    `keys` is the table key_selectability. Columns: model, causal (whether a key has to beat only the keys before it),
    checkpoint (initial or final), layer, d_head, n_keys (of a context, mean), percent (mean over seeds, contexts and
    heads), low, high (95 % interval over seeds), seeds (their number).
    """
    rows = []
    here = in_heads(keys)
    place = ["model", "causal", "checkpoint", "layer", "dimensions"]
    for group, part in here.groupby(place, sort=False):
        percent = (100 * part.n_unselectable / part.n_keys).groupby(part.seed).mean()
        n = round(here.n_keys[here.model == group[0]].mean())
        rows.append((*group, n, *Estimate.of(percent), len(percent)))
    columns = [*place[:-1], "d_head", "n_keys", "percent", "low", "high", "seeds"]
    return pd.DataFrame(rows, columns=columns)


def gaussian_percent(keys: pd.DataFrame, fewer: int = 0) -> float:
    """Return the percentage of Gaussian keys that are expected to be unselectable, averaged over the rows of `keys`.

    A row, from the table key_selectability, gives the number of keys, their dimension, from which `fewer` is
    subtracted, and whether a key has to beat all keys or (causal) only those before it. The result is NaN without rows.
    """
    sizes = keys.groupby(["n_keys", "dimensions", "causal"]).size()
    expected = [expected_unselectable(int(n), int(d) - fewer, bool(causal)) for n, d, causal in sizes.index]
    percents = 100 * np.array(expected) / sizes.index.get_level_values("n_keys")
    return float((sizes * percents).sum() / sizes.sum()) if len(sizes) else float("nan")


def shares_reached(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return the percentage of keys in heads that can get half, a tenth or a hundredth of a query's attention.

    `ceilings` is the table language_model_ceilings. Columns: model, d_head, variant, checkpoint, queries (the set of
    queries), n_keys (of a context, mean), threshold (the share of attention, 0..1), percent (of keys to which some
    query of the set can give this share, or may within certified bounds; mean over seeds, layers, heads and contexts),
    low, high (95 % interval over seeds), seeds (their number). The set "own" has the queries of the context, which see
    the keys up to their position; queries of other sets see all keys.
    """
    place = ["model", "dimensions", "variant", "checkpoint", "queries"]
    rows, together = [], ceilings[ceilings.layer.isna()]
    together = together.sort_values("queries", key=lambda queries: queries == OWN, kind="stable")
    for group, part in together.groupby(place, sort=False):
        n = round(np.average(part.n_keys, weights=part.pairs))
        for threshold in THRESHOLDS:
            reached = (part.pairs - number_below(part, threshold)).groupby(part.seed).sum()
            seeds = 100 * reached / part.pairs.groupby(part.seed).sum()
            rows.append((*group, n, threshold, *Estimate.of(seeds), len(seeds)))
    columns = ["model", "d_head", "variant", "checkpoint", "queries", "n_keys", "threshold"]
    return pd.DataFrame(rows, columns=[*columns, "percent", "low", "high", "seeds"])
