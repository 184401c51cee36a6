"""How a verdict is reached: every threshold with its reason, and what each word of a verdict means.

An effect is measured on a scale where 0 is no effect, as a mean over seeds with its interval (Student's). With e the
effect that the paper reports, a comparison finds it

seen if the mean is at least e / 2 and the interval lies above 0 smaller if the interval lies above 0 and the mean is
less than e / 2: it is there, less than half as large absent if the interval holds 0 and ends below e / 2 reversed if
the interval lies below 0 undecided otherwise: the runs cannot tell

e / 2 and not e, because sizes, seeds and steps differ from the paper's and it is the effect that is at issue, not its
last digit; and half is as near to "as reported" as to "nothing". Ratios are compared by their logarithms.

Two comparisons make the verdict on a claim of the paper: the paper's own, and the one that isolates the claimed cause
(the control).

paper's own isolated verdict absent, reversed any does not hold undecided any inconclusive seen seen holds seen
smaller partial smaller seen or smaller partial seen, smaller absent or reversed confounded seen, smaller undecided
inconclusive

A claim of the paper that says more than its number is partial where the number would make it hold and a part of the
rest is not there.

A statement of another document, or a question of this repository, has parts, and may name a cause. A part counts as
there if it is seen or smaller, and as not there if it is absent or reversed.

parts cause verdict all not there any does not hold some there, some not any partial some undecided, the rest alike
any inconclusive all there undecided inconclusive all there, at least one smaller seen, smaller, absent ... partial
all seen smaller, absent or reversed partial all seen seen holds

A primary claim whose verdict says that an effect is there has it only if its p-value with Holm's correction for the
number of primary claims is below 5 %; else it is inconclusive. The p-value is the largest of those of the claim's own
number and of all effects that are found, since the verdict rests on all of them.

Some experiments were run on two sets of seeds, the second after a look at the first. Intervals of the claims that
read both sets cover 97.5 % instead of 95 %, and p-values count twice (Bonferroni).
"""

from collections.abc import Sequence
from enum import StrEnum

from layernorm_roles.evidence.analysis import attention_by_step
from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.variants import PAPER_PROJECTION

TEST_LOSS = 0.5
"""Nats per token. Steps are counted to this test loss: the paper's slow variant ends near it, 0.42 at step 5,000."""

ACCURACY_STEP = 5000
"""The step for which the paper's accuracy with and without projection can be read off its figure."""

_MAJORITY, _MODELS = reported()["majority"], reported()["language_model"]
_WITH, _WITHOUT = (_MAJORITY[name] for name in PAPER_PROJECTION)
STEPS_RATIO = _MAJORITY["steps_ratio"]
"""How many times the steps the paper needs without projection."""

ACCURACY_GAP = 100 * (_WITH["test_accuracy"][ACCURACY_STEP] - _WITHOUT["test_accuracy"][ACCURACY_STEP])
"""Points by which projection raises the accuracy in the paper's Figure 3."""

TRAIN_GAP, VALID_GAP = (
    round(_MODELS["projection"][loss] - _MODELS["layernorm"][loss], 3)
    for loss in ("train_loss", "valid_loss")
)
"""Nats per token by which scaling lowers the two losses in the paper's Figure 4, as the plot was read."""

TABLES = {"table_1": _MODELS["table_1"]["projection"], "table_2": _MODELS["table_2"]["before_norm"]}
"""Per cent of unselectable keys in layers 1 to 4 in the paper's tables."""

ZERO = 1.0
"""Per cent. What the paper prints as 0 may be this much: an eps of 1e-5 leaves keys slightly off their sphere."""

ALL = 95.0
"""Per cent of matrices. What the paper draws as "always" is at least this; 100 in 100 have an interval from 96.4."""

CONTRADICTION = 5.0
"""Standard errors of the mean z-score from 0: a simulation that is further from the exact expectation is wrong."""

HIGH_DIMENSION = 13
"""Dimension of the keys from which on the paper finds no unselectable key among random ones."""

EQUAL = 0.99
"""Attention counts as equal over the classes if its perplexity is this share of their number (1: exactly equal).
Untrained models have about 0.90 and trained ones 0.994 or more. (Chosen after a look at trained runs, which are not
those that it judges.)"""

NEARER = 2.0
"""Factor by which the standard deviation of attention scores must fall for attention to be nearer to equal. The
paper's slides give no number. (Chosen after a look at trained runs, which are not those that it judges.)"""

