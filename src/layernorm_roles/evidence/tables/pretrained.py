"""Pretrained models: how much attention keys can get, by layer and by token, and heads cut to fewer dimensions."""

from collections.abc import Callable, Mapping

import pandas as pd

from layernorm_roles.evidence.analysis import pretrained
from layernorm_roles.evidence.analysis.estimate import span
from layernorm_roles.evidence.legends import FRACTIONS
from layernorm_roles.evidence.tables.readable import Part, Readable, grid, layered, token_text
from layernorm_roles.evidence.tables.typography import estimate, percent, typeset
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

SETS = {
    (ANY, AS_USED): ("any query", "as used"),
    (ANY, WITHOUT_NORM): ("any query", "without the norm"),
    (NORM, AS_USED): ("any query behind the norm", "as used"),
    (NORM, WITHOUT_NORM): ("any query behind the norm", "without the norm"),
    (OWN, AS_USED): ("the text's own queries", "as used"),
}
"""What readers call the sets of queries and kinds of keys of table attention_ceilings, in the order of the rows."""

LEAST_CONTEXTS, SHOWN = 3, 10
"""Of the tokens that occur in at least LEAST_CONTEXTS contexts (or in all), the first and last SHOWN are listed."""


def ceilings(table: pd.DataFrame) -> Readable:
    """Return a readable table of the percentage of (key, head) pairs with a ceiling below ½, 1/10 or 1/100, by layer.

    `table` is the table attention_ceilings, on pretrained models. Quantiles of the ceilings are shown as well.
    """
    shares, quantiles = pretrained.shares_below(table), pretrained.quantiles(table)
    parts: list[Part] = []
    for model in dict.fromkeys(shares.model):
        here, sizes = shares[shares.model == model], table[table.model == model]
        tails = quantiles[quantiles.model == model]
        if (tails.queries == NORM).any():
            tails = tails[tails.queries != ANY]
        parts += [
            f"{model}: {here.contexts.max()} contexts of {span(sizes.n_keys)} keys, heads of "
            f"{span(sizes.dimensions)} dimensions. Per cent of the (key, head) pairs that get less than a half, a "
            "tenth or a hundredth of a query's attention, from whichever query of a set gives them most.",
            _by_layer(here, "threshold", FRACTIONS, "less than", _per_cent),
            "The lowest and the highest: the share of a query's attention that 1 %, a half and 99 % of the pairs do "
            "not exceed.",
            _by_layer(tails, "quantile", {0.01: "1 %", 0.5: "50 %", 0.99: "99 %"}, "pairs", _attention),
        ]
    return Readable(shares, parts)


def ceilings_by_token(table: pd.DataFrame) -> Readable:
    """Return a readable table of the tokens whose keys have the lowest, and the highest, ceilings of attention.

    `table` is the table token_ceilings, on each pretrained model's layer with the most ceilings below ½.
    """
    frame = pretrained.tokens_below(table)
    parts: list[Part] = []
    cells = {
        "token": lambda row: token_text(row.token),
        "occurrences": "{.occurrences:,}",
        "contexts": "{.contexts}",
        "less than ½ (%)": _per_cent,
        "median ceiling": "{.ceiling:.3f}",
        "most received": "{.received:.3f}",
    }
    for model, here in frame.groupby("model", sort=False):
        often = here[here.contexts >= min(LEAST_CONTEXTS, here.contexts.max())]
        least, most = often.head(SHOWN), often.iloc[SHOWN:].tail(SHOWN)
        parts += [
            f"{model}, layer {here.layer.iloc[0]}, where most keys cannot get half of a query's attention from any "
            "query behind the norm: the tokens whose keys can get least.",
            grid(least, cells),
        ]
        if len(most):
            parts += ["And those whose keys can get most.", grid(most, cells)]
    return Readable(frame, parts)


def cut_heads(keys: pd.DataFrame) -> Readable:
    """Return a readable table of the percentages of unselectable keys in heads that are cut to fewer dimensions.

    The first principal components of a head's keys are kept. `keys` is the table pretrained_keys, on pretrained models.
    """
    frame = pretrained.cut_heads(keys)
    parts: list[Part] = []
    for model, here in frame.groupby("model", sort=False):
        rows = []
        for d, part in here.groupby("dimensions"):
            last = [percent(part.undecided_percent.mean()), percent(part.gaussian_percent.mean())]
            rows.append(([str(d)], {row.layer: _per_cent(row) for row in part.itertuples()}, last))
        parts += [
            f"{model}: {here.contexts.max()} contexts of {span(here.n_keys)} keys.",
            layered(["dimensions"], rows, ["undecided", "Gaussian keys"], texts=0),
        ]
    return Readable(frame, parts)


def _by_layer(
    frame: pd.DataFrame, column: str, names: Mapping[float, str], heading: str, cell: Callable[..., str]
) -> pd.DataFrame:
    """Return numbers as a table of texts: a column a layer, a row for each value of `column` in `names` and of SETS."""
    by_row = dict(list(frame.groupby([column, "queries", "normalised"])))
    rows = [
        ([name, *words], {row.layer: cell(row) for row in by_row[value, *kind].itertuples()}, [])
        for value, name in names.items()
        for kind, words in SETS.items()
        if (value, *kind) in by_row
    ]
    return layered([heading, "queries", "keys"], rows, [], texts=3)


def _per_cent(row) -> str:
    return _within(row.percent, row, percent, 100.0)


def _attention(row) -> str:
    return _within(row.ceiling, row, lambda value: typeset(f"{value:.3g}"), 1.0)


def _within(mean: float, row, write: Callable[[float], str], most: float) -> str:
    """Return a mean with the interval of its row, cut to 0..most; the mean alone where all three are written alike."""
    low, high = max(row.low, 0.0), min(row.high, most)
    alike = write(low) == write(mean) == write(high)
    return write(mean) if alike else estimate(mean, low, high, write)
