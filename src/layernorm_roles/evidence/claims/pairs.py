"""The test that an entry of the YAML files gives as data: what is asked of a quantity's columns, or between two.

A quantity is measured of an experiment or a model: a column for each variant, or whatever is compared, with a row for
each seed or document. An entry names its `quantity`, and lists its comparisons under `compare`. Each has

    over     two columns, the first minus the second; of a quantity in the unit × these are logarithms; or
    alone    one column, or several: a name that ends in * stands for all columns that begin with what is before it
    less     a number and two columns: so many times the difference of these is taken from the difference, by seed;
    plus     the same is added to it
    asked    what is asked of the estimate: one of the keys of `claim.ASKED`, with a number. Without it nothing is asked
    role     effect, control, context or gate; the first is an effect. Without what is asked of a gate, which says that
             there is something to explain, there is no verdict
    part     which part of the verdict it counts in, see `claim.Comparison.part`; each: every column is a part
    of       the experiment or model, where it is not the entry's
    quantity where it is not the entry's
    if_lacking  "leave out", or "cannot tell", where the run lacks a column or an experiment; otherwise the claim
             cannot be tested then
    also     a key of OTHERS: if the same is met in the columns whose names begin with it, the claim's row says so

A number may be one of `rules` or of `reported_numbers`, by its name, or a product of some: 0.5 accuracy_gap. The first
comparison is the claim's own. What the source reports for it stands under `reported`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate, percent_over_seeds
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import claim, rules
from layernorm_roles.evidence.claims.claim import (
    ASKED,
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Tables,
    Untestable,
)
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import PAPER_PROJECTION

BEFORE_TRAINING, UNIGRAM = "untrained ", "unigram"

OF_PRESETS = ("projection_grown", "shrunk_qk", "shrunk_v", "projection_matched")
"""Norms that workflow/presets/published.yaml names and claims compare: built-in ones times a factor."""

OTHERS = {BEFORE_TRAINING: UNTRAINED, "without norm ": "the same heads without the norm"}
"""In words, models or keys that may pass a test as well, by the beginning of the names of their columns."""

# Quantities


def range_over(values: pd.Series) -> Estimate:
    """The largest value, with the range of the values in place of an interval, where nothing is random."""
    return Estimate(float(values.max()), float(values.min()), float(values.max()))


class Less(NamedTuple):
    """A multiple of another difference, which is subtracted from the difference of a comparison."""

    times: float
    names: tuple[str, str]


@dataclass
class Measured:
    """Values of a quantity in an experiment or model: a row a seed or document, a column for each thing compared."""

    frame: pd.DataFrame
    worst: pd.DataFrame | None = None
    """The values with all that proofs leave open counted; None where nothing is left open."""
    cases: pd.Series | None = None
    """Number of cases behind the per cents of each column, in all rows together."""
    random: bool = True
    """Whether rows are a sample; else the estimate is the range over them."""
    note: str = ""
    """A sentence on the runs, for the reason; empty if there is nothing to say."""
    specifics: str = ""
    """A sentence on sizes without which the statement cannot be read; empty if there is nothing to say."""

    def names(self, name: str) -> list[str]:
        """The columns that `name` stands for, where * stands for any end; raises Untestable if there are none."""
        found = [
            column
            for column in self.frame
            if column == name or (name[-1] == "*" and column.startswith(name[:-1]))
        ]
        if not found:
            raise Untestable(f"The run has no {name.removesuffix(' *')}.")
        return found

    def values(self, *names: str) -> pd.Series:
        """The values of one column, or the differences of two, by seed."""
        columns = [self.frame[self.names(name)[0]] for name in names]
        return columns[0] - columns[1] if len(columns) > 1 else columns[0]

    def estimate(self, *names: str, less: Less | None = None) -> tuple[Estimate, int]:
        """The mean of `values`, less a multiple of other differences, and their number; Untestable for one value."""
        values = self.values(*names)
        if less:
            values = values - less.times * self.values(*less.names)
        values = values.dropna()
        if not self.random:
            return range_over(values), 1
        claim.enough(values, self.seeds_of(*names))
        return self._percent(values, names[0]) if self.cases is not None else Estimate.of(values), len(values)

    def seeds_of(self, *names: str) -> str:
        """The words for these values in the message that there are too few seeds."""
        return names[-1] if names[0] == "layernorm" else names[0]

    def counted(self, name: str, found: Estimate) -> str:
        """The number of cases behind 0 or 100 per cent, as in "0 of 147,456"; empty for other per cents."""
        if self.cases is None or name not in self.cases or found.mean not in (0, 100):
            return ""
        number = int(self.cases[name])
        return f"{number if found.mean else 0:,} of {number:,}"

    def _percent(self, values: pd.Series, name: str) -> Estimate:
        return (
            percent_over_seeds(values, int(self.cases[name])) if name in self.cases else Estimate.of(values)
        )

    def with_all_open(self, name: str) -> Estimate:
        """The estimate of a column with all that proofs leave open counted; NOTHING where nothing is left open."""
        return (
            NOTHING if self.worst is None or name not in self.worst else self._percent(self.worst[name], name)
        )


@dataclass
class Steps(Measured):
    """Steps until something is reached, which some runs may not reach: their ratios are bounds."""

    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Columns variant, seed, steps (NaN if not reached) and last_step, a row a run."""
    fewest: int = 2
    """Least number of pairs of runs for a test."""

    def estimate(self, high: str, low: str) -> tuple[Estimate, int]:
        """Logarithm of the steps of one variant over those of another with equal seeds, and the number of pairs.

        Untestable with fewer pairs than `fewest`, and if runs of one variant do not get there in some pairs and runs of
        the other in others, or none does in any pair, so that the ratio has no bound on either side.
        """
        slow, fast = (self.runs[self.runs.variant == name] for name in (high, low))
        seeds = sorted(set(slow.seed) & set(fast.seed))
        claim.enough(pd.Series(seeds, dtype=float), high)
        if len(seeds) < self.fewest:
            pairs = f"{len(seeds)} pairs of runs of {high} and {low}"
            raise Untestable(f"The run has {pairs}, fewer than {self.fewest}.")
        ratio = majority.log_ratio_of_steps(slow, fast)
        if np.isnan(ratio.mean):
            raise Untestable(
                f"{slow.steps.isna().sum()} of {len(slow)} runs of {high} and {fast.steps.isna().sum()} of {len(fast)} "
                f"of {low} do not get there in {int(self.runs.last_step.max()):,} steps.",
                runs=len(seeds),
            )
        return ratio, len(seeds)


