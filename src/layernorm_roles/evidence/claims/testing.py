"""A claim is a function that compares measured numbers; its words, the comparisons and the verdict are kept here.

@claim(kind="paper", source="Brody, Alon and Yahav 2023, Figure 2a", of="d8", unit=RATIO) def faster(test): \"\"\"With
projection the loss falls faster: without it training needs 3 times the steps.

Rule: what measurements must show \"\"\" steps = steps_to_loss(test, "d8") test.effect(steps.over("scale_released",
    "layernorm"), at_least=HALF_OF_STEPS_RATIO) test.control(steps.over("scale", "layernorm"),
    at_least=HALF_OF_STEPS_RATIO)

The docstring begins with the statement; labelled sentences follow, see LABELS. The verdict follows from `kind` and
from what is found, by the module `rules`.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import (
    LEVEL,
    NOTHING,
    Estimate,
    log_ratio,
    p_value,
    percent_over_seeds,
)
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import Finding, Verdict
from layernorm_roles.evidence.legends import label, legend_order

Tables = Mapping[str, pd.DataFrame]
"""Parquet tables of a reproduction, by their names in schemas.SCHEMAS."""

RATIO = "×"
"""The unit of ratios, whose estimates are logarithms."""

CAUSE = "cause"
"""The part of a claim's verdict that says whether the claimed cause makes the effect."""

BEFORE = "untrained "
"""How the names of columns on models before training begin."""

UNTRAINED = "untrained models"
GEOMETRY = "Untrained models pass this test, too: it shows what geometry gives, and nothing that is learnt."

TWO_LOOKS = (
    "Intervals cover 97.5 %: there are two sets of seeds, and the second was run after a look at the first."
)
LABELS = {"Reported": "paper_value", "Setting": "setting", "Statistic": "statistic", "Control": "control"}
LABELS |= {"Rule": "rule"}
"""Labels of the sentences in a claim's docstring, and the fields of `Claim` that they fill."""


class Missing(Exception):
    """Raised if data lack what a test needs; the message says what, and `runs` how many runs there are nevertheless."""

    def __init__(self, message: str, runs: int = 0) -> None:
        super().__init__(message)
        self.runs = runs


def require(condition: Any, otherwise: str, runs: int = 0) -> None:
    """Raise Missing with the message `otherwise` unless `condition` holds."""
    if not condition:
        raise Missing(otherwise, runs)


def enough(values: pd.Series, what: str) -> pd.Series:
    """Return `values`, one for each seed; raise Missing, which names `what`, if there are fewer than two."""
    count = f"only {len(values)} seed" if len(values) else "no run"
    require(len(values) > 1, f"The run has {count} of {what}: no interval over seeds.")
    return values


def sentences(*texts: str) -> str:
    """Return all `texts` that are not empty, joined by spaces."""
    return " ".join(filter(None, texts))


# What is measured


class Number(NamedTuple):
    """A measured number with its interval; for a ratio its logarithm."""

    estimate: Estimate
    n: int | None
    """Runs, pairs of runs, documents or matrices behind the estimate; None if nothing was measured."""
    words: str = ""
    """What is measured, or compared."""
    unit: str = ""
    statistic: str = ""
    """What the estimate is; empty where the claim's `statistic` says it."""
    worst: Estimate = NOTHING
    """The estimate if all cases count that proofs leave open, such as keys that may be selectable or not."""

    def shown(self) -> Estimate:
        """Return the estimate, of a ratio the ratio itself."""
        return self.estimate.map(np.exp) if self.unit == RATIO else self.estimate


def range_over(values: pd.Series, words: str, n: int = 1, unit: str = "", statistic: str = "") -> Number:
    """Return the largest of exact `values`, with the smallest and the largest in place of an interval."""
    return Number(
        Estimate(float(values.max()), float(values.min()), float(values.max())), n, words, unit, statistic
    )


