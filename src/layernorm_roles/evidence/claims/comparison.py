"""What the test of a claim returns: comparisons, each a number with its interval and what is asked of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate, p_value
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import Finding, all_of

Tables = Mapping[str, pd.DataFrame]
"""Parquet tables of a reproduction as data frames, by their names in schemas.SCHEMAS."""

RATIO = "×"
"""The unit of comparisons that are ratios, whose estimates are logarithms."""

CAUSE = "cause"
"""Name of the part of a claim's verdict that says whether the claimed cause makes the effect."""

Role = Literal["effect", "control", "gate", "context"]
"""Why a number is compared: it is what the claim says (effect), isolates the claimed cause (control), says whether
models are trained at all (gate), or is only shown to readers (context)."""

UNTRAINED = "untrained models"
"""What table claims calls models before training, in its column `also_passed_by`."""


class Untestable(Exception):
    """Raised if a claim's test lacks data that it needs, such as a table or a second seed; the message tells why.

    `runs` is the number of training runs or documents that exist but cannot decide the claim.
    """

    def __init__(self, message: str, runs: int = 0) -> None:
        super().__init__(message)
        self.runs = runs


def require(condition: Any, otherwise: str, runs: int = 0) -> None:
    """Raise Untestable with the message `otherwise` unless `condition`, which a claim's test needs, holds.

    `runs` is the number of training runs or documents that exist but cannot decide the claim.
    """
    if not condition:
        raise Untestable(otherwise, runs)


# What is asked of an estimate


class Question(NamedTuple):
    """A question that a claim asks about a measured number: its words, and the function that returns the finding."""

    words: str
    """The question in words, such as "at least {}", with {} in place of the number that is asked."""
    find: Callable[..., Finding]
    """Function of the estimate and the asked number and, if `open_counts`, of the worst case that proofs leave open."""
    difference: bool = False
    """Whether only a difference from 0 can meet the question, so that it has a p-value of no difference."""
    share: float = 1.0
    """The number that is asked over the one in the YAML entry: 0.5 for half of it, 0 where the entry says "true"."""
    open_counts: bool = False
    """Whether cases that proofs leave open count, such as keys that may be selectable or not."""
    number: float = np.nan
    """The asked number; for a ratio its logarithm."""


def _worse(estimate: Estimate, least: float) -> Finding:
    """Compare two losses: absent where both diverged in every run, so that the difference is 0."""
    return Finding.ABSENT if estimate == (0, 0, 0) else rules.effect(estimate, least)


def _true(condition: Any) -> Finding:
    return Finding.SEEN if condition else Finding.ABSENT


ASKED = {
    "half_of": Question("at least {}", rules.effect, True, 0.5),
    "half_of_or_none": Question("at least {}", rules.half_or_none, True, 0.5),
    "more_than": Question("more than {}", rules.above, True),
    "no_more_than": Question("at most {}", rules.at_most),
    "below_half_of": Question("at most {}", rules.at_most, share=0.5),
    "counted": Question("at most {}, undecided keys counted", rules.at_most, open_counts=True),
    "positive": Question("more than {}", rules.effect, True, 0.0),
    "negative": Question("less than {}", lambda each, most: rules.effect(-each, most), True, 0.0),
    "worse": Question("more than {}", _worse),
    "further_than": Question("more than {}, up or down", lambda each, least: rules.above(abs(each), least)),
    "no_further_than": Question("at most {}, up or down", lambda each, most: rules.at_most(abs(each), most)),
    "within_EXPONENT_of": Question(f"within {rules.EXPONENT:g} of {{}}", rules.within_exponent),
    # of the range of exact values, which an estimate has in place of an interval where nothing is random
    "all_at_most": Question("all at most {}", lambda each, most: _true(each.high <= most)),
    "all_more_than": Question("all more than {}", lambda each, least: _true(each.low > least)),
}
"""The questions that claims can ask of an estimate, by the keys of the entries in the YAML files."""


def ask(kind: str, number: float = 1.0, unit: str = "") -> Question:
    """Return the question of `kind`, a key of ASKED, about `number`: "half_of", for example, asks for half or more.

    `number` is in `unit`; a ratio is given as it is, not as its logarithm.
    """
    question = ASKED[kind]
    asked = question.share * (np.log(number) if unit == RATIO else number)
    written = np.exp(asked) if unit == RATIO else asked
    return question._replace(words=question.words.format(f"{written:.3g}"), number=asked)


# What a test returns


