"""Whether trained heads follow the law of widths: as many unselectable keys as Gaussian keys of equal number and width.

A question of this repository, on models that differ in the width of their heads alone. The test takes the name of the
model whose heads are widest; the others are those of `analysis.heads.narrower`.
"""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.heads import gaussian_percent, in_heads, narrower
from layernorm_roles.evidence.claims.claim import (
    UNTRAINED,
    Asked,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    counted,
    more_than,
    over_seeds,
)
from layernorm_roles.evidence.claims.language_model import KEYS, PER_CENT, POINTS, choose, gated
from layernorm_roles.evidence.claims.quantities import LOSSES, Shares, shares
from layernorm_roles.evidence.claims.rules import Finding, all_of
from layernorm_roles.variants import NO_ATTENTION_VARIANT


class Width(NamedTuple):
    """The heads of one width, with the weights of one checkpoint."""

    model: str
    found: Shares
    gaussian: float
    """Per cent of as many Gaussian keys in as many dimensions that are expected to be unselectable."""

    def comparison(self, d: int, zero: float) -> Comparison:
        """Whether at least half as many keys are unselectable as of Gaussian keys, and at most twice as many.

        Where Gaussian keys have at most `zero` per cent there is no least number, and `zero` is the most in any case.
        Undecided keys count as unselectable where it is asked whether there are too many.
        """
        worst = self.found.estimate(self.model, undecided=True)
        most, least = max(2 * self.gaussian, zero), self.gaussian / 2
        bounds = [counted(worst, most)] + [more_than(least)] * (self.gaussian > zero)
        words = f"at most {most:.3g}" + f" and more than {least:.3g}" * (self.gaussian > zero)
        asked = Asked(words, lambda certified: all_of(*(bound.find(certified) for bound in bounds)))
        estimate, n = self.found.estimate(self.model), len(self.found.seeds)
        return compare(f"d_head = {d}", estimate, n, asked, unit=PER_CENT, statistic=IN_HEADS, part=d)


IN_HEADS = "keys unselectable in the heads, mean over layers and heads"


def head_widths(tables: Tables, model: str, zero: float) -> Outcome:
    """The outcome for whether trained heads have about as many unselectable keys as equally many Gaussian keys have.

    Each width of heads below that of the model named `model` is judged by `Width.comparison`.
    """
    keys = tables[KEYS]
    models = narrower(keys, model)
    if len(models) < 2:
        raise Untestable(f"The run has fewer than two widths of heads below that of {model}.")
    trained = _widths(keys, models, "final")
    rows = [width.comparison(d, zero) for d, width in trained.items()]
    beyond = _beyond(trained)
    measured = over_seeds(beyond, "every width of heads")
    first = compare("heads minus Gaussian keys, mean over widths", measured, len(beyond), unit=POINTS)
    control, passes = [], None
    try:
        untrained = _widths(keys, models, "initial")
        before = _beyond(untrained)
        words = "heads minus Gaussian keys, mean over widths, before training"
        control.append(compare(words, Estimate.of_any(before), len(before), role="control", unit=POINTS))
        if {row.finding for row in rows} == {w.comparison(d, zero).finding for d, w in untrained.items()} == {Finding.SEEN}:
            passes = UNTRAINED
    except Untestable:
        pass
    outcome = Outcome((first, *rows, *control, *_causal(keys, models)), also_passed_by=passes)
    losses = tables[LOSSES]
    for name in models.values():
        own = {**tables, LOSSES: _with_baseline(losses, name, model)}
        outcome = gated(outcome, own, name, keys_of=["layernorm"])
    return outcome


def _widths(keys: pd.DataFrame, models: dict[int, str], checkpoint: str) -> dict[int, Width]:
    """The heads of each model, by their width; Untestable if a model lacks them."""
    where = {"texts": "long", "site": "head", "checkpoint": checkpoint}
    return {
        d: Width(
            name,
            shares(keys, "layernorm", model=name, **where),
            gaussian_percent(choose(keys, "layernorm", model=name, **where)),
        )
        for d, name in models.items()
    }


def _beyond(widths: dict[int, Width]) -> pd.Series:
    """By how many points the certified per cent exceeds that of Gaussian keys, mean over widths: one value a seed."""
    points = {d: width.found.seeds - width.gaussian for d, width in widths.items()}
    return pd.DataFrame(points).dropna().mean(axis=1)


def _causal(keys: pd.DataFrame, models: dict[int, str]) -> list[Comparison]:
    """Per cent of trained keys that are unselectable among those before, by width, as far as the run has them."""
    here = in_heads(keys)
    here, rows = here[(here.checkpoint == "final") & here.causal], []
    for d, name in models.items():
        own = here[here.model == name]
        percent = (100 * own.n_unselectable / own.n_keys).groupby(own.seed).mean()
        if len(percent):
            words = f"d_head = {d}, among the keys before them; Gaussian keys {gaussian_percent(own):.3g} %"
            found = Estimate.of_any(percent)
            rows.append(compare(words, found, len(percent), role="context", unit=PER_CENT, statistic=IN_HEADS))
    return rows


def _with_baseline(losses: pd.DataFrame, name: str, model: str) -> pd.DataFrame:
    """The losses of a model, and those of `model` without attention: without it the width of heads is no difference."""
    bare = losses[(losses.model == model) & (losses.variant == NO_ATTENTION_VARIANT)]
    own = losses[(losses.model == name) & (losses.variant != NO_ATTENTION_VARIANT)]
    return pd.concat([own, bare.assign(model=name)], ignore_index=True)


TESTS: dict[str, Callable[..., Outcome]] = {"head_widths": head_widths}
"""The function that the entry of head_widths.yaml names under `test`."""
