"""How a verdict is reached: every threshold with its reason, and what each word of a verdict means.

One rule for all that has a number in the paper. An effect is measured on a scale where 0 is no effect, as a mean over
seeds with its 95 % interval (Student's). With e the effect that the paper reports, a comparison finds it

    seen         if the mean is at least e / 2 and the interval lies above 0
    absent       if the interval lies below e / 2
    undecided    otherwise: the runs cannot tell

e / 2 and not e, because sizes, seeds and steps differ from the paper's and it is the effect that is at issue, not its
last digit; and half is as near to "as reported" as to "nothing". Ratios are compared by their logarithms.

Two comparisons make the verdict on a claim of the paper: the paper's own, and the one that isolates the claimed cause
(the control).

    paper's own    isolated      verdict
    absent         any           not reproduced
    undecided      any           not tested
    seen           seen          reproduced
    seen           absent        confounded
    seen           undecided     not tested

A statement of another document, or a question of this repository, has parts, and may name a cause.

    parts                           cause        verdict
    all absent                      any          does not hold
    some seen, some absent          any          partial
    none absent, some undecided     any          not tested
    some undecided, the rest absent any          not tested
    all seen                        seen         holds
    all seen                        absent       partial
    all seen                        undecided    not tested
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate

TEST_LOSS = 0.5
"""Nats per token. Steps are counted to this test loss: the paper's slow variant ends near it, 0.42 at step 5,000."""

ANGLE_STEP, ACCURACY_STEP = 4000, 5000
"""The first step for which the paper's angle can be read off its figures, and the step for which its accuracy can.
The angle is compared at a run's last step, which must not come before; the accuracy at this very step."""

ZERO = 1.0
"""Per cent. What the paper prints as 0 may be this much: an eps of 1e-5 leaves keys slightly off their sphere."""

ALL = 95.0
"""Per cent. What the paper draws as "always" is at least this; the exact interval of 100 in 100 begins at 96.4."""

CONTRADICTION = 5.0
"""Standard errors of the mean z-score from 0: a simulation that is further from the exact expectation is wrong."""

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

WARM_UP = 0.05
"""Nats per token. Post-norm needs a warm-up if it lowers the final loss by more: by so much a run must also be better
than the frequencies of tokens to count as trained."""

EXPONENT = 0.05
"""A measured power law has the predicted exponent if the whole interval is within this of it."""

SIZE = 0.05
"""A standard deviation that is predicted to be 1 is so if the whole interval is within this of it."""

SCORES = 2.0
"""Standard deviation of attention scores, twice that of random unit normals: above, they leave a reasonable range."""

CLOSE = 1e-3
"""Root mean square below which a vector counts as very close to the origin; LayerNorm makes it about 1."""

RADIUS = 0.01
"""A vector is scaled to the radius √n if its radius is within this share of it."""

MOSTLY = 50.0
"""Per cent. Worked numbers are right in part if more of them are right than not."""


class Verdict(StrEnum):
    """The word that ends the judgement of a claim; MEANINGS defines each."""

    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not reproduced"
    CONFOUNDED = "confounded"
    HOLDS = "holds"
    PARTIAL = "partial"
    DOES_NOT_HOLD = "does not hold"
    NOT_TESTED = "not tested"


MEANINGS: dict[Verdict, str] = {
    Verdict.REPRODUCED: (
        "The paper's effect is there, at least half as large as reported, and so it is in the comparison that "
        "isolates the claimed cause."
    ),
    Verdict.NOT_REPRODUCED: "The paper's effect is not there, or less than half as large as reported.",
    Verdict.CONFOUNDED: "The paper's effect is there, but the claimed cause is not what makes it.",
    Verdict.HOLDS: "A statement of another document, or a question of ours: it is right as it stands.",
    Verdict.PARTIAL: "It is right in some of its parts and wrong in others, or right for another reason.",
    Verdict.DOES_NOT_HOLD: "It is wrong.",
    Verdict.NOT_TESTED: "This run lacks what the test needs, or its intervals are too wide to tell.",
}
"""What each word of a verdict means, for the reader of the page."""


class Finding(StrEnum):
    """What one comparison found."""

    SEEN = "seen"
    ABSENT = "absent"
    UNDECIDED = "undecided"


OPPOSITE = {
    Finding.SEEN: Finding.ABSENT,
    Finding.ABSENT: Finding.SEEN,
    Finding.UNDECIDED: Finding.UNDECIDED,
}


def effect(estimate: Estimate, reported: float) -> Finding:
    """Whether an effect of the reported kind is there, by the rule at the top of this file."""
    if estimate.mean >= reported / 2 and estimate.low > 0:
        return Finding.SEEN
    return Finding.ABSENT if estimate.high < reported / 2 else Finding.UNDECIDED


def above(estimate: Estimate, threshold: float) -> Finding:
    """Whether the whole interval lies above the threshold, for statements that come without a number."""
    if estimate.low > threshold:
        return Finding.SEEN
    return Finding.ABSENT if estimate.high <= threshold else Finding.UNDECIDED


def within(estimate: Estimate, predicted: float, tolerance: float) -> Finding:
    """Whether the whole interval is within the tolerance of the predicted value."""
    if max(abs(estimate.low - predicted), abs(estimate.high - predicted)) <= tolerance:
        return Finding.SEEN
    outside = estimate.low > predicted + tolerance or estimate.high < predicted - tolerance
    return Finding.ABSENT if outside else Finding.UNDECIDED


def true(condition: bool | np.bool_) -> Finding:
    """Seen or absent, for a comparison in which nothing is random."""
    return Finding.SEEN if condition else Finding.ABSENT