def steps_of(runs: pd.DataFrame, variants: Sequence[str], fewest: int = 2) -> Steps:
    """The `Steps` of `runs`, with a note about the runs of `variants` that do not reach what steps are counted to."""
    compared = runs[runs.variant.isin(variants)]
    lost = [
        f"{missing} of {len(own)} runs of {LEGENDS[variant]}"
        for variant in legend_order(compared.variant)
        if (missing := int((own := compared[compared.variant == variant]).steps.isna().sum()))
    ]
    if not lost:
        return Steps(pd.DataFrame(), runs=runs, fewest=fewest)
    last = int(compared.last_step.max())
    note = (
        f"{' and '.join(lost)} do not get there in {last:,} steps: their ratio is a bound, and a pair of runs neither "
        "of which gets there counts as equally fast."
    )
    return Steps(pd.DataFrame(), note=note, runs=runs, fewest=fewest)


class Quantity(NamedTuple):
    """A quantity that claims compare: how it is measured, its unit, and the columns that it has."""

    measure: Callable[[Tables, str, Sequence[str]], Measured]
    """Takes the tables, an experiment or model, and the columns that the test needs; returns what is measured."""
    unit: str = ""
    """Unit of the quantity; RATIO if its columns hold logarithms of ratios."""
    words: str = ""
    """The quantity in words; empty where the claim's statistic says it."""
    columns: tuple[str, ...] = ()
    """The columns that entries may name, * for any end; variants of the norm if empty."""
    thresholds: tuple[str, ...] = ()
    """Names of the thresholds of `rules` with which the quantity is measured."""

    def knows(self, name: str) -> bool:
        """Whether `name` may be the name of a column in an entry."""
        if not self.columns:
            return name.removeprefix(BEFORE_TRAINING) in {*LEGENDS, UNIGRAM, *OF_PRESETS}
        return any(
            name == column or (column[-1] == "*" and name.startswith(column[:-1])) for column in self.columns
        )


# What an entry asks


