"""How a verdict is reached: every threshold, with its reason, fixed before any full run was judged.

One rule for all that has a number in the paper. An effect is measured on a scale where 0 is no effect, as a mean over
seeds with its 95 % interval (Student's). With e the effect that the paper reports:

    seen         the mean is at least e / 2, and the interval lies above 0
    absent       the interval lies below e / 2
    undecided    anything else: the runs cannot tell

e / 2 and not e, because sizes, seeds and steps differ from the paper's and it is the effect that is at issue, not its
last digit; and half is as near to "as reported" as to "nothing". Ratios are compared by their logarithms.

Two comparisons make a verdict: the paper's own, and the one that isolates the claimed cause (the control).

    paper's own    isolated      verdict
    absent         any           not reproduced
    undecided      any           not tested
    seen           seen          reproduced
    seen           absent        confounded: the effect is there, the claimed cause is not what makes it
    seen           undecided     not tested
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.statement_findings import Estimate

TEST_LOSS = 0.5
"""Nats per token. Steps are counted to this test loss: the paper's slow variant ends near it, 0.42 at step 5,000."""

ANGLE_STEP, ACCURACY_STEP = 4000, 5000
"""The first step for which the paper's angle, and the step for which its accuracy, can be read off its figures. The
angle is compared at the last step, which must not come before; the accuracy at this step."""

ZERO = 1.0
"""Per cent. What the paper prints as 0 may be this much: an eps of 1e-5 leaves keys slightly off their sphere."""

ALL = 95.0
"""Per cent. What the paper draws as "always" is at least this; the exact interval of 100 in 100 begins at 96.4."""

HIGH_DIMENSION = 13
"""From this dimension on the paper finds no unselectable random key."""

EQUAL = 0.9
"""Attention counts as equal over the keys if its perplexity is this share of their number (1: exactly equal)."""

FLAT = 1e-3
"""Keys lie on a plane if their smallest singular value is at most this share of the largest. Float32 rounds a
projection to 6e-8 |x| / |Px|, and trained x can be nearly parallel to the ones vector. (The one threshold changed
after a look at runs: it was 1e-5, and one of six runs with LayerNorm has 2e-5 by rounding; without, it is 0.2 to 1.)
"""

ROUNDING = 1e-9
"""Two float64 computations agree if they differ by no more than this, relative to the result."""

TENFOLD = 1.0
"""Decades. Gradients that differ by more than a factor of 10 between first and last layer vanish or explode."""

EXPONENT = 0.05
"""A measured power law has the predicted exponent if the whole interval is within this of it."""


class Verdict(StrEnum):
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CONFOUNDED = "confounded"
    NOT_TESTED = "not tested"


class Finding(StrEnum):
    """Of one comparison."""

    SEEN = "seen"
    ABSENT = "absent"
    UNDECIDED = "undecided"


def effect(estimate: Estimate, reported: float) -> Finding:
    """Is an effect of the reported kind there? The rule at the top of this file."""
    if estimate.mean >= reported / 2 and estimate.low > 0:
        return Finding.SEEN
    return Finding.ABSENT if estimate.high < reported / 2 else Finding.UNDECIDED


def above(estimate: Estimate, threshold: float) -> Finding:
    """Does the whole interval lie above the threshold? Where the paper gives no number, only a statement."""
    if estimate.low > threshold:
        return Finding.SEEN
    return Finding.ABSENT if estimate.high <= threshold else Finding.UNDECIDED


OPPOSITE = {
    Finding.SEEN: Finding.ABSENT,
    Finding.ABSENT: Finding.SEEN,
    Finding.UNDECIDED: Finding.UNDECIDED,
}


def all_of(*findings: Finding) -> Finding:
    """Seen if all are; absent if one is."""
    if Finding.ABSENT in findings:
        return Finding.ABSENT
    return Finding.UNDECIDED if Finding.UNDECIDED in findings else Finding.SEEN


def verdict(own: Finding, isolated: Finding) -> Verdict:
    """The table at the top of this file."""
    if own == Finding.ABSENT:
        return Verdict.NOT_REPRODUCED
    if Finding.UNDECIDED in (own, isolated):
        return Verdict.NOT_TESTED
    return Verdict.REPRODUCED if isolated == Finding.SEEN else Verdict.CONFOUNDED


class Untestable(Exception):
    """Raised by a test that lacks a table, a variant, a step or seeds; the message becomes the reason."""


class Outcome(NamedTuple):
    verdict: Verdict
    measured: Estimate
    n_seeds: int
    reason: str


NOTHING = Estimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class Claim:
    """One claim and its test. All texts are plain; a page or table that shows them escapes them."""

    name: str
    part: str
    """one of PARTS"""
    source: str
    statement: str
    paper_value: str | None
    statistic: str
    """what `measured` is, with its unit"""
    unit: str
    """as written after the number"""
    control: str
    """what isolates the claimed cause"""
    rule: str
    """when it counts as reproduced, in words"""
    tables: tuple[str, ...]
    """of the run's parquet folder; all must be there"""
    test: Callable[[Mapping[str, pd.DataFrame]], Outcome]
    figures: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """tables of the run's tables folder"""
    target: str = ""
    """the rule that makes all that this claim needs"""

    def judge(self, tables: Mapping[str, pd.DataFrame]) -> Outcome:
        """The test's outcome; not tested, with the reason, if the run lacks what the test needs."""
        try:
            missing = [name for name in self.tables if name not in tables]
            if missing:
                raise Untestable(f"This run has no {' and no '.join(missing)}.parquet.")
            return self.test(tables)
        except Untestable as lack:
            return Outcome(Verdict.NOT_TESTED, NOTHING, 0, str(lack))


def over_seeds(values: pd.Series, what: str) -> Estimate:
    """Mean and interval of one value a seed; Untestable with fewer than two seeds."""
    if len(values) < 2:
        count = f"only {len(values)} seed" if len(values) else "no run"
        raise Untestable(f"The run has {count} of {what}: no interval over seeds.")
    return Estimate.of(values)


def paired(high: pd.Series, low: pd.Series, what: str) -> Estimate:
    """Of the differences high - low over the seeds that both have."""
    return over_seeds((high - low).dropna(), what)


def undecided(own: Finding, isolated: Finding = Finding.SEEN) -> str:
    """What a reason says at its end where the runs cannot tell."""
    if own == Finding.UNDECIDED:
        return " The interval is too wide to tell."
    return (
        " The interval of the control is too wide to tell."
        if own == Finding.SEEN and isolated == Finding.UNDECIDED
        else ""
    )