def all_of(*findings: Finding) -> Finding:
    """Seen if all findings are; absent if one is."""
    if Finding.ABSENT in findings:
        return Finding.ABSENT
    return Finding.UNDECIDED if Finding.UNDECIDED in findings else Finding.SEEN


def verdict(own: Finding, isolated: Finding = Finding.SEEN) -> Verdict:
    """The verdict on a claim of the paper: the first table at the top of this file."""
    if own == Finding.ABSENT:
        return Verdict.NOT_REPRODUCED
    if Finding.UNDECIDED in (own, isolated):
        return Verdict.NOT_TESTED
    return Verdict.REPRODUCED if isolated == Finding.SEEN else Verdict.CONFOUNDED


def statement_verdict(parts: Sequence[Finding], cause: Finding = Finding.SEEN) -> Verdict:
    """The verdict on a statement of another document or a question of ours: the second table at the top."""
    found = set(parts)
    if found == {Finding.ABSENT}:
        return Verdict.DOES_NOT_HOLD
    if {Finding.SEEN, Finding.ABSENT} <= found:
        return Verdict.PARTIAL
    if Finding.UNDECIDED in found | {cause}:
        return Verdict.NOT_TESTED
    return Verdict.HOLDS if cause == Finding.SEEN else Verdict.PARTIAL


class Untestable(Exception):
    """Raised by a test that lacks a table, a variant, a step or seeds; the message becomes the reason."""


NOTHING = Estimate(np.nan, np.nan, np.nan)
"""Stands for a number that was not measured."""


class Outcome(NamedTuple):
    """What a test found."""

    verdict: Verdict
    measured: Estimate
    n_seeds: int
    """Independent runs behind `measured`; 1 where nothing is random."""
    reason: str
    control: Estimate = NOTHING
    """The first control that the claim names, in the unit of `measured`; NOTHING if it is of another kind."""


Tables = Mapping[str, pd.DataFrame]
"""Tables of a reproduction by their names in schemas.SCHEMAS."""


@dataclass(frozen=True)
class Claim:
    """One claim and its test. All texts are plain; a page or table that shows them escapes them."""

    name: str
    part: str
    """Part of the page that the claim belongs to: projection, scaling or documents."""
    source: str
    """Where the claim is made."""
    statement: str
    paper_value: str | None
    """The number that the source gives, as written; None if it gives none."""
    setting: str
    """What differs from the source's setting in every run; `sizes` adds what differs in the run at hand."""
    statistic: str
    """What `measured` is, with its unit."""
    unit: str
    """The unit as it is written after the number."""
    control: str
    """What isolates the claimed cause; the control that has a number of its own comes first."""
    rule: str
    """In words, when the claim counts as reproduced, or when the statement holds."""
    rule_fixed: Literal["before", "after"]
    """Whether the condition that decides was fixed before anyone had looked at data of this kind, or after."""
    tables: tuple[str, ...]
    """Tables without which the claim cannot be tested."""
    test: Callable[[Tables], Outcome]
    sizes: Callable[[Tables], str]
    """Sizes of the run at hand, beside the source's, as a sentence; empty if the tables do not tell."""
    figures: tuple[str, ...] = ()
    """Names of the figures that show the claim."""
    shown: tuple[str, ...] = ()
    """Names of the readable tables that show the claim."""
    target: str = ""
    """The workflow's target that makes all that the claim needs."""

    def judge(self, tables: Tables) -> Outcome:
        """What the test finds in `tables`; not tested, with the reason, if they lack what the test needs."""
        try:
            missing = [name for name in self.tables if name not in tables]
            if missing:
                raise Untestable(f"This run has no {' and no '.join(missing)}.parquet.")
            return self.test(tables)
        except Untestable as lack:
            return Outcome(Verdict.NOT_TESTED, NOTHING, 0, str(lack))


def over_seeds(values: pd.Series, what: str) -> Estimate:
    """Mean and interval of one value a seed; Untestable, naming `what`, with fewer than two seeds."""
    if len(values) < 2:
        count = f"only {len(values)} seed" if len(values) else "no run"
        raise Untestable(f"The run has {count} of {what}: no interval over seeds.")
    return Estimate.of(values)


def paired(high: pd.Series, low: pd.Series, what: str) -> Estimate:
    """Mean and interval of the differences high - low, over the seeds that both have."""
    return over_seeds((high - low).dropna(), what)


def if_any(values: pd.Series) -> Estimate:
    """Mean and interval of one value a seed; of a single seed its value alone, of none NOTHING."""
    if len(values) < 2:
        return NOTHING._replace(mean=float(values.mean()))
    return Estimate.of(values)


def paper_claim(
    own: Finding,
    isolated: Finding,
    measured: Estimate,
    n_seeds: int,
    reason: str,
    control: Estimate = NOTHING,
) -> Outcome:
    """The outcome for a claim of the paper; the reason says at its end what the runs cannot tell."""
    if own == Finding.UNDECIDED:
        reason += " The interval is too wide to tell."
    elif own == Finding.SEEN and isolated == Finding.UNDECIDED:
        reason += " The interval of the control is too wide to tell."
    return Outcome(verdict(own, isolated), measured, n_seeds, reason, control)


def statement(
    parts: Sequence[Finding],
    measured: Estimate,
    n_seeds: int,
    reason: str,
    control: Estimate = NOTHING,
    cause: Finding = Finding.SEEN,
) -> Outcome:
    """The outcome for a statement of another document, or a question of ours; its reason as in `paper_claim`."""
    if Finding.UNDECIDED in parts:
        reason += " In part the runs cannot tell." if len(parts) > 1 else " The interval is too wide to tell."
    elif cause == Finding.UNDECIDED:
        reason += " The interval of the control is too wide to tell."
    return Outcome(statement_verdict(parts, cause), measured, n_seeds, reason, control)