@cache
def reported_numbers() -> dict[str, Any]:
    """The effects that the paper reports, by the names that entries give them; a list has a number a layer."""
    small, models = reported()["majority"], reported()["language_model"]
    with_projection, without = (small[v]["test_accuracy"][rules.ACCURACY_STEP] for v in PAPER_PROJECTION)
    train, valid = (
        round(models["projection"][column] - models["layernorm"][column], 3)  # as the plot was read
        for column in ("train_loss", "valid_loss")
    )
    return {
        "steps_ratio": small["steps_ratio"],
        "accuracy_gap": 100 * (with_projection - without),
        "train_gap": train,
        "valid_gap": valid,
        "train_gap_of_a_byte": train / rules.BYTES_A_TOKEN,
        "valid_gap_of_a_byte": valid / rules.BYTES_A_TOKEN,
        "table_1": models["table_1"]["projection"],
        "table_2": models["table_2"]["before_norm"],
        "table_1_mean": float(np.mean(models["table_1"]["projection"])),
        "table_2_mean": float(np.mean(models["table_2"]["before_norm"])),
    }


def number(name: Any) -> Any:
    """The number that an entry gives, as such or by its name, with a factor or not; ValueError for an unknown name."""
    if not isinstance(name, str):
        return name if name is None else float(name)
    *factors, own = (_known(word) for word in name.split(" "))
    if own is None or None in factors:
        raise ValueError(
            f"unknown number {name!r}; expected a number, a threshold of rules or a reported number"
        )
    return float(np.prod([*factors, own])) if factors else own


def _known(word: str) -> Any:
    """The number that a word is or names; None if there is none."""
    if re.fullmatch(r"\d+(\.\d*)?", word):
        return float(word)
    found = (vars(rules) if word.isupper() else reported_numbers()).get(word)
    return found if found is None or isinstance(found, list) else float(found)


_KEYS = {"over", "alone", "less", "plus", "role", "part", "of", "quantity", "if_lacking", "also", *ASKED}


