"""Quantities of the heads of pretrained models: which keys can win, how much attention they can get, and do get.

A document is the unit of every interval. The ceiling of a key is the largest share of a query's attention that some
query of a set gives it, certified from both sides.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import pretrained as numbers
from layernorm_roles.evidence.claims.comparison import RATIO, Tables, require
from layernorm_roles.evidence.claims.quantities import BEFORE_TRAINING, Measured, Quantity
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

MEAN, CUT = "mean over layers", "cut to the fewest components"
MORE, IDLE = "without the norm minus with it", "able and idle"
UNCONFINED = "queries that no norm confines"
OVER_GAUSSIAN = f"{CUT} over Gaussian keys"
SITES = {"head": "", "head_without_norm": "without norm "}
"""How column names begin, by the site of the keys: heads as the model uses them, and heads made without the norm."""

HALF, TENTH, _ = numbers.THRESHOLDS


def of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the rows of `table` on a pretrained model; raises Untestable if they are of fewer than two documents."""
    part = table[table.model == model]
    few = "one document" if len(part) else "no documents"
    require(part.context.nunique() > 1, f"The run has {few} of {model}: no interval over documents.")
    return part


def with_mean(percents: pd.DataFrame, beginning: str = "") -> pd.DataFrame:
    """Return `percents`, with a column for each layer, and one more column for the mean over layers.

    The columns are named "layer 1" and so on and "mean over layers", each with `beginning` before the name.
    """
    named = percents.rename(columns="layer {}".format).assign(**{MEAN: percents.mean(axis=1)})
    return named.add_prefix(beginning)


def cases(number: int, columns: pd.DataFrame) -> dict[str, int]:
    """Return, by column name, how many (key, head) pairs are behind each of `columns`: the layers and their mean.

    All `number` pairs are behind the mean over layers, and an equal part of them is behind each layer.
    """
    layers = len(columns.columns) - 1
    return {name: number if name.endswith(MEAN) else number // layers for name in columns}


def unselectable(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Return, for each document, the percentage of the keys in a pretrained model's heads that no query can select.

    Columns are the layers and their mean, for keys as the model uses them and for keys made without the norm. Two more
    columns are for heads cut to the fewest principal components that were tested, mean over layers: the percentage, and
    its ratio to the percentage of Gaussian keys. Raises Untestable if there are fewer than two documents.
    """
    keys = of_model(tables["pretrained_keys"], model)
    cuts = keys[keys.site == "head_cut"]
    require(len(cuts), f"The run has no heads of {model} that were cut to fewer dimensions.")
    frames, worst, number = [], [], {}
    for site in (site for site in SITES if (keys.site == site).any()):
        for undecided, into in ((False, frames), (True, worst)):
            percents = numbers.unselectable_in_heads(keys, site, undecided)
            into.append(with_mean(percents, SITES[site]))
        number |= cases(int(keys[(keys.site == "head") & ~keys.causal].n_keys.sum()), frames[-1])
    fewest, shares = cuts[cuts.dimensions == cuts.dimensions.min()], numbers.cut_heads(keys)
    cut = numbers.unselectable_in_heads(fewest, "head_cut").mean(axis=1)
    gaussian = shares[shares.dimensions == cuts.dimensions.min()].gaussian_percent.mean()
    frame = pd.concat(frames, axis=1).assign(**{CUT: cut, OVER_GAUSSIAN: cut / gaussian})
    return Measured(frame, pd.concat(worst, axis=1), number)


def below_half(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Return, by document, the percentage of (key, head) pairs in which no query gives the key half its attention.

    The queries are all that a head can compute from outputs of its norm. Columns are the layers and their mean.
    Depending on `columns` there are more: either for keys made without the norm, for queries that are any vectors, and
    for a tenth of the attention in the last layer; or for the queries of the text alone: how many of the pairs that
    could get half do not get it, and how many of all pairs get less than a tenth.
    """
    pairs = numbers.by_layer(of_model(tables["attention_ceilings"], model))

    def below(share: float, normalised=AS_USED, queries=NORM, bound="upper") -> pd.DataFrame:
        chosen = pairs[(pairs.queries == queries) & (pairs.normalised == normalised)]
        require(len(chosen), f"The run has no ceilings for queries “{queries}” and keys “{normalised}”.")
        return numbers.below(chosen, share, bound).droplevel(["model", "queries", "normalised"], axis=1)

    used, can = below(HALF), pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    frame = with_mean(used)
    number = cases(int(can.pairs.sum()), frame)
    if MORE in columns:
        frame[MORE] = (below(HALF, WITHOUT_NORM) - used).mean(axis=1)
        frame[UNCONFINED] = below(HALF, queries=ANY).mean(axis=1)
        frame["a tenth, last layer"] = below(TENTH).iloc[:, -1]
        frame["a tenth, last layer, without the norm"] = below(TENTH, WITHOUT_NORM).iloc[:, -1]
        return Measured(frame, with_mean(below(HALF, bound="lower")), number)
    able = can.pairs - numbers.number_below(can, HALF, "lower")
    counts = can.assign(able=able).groupby("context")[["idle", "able"]].sum().astype(float)
    words = f"No key of {model} is certified to reach half of a query's attention."
    require(counts.able.sum(), words, runs=len(counts))
    own = pairs[pairs.queries == OWN]
    tenth = numbers.number_below(own, TENTH).groupby(own.context).sum()
    never = 100 * tenth / own.groupby("context").pairs.sum()
    return Measured(frame.assign(**{IDLE: 100 * counts.idle / counts.able, "never get a tenth": never}))


def along_ones(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Return, by document, how much more of the norms' inputs is along the ones vector than along a random direction.

    The value is the logarithm of the ratio of the two shares of squared length. One column is for the pretrained model,
    and one for a model with random weights.
    """
    ratios = numbers.ones_ratios(of_model(tables["ones_share"], model))
    names = np.where(ratios.checkpoint == "random", BEFORE_TRAINING, "") + "hidden vectors"
    return Measured(np.log(ratios.groupby([ratios.context, names]).ratio.mean().unstack()))


MOVED = ("with the projection changed", "as much along a random direction")


def attention_moved(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Return, by document, the percentage of a query's attention that moves to other keys if the norms are changed.

    In one column the norms' projection is changed: left out of LayerNorms, added to RMSNorms. In the other, the change
    is as large, but along a random direction.
    """
    moved = of_model(tables["projection_shift"], model).groupby("context")
    return Measured(100 * moved[["total_variation", "random_direction"]].mean().set_axis(MOVED, axis=1))


_BELOW = "pairs of a key and a head that no query behind the norm gives half of its attention"
_ALONG = "share along the ones vector over a random direction's"
_MOVED = "attention that goes to other keys, total variation"
_BELOW_AND_MORE = (MEAN, "layer *", MORE, IDLE, UNCONFINED, "never get a tenth", "a tenth, last layer*")
_KEYS = "unselectable keys in the heads"
QUANTITIES = {
    "unselectable_in_heads": Quantity(unselectable, " %", _KEYS, (MEAN, "layer *", CUT, OVER_GAUSSIAN)),
    "below_half_of_attention": Quantity(below_half, " %", _BELOW, _BELOW_AND_MORE),
    "along_ones": Quantity(along_ones, RATIO, _ALONG, ("hidden vectors",)),
    "attention_moved": Quantity(attention_moved, " %", _MOVED, MOVED),
}
"""Quantities of pretrained models that claims can compare, by the names that YAML entries use."""
