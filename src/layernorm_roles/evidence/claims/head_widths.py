"""Whether trained heads follow the law of widths: as many unselectable keys as Gaussian keys of equal number and width.

A question of this repository, on models that differ in the width of their heads alone. The test takes the name of the
model whose heads are widest first; the others are those of `analysis.heads.narrower`.
"""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.heads import gaussian_percent, in_heads, narrower
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.language_model import KEYS, LOSSES, Shares, choose, gated, shares
from layernorm_roles.evidence.claims.rules import (
    NOTHING,
    Finding,
    Outcome,
    Tables,
    Untestable,
    all_of,
    at_most,
    more_than_half,
    over_seeds,
    statement,
    untrained_too,
)
from layernorm_roles.variants import NO_ATTENTION_VARIANT


class Width(NamedTuple):
    """The heads of one width, with the weights of one checkpoint."""

    model: str
    found: Shares
    gaussian: float
    """Per cent of as many Gaussian keys in as many dimensions that are expected to be unselectable."""

    def finding(self) -> Finding:
        """Whether at least half as many keys are unselectable as of Gaussian keys, and at most twice as many.

        Where Gaussian keys have at most ZERO per cent there is no least number, and ZERO is the most in any case.
        Undecided keys count as unselectable where it is asked whether there are too many.
        """
        certified = self.found.estimate(self.model)
        worst = self.found.estimate(self.model, undecided=True)
        most = max(2 * self.gaussian, rules.ZERO)
        enough = more_than_half(certified, self.gaussian) if self.gaussian > rules.ZERO else Finding.SEEN
        return all_of(enough, at_most(certified, worst, most))


def head_widths(model: str, tables: Tables) -> Outcome:
    """The outcome for whether trained heads have about as many unselectable keys as equally many Gaussian keys have.

    Each width of heads below that of the model named `model` is judged by `Width.finding`.
    """
    keys = tables[KEYS]
    models = narrower(keys, model)
    if len(models) < 2:
        raise Untestable(f"The run has fewer than two widths of heads below that of {model}.")
    trained = _widths(keys, models, "final")
    findings = {d: width.finding() for d, width in trained.items()}
    beyond = _beyond(trained)
    measured = over_seeds(beyond, "every width of heads")
    following = [d for d, finding in findings.items() if finding == Finding.SEEN]
    reason = (
        "Unselectable keys by d_head, with the expectation for Gaussian keys in parentheses: "
        + "; ".join(f"{d}: {width.found} ({width.gaussian:.3g} %)" for d, width in trained.items())
        + f". At least half of it and at most twice as many at {len(following)} of {len(findings)} widths."
    )
    causal = {d: _causal(keys, name) for d, name in models.items()}
    if all(causal.values()):
        words = "; ".join(f"{d}: {percents}" for d, percents in causal.items())
        reason += f" Among the keys before them alone: {words}."
    control, passes = NOTHING, False
    try:
        untrained = _widths(keys, models, "initial")
        control = Estimate.of_any(_beyond(untrained))
        passes = {*findings.values()} == {width.finding() for width in untrained.values()} == {Finding.SEEN}
        words = "; ".join(f"{d}: {width.found}" for d, width in untrained.items())
        reason += f" Untrained: {words}."
    except Untestable:
        pass
    outcome = statement(
        [*findings.values()], measured, len(beyond), reason, control, also_passed_by=untrained_too(passes)
    )
    losses = tables[LOSSES]
    for name in models.values():
        outcome = gated(
            outcome, {**tables, LOSSES: _with_baseline(losses, name, model)}, name, keys_of=["layernorm"]
        )
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


def _causal(keys: pd.DataFrame, model: str) -> str:
    """Per cent of trained and of Gaussian keys that are unselectable among those before; empty if not known."""
    here = in_heads(keys)
    here = here[(here.model == model) & (here.checkpoint == "final") & here.causal]
    if here.empty:
        return ""
    percent = (100 * here.n_unselectable / here.n_keys).groupby(here.seed).mean()
    return f"{Estimate.of(percent).mean:.3g} % ({gaussian_percent(here):.3g} %)"


def _with_baseline(losses: pd.DataFrame, name: str, model: str) -> pd.DataFrame:
    """The losses of a model, and those of `model` without attention: without it the width of heads is no difference."""
    bare = losses[(losses.model == model) & (losses.variant == NO_ATTENTION_VARIANT)]
    own = losses[(losses.model == name) & (losses.variant != NO_ATTENTION_VARIANT)]
    return pd.concat([own, bare.assign(model=name)], ignore_index=True)


TESTS: dict[str, Callable[..., Outcome]] = {"head_widths": head_widths}
"""The test of the entry of head_widths.yaml, by its name."""
