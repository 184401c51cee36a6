"""Claims about the heads of pretrained models: which keys can win, how much attention they can get, and do get.

A document is the unit of every interval. The ceiling of a key is the largest share of a query's attention that some
query of a set gives it, certified from both sides.
"""

from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import pretrained as numbers
from layernorm_roles.evidence.claims import sizes, testing
from layernorm_roles.evidence.claims.rules import MOVED, ZERO
from layernorm_roles.evidence.claims.testing import CAUSE, RATIO, UNTRAINED, Measured, Test, optional, require
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

claim = partial(
    testing.claim, part="scaling", target="pretrained", of="minilm", sizes=sizes.pretrained, unit=" %"
)
HALF, TENTH, _ = numbers.THRESHOLDS
MEAN, DECODER = "mean over layers", "In a decoder, SmolLM2-135M-Instruct, in quantised weights"
WITHOUT = "the same heads without the norm"
PER_CENT = " %"


def of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the rows on a pretrained model; raises Missing if they are of fewer than two documents."""
    part = table[table.model == model]
    few = "one document" if len(part) else "no documents"
    require(part.context.nunique() > 1, f"The run has {few} of {model}: no interval over documents.")
    return part


def by_layer(
    test: Test, percents: pd.DataFrame, worst: pd.DataFrame, pairs: int, statistic: str, title: str = ""
) -> Measured:
    """Return per cents by layer and their mean; `pairs` is the number of all (key, head) pairs."""
    frames = [
        each.rename(columns="layer {}".format).assign(**{MEAN: each.mean(axis=1)})
        for each in (percents, worst)
    ]
    cases = {name: pairs if name == MEAN else pairs // percents.shape[1] for name in frames[0]}
    return test.measured(frames[0], PER_CENT, statistic, worst=frames[1], cases=cases, title=title)


def selectable_heads(test: Test, model: str) -> None:
    """Ask whether the keys of heads are selectable, and those of cut heads as often as Gaussian keys."""
    keys = of_model(test.table("pretrained_keys"), model)
    cuts = keys[keys.site == "head_cut"]
    require(len(cuts), f"The run has no heads of {model} that were cut to fewer dimensions.")
    pairs = int(keys[(keys.site == "head") & ~keys.causal].n_keys.sum())
    statistic = "unselectable keys in the heads"

    def at(site: str, title: str = "") -> Measured:
        found, worst = (numbers.unselectable_in_heads(keys, site, undecided) for undecided in (False, True))
        return by_layer(test, found, worst, pairs, statistic, title)

    own = at("head")
    layers = [name for name in own.frame if name != MEAN]
    without = (
        at("head_without_norm", "without the norm") if (keys.site == "head_without_norm").any() else None
    )
    test.effect(own.one(MEAN))
    for layer in layers:
        other = without.one(layer) if without and layer in without.frame else None
        test.effect(own.one(layer), alike={WITHOUT: other}, counted_at_most=ZERO)
    fewest, shares = cuts[cuts.dimensions == cuts.dimensions.min()], numbers.cut_heads(keys)
    cut = numbers.unselectable_in_heads(fewest, "head_cut").mean(axis=1)
    gaussian = shares[shares.dimensions == cuts.dimensions.min()].gaussian_percent.mean()
    words = "cut to the fewest components"
    cut = test.measured(
        pd.DataFrame({words: cut, f"{words} over Gaussian keys": cut / gaussian}), PER_CENT, statistic
    )
    test.effect(cut.one(f"{words} over Gaussian keys"), part=CAUSE, above=0.5)
    test.control(cut.one(words))


@claim(
    kind="ours",
    source="our question, from the paper's argument",
    figures=["pretrained_ceilings", "gaussian_law"],
)
def heads_of_practical_width(test):
    """In heads of practical width no key is unselectable.

    Setting: A pretrained model that nobody trained for this; Wikipedia articles that it may have read.
    Statistic: keys unselectable in the heads, mean over layers and heads, per cent
    Control: the same heads cut to their first 2 principal components; keys made without the norm; Gaussian keys
    Rule: At most {ZERO:g} % in the heads of each layer, undecided keys counted as unselectable. Width is the cause
        if, cut to the fewest dimensions, the same heads have at least half as many unselectable keys as Gaussian keys
        would. Intervals are over documents.
    """
    test.beside("heads_of_practical_width_decoder", DECODER, selectable_heads, "smollm2")
    selectable_heads(test, "minilm")


class Ceilings:
    """The rows of table attention_ceilings on a model, and the shares of pairs of keys and heads below a ceiling."""

    def __init__(self, test: Test, model: str) -> None:
        self.test, self.model = test, model
        self.rows = numbers.by_layer(of_model(test.table("attention_ceilings"), model))
        self.able = self.rows[(self.rows.queries == NORM) & (self.rows.normalised == AS_USED)]

    def below(self, share: float, normalised=AS_USED, queries=NORM, bound="upper") -> pd.DataFrame:
        """Return the percentage of pairs that no query of a set gives a share of attention, by document and layer."""
        chosen = self.rows[(self.rows.queries == queries) & (self.rows.normalised == normalised)]
        require(len(chosen), f"The run has no ceilings for queries “{queries}” and keys “{normalised}”.")
        return numbers.below(chosen, share, bound).droplevel(["model", "queries", "normalised"], axis=1)

    def half(self) -> Measured:
        """Return the percentage of pairs that no query that the norm allows gives half of its attention."""
        used, worst, pairs = self.below(HALF), self.below(HALF, bound="lower"), int(self.able.pairs.sum())
        return by_layer(self.test, used, worst, pairs, BELOW)

    def idle(self) -> Measured:
        """Return the percentage of pairs that could get half and do not, and of those that never get a tenth."""
        able = self.able.assign(able=self.able.pairs - numbers.number_below(self.able, HALF, "lower"))
        counts = able.groupby("context")[["idle", "able"]].sum().astype(float)
        words = f"No key of {self.model} is certified to reach half of a query's attention."
        require(counts.able.sum(), words, runs=len(counts))
        own = self.rows[self.rows.queries == OWN]
        tenth = numbers.number_below(own, TENTH).groupby(own.context).sum()
        never = 100 * tenth / own.groupby("context").pairs.sum()
        idle = {"able and idle": 100 * counts.idle / counts.able, "never get a tenth": never}
        return self.test.measured(pd.DataFrame(idle), PER_CENT, BELOW)


BELOW = "pairs of a key and a head to which no query that the norm allows gives half of its attention"


def idle_ceilings(test: Test, model: str) -> None:
    """Ask whether most keys that could get half of a query's attention do not get it."""
    ceilings = Ceilings(test, model)
    idle = ceilings.idle()
    test.effect(idle.one("able and idle"), above=50)
    test.control(ceilings.half().one(MEAN))
    test.show(idle.one("never get a tenth"))


