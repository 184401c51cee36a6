"""What a claim is, what its test compares, and how the comparisons make its row of the tables.

A test takes the tables of a reproduction and returns an `Outcome`: a list of comparisons, each with what is asked of
it. The verdict follows from the comparisons by `rules`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
"""The part of a verdict that says whether the claimed cause makes the effect; see `Comparison.part`."""

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


@dataclass(frozen=True)
class Asked:
    """What is asked of an estimate, in words that follow the word "asked", and what is found."""

    words: str
    find: Callable[..., Finding]
    """From the estimate, and from the same with all that proofs leave open counted."""
    number: float | None = None
    """The number that takes the place of {} in the words; of a ratio its logarithm."""
    of_effect: bool = False
    """Whether it is met by nothing but a difference from 0, so that a p-value of no difference belongs to it."""

    def text(self, unit: str) -> str:
        """The words, with the number as it is written in the unit."""
        number = self.number if self.number is None or unit != RATIO else np.exp(self.number)
        return self.words if number is None else self.words.format(f"{number:.3g}")


_NOTHING = (0.0, 0.0, 0.0)
ASKED: dict[str, Callable[[Any], Asked]] = {
    # at least half of what the source reports, with an interval on its side of no effect
    "half_of": lambda all_: Asked("at least {}", lambda found, _: rules.effect(found, all_), all_ / 2, True),
    "more_than": lambda least: Asked("more than {}", lambda found, _: rules.above(found, least), least, True),
    "no_more_than": lambda most: Asked(
        "at most {}", lambda found, _: rules.OPPOSITE[rules.above(found, most)], most
    ),
    "below_half_of": lambda all_: Asked(
        "at most {}", lambda found, _: rules.OPPOSITE[rules.above(found, all_ / 2)], all_ / 2
    ),
    # with all that proofs leave open counted
    "counted": lambda most: Asked(
        "at most {}, undecided keys counted", lambda found, worst: rules.at_most(found, worst, most), most
    ),
    "positive": lambda _: Asked("more than {}", lambda found, _: rules.direction(found), 0.0, True),
    "negative": lambda _: Asked(
        "less than {}", lambda found, _: rules.direction(found.below(0.0)), 0.0, True
    ),
    # a loss above another one; absent if both diverged in every run, where the difference is 0
    "worse": lambda _: Asked(
        "more than 0", lambda found, _: Finding.ABSENT if found == _NOTHING else rules.direction(found)
    ),
    "further_than": lambda least: Asked(
        "more than {}, up or down", lambda found, _: rules.beyond(found, least), least
    ),
    "no_further_than": lambda most: Asked(
        "at most {}, up or down", lambda found, _: rules.OPPOSITE[rules.beyond(found, most)], most
    ),
    "within_EXPONENT_of": lambda number: Asked(
        f"within {rules.EXPONENT:g} of {number:g}",
        lambda found, _: rules.within(found, number, rules.EXPONENT),
    ),
    # of the range of values in which nothing is random
    "all_at_most": lambda most: Asked(
        f"all at most {most:g}", lambda found, _: rules.true(found.high <= most)
    ),
    "all_more_than": lambda least: Asked(
        f"all more than {least:g}", lambda found, _: rules.true(found.low > least)
    ),
}
"""What may be asked of an estimate, by name, as a function of a number; of a ratio its logarithm."""


# What a test returns


@dataclass(frozen=True)
class Comparison:
    """A row of table `comparisons`: what is compared, what is found, what is asked of it."""

    comparison: str
    """What is compared, in words, such as "scale_released over layernorm"."""
    estimate: Estimate
    """The number with its interval, in `unit`."""
    n_runs: int | None
    """Pairs or runs behind the estimate."""
    asked: str
    """What is asked of the estimate, such as "at least 1.73"; empty if nothing is."""
    finding: Finding | None
    role: Role
    unit: str
    statistic: str
    """What the estimate is; empty where it is the statistic of the claim."""
    part: int | Literal["cause"] | None
    """The part of the verdict in which the finding counts: 0 is the claim's own, CAUSE the cause, None is no part."""
    of_effect: bool = False
    """Whether what is asked is met by nothing but a difference from 0, see `Asked.of_effect`."""

    @property
    def p(self) -> float:
        """The p-value of no difference, on the scale of the interval; NaN without Student's interval."""
        with np.errstate(divide="ignore"):
            found = self.estimate.map(np.log) if self.unit == RATIO else self.estimate
        return p_value(found, self.n_runs or 0)

    @property
    def met(self) -> bool | None:
        """Whether what is asked is met; None if that cannot be told, or nothing is asked."""
        unknown = self.finding in (None, Finding.UNDECIDED)
        return None if unknown else self.finding == Finding.SEEN

    @property
    def there(self) -> bool:
        """Whether what is asked is there, if only by less than is asked."""
        return self.finding in rules.THERE


