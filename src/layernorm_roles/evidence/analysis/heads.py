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
    """Return, by d_head, the models that differ from `model` in having narrower heads.

    They have the d_model and the context length of `model`. `keys` is the table key_selectability. The narrowest heads
    come first; of several models with one width, the first in the table is taken. Empty if there are none.
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

    `keys` is the table key_selectability. Columns: model, causal (whether only the keys before a key are its rivals),
    checkpoint, layer, d_head, n_keys (mean, rounded), percent (mean over seeds, contexts and heads), low, high (95 %
    interval over seeds), seeds (their number).
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

    Each row, from the table key_selectability, gives a number of keys, their dimension, from which `fewer` is
    subtracted, and whether a key's rivals are all other keys or (causal) only those before it. NaN without rows.
    """
    sizes = keys.groupby(["n_keys", "dimensions", "causal"]).size()
    expected = [expected_unselectable(int(n), int(d) - fewer, bool(causal)) for n, d, causal in sizes.index]
    percents = 100 * np.array(expected) / sizes.index.get_level_values("n_keys")
    return float((sizes * percents).sum() / sizes.sum()) if len(sizes) else float("nan")


def shares_reached(ceilings: pd.DataFrame) -> pd.DataFrame:
    """Return the percentage of keys in heads that can get a given share of a query's attention.

    `ceilings` is the table language_model_ceilings. There is one row for each model, variant, checkpoint, set of
    queries and threshold in THRESHOLDS, a share of attention. Columns: model, d_head, variant, checkpoint, queries,
    n_keys (mean, rounded), threshold, percent (of keys to which some query of the set gives the threshold, or may give
    it within its bounds; mean over seeds, layers, heads and contexts), low, high (95 % interval over seeds), seeds
    (their number). Queries of the context (set `OWN`) see the keys up to their position; other sets see all keys.
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