@dataclass(frozen=True)
class Measured:
    """Measured values, with a row for each seed or document and a column for each variant or whatever is compared.

    If the unit is RATIO the values are logarithms, unless `last_steps` is given: then they are steps to a goal, NaN
    for a run that does not get there, and `last_steps` has the last step of each run.
    """

    frame: pd.DataFrame
    unit: str = ""
    statistic: str = ""
    level: float = LEVEL
    title: str = ""
    """What all columns are about, such as a variant; it begins the words for each."""
    last_steps: pd.DataFrame | None = None
    worst: pd.DataFrame | None = None
    """`frame` in per cent with all cases counted that proofs leave open."""
    cases: Mapping[Any, int] = field(default_factory=dict)
    """By column, the number of cases, such as keys, behind its per cents."""

    def _column(self, name: Any) -> pd.Series:
        require(name in self.frame, f"The run has no {sentences(self.title, str(name))}.")
        return self.frame[name]

    def _words(self, name: Any) -> str:
        """What a column is about, without the title."""
        before = str(name).startswith(BEFORE)
        own = label(name.removeprefix(BEFORE)) if isinstance(name, str) else str(name)
        return own + ", untrained" * before

    def _titled(self, words: str) -> str:
        return ", ".join(filter(None, [self.title, words]))

    def one(self, name: Any) -> Number:
        """Return the mean of a column."""
        values = enough(self._column(name).dropna(), sentences(self.title, str(name)))
        cases, statistic = self.cases.get(name), self.statistic
        mean = partial(percent_over_seeds, n=cases) if cases else Estimate.of
        estimate = mean(values, level=self.level)
        worst = mean(self.worst[name].dropna(), level=self.level) if self.worst is not None else NOTHING
        if cases and estimate.mean in (0, 100):
            statistic = ", ".join(
                filter(None, [statistic, f"{cases if estimate.mean else 0:,} of {cases:,}"])
            )
        return Number(estimate, len(values), self._titled(self._words(name)), self.unit, statistic, worst)

    def over(self, first: Any, second: Any, less: float = 0.0, than: tuple[Any, Any] = ("", "")) -> Number:
        """Return the mean of column `first` minus column `second`; of a ratio the mean logarithm of first over
        second.

        With `less`, a factor, this factor times the difference of the columns `than` is subtracted.
        """
        if self.last_steps is not None:
            return self._log_ratio(first, second)
        values, words = self._column(first) - self._column(second), self._pair(first, second)
        if less:
            values = values - less * (self._column(than[0]) - self._column(than[1]))
            words += f", {'less' if less > 0 else 'plus'} {abs(less):g} times ({self._pair(*than)})"
        what = first if first != "layernorm" else second
        values = enough(values.dropna(), sentences(self.title, str(what)))
        return Number(
            Estimate.of(values, self.level), len(values), self._titled(words), self.unit, self.statistic
        )

    minus = over

    def _pair(self, first: Any, second: Any) -> str:
        return self._words(first) + (" over " if self.unit == RATIO else " minus ") + self._words(second)

    def _log_ratio(self, high: str, low: str) -> Number:
        last = self.last_steps.reindex(columns=[high, low]).dropna()
        enough(last[high], high)
        steps = self.frame.loc[last.index].clip(lower=1)
        ratio = log_ratio(steps[high], steps[low], at_least=(last[high], last[low]), level=self.level)
        ran, lost = self.last_steps.count(), self.last_steps.count() - self.frame.count()
        of_both = f"{lost[high]} of {ran[high]} runs of {high} and {lost[low]} of {ran[low]} of {low}"
        words = f"{of_both} do not get there in {int(self.last_steps.max(axis=None)):,} steps."
        require(not np.isnan(ratio.mean), words, runs=len(last))
        return Number(ratio, len(last), self._pair(high, low), RATIO, self.statistic)


# What is asked


class Question(NamedTuple):
    """A question about a number: its words, and the function of estimate, asked number and worst case that answers."""

    words: str
    find: Callable[..., Finding]
    difference: bool = False
    """Whether only a difference from 0 can meet the question, so that it has a p-value of no difference."""
    number: float = 0.0