def compare(
    comparison: str,
    estimate: Estimate,
    n_runs: int | None,
    asked: Asked | None = None,
    role: Role = "effect",
    unit: str = "",
    statistic: str = "",
    part: int | Literal["cause"] | None = -1,
    worst: Estimate = NOTHING,
) -> Comparison:
    """A comparison with its finding. An estimate in the unit RATIO is given as a logarithm, and kept as the ratio.

    Without another `part` an effect counts in the claim's own number, a control in its cause, and others in none.
    `worst` is the estimate with all that proofs leave open counted.
    """
    if part == -1:
        part = {"effect": 0, "control": CAUSE}.get(role)
    finding = asked.find(estimate, worst) if asked else None
    shown = estimate.map(np.exp) if unit == RATIO else estimate
    words = asked.text(unit) if asked else ""
    of_effect = asked is not None and asked.of_effect
    return Comparison(comparison, shown, n_runs, words, finding, role, unit, statistic, part, of_effect)


@dataclass(frozen=True)
class Outcome:
    """What a test found."""

    comparisons: tuple[Comparison, ...]
    """The first is the claim's own: its estimate is `measured`, and its runs are those of the claim."""
    reason: str = ""
    """A sentence on what no comparison shows."""
    reported: float | None = None
    """What the source gives for the first estimate, in its unit; None if it gives no number."""
    also_passed_by: str | None = None
    """Models without what the claim is about that pass the test too, such as UNTRAINED; None if none do."""
    specifics: str = ""
    """A sentence that table `claims` appends to the claim's statement, on sizes without which it cannot be read."""
    shut: bool = False
    """Whether a gate is shut: then there is no verdict."""
    runs: int = 0
    """Without comparisons, the number of runs that are there and cannot tell."""

    @property
    def control(self) -> Estimate:
        """The first control that is in the unit of the first estimate; NOTHING without one."""
        unit = self.comparisons[0].unit if self.comparisons else ""
        controls = (row.estimate for row in self.comparisons if row.role == "control" and row.unit == unit)
        return next(controls, NOTHING)

    @property
    def effects(self) -> list[Comparison]:
        """The comparisons whose differences from none are there, as far as they count in the verdict."""
        return [row for row in self.comparisons if row.part is not None and row.of_effect and row.there]

    @property
    def p(self) -> float:
        """The largest p-value of `effects`, all of which the verdict needs; without any, that of the first comparison.

        NaN if one of them has none.
        """
        if not self.comparisons:
            return np.nan
        return float(np.max([row.p for row in self.effects or self.comparisons[:1]]))

    def finding(self, part: int | str) -> Finding:
        """What is found of all comparisons of one part of the verdict; seen if there are none."""
        return all_of(*(row.finding for row in self.comparisons if row.part == part and row.finding))

    @property
    def parts(self) -> list[int]:
        """The parts of the verdict, without its cause."""
        return sorted({row.part for row in self.comparisons if row.finding and row.part not in (None, CAUSE)})


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
    figures: tuple[str, ...] = ()
    """Names of the figures that show the claim."""
    shown: tuple[str, ...] = ()
    """Names of the readable tables that show the claim."""
    target: str = ""
    """The workflow's target that makes all that the claim needs."""
    primary: bool = False
    """Whether the claim is one of the few that were named before the run, see `role`."""
    of: tuple[str, ...] = ()
    """The experiments and models that the test reads; empty if it reads whole tables."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
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
        """What the test finds in `tables`; an outcome without comparisons if they lack what the test needs."""
        try:
            missing = [name for name in self.tables if name not in tables]
            if missing:
                raise Untestable(f"This run has no {' and no '.join(missing)}.parquet.")
            return self.test(tables)
        except Untestable as lack:
            return Outcome((), str(lack), runs=lack.runs)

    def verdict(self, outcome: Outcome) -> Verdict:
        """The verdict that the comparisons make: for claims of the paper by the first table of `rules`."""
        if outcome.shut or not outcome.comparisons:
            return Verdict.NOT_TESTED
        findings, cause = {part: outcome.finding(part) for part in outcome.parts}, outcome.finding(CAUSE)
        if not self.source.startswith("Brody"):
            return rules.statement_verdict([*findings.values()], cause)
        own = findings.pop(0)
        found = rules.verdict(own, cause, *findings.values())
        return found if self.of_paper else OUR_WORDS.get(found, found)

    def row(self, outcome: Outcome, tables: Tables) -> dict[str, Any]:
        """The row of table `claims`, but for the columns that need the hash of the rule or the other claims."""
        first = outcome.comparisons[0] if outcome.comparisons else compare("", NOTHING, outcome.runs)
        measured, control = first.estimate, outcome.control
        untrained = GEOMETRY if outcome.also_passed_by == UNTRAINED else ""
        return {
            "claim": self.name,
            "role": self.role,
            "source": self.source,
            "statement": " ".join(filter(None, (self.statement, outcome.specifics))),
            "setting": " ".join(filter(None, (self.setting, self.sizes(tables)))),
            "paper_value": self.paper_value,
            "statistic": self.statistic,
            "measured": measured.mean,
            "ci_low": measured.low,
            "ci_high": measured.high,
            "reported": outcome.reported,
            "control": self.control,
            "control_measured": control.mean,
            "control_low": control.low,
            "control_high": control.high,
            "also_passed_by": outcome.also_passed_by,
            "n_seeds": first.n_runs,
            "verdict": str(self.verdict(outcome)),
            "reason": " ".join(filter(None, (outcome.reason, untrained))),
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
        found = f"p is {p_holm:.2g}" if np.isfinite(p_holm) else "a bound has no p-value"
        why = f"No verdict, because with Holm's correction for {family} primary claims {found}."
        reason = " ".join(filter(None, (row["reason"], why)))
        return {**row, "p_holm": p_holm, "verdict": str(Verdict.NOT_TESTED), "reason": reason}

    def comparisons(self, outcome: Outcome) -> Iterator[dict[str, Any]]:
        """The rows of table `comparisons`."""
        for number, row in enumerate(outcome.comparisons, start=1):
            numbers = zip(("estimate", "ci_low", "ci_high"), row.estimate, strict=True)
            yield {
                "claim": self.name,
                "number": number,
                "comparison": row.comparison,
                "statistic": row.statistic or self.statistic,
                **dict(numbers),
                "unit": row.unit,
                "n_runs": row.n_runs,
                "asked": row.asked,
                "met": row.met,
                "role": row.role,
            }


# Estimates over seeds, for tests


def enough(values: pd.Series, what: str) -> pd.Series:
    """The values, of which there is one a seed; Untestable, naming `what`, with fewer than two seeds."""
    if len(values) < 2:
        count = f"only {len(values)} seed" if len(values) else "no run"
        raise Untestable(f"The run has {count} of {what}: no interval over seeds.")
    return values


def over_seeds(values: pd.Series, what: str) -> Estimate:
    """Mean and interval of one value a seed; Untestable, naming `what`, with fewer than two seeds."""
    return Estimate.of(enough(values, what))


def paired(high: pd.Series, low: pd.Series, what: str) -> tuple[Estimate, int]:
    """Mean and interval of the differences high - low over the seeds that both have, and the number of these pairs."""
    differences = (high - low).dropna()
    return over_seeds(differences, what), len(differences)


def refuse_rate_at_grid_end(at_end: pd.Series, chosen: pd.Series, what: str, does: str = "is best") -> None:
    """Raise Untestable if one of the chosen learning rates is the first or the last of those that were tried.

    Beyond the end of a grid a better rate may lie, whatever is judged at the best one. `at_end` says so of each of
    the `chosen` rates; `what` was trained with them, and `does` says in words what they were chosen for.
    """
    if at_end.any():
        raise Untestable(
            f"{what} {does} at a learning rate of {chosen[at_end].iloc[0]:g}, the first or last that was tried: a "
            "better one may lie beyond.",
            runs=len(chosen),
        )
