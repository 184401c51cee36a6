"""Quantities of the heads of pretrained models: which keys can win, how much attention they can get, and do get.

A document is the unit of every interval. The ceiling of a key is the largest share of a query's attention that some
query of a set gives it, certified from both sides.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.pretrained import (
    below,
    by_layer,
    cut_heads,
    number_below,
    ones_ratios,
    unselectable_in_heads,
)
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import RATIO, Tables, Untestable
from layernorm_roles.evidence.claims.pairs import BEFORE_TRAINING, Measured, Quantity
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

BARE = "without norm "
"""How the names of columns begin that are about keys made without the norm."""


def of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows of one model; Untestable if there are none, or those of a single document."""
    part = table[table.model == model]
    if part.context.nunique() < 2:
        documents = "one document" if len(part) else "no documents"
        raise Untestable(f"The run has {documents} of {model}: no interval over documents.")
    return part


def with_mean(percents: pd.DataFrame) -> pd.DataFrame:
    """Per cents by layer under the columns "layer 1" and so on, with their mean."""
    named = percents.rename(columns=lambda layer: f"layer {layer}")
    return named.assign(**{"mean over layers": percents.mean(axis=1)})


def cases(number: int, layers: int) -> pd.Series:
    """How many pairs of a key and a head each column of `with_mean` is of, `number` in all layers together."""
    each = {f"layer {layer}": number // layers for layer in range(1, 1000)}
    return pd.Series({"mean over layers": number} | each)


def unselectable(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Per cent of keys that are unselectable in heads, in heads cut to few components, and without the norm."""
    keys = of_model(tables["pretrained_keys"], model)
    frame = with_mean(unselectable_in_heads(keys, "head"))
    layers, worst = frame.shape[1] - 1, with_mean(unselectable_in_heads(keys, "head", undecided=True))
    cuts = keys[keys.site == "head_cut"]
    if cuts.empty:
        raise Untestable(f"The run has no heads of {model} that were cut to fewer dimensions.")
    fewest = cuts[cuts.dimensions == cuts.dimensions.min()]
    frame[CUT] = unselectable_in_heads(fewest, "head_cut").mean(axis=1)
    shares = cut_heads(keys)
    gaussian = shares[shares.dimensions == cuts.dimensions.min()].gaussian_percent.mean()
    frame[OVER_GAUSSIAN] = frame[CUT] / gaussian
    number = cases(int(keys[keys.site == "head"].n_keys.sum()), layers)
    if (keys.site == "head_without_norm").any():
        both = (
            with_mean(unselectable_in_heads(keys, "head_without_norm", undecided=u)) for u in (False, True)
        )
        bare, bare_worst = (each.add_prefix(BARE) for each in both)
        frame, worst, number = (
            frame.join(bare),
            worst.join(bare_worst),
            pd.concat([number, number.add_prefix(BARE)]),
        )
    return Measured(frame, worst, number)


CUT = "cut to the fewest components"
OVER_GAUSSIAN = "cut to the fewest components over Gaussian keys"


def _below(
    pairs: pd.DataFrame, threshold: int, queries: str, normalised: str, bound: str = "upper"
) -> pd.DataFrame:
    """Per cent of the pairs below a share of attention: a row a document, a column a layer; Untestable if none."""
    chosen = pairs[(pairs.queries == queries) & (pairs.normalised == normalised)]
    if chosen.empty:
        raise Untestable(f"The run has no ceilings for queries “{queries}” and keys “{normalised}”.")
    shares = below(chosen, rules.SHARES_OF_ATTENTION[threshold], bound)
    return shares.droplevel(["model", "queries", "normalised"], axis=1)


def below_half(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Per cent of pairs of a key and a head that no query behind the norm gives half of its attention, by layer.

    Beside them: what keys made without the norm have more, what a tenth of the attention makes of the last layer, and
    of the pairs that could get half those that do not get it from any query of their text.
    """
    pairs = by_layer(of_model(tables["attention_ceilings"], model))
    used, half = _below(pairs, 0, NORM, AS_USED), rules.SHARES_OF_ATTENTION[0]
    can = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    frame, worst = with_mean(used), with_mean(_below(pairs, 0, NORM, AS_USED, "lower"))
    if MORE in columns:
        without = _below(pairs, 0, NORM, WITHOUT_NORM)
        frame[MORE] = (without - used).mean(axis=1)
        frame["queries that no norm confines"] = _below(pairs, 0, ANY, AS_USED).mean(axis=1)
        frame["a tenth, last layer"] = _below(pairs, 1, NORM, AS_USED).iloc[:, -1]
        frame["a tenth, last layer, without the norm"] = _below(pairs, 1, NORM, WITHOUT_NORM).iloc[:, -1]
    else:
        able = can.assign(able=can.pairs - number_below(can, half, "lower"))
        counts = able.groupby("context")[["idle", "able"]].sum().astype(float)
        if not counts.able.sum():
            words = f"No key of {model} is certified to reach half of a query's attention."
            raise Untestable(words, runs=len(counts))
        frame[IDLE], own = 100 * counts.idle / counts.able, pairs[pairs.queries == OWN]
        tenth = number_below(own, rules.SHARES_OF_ATTENTION[1]).groupby(own.context).sum()
        frame["never get a tenth"] = 100 * tenth / own.groupby("context").pairs.sum()
        return Measured(frame)
    return Measured(frame, worst, cases(int(can.pairs.sum()), used.shape[1]))


MORE, IDLE = "without the norm minus with it", "able and idle"


def along_ones(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Logarithms of the share of norms' inputs along the ones vector over that of a random direction, by document."""
    ratios = ones_ratios(of_model(tables["ones_share"], model))
    prefix = np.where(ratios.checkpoint == "random", BEFORE_TRAINING, "")
    by_document = ratios.groupby([ratios.context, prefix + "hidden vectors"]).ratio.mean()
    return Measured(np.log(by_document.unstack()))


def attention_moved(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Per cent of a query's attention that goes to other keys when the projection is left out or added."""
    moved = of_model(tables["projection_shift"], model)
    means = 100 * moved.groupby("context")[["total_variation", "random_direction"]].mean()
    return Measured(
        means.set_axis(["with the projection changed", "as much along a random direction"], axis=1)
    )


_LAYERS = ("mean over layers", "layer *")
QUANTITIES = {
    "unselectable_in_heads": Quantity(
        unselectable, " %", "unselectable keys in the heads", columns=(*_LAYERS, CUT, OVER_GAUSSIAN)
    ),
    "below_half_of_attention": Quantity(
        below_half,
        " %",
        "pairs of a key and a head that no query behind the norm gives half of its attention",
        columns=(
            *_LAYERS,
            MORE,
            IDLE,
            "never get a tenth",
            "queries that no norm confines",
            "a tenth, last layer*",
        ),
    ),
    "along_ones": Quantity(
        along_ones,
        RATIO,
        "share along the ones vector over a random direction's",
        columns=("hidden vectors", "untrained hidden vectors"),
    ),
    "attention_moved": Quantity(
        attention_moved,
        " %",
        "attention that goes to other keys, total variation",
        ("with the projection changed", "as much along a random direction"),
    ),
}
TESTS: dict = {}