def _worse(estimate: Estimate, least: float) -> Finding:
    """Two losses: absent where both diverged in every run, so that the difference is 0."""
    return Finding.ABSENT if estimate == (0, 0, 0) else rules.effect(estimate, least)


def _between(estimate: Estimate, ends: float) -> Finding:
    """Whether a difference is within ± `ends`."""
    return rules.all_of(rules.at_most(estimate, ends), rules.at_most(-estimate, ends))


def _true(condition: Any) -> Finding:
    return Finding.SEEN if condition else Finding.ABSENT


ASKED = {
    "at_least": Question("at least {}", rules.effect, True),
    "at_least_or_none": Question("at least {}", rules.half_or_none, True),
    "above": Question("more than {}", rules.above, True),
    "more_than": Question("more than {}", rules.effect, True),
    "less_than": Question("less than {}", lambda each, most: rules.effect(-each, most), True),
    "worse_by": Question("more than {}", _worse),
    "at_most": Question("at most {}", rules.at_most),
    "below": Question("below {}", rules.at_most),
    "within": Question("within ±{}", _between),
    "further_than": Question(
        "more than {}, up or down", lambda each, least: rules.above(abs(each), least), True
    ),
    "no_further_than": Question("at most {}, up or down", lambda each, most: rules.at_most(abs(each), most)),
    # undecided keys counted
    "counted_at_most": Question("at most {}, undecided keys counted", rules.at_most),
    # of the range of exact values, where nothing is random
    "all_at_most": Question("all at most {}", lambda each, most: _true(each.high <= most)),
    "all_more_than": Question("all more than {}", lambda each, least: _true(each.low > least)),
}
"""The questions that a test can ask, by the keyword that asks them. "above" needs the whole interval above the
number, "at_least" the mean, and the interval above 0; "more_than" and "less_than" are about the sign alone."""


def question(unit: str, asked: Mapping[str, Any]) -> Question | None:
    """Return the question that a keyword such as at_least=3 asks; a ratio is given as it is, not as its logarithm."""
    if not asked:
        return None
    ((kind, number),) = asked.items()
    if isinstance(number, Question):
        return number
    own = ASKED[kind]
    asked = float(np.log(number)) if unit == RATIO else float(number)
    return own._replace(words=own.words.format(f"{number:.3g}"), number=asked)


Role = Literal["effect", "control", "gate", "context"]
"""Why a number is compared: it is what the claim says (effect), isolates the claimed cause (control), says whether
models are trained at all (gate), or is only shown (context)."""


@dataclass(frozen=True)
class Comparison:
    """A row of table comparisons."""

    number: Number
    question: Question | None
    role: Role
    part: int | str | None
    """The part of the verdict in which the finding counts: 0 for the claim's own number, other integers for what else
    it says, CAUSE for its cause, None for none."""

    @property
    def finding(self) -> Finding | None:
        """What the number shows; None if nothing is asked."""
        if (asked := self.question) is None:
            return None
        counted = "undecided" in asked.words
        return asked.find(self.number.estimate, asked.number, *[self.number.worst] * counted)

    @property
    def there(self) -> bool:
        """Whether the effect was found, even if it is smaller than asked."""
        return self.finding in rules.THERE

    @property
    def met(self) -> bool | None:
        """Whether the number is as asked; None if that is undecided, or nothing is asked."""
        return None if self.finding in (None, Finding.UNDECIDED) else self.finding == Finding.SEEN


# Tests


