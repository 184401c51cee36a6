"""What claims compare by variant: quantities with one value a seed, of an experiment or a language model.

`QUANTITIES` names them for the entries of the YAML files. All variants of an experiment share the data, and runs of equal
seeds also their initialisation and batches, so differences and ratios are over pairs of runs of one seed. A variant whose
name begins with `BEFORE_TRAINING` has the values of the same runs before training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import Estimate, percent_over_seeds
from layernorm_roles.evidence.analysis.language_model import (
    POINT,
    gain_over_unigram,
    of_all_lengths,
    runs_at_best_rate,
    worth_of_attention,
)
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import Tables, Untestable, enough, over_seeds, paired, refuse_rate_at_grid_end
from layernorm_roles.evidence.legends import LEGENDS, label
from layernorm_roles.variants import NO_ATTENTION_VARIANT

BEFORE_TRAINING, UNIGRAM = "untrained ", "unigram"
METRICS, LOSSES = "majority_metrics", "language_model_metrics"


@dataclass
class Measured:
    """One value a seed for each variant, a column: after training, and before."""

    trained: pd.DataFrame
    untrained: pd.DataFrame = field(default_factory=pd.DataFrame)
    note: str = ""
    """A sentence on the runs, for the reason; empty if there is nothing to say."""

    def values(self, name: str) -> pd.Series:
        """The values of a variant; Untestable if there are none."""
        before = name.startswith(BEFORE_TRAINING)
        frame, variant = self.untrained if before else self.trained, name.removeprefix(BEFORE_TRAINING)
        if variant not in frame:
            raise Untestable(f"The run has no {name}.")
        return frame[variant]

    def between(self, high: str, low: str) -> tuple[Estimate, int]:
        """The differences of two variants over their pairs, and the number of pairs; Untestable with fewer than two."""
        return paired(self.values(high), self.values(low), low if high == "layernorm" else high)

    def alone(self, name: str) -> tuple[Estimate, int]:
        """The mean of a variant with its interval, and the number of runs; Untestable with fewer than two."""
        values = self.values(name).dropna()
        return over_seeds(values, name), len(values)


# The majority task


def of_experiment(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The rows of an experiment; Untestable if there are none, or one of `variants` is missing."""
    part = table[table.experiment == experiment]
    if part.empty:
        raise Untestable(f"The run has no experiment {experiment}.")
    missing = [variant for variant in variants if variant not in set(part.variant)]
    if missing:
        raise Untestable(f"The run has no {' and no '.join(missing)} in the experiment {experiment}.")
    return part


