"""Claims about the heads of pretrained models: which keys can win, how much attention they can get, and do get.

Questions of this repository, and a statement of another paper. A document is the unit of every interval; the tests
take the tables and the name of a model in their column `model`. The ceiling of a key is the largest share of a query's
attention that some query of a set gives it, certified from both sides.
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
from layernorm_roles.evidence.claims.claim import (
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    counted,
    more_than,
    no_more_than,
    positive,
)
from layernorm_roles.evidence.claims.rules import Finding
from layernorm_roles.schemas import ANY, AS_USED, NORM, OWN, WITHOUT_NORM

ONES, SHIFTS = "ones_share", "projection_shift"
KEYS, CEILINGS, LAW = "pretrained_keys", "attention_ceilings", "gaussian_law"
PER_CENT = " %"


def of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    """The rows of one model; Untestable if there are none, or those of a single document."""
    part = table[table.model == model]
    if part.context.nunique() < 2:
        documents = "one document" if len(part) else "no documents"
        raise Untestable(f"The run has {documents} of {model}: no interval over documents.")
    return part


def few(words: str, certified: pd.DataFrame, worst: pd.DataFrame, number: int, zero: float) -> list[Comparison]:
    """A comparison for each layer: no more than `zero` per cent; both frames have a row a document, a column a layer.

    In `worst` the cases that the proofs leave open count as well. A layer has `number` cases in all documents.
    """
    rows = []
    for layer in certified:
        estimate, open_too = (percent_over_seeds(percents[layer], number) for percents in (certified, worst))
        asked = counted(open_too, zero)
        rows.append(compare(f"{words}, layer {layer}", estimate, len(certified), asked, unit=PER_CENT))
    return rows


def mean_over_layers(words: str, shares: pd.DataFrame, role: str = "context", statistic: str = "") -> Comparison:
    """The mean over layers of per cents with a row a document, of which nothing is asked."""
    estimate = Estimate.of_any(shares.mean(axis=1).dropna())
    return compare(words, estimate, len(shares), role=role, unit=PER_CENT, statistic=statistic)


def heads_of_practical_width(tables: Tables, model: str, zero: float) -> Outcome:
    """Whether no key of the heads is unselectable, and whether most are once the heads are cut to few dimensions."""
    keys = of_model(tables[KEYS], model)
    whole = keys[keys.site == "head"]
    d, number = int(whole.dimensions.iloc[0]), int(whole.n_keys.sum())
    certified = unselectable_in_heads(keys, "head")
    n, per_layer = len(certified), number // certified.shape[1]
    rows = few("heads", certified, unselectable_in_heads(keys, "head", undecided=True), per_layer, zero)
    cuts = keys[keys.site == "head_cut"]
    if cuts.empty:
        raise Untestable(f"The run has no heads of {model} that were cut to fewer dimensions.")
    fewest = int(cuts.dimensions.min())
    cut = Estimate.of(unselectable_in_heads(cuts[cuts.dimensions == fewest], "head_cut").mean(axis=1))
    shares = cut_heads(keys)
    gaussian = shares[shares.dimensions == fewest].gaussian_percent.mean()
    words = f"heads cut to {fewest} principal components; half of Gaussian keys' {gaussian:.3g} %"
    control = compare(words, cut, n, more_than(gaussian / 2), "control", PER_CENT)
    passes, context = None, _law(tables[LAW], d)
    if (keys.site == "head_without_norm").any():
        bare = unselectable_in_heads(keys, "head_without_norm")
        worst = unselectable_in_heads(keys, "head_without_norm", undecided=True)
        if {row.finding for row in few("", bare, worst, per_layer, zero)} == {Finding.SEEN}:
            passes = "the same heads without the norm"
        context.append(mean_over_layers("heads, keys made without the norm", bare))
    measured = percent_over_seeds(certified.mean(axis=1), number)
    first = compare("heads, mean over layers", measured, n, unit=PER_CENT)
    return Outcome((first, *rows, control, *context), also_passed_by=passes)


def norm_lets_keys_win(tables: Tables, model: str, zero: float) -> Outcome:
    """Whether every key can get half of some query's attention, and whether fewer could without the norm."""
    pairs = by_layer(of_model(tables[CEILINGS], model))
    used, without = (_below(pairs, 0, NORM, kind) for kind in (AS_USED, WITHOUT_NORM))
    chosen = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    number = int(chosen.pairs.sum())
    rows = few("with the norm", used, _below(pairs, 0, NORM, AS_USED, "lower"), number // used.shape[1], zero)
    measured = percent_over_seeds(used.mean(axis=1), number)
    more = Estimate.of((without - used).mean(axis=1))
    context = [mean_over_layers("without the norm", without)]
    for words, kind in (("with", AS_USED), ("without", WITHOUT_NORM)):
        last = _below(pairs, 1, NORM, kind).iloc[:, -1:]
        context.append(mean_over_layers(f"{words} the norm, a tenth of the attention, last layer", last))
    context.append(mean_over_layers("queries that no norm confines", _below(pairs, 0, ANY, AS_USED)))
    return Outcome(
        (
            compare("with the norm, mean over layers", measured, len(used), unit=PER_CENT),
            *rows,
            compare("without the norm minus with it", more, len(used), positive(), "control", PER_CENT, part=1),
            *context,
        )
    )


def ceilings_not_used(tables: Tables, model: str, more_than_per_cent: float) -> Outcome:
    """Whether most of the pairs that could get half of a query's attention do not get it from their text's queries."""
    pairs = by_layer(of_model(tables[CEILINGS], model))
    half, tenth = rules.SHARES_OF_ATTENTION[:2]
    can = pairs[(pairs.queries == NORM) & (pairs.normalised == AS_USED)]
    can = can.assign(able=can.pairs - number_below(can, half, "lower"))
    if not can.able.sum():
        raise Untestable(f"No key of {model} is certified to reach half of a query's attention.")
    counts = can.groupby("context")[["idle", "able"]].sum().astype(float)
    idle = (100 * counts.idle / counts.able).dropna()
    own = pairs[pairs.queries == OWN]
    never = 100 * number_below(own, tenth).groupby(own.context).sum() / own.groupby("context").pairs.sum()
    tenths = compare("all pairs", Estimate.of_any(never), len(never), None, "context", PER_CENT, "never get a tenth")
    measured = compare("able pairs", Estimate.of(idle), len(idle), more_than(more_than_per_cent), unit=PER_CENT)
    unable = _below(pairs, 0, NORM, AS_USED)
    control = mean_over_layers("pairs that no query behind the norm gives half", unable, "control")
    return Outcome((measured, control, tenths))


def _below(
    pairs: pd.DataFrame, threshold: int, queries: str, normalised: str, bound: str = "upper"
) -> pd.DataFrame:
    """Per cent of the pairs below a share of attention: a row a document, a column a layer; Untestable if none."""
    chosen = pairs[(pairs.queries == queries) & (pairs.normalised == normalised)]
    if chosen.empty:
        raise Untestable(f"The run has no ceilings for queries “{queries}” and keys “{normalised}”.")
    shares = below(chosen, rules.SHARES_OF_ATTENTION[threshold], bound)
    return shares.droplevel(["model", "queries", "normalised"], axis=1)


def projections_idle(tables: Tables, model: str, moved: float) -> Outcome:
    """Whether norms receive less along the ones vector than a random direction has, and attention does without it."""
    ratios = ones_ratios(of_model(tables[ONES], model))
    ratios = ratios.assign(untrained=ratios.checkpoint == "random")
    by_document = ratios.groupby(["untrained", "context"]).ratio.mean()
    trained, untrained = (Estimate.of(np.log(by_document[kind])) for kind in (False, True))
    shifts = of_model(tables[SHIFTS], model)
    means = 100 * shifts.groupby("context")[["total_variation", "random_direction"]].mean()
    shift, random = (Estimate.of(means[column]) for column in means)
    less, n = no_more_than(0.0), len(by_document[False])
    first = compare("trained", trained, n, less, unit=RATIO)
    control = compare("freshly drawn weights", untrained, len(by_document[True]), role="control", unit=RATIO)
    passes = UNTRAINED if rules.above(control.estimate, 1.0) == Finding.ABSENT else None
    statistic = "attention that goes to other keys, total variation"
    change = f"projection {shifts.change.iloc[0]} in every norm"
    idle = no_more_than(100 * moved)
    return Outcome(
        (
            first,
            compare(change, shift, len(means), idle, unit=PER_CENT, statistic=statistic, part=1),
            control,
            compare("as much along a random direction", random, len(means), None, "context", PER_CENT, statistic),
        ),
        also_passed_by=passes,
    )


def _law(law: pd.DataFrame, d: int) -> list[Comparison]:
    """The fewest Gaussian keys of which the smallest share in the table is unselectable; none if it lacks `d`."""
    rows = law[(law.d == d) & ~law.causal].sort_values("share")
    if rows.empty:
        return []
    share, n = f"{100 * rows.share.iloc[0]:g} %", rows.n.iloc[0]
    most = f", more than {law.n.max():,.0f}" if pd.isna(n) else ""
    words = f"Gaussian keys in {d} dimensions of which {share} are unselectable{most}"
    return [compare(words, Estimate(n, np.nan, np.nan), None, None, "context", "", "number of keys")]


TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function
    for function in (heads_of_practical_width, norm_lets_keys_win, ceilings_not_used, projections_idle)
}
"""The functions that entries of pretrained.yaml name under `test`."""