class Test:
    """What a claim's function calls: it collects comparisons, and whatever else the verdict depends on."""

    __test__ = False  # pytest

    def __init__(self, tables: Tables, kind: str, looks: int = 1, primary: bool = False) -> None:
        self.tables, self.kind, self.looks, self.primary = tables, kind, looks, primary
        self.level = 1 - (1 - LEVEL) / looks
        self.rows: list[Comparison] = []
        self._alike: list[Comparison] = []
        self._passing: dict[str, bool] = {}
        self.notes: list[str] = []
        self.specifics: list[str] = []
        self.reported: float | None = None
        self.gated = False
        self.runs = 0
        self.variations: dict[str, tuple[str, Test]] = {}

    def table(self, name: str) -> pd.DataFrame:
        """Return a Parquet table; raises Missing if there is none."""
        require(name in self.tables, f"This run has no {name}.parquet.")
        return self.tables[name]

    def measured(self, frame: pd.DataFrame, unit: str = "", statistic: str = "", **fields: Any) -> Measured:
        """Return `Measured` values whose intervals have this test's level."""
        return Measured(frame, unit, statistic, self.level, **fields)

    def steps(self, runs: pd.DataFrame, variants: Sequence[str], statistic: str) -> Measured:
        """Return the steps to a goal, by seed and variant, and note how many runs of `variants` miss it.

        Each row of `runs` is a run, with the columns variant, seed, steps (NaN if the run misses the goal) and
        last_step.
        """
        compared = runs[runs.variant.isin(variants)]
        number, lost = (part.variant.value_counts() for part in (compared, compared[compared.steps.isna()]))
        if len(lost):
            of_each = [
                f"{lost[name]} of {number[name]} runs of {label(name)}" for name in legend_order(lost.index)
            ]
            note = f"{' and '.join(of_each)} do not get there in {int(compared.last_step.max()):,} steps: their ratio "
            self.note(
                note + "is a bound, and a pair of runs neither of which gets there counts as equally fast."
            )
        wide = runs.pivot(index="seed", columns="variant", values=["steps", "last_step"])
        return self.measured(wide.steps, RATIO, statistic, last_steps=wide.last_step)

    def mean(self, values: pd.Series, words: str, unit: str = "", statistic: str = "") -> Number:
        """Return the mean of `values`, however few, with its interval."""
        return Number(Estimate.of_any(values, self.level), len(values), words, unit, statistic)

    def _add(
        self,
        number: Number,
        role: Role,
        part: int | str | None,
        words: str,
        alike: Mapping[str, Number | None],
        asked: Mapping[str, Any],
    ) -> None:
        number = number._replace(words=words or number.words)
        row = Comparison(number, question(number.unit, asked), role, part if asked else None)
        self.rows.append(row)
        for who, other in alike.items():
            rows = [replace(row, number=other, role="context", part=None)] if other else []
            self._alike += rows
            self.passed_alike(who, bool(rows) and all(each.met for each in (row, *rows)))

    def effect(
        self, number: Number, *, part: int | str = 0, words: str = "", alike: Mapping = {}, **asked: Any
    ) -> None:
        """Compare what the claim says; `alike` has the same number of others, such as untrained models, by name."""
        self._add(number, "effect", part, words, alike, asked)

    def control(
        self, number: Number, *, part: int | str = CAUSE, words: str = "", alike: Mapping = {}, **asked: Any
    ) -> None:
        """Compare what isolates the claimed cause, or only shows it beside the effect if nothing is asked."""
        self._add(number, "control", part, words, alike, asked)

    def gate(self, number: Number, **asked: Any) -> bool:
        """Compare what the runs must show for a verdict at all, and return whether they do."""
        self._add(number, "gate", None, "", {}, asked)
        return bool(self.rows[-1].met)

    def show(self, number: Number, words: str = "", **asked: Any) -> None:
        """Show a number beside the others, and whether it is as asked; it counts in no part of the verdict."""
        self._add(number, "context", None, words, {}, asked)

    def passed_alike(self, who: str, passes: bool) -> None:
        """Tell readers that models or keys without what the claim is about pass its test too, if they do."""
        self._passing[who] = self._passing.get(who, True) and passes

    def note(self, text: str) -> None:
        """Say a sentence to readers about the verdict."""
        self.notes.append(text)

    def no_verdict(self, why: str) -> None:
        """Allow no verdict, and say why."""
        self.gated = True
        self.note(why)

    def beside(
        self,
        name: str,
        title: str,
        function: Callable,
        *args: Any,
        kind: str = "",
        looks: int = 0,
        primary=False,
    ) -> None:
        """Test a variation of the claim, such as at other learning rates, whose verdict is only told beside the
        claim's.

        `kind`, `looks` and `primary` are as for a claim, of which the first two are the claim's own by default.
        """
        other = Test(self.tables, kind or self.kind, looks or self.looks, primary)
        self.variations[name] = title, other.run(function, *args)

    def run(self, function: Callable, *args: Any) -> "Test":
        """Call a test function; if data are missing all comparisons are dropped, but not those of variations."""
        try:
            function(self, *args)
        except Missing as lack:
            self.rows, self._alike, self.notes, self.runs = [], [], [str(lack)], lack.runs
            self._passing, self.specifics, self.reported = {}, [], None
        return self

    @property
    def comparisons(self) -> list[Comparison]:
        """All comparisons, at the end those of what passes alike."""
        known = {(row.number.words, row.number.statistic) for row in self.rows}
        own = [row for row in self._alike if (row.number.words, row.number.statistic) not in known]
        return [*self.rows, *own]

    @property
    def also_passed_by(self) -> str | None:
        """Models or keys without what the claim is about that pass its test too."""
        return next((who for who, met in self._passing.items() if met), None)

    @property
    def effects(self) -> list[Comparison]:
        """The comparisons in the verdict that ask for a difference from 0 and find it."""
        return [row for row in self.rows if row.part is not None and row.question.difference and row.there]

    @property
    def p(self) -> float:
        """The largest p-value of the first comparison and all `effects`, times the number of looks."""
        rows = [row.number for row in (*self.rows[:1], *self.effects)]
        values = [p_value(each.estimate, each.n or 0, self.level) for each in rows]
        return float(np.minimum(1.0, self.looks * np.max(values or np.nan)))

    def verdict(self, p_holm: float = 0.0) -> Verdict:
        """Return the verdict, from findings and, for a primary claim, the corrected p-value."""
        if not self.rows:
            return Verdict.INCONCLUSIVE if self.runs else Verdict.NOT_RUN
        if self.gated:
            return Verdict.INCONCLUSIVE
        parts = sorted({row.part for row in self.rows} - {None, CAUSE})
        found = [
            rules.all_of(*(row.finding for row in self.rows if row.part == part)) for part in (*parts, CAUSE)
        ]
        *parts, cause = found
        if self.kind == "paper":
            verdict = rules.verdict(parts[0], cause, *parts[1:])
        else:
            verdict = rules.statement_verdict(parts, cause)
        unknown = verdict in rules.OF_EFFECTS and self.effects and not p_holm < 1 - LEVEL
        return Verdict.INCONCLUSIVE if self.primary and unknown else verdict