@dataclass(frozen=True)
class Pair:
    """A comparison that an entry of the YAML files asks for, checked."""

    names: tuple[str, ...]
    """The names of the two columns that are compared, or of the one."""
    quantity: Quantity
    here: tuple[str, str | None]
    """The name of the quantity, and the experiment or model."""
    role: claim.Role = "effect"
    asked: str | None = None
    number: Any = None
    part: Any = -1
    elsewhere: str = ""
    """The experiment or model, after a comma, where it is not the claim's own."""
    if_lacking: str | None = None
    also: str | None = None
    less: Less | None = None

    @property
    def words(self) -> str:
        """What is compared, in words for the column `comparison`."""
        return self.in_words(self.names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns that the comparison reads."""
        return (*self.names, *(self.less.names if self.less else ()))

    def in_words(self, names: Sequence[str]) -> str:
        """In words, the comparison of the columns called `names`."""
        than = " over " if self.quantity.unit == RATIO else " minus "
        words = than.join(names) + self.elsewhere
        if not self.less:
            return words
        sign, times = ("less", self.less.times) if self.less.times > 0 else ("plus", -self.less.times)
        return f"{words}, {sign} {times:g} times ({than.join(self.less.names)})"

    def of_column(self, name: str) -> claim.Asked | None:
        """The question that is asked of the column `name`, with the number of its layer; None if nothing is asked."""
        if self.asked is None:
            return None
        found = self.number[int(name.split()[-1]) - 1] if isinstance(self.number, list) else self.number
        return ASKED[self.asked](np.log(found) if self.quantity.unit == RATIO else found)

    def comparisons(self, measured: Measured, others: str = "") -> Iterator[Comparison]:
        """Yield the comparisons of the columns whose names begin with `others`; Untestable without columns or seeds."""
        names = [others + name for name in self.names]
        columns = [names] if len(names) == 2 else [[name] for name in measured.names(names[0])]
        for i, column in enumerate(columns):
            estimate, n = measured.estimate(*column, **({"less": self.less} if self.less else {}))
            part = i if self.part == "each" else self.part
            counted = measured.counted(column[0], estimate) if len(column) == 1 else ""
            yield claim.compare(
                self.in_words(column),
                estimate,
                n,
                self.of_column(column[0]),
                "context" if others else self.role,
                self.quantity.unit,
                ", ".join(filter(None, (self.quantity.words, counted))),
                None if others else part,
                measured.with_all_open(column[0]),
            )


def pair(
    spec: Mapping[str, Any], entry: Mapping[str, Any], quantities: Mapping[str, Quantity], first: bool
) -> Pair:
    """The checked comparison of an entry, from its YAML; ValueError, naming what is wrong."""
    if unknown := [key for key in spec if key not in _KEYS]:
        raise ValueError(f"unknown key {unknown[0]!r}; expected some of {', '.join(sorted(_KEYS))}")
    name = spec.get("quantity", entry.get("quantity"))
    if name not in quantities:
        raise ValueError(f"unknown quantity {name!r}; expected one of {', '.join(quantities)}")
    names = tuple(spec["over"] if "over" in spec else [spec.get("alone", "")])
    less = None
    for key, sign in (("less", 1), ("plus", -1)):
        if key in spec:
            times, *others = spec[key]
            less = Less(sign * number(times), tuple(others))
    if unknown := [
        column for column in (*names, *(less.names if less else ())) if not quantities[name].knows(column)
    ]:
        raise ValueError(f"{name}: unknown column {unknown[0]!r} under over, alone, less or plus")
    asked = [key for key in spec if key in ASKED]
    role, lacking = spec.get("role", "effect" if first else "context"), spec.get("if_lacking")
    if (
        role not in ("effect", "control", "context", "gate")
        or lacking not in (None, "leave out", "cannot tell")
        or spec.get("also") not in (None, *OTHERS)
    ):
        raise ValueError(f"unknown role {role!r}, if_lacking {lacking!r} or also {spec.get('also')!r}")
    further = {key: spec[key] for key in ("part", "if_lacking", "also") if key in spec}
    value = number(spec[asked[0]]) if asked else None
    here = (name, spec.get("of", entry["of"]))
    further["elsewhere"] = f", {here[1]}" if "of" in spec else ""
    return Pair(names, quantities[name], here, role, asked[0] if asked else None, value, less=less, **further)


def test(pairs: Sequence[Pair], reported: Any, tables: Tables) -> Outcome:
    """The outcome of the comparisons of an entry; `reported` is a number or, for a table of the paper, one a layer."""
    measured: dict[tuple[str, str | None], Measured] = {}
    rows, others, passing = [], [], {}

    def measure(*asking: Pair) -> Measured:
        names = dict.fromkeys(name.removeprefix(BEFORE_TRAINING) for each in asking for name in each.columns)
        return asking[0].quantity.measure(tables, asking[0].here[1], list(names))

    def find(each: Pair) -> list[Comparison]:
        if each.here not in measured:
            measured[each.here] = measure(
                each, *(o for o in pairs if o.here == each.here and not o.if_lacking)
            )
        try:
            return [*each.comparisons(measured[each.here])]
        except Untestable:
            if not each.if_lacking:
                raise
            return [*each.comparisons(measure(each))]

    for each in pairs:
        try:
            found = find(each)
        except Untestable:
            if not each.if_lacking:
                raise
            if each.if_lacking == "cannot tell":
                asked = each.of_column(each.names[0])
                rows.append(claim.compare(each.words, NOTHING, None, asked, each.role, each.quantity.unit))
            continue
        rows += found
        if each.also:
            try:
                others += (same := [*each.comparisons(measured[each.here], each.also)])
                met = all(row.met for row in found + same)
            except Untestable:
                met = False
            passing[OTHERS[each.also]] = passing.get(OTHERS[each.also], True) and met
    notes = dict.fromkeys(found.note for found in measured.values() if found.note)
    if not pairs[0].names[1:] and (
        count := measured[pairs[0].here].counted(*pairs[0].names, rows[0].estimate)
    ):
        notes |= {f"The number is {count}.": None}
    passes = next((name for name, met in passing.items() if met), None)
    if isinstance(reported, list):
        layers = sum(
            row.asked.startswith("at least") for row in rows
        )  # the run may have fewer than the paper
        reported = float(np.mean(reported[:layers]))
    specifics = " ".join(found.specifics for found in measured.values())
    known = {(row.comparison, row.statistic) for row in rows}
    others = [row for row in others if (row.comparison, row.statistic) not in known]
    shut = [row.comparison for row in rows if row.role == "gate" and row.finding != rules.Finding.SEEN]
    if shut:
        notes |= {f"No verdict, because {shut[0]} is not known to be more than 0.": None}
    return Outcome((*rows, *others), " ".join(notes), reported, passes, specifics.strip(), bool(shut))