class Value(NamedTuple):
    """A measured number with its interval, and the number of runs, documents or other cases that it comes from."""

    estimate: Estimate
    n: int | None
    """Number of runs, pairs of runs, documents or matrices behind the estimate; None if nothing was measured."""
    worst: Estimate = NOTHING
    """The estimate if all cases count that proofs leave open, such as keys that may be selectable or not."""
    counted: str = ""
    """Where the estimate is 0 or 100 per cent of all keys: how many they are, as in "0 of 147,456"."""

    @classmethod
    def mean_of(cls, values: pd.Series) -> "Value":
        """Return the mean of `values`, one for each seed, with Student's 95 % interval.

        The ends of the interval are NaN for a single value; without values the mean is NaN, too.
        """
        return cls(Estimate.of_any(values), len(values))

    @classmethod
    def range_over(cls, values: pd.Series, n: int = 1) -> "Value":
        """Return the largest of `values`, with the smallest and the largest in place of the ends of an interval.

        It serves for values in which nothing is random. `n` is the number of cases that they come from.
        """
        return cls(Estimate(float(values.max()), float(values.min()), float(values.max())), n)


@dataclass(frozen=True)
class Comparison:
    """A row of table comparisons: what is compared, the measured number, and what the claim asks about it."""

    words: str
    """What is compared, such as "scale_released over layernorm"."""
    value: Value
    """The measured number that is compared; for a ratio its logarithm."""
    question: Question | None = None
    role: Role = "effect"
    unit: str = ""
    statistic: str = ""
    """In words, what the estimate is; empty where the claim's `statistic` says it."""
    part: int | Literal["cause"] | None = None
    """The part of the verdict in which the finding counts: 0 for the claim's own number, other numbers for what else
    it says, CAUSE for its cause. None leaves it to the role: an effect counts in 0, a control in CAUSE."""

    @cached_property
    def finding(self) -> Finding | None:
        """What the measured number shows: seen, smaller, absent, reversed or undecided; None if nothing is asked."""
        if (asked := self.question) is None:
            return None
        return asked.find(self.value.estimate, asked.number, *[self.value.worst] * asked.open_counts)

    @property
    def counts_in(self) -> int | str | None:
        """The part of the claim's verdict in which the finding counts; None if it counts in no part.

        Part 0 is the claim's main number, other integers are what else it says, and "cause" is the claimed cause.
        """
        part = {"effect": 0, "control": CAUSE}.get(self.role) if self.part is None else self.part
        return part if self.question else None

    @property
    def there(self) -> bool:
        """Whether the effect that the comparison asks for was found, even if it is smaller than asked."""
        return self.finding in rules.THERE

    @property
    def met(self) -> bool | None:
        """Whether the measured number is as asked; None if the finding is undecided or there is no question."""
        return None if self.finding in (None, Finding.UNDECIDED) else self.finding == Finding.SEEN

    def shown(self, *columns: str) -> dict[str, float]:
        """Return the measured number and the ends of its interval, in a dictionary with the three `columns` as keys.

        A ratio is returned as it is, although `value` holds its logarithm.
        """
        estimate = self.value.estimate.map(np.exp) if self.unit == RATIO else self.value.estimate
        return dict(zip(columns, estimate, strict=True))


@dataclass(frozen=True)
class Outcome:
    """The result of a claim's test: its comparisons, notes for readers, and what else the verdict depends on."""

    comparisons: tuple[Comparison, ...]
    """The test's comparisons. The first has the claim's main number, which table claims shows."""
    reason: str = ""
    """Sentences for readers, such as why there is no verdict."""
    reported: float | None = None
    """What the claim's source reports for the first comparison, in its unit; None if it gives no number."""
    also_passed_by: str | None = None
    """Models or keys without what the claim is about that pass its test too, such as UNTRAINED; None if none do."""
    specifics: str = ""
    """A sentence to be appended to the claim's statement, on sizes without which it cannot be read."""
    not_trained: bool = False
    """Whether a gate failed, such as models that hardly beat their baselines, so that there is no verdict."""
    runs: int = 0
    """Without comparisons, the number of training runs that exist and cannot decide the claim."""

    @property
    def effects(self) -> list[Comparison]:
        """The comparisons in the verdict that ask for a difference from 0 and find it, even if smaller than asked."""
        counted = (row for row in self.comparisons if row.counts_in is not None)
        return [row for row in counted if row.question.difference and row.there]

    @property
    def p(self) -> float:
        """The largest p-value of the first comparison and all `effects`; NaN if one of them has no p-value.

        The p-value of a comparison is for the hypothesis that its measured number is 0 (Student's t-test).
        """
        rows = (*self.comparisons[:1], *self.effects)
        return float(np.max([p_value(row.value.estimate, row.value.n or 0) for row in rows] or np.nan))

    def findings(self) -> tuple[list[Finding], Finding]:
        """Return a list of the findings on the numbered parts of the claim's verdict, and the finding on its cause.

        The list is in the order of the numbers. The finding on the cause is "seen" if no comparison asks about it.
        """
        parts = {row.counts_in for row in self.comparisons} - {None, CAUSE}
        *of_parts, of_cause = (
            all_of(*(row.finding for row in self.comparisons if row.counts_in == part))
            for part in (*sorted(parts), CAUSE)
        )
        return of_parts, of_cause


def sentences(*texts: str) -> str:
    """Return all `texts` that are not empty, joined by spaces."""
    return " ".join(filter(None, texts))
