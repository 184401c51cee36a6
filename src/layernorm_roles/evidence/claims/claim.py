"""What a claim is, what its test compares, and how the comparisons make its row of the tables.

A test takes the tables of a reproduction and returns an `Outcome`: a list of comparisons, each with what is asked of
it. The verdict follows from the comparisons by `rules`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import LEVEL, NOTHING, Estimate, p_value
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import OUR_WORDS, Finding, Verdict, all_of

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

GEOMETRY = "Untrained models pass this test, too: it shows what geometry gives, and nothing that is learnt."
"""What the reason says of a claim that untrained models pass."""


class Untestable(Exception):
    """Raised by a test that lacks a table, a variant, a step or seeds; the message becomes the reason.

    `runs` is the number of runs that are there and cannot tell; 0 where the reproduction did not run what is tested.
    """

    def __init__(self, message: str, runs: int = 0) -> None:
        super().__init__(message)
        self.runs = runs


# What is asked of an estimate


class Asked(NamedTuple):
    """One kind of question about an estimate, which a number completes."""

    words: str
    """What follows the word "asked"; {} is the number."""
    find: Callable[[Estimate, Estimate, float], Finding]
    """The finding, from the estimate, from the one with all that proofs leave open counted, and from the number."""
    difference: bool = False
    """Whether nothing but a difference from 0 meets it, so that a p-value of no difference belongs to it."""
    share: float = 1.0
    """The share of the given number that is asked; 0 where an entry gives "true" as the number."""


def _at_most(estimate: Estimate, _: Estimate, most: float) -> Finding:
    return rules.OPPOSITE[rules.above(estimate, most)]


ASKED = {
    # at least half of what the source reports, with an interval on its side of no effect
    "half_of": Asked("at least {}", lambda each, _, half: rules.effect(each, 2 * half), True, 0.5),
    "more_than": Asked("more than {}", lambda each, _, least: rules.above(each, least), True),
    "no_more_than": Asked("at most {}", _at_most),
    "below_half_of": Asked("at most {}", _at_most, share=0.5),
    "counted": Asked("at most {}, undecided keys counted", rules.at_most),
    "positive": Asked("more than {}", lambda each, *_: rules.direction(each), True, 0.0),
    "negative": Asked("less than {}", lambda each, *_: rules.direction(each.below(0.0)), True, 0.0),
    # a loss above another one; absent if both diverged in every run, where the difference is 0
    "worse": Asked(
        "more than {}", lambda each, *_: Finding.ABSENT if each == (0, 0, 0) else rules.direction(each)
    ),
    "further_than": Asked("more than {}, up or down", lambda each, _, least: rules.beyond(each, least)),
    "no_further_than": Asked(
        "at most {}, up or down", lambda each, _, most: rules.OPPOSITE[rules.beyond(each, most)]
    ),
    "within_EXPONENT_of": Asked(
        f"within {rules.EXPONENT:g} of {{}}", lambda each, _, power: rules.within(each, power, rules.EXPONENT)
    ),
    # of the range of values in which nothing is random
    "all_at_most": Asked("all at most {}", lambda each, _, most: rules.true(each.high <= most)),
    "all_more_than": Asked("all more than {}", lambda each, _, least: rules.true(each.low > least)),
}
"""What may be asked of an estimate, by the name that entries of the YAML files give it."""


class Question(NamedTuple):
    """What is asked of one estimate."""

    words: str
    find: Callable[[Estimate, Estimate], Finding]
    """The finding, from the estimate and from the one with all that proofs leave open counted."""
    difference: bool = False
    """Whether nothing but a difference from 0 meets it."""


def ask(kind: str, number: float = 1.0, unit: str = "") -> Question:
    """The question of a kind of ASKED with its number, in the unit of the estimate."""
    words, find, difference, share = ASKED[kind]
    bound = share * (np.log(number) if unit == RATIO else number)
    written = np.exp(bound) if unit == RATIO else bound
    return Question(
        words.format(f"{written:.3g}"), lambda estimate, worst: find(estimate, worst, bound), difference
    )


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
        return self.question and self.question.find(self.estimate, self.worst)

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

    @property
    def shown(self) -> Estimate:
        """The estimate in its unit."""
        return self.estimate.map(np.exp) if self.unit == RATIO else self.estimate


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

    def findings(self) -> dict[int | str, Finding]:
        """The finding of each part of the verdict and of its CAUSE, which is seen if nothing is asked of it."""
        parts = {row.counts_in for row in self.comparisons} - {None, CAUSE}
        return {
            part: all_of(*(row.finding for row in self.comparisons if row.counts_in == part))
            for part in (*sorted(parts), CAUSE)
        }


@dataclass(frozen=True, kw_only=True)
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
    """The unit as it is written after the number; RATIO marks a ratio."""
    control: str
    """What isolates the claimed cause; the control that has a number of its own comes first."""
    rule: str
    """In words, when the claim counts as reproduced, or when the statement holds."""
    tables: tuple[str, ...]
    """Tables without which the claim cannot be tested."""
    test: Callable[[Tables], Outcome]
    sizes: Callable[[Tables], str]
    """Sizes of the run at hand, beside the source's, as a sentence; empty if the tables do not tell."""
    figures: tuple[str, ...]
    """Names of the figures that show the claim."""
    shown: tuple[str, ...]
    """Names of the readable tables that show the claim."""
    target: str
    """The workflow's target that makes all that the claim needs."""
    primary: bool
    """Whether the claim is one of the few that were named before the run, see `role`."""
    of: tuple[str, ...]
    """The experiments and models that the test reads; empty if it reads whole tables."""
    numbers: Mapping[str, Any]
    """The comparisons asked for, as the entry has them, with the numbers that its texts and comparisons name."""

    @property
    def words(self) -> dict[str, str]:
        """The texts that make the rule, by the names of their fields, and the role."""
        texts = ("statement", "setting", "statistic", "control", "rule", "unit", "role")
        return {name: getattr(self, name) for name in texts}

    @property
    def of_paper(self) -> bool:
        """Whether the claim is the paper's, in a setting of the paper's, and not one that was taken elsewhere."""
        return self.source.startswith("Brody") and ";" not in self.source

    @property
    def role(self) -> str:
        """The column `role` of table claims."""
        if self.primary:
            return "primary"
        return "other documents" if self.part == "documents" else "exploratory"

    def judge(self, tables: Tables) -> Outcome:
        """The outcome of the test on `tables`, without comparisons if they lack what the test needs."""
        try:
            if missing := [name for name in self.tables if name not in tables]:
                raise Untestable(f"This run has no {' and no '.join(missing)}.parquet.")
            return self.test(tables)
        except Untestable as lack:
            return Outcome((), str(lack), runs=lack.runs)

    def verdict(self, outcome: Outcome) -> Verdict:
        """The verdict that the comparisons make: for claims of the paper by the first table of `rules`."""
        if outcome.not_trained or not outcome.comparisons:
            return Verdict.NOT_TESTED
        findings = outcome.findings()
        cause = findings.pop(CAUSE)
        if not self.source.startswith("Brody"):
            return rules.statement_verdict([*findings.values()], cause)
        verdict = rules.verdict(findings.pop(0), cause, *findings.values())
        return verdict if self.of_paper else OUR_WORDS.get(verdict, verdict)

    def row(self, outcome: Outcome, tables: Tables) -> dict[str, Any]:
        """The row of table `claims`, but for the columns that need the hash of the rule or the other claims."""
        first = (*outcome.comparisons, Comparison("", NOTHING, outcome.runs))[0]
        in_unit = (
            row.shown for row in outcome.comparisons if (row.role, row.unit) == ("control", first.unit)
        )
        untrained = GEOMETRY if outcome.also_passed_by == UNTRAINED else ""
        return {
            "claim": self.name,
            "role": self.role,
            "source": self.source,
            "statement": sentences(self.statement, outcome.specifics),
            "setting": sentences(self.setting, self.sizes(tables)),
            "paper_value": self.paper_value,
            "statistic": self.statistic,
            **dict(zip(("measured", "ci_low", "ci_high"), first.shown, strict=True)),
            "reported": outcome.reported,
            "control": self.control,
            **{
                f"control_{end}": number
                for end, number in zip(("measured", "low", "high"), next(in_unit, NOTHING), strict=True)
            },
            "also_passed_by": outcome.also_passed_by,
            "n_seeds": first.n_runs,
            "verdict": str(self.verdict(outcome)),
            "reason": sentences(outcome.reason, untrained),
        }

    def corrected(
        self, row: Mapping[str, Any], outcome: Outcome, p_holm: float, family: int
    ) -> dict[str, Any]:
        """The row of a primary claim with `p_holm`, its p-value with Holm's correction for `family` primary claims.

        A verdict that rests on effects which the correction leaves open is not tested.
        """
        rests = row["verdict"] in rules.OF_EFFECTS and (outcome.effects or row["verdict"] == Verdict.REVERSED)
        if not rests or p_holm < 1 - LEVEL:
            return {**row, "p_holm": p_holm}
        p_is = f"p is {p_holm:.2g}" if np.isfinite(p_holm) else "a bound has no p-value"
        why = f"No verdict, because with Holm's correction for {family} primary claims {p_is}."
        verdict = {"verdict": str(Verdict.NOT_TESTED), "reason": sentences(row["reason"], why)}
        return {**row, "p_holm": p_holm, **verdict}

    def comparisons(self, outcome: Outcome) -> Iterator[dict[str, Any]]:
        """The rows of table `comparisons`."""
        for number, row in enumerate(outcome.comparisons, start=1):
            yield {
                "claim": self.name,
                "number": number,
                "comparison": row.words,
                "statistic": row.statistic or self.statistic,
                **dict(zip(("estimate", "ci_low", "ci_high"), row.shown, strict=True)),
                "unit": row.unit,
                "n_runs": row.n_runs,
                "asked": row.question.words if row.question else "",
                "met": row.met,
                "role": row.role,
            }


def sentences(*texts: str) -> str:
    """The texts that are not empty, with spaces between them."""
    return " ".join(filter(None, texts))


def enough(values: pd.Series, what: str) -> pd.Series:
    """The values, of which there is one a seed; Untestable, naming `what`, with fewer than two seeds."""
    if len(values) < 2:
        count = f"only {len(values)} seed" if len(values) else "no run"
        raise Untestable(f"The run has {count} of {what}: no interval over seeds.")
    return values


def refuse_rate_at_grid_end(at_end: pd.Series, rates: pd.Series, what: str) -> None:
    """Raise Untestable if one of the chosen learning rates is the first or the last of those that were tried.

    Beyond the end of a grid a better rate may lie. `at_end` says so of each of the `rates` with which `what` was
    trained.
    """
    if at_end.any():
        raise Untestable(
            f"{what} is best at a learning rate of {rates[at_end].iloc[0]:g}, the first or last that was tried: a "
            "better one may lie beyond.",
            runs=len(rates),
        )