@claim(
    kind="ours",
    source="our question, from the paper's argument",
    figures=["pretrained_ceilings"],
)
def norm_lets_keys_win(test):
    """The norm is what lets every key of a real head win half of some query's attention: as the model uses them every
    key can, and without the norm fewer could.

    Setting: A pretrained model that nobody trained for this; Wikipedia articles that it may have read.
    Statistic: pairs of a key and a head to which no query that LayerNorm can produce gives half of its attention,
        mean over layers, per cent
    Control: without the norm minus with it, of the same document; queries that no norm confines
    Rule: At most {ZERO:g} % of the pairs of a key and a head in each layer, open ones counted, and more without the
        norm: the interval of the difference, mean over layers, lies above 0. Intervals are over documents. Keys are
        not limited by what they can get if the interval of those that could get half and do not lies above 50 %.
    """
    limited = "Most keys that could get half of a query's attention do not get it"
    test.beside("ceilings_not_used", limited, idle_ceilings, "minilm")
    ceilings = Ceilings(test, "minilm")
    half = ceilings.half()
    frame = {
        "without the norm minus with it": (ceilings.below(HALF, WITHOUT_NORM) - ceilings.below(HALF)).mean(
            axis=1
        ),
        "queries that no norm confines": ceilings.below(HALF, queries=ANY).mean(axis=1),
        "a tenth, last layer": ceilings.below(TENTH).iloc[:, -1],
        "a tenth, last layer, without the norm": ceilings.below(TENTH, WITHOUT_NORM).iloc[:, -1],
    }
    others = test.measured(pd.DataFrame(frame), PER_CENT, BELOW)
    difference, *shown = frame
    test.effect(half.one(MEAN))
    for layer in (name for name in half.frame if name != MEAN):
        test.effect(half.one(layer), counted_at_most=ZERO)
    test.control(others.one(difference), part=1, more_than=0)
    for name in shown:
        test.show(others.one(name))


def orthogonal(test: Test, model: str) -> None:
    """Ask whether hidden vectors are orthogonal to the ones vector, and whether attention minds the projection."""
    ratios = numbers.ones_ratios(of_model(test.table("ones_share"), model))
    names = np.where(ratios.checkpoint == "random", testing.BEFORE, "") + "hidden vectors"
    along = np.log(ratios.groupby([ratios.context, names]).ratio.mean().unstack())
    along = test.measured(along, RATIO, "share along the ones vector over a random direction's")
    shift = of_model(test.table("projection_shift"), model).groupby("context")
    moved = 100 * shift[["total_variation", "random_direction"]].mean()
    changed, random = "with the projection changed", "as much along a random direction"
    words = "attention that goes to other keys, total variation"
    moved = test.measured(moved.set_axis([changed, random], axis=1), PER_CENT, words)
    untrained = along.one(testing.BEFORE + "hidden vectors")
    test.effect(along.one("hidden vectors"), alike={UNTRAINED: untrained}, at_most=1)
    test.effect(moved.one(changed), part=1, at_most=100 * MOVED)
    test.control(untrained)
    with optional():
        test.show(moved.one(random))


@claim(
    kind="other document",
    source="Gupta et al. 2026, arXiv 2409.12951",
    unit=RATIO,
    figures=["pretrained_projection"],
)
def projections_idle(test):
    """The hidden vectors of trained models are orthogonal to the ones vector anyway, so that LayerNorm's projection
    is redundant.

    Setting: A sentence encoder, where the source has decoders; Wikipedia articles that the model may have read.
    Statistic: share of the norms' inputs along the ones vector over that of a random direction, mean over norms,
        ratio
    Control: a network of equal architecture with freshly drawn weights, whose stream the norms before have projected
        already where norms follow the parts; as much kept along a random direction
    Rule: The interval of the ratio lies below 1, and attention moves by at most {MOVED:g} of its weight (total
        variation, mean over queries and heads) when the projection is left out of every LayerNorm; in the decoder,
        whose norms have none, when it is added to every RMSNorm. Partial if one of the two. Intervals are over
        documents.
    """
    test.beside("projections_idle_decoder", DECODER, orthogonal, "smollm2")
    orthogonal(test, "minilm")