# Claims


@dataclass(frozen=True)
class Claim:
    """A claim: a test function and its words."""

    name: str
    kind: Literal["paper", "ours", "other document"]
    source: str
    """The document that makes the claim, and where in it."""
    statement: str
    part: str
    """Part of the report: projection, scaling or documents."""
    target: str
    """What to ask Snakemake for to make the tables that the test reads."""
    function: Callable[[Test], None]
    paper_value: str | None = None
    """What the source reports, as written there."""
    setting: str = ""
    """How the runs differ from the source's setting; a sentence on sizes follows it in table claims."""
    statistic: str = ""
    control: str = ""
    rule: str = ""
    unit: str = ""
    of: str | None = None
    """The experiment of the majority task, or the model, that the claim is about."""
    sizes: Callable[..., str] | None = None
    """Function of the tables and `of` that states the sizes of this reproduction."""
    primary: bool = False
    """Whether the claim is one of those named before the runs whose p-values are corrected for their number."""
    looks: int = 1
    """How often data were looked at before the last runs: intervals cover 1 - 0.05 / looks."""
    figures: tuple[str, ...] = ()
    exhibits: tuple[str, ...] = ()
    """Names of the tables for readers that show the claim's numbers."""

    def test(self, tables: Tables) -> Test:
        """Run the claim's test."""
        return Test(tables, self.kind, self.looks, self.primary).run(self.function)

    def row(self, test: Test, tables: Tables, p_holm: Mapping[str, float]) -> dict[str, Any]:
        """Return the claim's row of table claims; `p_holm` has the corrected p-values of primary claims."""
        nothing = Number(NOTHING, test.runs)
        first = (*(row.number for row in test.rows), nothing)[0]
        controls = [r.number for r in test.rows if (r.role, r.number.unit) == ("control", first.unit)]
        p, verdict = p_holm.get(self.name, np.nan), test.verdict(p_holm.get(self.name, np.nan))
        reason = list(dict.fromkeys(test.notes))
        if counted := re.search(r"[\d,]+ of [\d,]+$", first.statistic):
            reason.append(f"The number is {counted[0]}.")
        if self.primary and verdict != test.verdict():
            p_is = f"p is {p:.2g}" if np.isfinite(p) else "a bound has no p-value"
            reason.append(
                f"No verdict, because with Holm's correction for {len(p_holm)} primary tests {p_is}."
            )
        reason.append(GEOMETRY * (test.also_passed_by == UNTRAINED))
        for name, (title, other) in test.variations.items():
            reason.append(f"{title}: {other.verdict(p_holm.get(name, np.nan))}.")
        sizes = self.sizes(tables, self.of) if self.sizes else ""
        names = ("measured", "ci_low", "ci_high", "control_measured", "control_low", "control_high")
        return {
            "claim": self.name,
            "kind": self.kind,
            "role": "primary" if self.primary else "exploratory",
            "source": self.source,
            "statement": sentences(self.statement, *dict.fromkeys(test.specifics)),
            "setting": sentences(self.setting, sizes),
            "paper_value": self.paper_value,
            "statistic": self.statistic,
            "reported": test.reported if test.rows else None,
            "control": self.control,
            **dict(zip(names, (*first.shown(), *(*controls, nothing)[0].shown()), strict=True)),
            "also_passed_by": test.also_passed_by,
            "n_seeds": first.n,
            "verdict": str(verdict),
            "reason": sentences(*reason),
            "p_holm": p,
        }

    def comparisons(self, test: Test) -> list[dict[str, Any]]:
        """Return the claim's rows of table comparisons, and after them those of its variations."""
        rows = [("", row) for row in test.comparisons]
        for title, other in test.variations.values():
            rows += [(f"{title}: ", row) for row in other.comparisons]
        return [
            {
                "claim": self.name,
                "number": place,
                "comparison": title + row.number.words,
                "statistic": row.number.statistic or self.statistic,
                **dict(zip(("estimate", "ci_low", "ci_high"), row.number.shown(), strict=True)),
                "unit": row.number.unit,
                "n_runs": row.number.n,
                "asked": row.question.words if row.question else "",
                "met": row.met,
                "role": "context" if title else row.role,
            }
            for place, (title, row) in enumerate(rows, start=1)
        ]