FLAT = 1e-3
"""Keys lie on a plane if their smallest singular value is at most this share of the largest. Float32 rounds a
projection to 6e-8 |x| / |Px|, and trained x can be nearly parallel to the ones vector. (The one threshold changed
after a look at runs: it was 1e-5, and one of six runs with LayerNorm has 2e-5 by rounding; without, it is 0.2 to 1.)
"""

ROUNDING = 1e-9
"""Two float64 computations agree if they differ by no more than this, relative to the result."""

TENFOLD = 1.0
"""Decades. Gradients that differ by more than a factor of 10 between first and last layer vanish or explode."""

CLOSE = 1e-3
"""Root mean square below which a vector counts as very close to the origin; LayerNorm makes it about 1."""

RADIUS = 0.01
"""A vector is scaled to the radius √n if its length is within this share of √n."""

TRAINS = 0.5
"""A run has learnt to attend once it is this share of the way from the loss without attention down to LayerNorm's at
its best learning rate; it trains if it ends this share of the way from the loss of the tokens' frequencies down to
the loss without attention. Half, since runs end near one of the two losses."""

PAIRS = 10
"""Pairs of runs, at least, behind a ratio of the steps to learning to attend: a run learns it at some step or much
later, so that Student's interval of few pairs says little."""

ACCURATE_RATE = 0.03
"""Learning rate at which the accuracies at the end are compared. At the paper's .001 the ten runs of a norm end in
two groups, of which no mean tells; at .03 the differences of pairs have a deviation of a few tenths of a point.
(Chosen after a look at runs with other seeds.)"""

QUARTER = 0.25
"""Two things count as equal if they differ by no more than this share of the effect that their difference would have
to explain. It is half of the share from which on an effect counts as being as large as the reported one."""

ONSET = attention_by_step.ONSET
"""Nats per token. A model attends if making all scores 0, so that queries attend equally to all keys, adds more than
this to its loss: less than half of the gap that Figure 4 shows."""

BYTES_A_TOKEN = 4.1
"""Bytes of a token of the text's byte-level BPE, on average: a loss per token over this is one per byte."""

MOVED = 0.01
"""Total variation. A projection is idle if leaving it out, or adding it, moves at most this share of a query's
attention, mean over queries and heads: a hundredth of it goes to other keys."""

ATTENTION = 0.3
"""Nats per token. A language model uses its attention if removing it costs at least this: six times the gap of Figure
4, so that what is found about trained attention could show in the loss."""

SMALL_EFFECT = 0.02
"""Nats per token. The loss increase under uniform attention of a model whose attention matters, docs/step_size.md."""

NO_EFFECT = 0.005
"""Nats per token. The loss increase under uniform attention of a model whose attention does not matter, at the
paper's rate, docs/step_size.md."""


class Verdict(StrEnum):
    """The verdict on a claim. The dictionary MEANINGS of this module explains each."""

    HOLDS = "holds"
    PARTIAL = "partial"
    CONFOUNDED = "confounded"
    DOES_NOT_HOLD = "does not hold"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not run here"


MEANINGS = {
    Verdict.HOLDS: "The effect is there, at least half as large as reported; where a cause is claimed, it makes it.",
    Verdict.PARTIAL: "The effect is smaller than half of the reported one, or only part of the claim holds.",
    Verdict.CONFOUNDED: "The effect is there, but not where only the claimed cause differs.",
    Verdict.DOES_NOT_HOLD: "The effect is not there, or it is the opposite.",
    Verdict.INCONCLUSIVE: "The runs cannot tell: an interval is too wide, or the models are hardly trained.",
    Verdict.NOT_RUN: "This reproduction lacks runs that the test needs.",
}
"""What each word of a verdict on a claim means, as the report tells its reader."""

OF_EFFECTS = {Verdict.HOLDS, Verdict.PARTIAL, Verdict.CONFOUNDED}
"""Verdicts by which an effect is there: on primary claims they need a corrected p below 5 %."""


class Finding(StrEnum):
    """What one comparison shows: the claimed effect is seen, smaller, absent, reversed or undecided.

    "Smaller" means there, but below the least size that matters; "undecided", that the interval is too wide to tell.
    """

    SEEN = "seen"
    SMALLER = "smaller"
    ABSENT = "absent"
    REVERSED = "reversed"
    UNDECIDED = "undecided"