def of_setting(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The rows of an experiment, as `of_experiment`; Untestable if it has several widths or learning rates."""
    part = of_experiment(table, experiment, *variants)
    for column, name in (("d_model", "widths"), ("base_learning_rate", "learning rates")):
        if part[column].nunique() > 1:
            raise Untestable(f"The experiment {experiment} has several {name}; the claim is about one.")
    return part


def of_best_rates(by: majority.By, table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The runs of `variants` at the rate that the other half of the seeds chooses; Untestable if it ends the grid.

    `by` says by what a rate is the best one. If layernorm_small is there, it is among them, and no reason for
    Untestable.
    """
    part = of_experiment(table, experiment, *variants)
    if part.d_model.nunique() > 1:
        raise Untestable(f"The experiment {experiment} has several widths; the claim is about one.")
    part = part[part.variant.isin([*variants, "layernorm_small"])]
    best = majority.best_rates(part, by, rules.TEST_LOSS)
    for variant in variants:
        chosen = best[best.variant == variant]
        if chosen.empty:
            raise Untestable(
                f"The run has only 1 seed of {variant}: none other can choose its learning rate."
            )
        refuse_rate_at_grid_end(chosen.at_end, chosen.base_learning_rate, LEGENDS[variant])
    return part.merge(best[["variant", "seed", "base_learning_rate"]])


Select = Callable[..., pd.DataFrame]
"""Which runs of an experiment are judged: `of_setting`, or `of_best_rates` with what a rate is chosen by."""


def by_variant(metrics: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """The values of `column` of majority_metrics at one step: a row a seed, a column a variant."""
    return metrics[metrics.step == step].pivot(index="seed", columns="variant", values=column)


def final_accuracy(metrics: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy at the last step in per cent: a row a seed, a column a variant."""
    ends = majority.last_rows(metrics)
    return 100 * ends.pivot(index="seed", columns="variant", values="test_accuracy")


@dataclass
class Steps(Measured):
    """Steps until something is reached, which some runs may not reach: their ratios are bounds."""

    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Columns variant, seed, steps and last_step, a row a run."""

    def between(self, high: str, low: str) -> tuple[Estimate, int]:
        """Logarithm of the steps of one variant over those of another with equal seeds, and the number of pairs.

        Untestable with fewer than two pairs, and if runs of one variant do not get there in some pairs and runs of the
        other in others, or none does in any pair, so that the ratio has no bound on either side.
        """
        slow, fast = (self.runs[self.runs.variant == name] for name in (high, low))
        seeds = sorted(set(slow.seed) & set(fast.seed))
        enough(pd.Series(seeds, dtype=float), low if high == "layernorm" else high)
        ratio = majority.log_ratio_of_steps(slow, fast)
        if np.isnan(ratio.mean):
            raise Untestable(
                f"{slow.steps.isna().sum()} of {len(slow)} runs of {high} and {fast.steps.isna().sum()} of {len(fast)} "
                f"of {low} do not get there in {int(self.runs.last_step.max()):,} steps."
            )
        return ratio, len(seeds)


def unreached(steps: pd.DataFrame) -> str:
    """A sentence about the runs that do not get there; empty if all do."""
    lost = [
        f"{missing} of {len(own)} runs of {LEGENDS[variant]}"
        for variant in legend_order(steps.variant)
        if (missing := int((own := steps[steps.variant == variant]).steps.isna().sum()))
    ]
    if not lost:
        return ""
    return (
        f"{' and '.join(lost)} do not get there in {int(steps.last_step.max()):,} steps: their ratio is a bound, and a "
        "pair of runs neither of which gets there counts as equally fast."
    )


def steps(select: Select, tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Steps to the test loss TEST_LOSS."""
    runs = majority.steps_to_reach(select(tables[METRICS], experiment, *variants), [rules.TEST_LOSS])
    return Steps(pd.DataFrame(), runs=runs, note=unreached(runs[runs.variant.isin(variants)]))


def steps_to_equal_attention(tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Steps from which on attention is equal over the classes."""
    metrics = of_setting(tables[METRICS], experiment, *variants)
    runs = majority.steps_to_equal_attention(metrics, rules.EQUAL)
    return Steps(pd.DataFrame(), runs=runs, note=unreached(runs[runs.variant.isin(variants)]))


def accuracy(select: Select, tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Test accuracy in per cent at ACCURACY_STEP; where rates are chosen, whose runs are shorter, at the last step."""
    metrics = select(tables[METRICS], experiment, *variants)
    step = rules.ACCURACY_STEP if select is of_setting else int(metrics.step.max())
    values = 100 * by_variant(metrics, "test_accuracy", step)
    if values.empty:
        raise Untestable(f"The run has no metrics at step {step:,}, where the paper's accuracies were read.")
    return Measured(values)


def accuracy_at_the_end(tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Test accuracy in per cent at the last step; 0 for a run that was lost."""
    return Measured(final_accuracy(of_setting(tables[METRICS], experiment, *variants)))


def first_and_last(
    select: Select,
    column: str,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    tables: Tables,
    experiment: str,
    variants: Sequence[str],
) -> Measured:
    """A column of majority_metrics, changed by a function, at the last step and before training."""
    metrics = select(tables[METRICS], experiment, *variants)
    first, last = (change(by_variant(metrics, column, step)) for step in (0, int(metrics.step.max())))
    if first.empty:
        raise Untestable("The run has no metrics at step 0, before training.")
    return Measured(last, first)


# Language models


def at_inner_rates(tables: Tables, model: str, *variants: str, steps: int | None = None) -> pd.DataFrame:
    """The runs of `variants` that are judged; Untestable if a variant is missing or its best rate ends the grid.

    The model without attention is a baseline, which may have its best rate anywhere.
    """
    runs = runs_at_best_rate(tables[LOSSES], model, steps)
    for variant in variants:
        chosen = runs[runs.variant == variant]
        if chosen.empty:
            single = ((tables[LOSSES].model == model) & (tables[LOSSES].variant == variant)).any()
            few = "only 1 seed, which cannot choose its own learning rate, of" if single else "no"
            raise Untestable(f"The run has {few} {model} with {variant}.")
        refuse_rate_at_grid_end(chosen.at_end, chosen.base_learning_rate, f"{model} with {label(variant)}")
    return runs[runs.variant.isin(variants)]


@dataclass
class Losses(Measured):
    """Losses of the longest runs of a language model, of each seed at its best rate; nats per token."""

    tables: Tables = field(default_factory=dict)
    model: str = ""
    column: str = "valid_loss"
    steps: int | None = None
    """Length of the runs; the longest if None."""

    def differences(self, high: str, low: str) -> pd.Series:
        """One loss minus another, by seed: of two variants, before training or after, or of a baseline and a variant.

        The baselines are the model without attention and the frequencies of tokens (`UNIGRAM`).
        """
        losses = self.tables[LOSSES]
        if high == NO_ATTENTION_VARIANT:
            at_inner_rates(self.tables, self.model, low)
            return worth_of_attention(losses, self.model, low)
        if high == UNIGRAM:
            return gain_over_unigram(losses, self.model, low)
        names = [name.removeprefix(BEFORE_TRAINING) for name in (high, low)]
        runs = at_inner_rates(self.tables, self.model, *names, steps=self.steps)
        if high.startswith(BEFORE_TRAINING):
            first = of_all_lengths(losses, self.model)
            runs = first[first.step == 0].merge(runs[["variant", "seed", *POINT]])
        both = runs.pivot(index="seed", columns="variant", values=self.column).reindex(columns=names)
        return (both[names[0]] - both[names[1]]).dropna()

    def between(self, high: str, low: str) -> tuple[Estimate, int]:
        """The mean of `differences` with its interval, and their number; Untestable with fewer than two."""
        found = self.differences(high, low)
        return over_seeds(found, f"{self.model} with {high} beside {low}"), len(found)


def losses(column: str, tables: Tables, model: str, variants: Sequence[str] = ()) -> Losses:
    """Losses of a language model at the end of its longest runs."""
    return Losses(pd.DataFrame(), tables=tables, model=model, column=column)


class Shares(NamedTuple):
    """Per cent of keys that are certified unselectable, and of undecided keys: a row a seed, a column a layer.

    Means over contexts and heads.
    """

    certified: pd.DataFrame
    undecided: pd.DataFrame
    keys: pd.Series
    """How many keys were tested in each layer, in all seeds together."""

    @property
    def seeds(self) -> pd.Series:
        """Certified per cent, mean over layers, one value a seed."""
        return self.certified.mean(axis=1)

    def estimate(self, what: str, layer: int | None = None, undecided: bool = False) -> Estimate:
        """Certified per cent with its interval, of a layer or the mean over layers; Untestable for a single seed.

        With `undecided` the keys that cannot be decided count as well. `what` names the models.
        """
        percent = self.certified + self.undecided if undecided else self.certified
        percent = percent.mean(axis=1) if layer is None else percent[layer]
        number = self.keys.sum() if layer is None else self.keys[layer]
        return percent_over_seeds(enough(percent, what), int(number))


def choose(keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> pd.DataFrame:
    """The rows of one variant for which every column of `where` has its value; Untestable if there are none.

    The rivals of a key are all keys of its context, as in the paper; with `causal`, the keys before it.
    """
    part = keys[(keys.variant == variant) & (keys.causal == causal)]
    for column, value in where.items():
        part = part[part[column] == value]
    if part.empty:
        raise Untestable(f"The run has no key verdicts of: {', '.join([variant, *where.values()])}.")
    return part


def shares(keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> Shares:
    """Shares of the rows that `choose` finds."""
    part = choose(keys, variant, causal, **where)
    cell = [part.seed, part.layer]
    counts = (part.n_unselectable, part.n_borderline)
    percents = ((100 * n / part.n_keys).groupby(cell).mean().unstack("layer") for n in counts)
    return Shares(*percents, part.groupby("layer").n_keys.sum())


@dataclass
class InputKeys(Measured):
    """Per cent of unselectable keys at the attention input of a trained language model, in the long contexts."""

    keys: pd.DataFrame = field(default_factory=pd.DataFrame)
    model: str = ""

    def alone(self, name: str) -> tuple[Estimate, int]:
        """The mean over layers with its interval, and the number of runs; Untestable with fewer than two."""
        where = {"model": self.model, "texts": "long", "site": "after_norm", "checkpoint": "final"}
        found = shares(self.keys, name, **where)
        return found.estimate(name), len(found.seeds)


def unselectable_keys(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Per cent of unselectable keys at the attention input of a trained language model."""
    return InputKeys(pd.DataFrame(), keys=tables["key_selectability"], model=model)


class Quantity(NamedTuple):
    """What the entries of the YAML files name under `quantity`."""

    measure: Callable[[Tables, str, Sequence[str]], Measured]
    """From the tables, an experiment or a model, and the variants without which there is no test."""
    unit: str
    """RATIO if differences are those of logarithms."""
    words: str
    """What the quantity is."""


def _unchanged(values: pd.DataFrame) -> pd.DataFrame:
    return values


QUANTITIES = {
    "steps": Quantity(partial(steps, of_setting), "×", f"steps to test loss {rules.TEST_LOSS}"),
    "steps_at_best_rates": Quantity(
        partial(steps, partial(of_best_rates, "speed")), "×", f"steps to test loss {rules.TEST_LOSS}, best rates"
    ),
    "steps_to_equal_attention": Quantity(steps_to_equal_attention, "×", "steps until attention is equal for good"),
    "accuracy": Quantity(partial(accuracy, of_setting), " points", f"test accuracy at step {rules.ACCURACY_STEP:,}"),
    "accuracy_at_best_rates": Quantity(
        partial(accuracy, partial(of_best_rates, "accuracy")), " points", "test accuracy at the last step, best rates"
    ),
    "accuracy_at_the_end": Quantity(accuracy_at_the_end, " points", "test accuracy at the last step"),
    "score_deviation": Quantity(
        partial(first_and_last, of_setting, "score_std", np.log), "×", "standard deviation of the attention scores"
    ),
    "score_deviation_at_best_rates": Quantity(
        partial(first_and_last, partial(of_best_rates, "loss"), "score_std", np.log),
        "×",
        "standard deviation of the attention scores, best rates",
    ),
    "attention_share": Quantity(
        partial(first_and_last, of_setting, "attention_share", _unchanged),
        "",
        "perplexity of attention over the number of classes",
    ),
    "train_loss": Quantity(partial(losses, "train_loss"), " nats", "training loss at the end"),
    "valid_loss": Quantity(partial(losses, "valid_loss"), " nats", "validation loss at the end"),
    "unselectable_keys": Quantity(unselectable_keys, " %", "keys unselectable at the attention input"),
}
"""The quantities by name; a new one is a line here and a function above."""
