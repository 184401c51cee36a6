"""What the test of a claim returns: comparisons, each a number with its interval and what is asked of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate, p_value
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import Finding, all_of

Tables = Mapping[str, pd.DataFrame]
"""Tables of a reproduction by their names in schemas.SCHEMAS."""

RATIO = "×"
"""The unit of ratios, whose effect is the logarithm."""

CAUSE = "cause"
"""The part of a verdict that says whether the claimed cause makes the effect."""

Role = Literal["effect", "control", "gate", "context"]
"""Why something is compared: it is what the claim says; it isolates the claimed cause; it says whether models are
trained at all; or nothing is asked of it, and a reader wants to know it."""

UNTRAINED = "untrained models"
"""What the column `also_passed_by` calls the models before training."""


class Untestable(Exception):
    """Raised by a test that lacks a table, a variant, a step or seeds; the message becomes the reason.

    `runs` is the number of runs that are there and cannot tell; 0 where the reproduction did not run what is tested.
    """

    def __init__(self, message: str, runs: int = 0) -> None:
        super().__init__(message)
        self.runs = runs


# What is asked of an estimate


class Question(NamedTuple):
    """What is asked of an estimate, in words and as a function to the finding."""

    words: str
    """What follows the word "asked"; {} stands for the number."""
    find: Callable[[Estimate, Estimate, float], Finding]
    """The finding, from the estimate, from the one with all that proofs leave open counted, and from the number."""
    difference: bool = False
    """Whether nothing but a difference from 0 meets it, so that a p-value of no difference belongs to it."""
    share: float = 1.0
    """The share of an entry's number that is asked; 0 where the entry gives "true" as the number."""
    number: float = np.nan
    """The number that is asked; of a ratio the logarithm."""


def _at_most(estimate: Estimate, _: Estimate, most: float) -> Finding:
    return rules.at_most(estimate, estimate, most)


ASKED = {
    # at least half of what the source reports, with an interval on its side of no effect
    "half_of": Question("at least {}", lambda each, _, half: rules.effect(each, 2 * half), True, 0.5),
    "more_than": Question("more than {}", lambda each, _, least: rules.above(each, least), True),
    "no_more_than": Question("at most {}", _at_most),
    "below_half_of": Question("at most {}", _at_most, share=0.5),
    "counted": Question("at most {}, undecided keys counted", rules.at_most),
    "positive": Question("more than {}", lambda each, *_: rules.direction(each), True, 0.0),
    "negative": Question("less than {}", lambda each, *_: rules.direction(-each), True, 0.0),
    # a loss above another one; absent if both diverged in every run, where the difference is 0
    "worse": Question(
        "more than {}", lambda each, *_: Finding.ABSENT if each == (0, 0, 0) else rules.direction(each)
    ),
    "further_than": Question(
        "more than {}, up or down", lambda each, _, least: rules.above(abs(each), least)
    ),
    "no_further_than": Question("at most {}, up or down", lambda each, *rest: _at_most(abs(each), *rest)),
    "within_EXPONENT_of": Question(
        f"within {rules.EXPONENT:g} of {{}}", lambda each, _, power: rules.within(each, power, rules.EXPONENT)
    ),
    # of the range of values in which nothing is random
    "all_at_most": Question("all at most {}", lambda each, _, most: rules.true(each.high <= most)),
    "all_more_than": Question("all more than {}", lambda each, _, least: rules.true(each.low > least)),
}
"""What may be asked of an estimate, by the name that entries of the YAML files give it."""


def ask(kind: str, number: float = 1.0, unit: str = "") -> Question:
    """Return the question of ASKED called `kind` about a number, which is in the unit of the estimate."""
    question = ASKED[kind]
    asked = question.share * (np.log(number) if unit == RATIO else number)
    written = np.exp(asked) if unit == RATIO else asked
    return question._replace(words=question.words.format(f"{written:.3g}"), number=asked)


# What a test returns


@dataclass(frozen=True)
class Comparison:
    """A row of table `comparisons`: what is compared, what is measured, what is asked of it."""

    words: str
    """What is compared, such as "scale_released over layernorm"."""
    estimate: Estimate
    """The number with its interval; of a ratio the logarithm."""
    n_runs: int | None
    """Pairs or runs behind the estimate."""
    question: Question | None = None
    role: Role = "effect"
    unit: str = ""
    statistic: str = ""
    """What the estimate is; empty where it is the statistic of the claim."""
    part: int | Literal["cause"] | None = None
    """The part of the verdict in which the finding counts; None for that of the role: an effect counts in part 0, the
    claim's own number, a control in its CAUSE, and others in none."""
    worst: Estimate = NOTHING
    """The estimate with all that proofs leave open counted."""

    @cached_property
    def finding(self) -> Finding | None:
        """The answer to the question; None if nothing is asked."""
        asked = self.question
        return asked and asked.find(self.estimate, self.worst, asked.number)

    @property
    def counts_in(self) -> int | str | None:
        """The part of the verdict in which the finding counts; None if it counts in none."""
        part = {"effect": 0, "control": CAUSE}.get(self.role) if self.part is None else self.part
        return part if self.question else None

    @property
    def there(self) -> bool:
        """Whether what is asked is there, if only by less than is asked."""
        return self.finding in rules.THERE

    @property
    def met(self) -> bool | None:
        """Whether what is asked is met; None if that cannot be known, or nothing is asked."""
        return None if self.finding in (None, Finding.UNDECIDED) else self.finding == Finding.SEEN

    def shown(self, *columns: str) -> dict[str, float]:
        """Return the estimate and the ends of its interval, in its unit, under the names of three columns."""
        estimate = self.estimate.map(np.exp) if self.unit == RATIO else self.estimate
        return dict(zip(columns, estimate, strict=True))


@dataclass(frozen=True)
class Outcome:
    """The comparisons of a test, and what no comparison shows."""

    comparisons: tuple[Comparison, ...]
    """The first is the claim's own: its estimate is `measured`, and its runs are those of the claim."""
    reason: str = ""
    reported: float | None = None
    """What the source gives for the first estimate, in its unit; None if it gives no number."""
    also_passed_by: str | None = None
    """Models without what the claim is about that pass the test too, such as UNTRAINED; None if none do."""
    specifics: str = ""
    """A sentence that table `claims` appends to the claim's statement, on sizes without which it cannot be read."""
    not_trained: bool = False
    """Whether a gate says that there is nothing to judge: then there is no verdict."""
    runs: int = 0
    """Without comparisons, the number of runs that are there and cannot tell."""

    @property
    def effects(self) -> list[Comparison]:
        """The comparisons whose differences are there and count in the verdict."""
        counted = (row for row in self.comparisons if row.counts_in is not None)
        return [row for row in counted if row.question.difference and row.there]

    @property
    def p(self) -> float:
        """The largest p-value of no difference of the first comparison and of `effects`; NaN if one has none."""
        rows = (*self.comparisons[:1], *self.effects)
        return float(np.max([p_value(row.estimate, row.n_runs or 0) for row in rows] or np.nan))

    def findings(self) -> tuple[list[Finding], Finding]:
        """Return the findings of the parts of the verdict, and that of its CAUSE: seen if nothing is asked of it."""
        parts = {row.counts_in for row in self.comparisons} - {None, CAUSE}
        *of_parts, of_cause = (
            all_of(*(row.finding for row in self.comparisons if row.counts_in == part))
            for part in (*sorted(parts), CAUSE)
        )
        return of_parts, of_cause


def sentences(*texts: str) -> str:
    """Return the texts that are not empty as one text, with spaces between them."""
    return " ".join(filter(None, texts))