THERE = {Finding.SEEN, Finding.SMALLER}
"""Findings by which an effect has the claimed direction, whatever its size."""

NOT_THERE = {Finding.ABSENT, Finding.REVERSED}
"""Findings by which there is no effect, or one in the opposite direction."""


def effect(estimate: Estimate, least: float) -> Finding:
    """Return the finding on an effect, 0 for none: seen, smaller, absent, reversed or undecided.

    With its interval above 0, it is seen if its mean is at least `least`, else smaller. With the interval below 0, it
    is reversed. With 0 in the interval, it is absent if the interval ends below `least`, else undecided. `least` is
    half of the reported effect or the smallest that matters; it is 0 if only the sign counts.
    """
    if estimate.high < 0:
        return Finding.REVERSED
    if estimate.low > 0:
        return Finding.SEEN if estimate.mean >= least else Finding.SMALLER
    return Finding.ABSENT if estimate.high < least else Finding.UNDECIDED


def half_or_none(estimate: Estimate, least: float) -> Finding:
    """Return the finding on an effect: seen, absent, reversed or undecided.

    An effect of 0 is none. With its interval above 0, it is seen if its mean is at least `least`, else absent. With
    the interval below 0, it is reversed. With 0 in the interval, it is absent if that ends below `least`, else
    undecided.
    """
    finding = effect(estimate, least)
    return Finding.ABSENT if finding == Finding.SMALLER else finding


def above(estimate: Estimate, threshold: float) -> Finding:
    """Return the finding on whether `estimate` is above `threshold`.

    It is seen if the whole interval is above the threshold, absent if no part of it is, and otherwise undecided.
    """
    if estimate.low > threshold:
        return Finding.SEEN
    return Finding.ABSENT if estimate.high <= threshold else Finding.UNDECIDED


def at_most(estimate: Estimate, threshold: float, worst: Estimate | None = None) -> Finding:
    """Return the finding on whether `estimate` is at most `threshold`.

    It is seen if the whole interval is at or below the threshold, absent if all of it is above, otherwise undecided.
    `worst` is the estimate with all undecided cases counted; if given, its interval decides between seen and
    undecided.
    """
    if above(estimate, threshold) == Finding.SEEN:
        return Finding.ABSENT
    return Finding.SEEN if above(worst or estimate, threshold) == Finding.ABSENT else Finding.UNDECIDED


def all_of(*findings: Finding) -> Finding:
    """Return the finding on a statement with several parts, from the findings on the parts.

    It is reversed if all parts are reversed. Otherwise the first that applies decides: absent if any part is absent
    or reversed, undecided if any is undecided, smaller if any is smaller, seen if all are seen.
    """
    if set(findings) == {Finding.REVERSED}:
        return Finding.REVERSED
    if NOT_THERE & set(findings):
        return Finding.ABSENT
    return next((each for each in (Finding.UNDECIDED, Finding.SMALLER) if each in findings), Finding.SEEN)


def verdict(own: Finding, isolated: Finding = Finding.SEEN, *rest: Finding) -> Verdict:
    """Return the verdict on a claim of the paper, from the findings on its number, its cause and its other parts.

    `own` is the finding on the claim's number, `isolated` on the claimed cause, `rest` those on its other parts.
    """
    if own in NOT_THERE:
        return Verdict.DOES_NOT_HOLD
    if Finding.UNDECIDED in (own, isolated):
        return Verdict.INCONCLUSIVE
    if isolated in NOT_THERE:
        return Verdict.CONFOUNDED
    if own == isolated == Finding.SEEN and not set(rest) & NOT_THERE:
        return Verdict.INCONCLUSIVE if Finding.UNDECIDED in rest else Verdict.HOLDS
    return Verdict.PARTIAL


def statement_verdict(parts: Sequence[Finding], cause: Finding = Finding.SEEN) -> Verdict:
    """Return the verdict on a statement of another document, or on a question of this repository.

    `parts` are the findings on the statement's parts. `cause` is the finding on the cause that it names, seen if
    none.
    """
    found = set(parts)
    if found <= NOT_THERE:
        return Verdict.DOES_NOT_HOLD
    if found & THERE and found & NOT_THERE:
        return Verdict.PARTIAL
    if Finding.UNDECIDED in found | {cause}:
        return Verdict.INCONCLUSIVE
    return Verdict.HOLDS if found | {cause} == {Finding.SEEN} else Verdict.PARTIAL
