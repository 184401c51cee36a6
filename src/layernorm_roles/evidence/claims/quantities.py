"""What a test measures: a quantity of an experiment or model, with a column for each variant or whatever is compared.

A row is a seed or a document. Entries of the YAML files name the columns that they compare.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate, log_ratio, percent_over_seeds
from layernorm_roles.evidence.claims.comparison import Untestable, Value, require
from layernorm_roles.evidence.legends import LEGENDS, legend_order

BEFORE_TRAINING, UNIGRAM = "untrained ", "unigram"
"""How column names begin for models before training; the column of a model that knows tokens' frequencies alone."""


@dataclass(frozen=True)
class Measured:
    """The measured values of a quantity, such as final accuracy, that the test of a claim compares.

    `frame` has a row for each seed or document, and a column for each thing that is compared, such as a variant.
    """

    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    worst: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Columns of `frame`, in per cent, as they are if all cases count that proofs leave open."""
    cases: Mapping[str, int] = field(default_factory=dict)
    """By the name of a column of per cents, the number of cases, such as keys, behind all of its rows together."""
    known: Mapping[str, Value] = field(default_factory=dict)
    """Values by the name of a column, where they are not means over the rows of `frame`."""
    last_steps: pd.DataFrame | None = None
    """Where the values of `frame` are steps to a goal (NaN if a run does not get there), the last step of each run."""
    note: str = ""
    """A sentence on the runs that were measured, which is added to the reason of a claim's verdict."""
    specifics: str = ""
    """A sentence on sizes, such as d_head, without which the statement of a claim cannot be read."""

    def columns(self, name: str) -> list[str]:
        """Return the names of all columns of `frame`, and of all values in `known`, that match the pattern `name`.

        In the pattern * stands for any text. Raises Untestable if no name matches.
        """
        columns = [column for column in (*self.frame, *self.known) if fnmatchcase(column, name)]
        require(columns, f"The run has no {name.removesuffix(' *')}.")
        return columns

    def value(self, *names: str, less: tuple[float, str, str] | None = None) -> Value:
        """Return the mean over rows of one column, or of the first column minus the second, with its 95 % interval.

        If the values are steps to a goal, it is the mean logarithm of the first over the second. With `less`, a triple
        (k, a, b), k times (column a minus column b) is subtracted. Raises Untestable if there are too few rows.
        """
        if names[0] in self.known:
            return self.known[names[0]]
        if self.last_steps is not None:
            return self._log_ratio_of_steps(*names)
        values = self._difference(*names)
        if less:
            values = values - less[0] * self._difference(*less[1:])
        values = enough(values.dropna(), names[-1] if names[0] == "layernorm" else names[0])
        estimate, cases = self._mean(values, names[0]), self.cases.get(names[0])
        worst = self._mean(self.worst[names[0]].dropna(), names[0]) if names[0] in self.worst else NOTHING
        none_or_all = cases is not None and len(names) == 1 and estimate.mean in (0, 100)
        counted = f"{cases if estimate.mean else 0:,} of {cases:,}" if none_or_all else ""
        return Value(estimate, len(values), worst, counted)

    def _difference(self, *names: str) -> pd.Series:
        first, *second = (self.frame[self.columns(name)[0]] for name in names)
        return first - second[0] if second else first

    def _mean(self, values: pd.Series, name: str) -> Estimate:
        return percent_over_seeds(values, self.cases[name]) if name in self.cases else Estimate.of(values)

    def _log_ratio_of_steps(self, high: str, low: str) -> Value:
        """Return the mean of log(high / low); raises Untestable if too few runs get to the goal for a bound of it."""
        last = self.last_steps.reindex(columns=[high, low]).dropna()
        enough(last[high], high)
        steps = self.frame.loc[last.index].clip(lower=1)
        ratio = log_ratio(steps[high], steps[low], at_least=(last[high], last[low]))
        ran, lost = self.last_steps.count(), self.last_steps.count() - self.frame.count()
        of_both = f"{lost[high]} of {ran[high]} runs of {high} and {lost[low]} of {ran[low]} of {low}"
        words = f"{of_both} do not get there in {int(self.last_steps.max(axis=None)):,} steps."
        require(not np.isnan(ratio.mean), words, runs=len(last))
        return Value(ratio, len(last))


def enough(values: pd.Series, what: str) -> pd.Series:
    """Return `values`, one for each seed, unchanged; raise Untestable if there are fewer than two.

    `what` says in the error message what was measured, such as the name of a variant.
    """
    count = f"only {len(values)} seed" if len(values) else "no run"
    require(len(values) > 1, f"The run has {count} of {what}: no interval over seeds.")
    return values


def refuse_rate_at_grid_end(at_end: pd.Series, rates: pd.Series, what: str) -> None:
    """Raise Untestable if a best learning rate is the lowest or the highest of those that were tried.

    `rates` are the best rates, and `at_end` says whether each is at an end. `what` names the variant in the message.
    """
    if at_end.any():
        best = f"{what} is best at a learning rate of {rates[at_end].iloc[0]:g}, the first or last that was tried"
        raise Untestable(f"{best}: a better one may lie beyond.", runs=len(rates))


def steps_of(runs: pd.DataFrame, variants: Sequence[str]) -> Measured:
    """Return the steps to a goal by seed (rows) and variant (columns), and a note on runs of `variants` that miss it.

    Each row of `runs` is a run, with the columns variant, seed, steps (NaN if the run misses the goal) and last_step.
    """
    compared, note = runs[runs.variant.isin(variants)], ""
    number, lost = (part.variant.value_counts() for part in (compared, compared[compared.steps.isna()]))
    if len(lost):
        of_each = (
            f"{lost[name]} of {number[name]} runs of {LEGENDS[name]}" for name in legend_order(lost.index)
        )
        note = f"{' and '.join(of_each)} do not get there in {int(compared.last_step.max()):,} steps: their ratio "
        note += "is a bound, and a pair of runs neither of which gets there counts as equally fast."
    wide = runs.pivot(index="seed", columns="variant", values=["steps", "last_step"])
    return Measured(wide.steps, last_steps=wide.last_step, note=note)


class Quantity(NamedTuple):
    """A quantity that claims can compare, such as final accuracy: a function that measures it, its unit and columns."""

    measure: Callable[..., Measured]
    """Function of the tables, the experiment or model, and the names of the columns that are compared."""
    unit: str = ""
    words: str = ""
    """What the values are, for the column `statistic` of comparisons; empty where the claim's statistic says it."""
    columns: tuple[str, ...] = ("VARIANT",)
    """Names of the columns that claims can compare, also after BEFORE_TRAINING; * is any text, VARIANT any norm."""
    thresholds: tuple[str, ...] = ()
    """Names of the thresholds in `rules` that the measurement uses, which belong to a claim's preregistered rule."""

    def knows(self, name: str) -> bool:
        """Return whether this quantity can have a column called `name`, given in the YAML entry of a claim.

        For models before training the name begins with "untrained ".
        """
        name = name.removeprefix(BEFORE_TRAINING)
        known = (column.replace("VARIANT", v) for column in self.columns for v in (*LEGENDS, UNIGRAM))
        return any(fnmatchcase(name, column) for column in known)