CLAIMS: dict[str, Claim] = {}
"""All claims by name, in the order in which their modules are imported."""


def claim(*, figures: Sequence[str] = (), exhibits: Sequence[str] = (), **fields: Any) -> Callable:
    """Return a decorator that registers a test function as a claim, whose docstring has its words."""

    def register(function: Callable[[Test], None]) -> Callable[[Test], None]:
        words = _words(function)
        if fields.get("looks", 1) > 1:
            words["rule"] += f" {TWO_LOOKS}"
        CLAIMS[function.__name__] = Claim(
            function.__name__,
            function=function,
            figures=tuple(figures),
            exhibits=tuple(exhibits),
            **words,
            **fields,
        )
        return function

    return register


def _words(function: Callable) -> dict[str, str]:
    """Return the statement and the labelled sentences of a docstring, with thresholds in place of their names."""
    text = inspect.cleandoc(function.__doc__)
    first, *labelled = re.split(rf"^({'|'.join(LABELS)}): ", text, flags=re.MULTILINE)
    words = {"statement": first} | {
        LABELS[key]: each for key, each in zip(labelled[::2], labelled[1::2], strict=True)
    }
    return {key: " ".join(each.split()).format_map(vars(rules)) for key, each in words.items()}


optional = partial(suppress, Missing)
"""A context in which missing data leave out a comparison."""
