"""The test that an entry of the YAML files gives as data: what is asked of a quantity's columns, or between two.

An entry lists its comparisons under `compare`. Each has

    over     two columns, the first minus the second; of a quantity in the unit × these are logarithms; or
    alone    one column, or several: a name that ends in * stands for all columns that begin with what is before it
    less     a number and two columns: so many times the difference of these is taken from the difference, by seed;
    plus     the same is added to it
    asked    what is asked of the estimate: one of the keys of `claim.ASKED`, with a number. Without it nothing is asked
    role     effect, control, context or gate; the first is an effect, and others are context. Without what is asked of
             a gate, which says that there is something to explain, there is no verdict
    part     which part of the verdict it counts in, see `claim.Comparison.part`; each: every column is a part
    of       the experiment or model, where it is not the entry's
    quantity where it is not the entry's
    if_lacking  "leave out", or "cannot tell", where the run lacks a column or an experiment; otherwise the claim
             cannot be tested then
    also     a key of PASSING: if columns whose names begin with it meet what is asked too, the claim's row says so

A number may be one of `rules` or of `reported_numbers`, by its name, or a product of some: 0.5 accuracy_gap. The first
comparison is the claim's own. What the source reports for it stands under `reported`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

import numpy as np

from layernorm_roles.evidence.analysis.estimate import NOTHING
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import (
    ASKED,
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Question,
    Role,
    Tables,
    Untestable,
    ask,
    sentences,
)
from layernorm_roles.evidence.claims.quantities import BEFORE_TRAINING, Less, Measured, Quantity
from layernorm_roles.variants import PAPER_PROJECTION

PASSING = {BEFORE_TRAINING: UNTRAINED, "without norm ": "the same heads without the norm"}
"""In words, models or keys that may pass a test as well, by the beginning of the names of their columns."""


def one_of(known: Collection[Any], name: Any, what: str) -> Any:
    """The `name` itself; ValueError, which says what is unknown, if it is not among the `known` ones."""
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; expected one of {', '.join(map(str, known))}")
    return name


# Numbers


@cache
def reported_numbers() -> dict[str, Any]:
    """The effects that the paper reports, by the names that entries give them; a list has a number a layer."""
    small, models = reported()["majority"], reported()["language_model"]
    with_projection, without = (small[v]["test_accuracy"][rules.ACCURACY_STEP] for v in PAPER_PROJECTION)
    gaps = {
        name: round(models["projection"][column] - models["layernorm"][column], 3)  # as the plot was read
        for name, column in (("train_gap", "train_loss"), ("valid_gap", "valid_loss"))
    }
    layers = {"table_1": models["table_1"]["projection"], "table_2": models["table_2"]["before_norm"]}
    return {
        "steps_ratio": small["steps_ratio"],
        "accuracy_gap": 100 * (with_projection - without),
        **gaps,
        **{f"{name}_of_a_byte": gap / rules.BYTES_A_TOKEN for name, gap in gaps.items()},
        **layers,
        **{f"{name}_mean": float(np.mean(numbers)) for name, numbers in layers.items()},
    }


def names_a_number(value: Any) -> bool:
    """Whether a value of an entry is the name of a threshold or of a reported number."""
    return isinstance(value, str) and (value.isupper() or value in reported_numbers())


def number(name: Any) -> Any:
    """The number that an entry gives, as such or by its name, with a factor or not; ValueError for an unknown name."""
    if not isinstance(name, str):
        return name if name is None else float(name)
    words = [float(word) if re.fullmatch(r"\d+(\.\d*)?", word) else _number(word) for word in name.split(" ")]
    return float(np.prod(words)) if words[1:] else words[0]


def _number(name: str) -> Any:
    known = vars(rules) if name.isupper() else reported_numbers()
    if name not in known:
        raise ValueError(
            f"unknown number {name!r}; expected a number, a threshold of rules or a reported number"
        )
    return known[name] if isinstance(known[name], list) else float(known[name])


# What an entry asks for


@dataclass(frozen=True)
class Request:
    """The comparison, or those of several columns, that an entry asks for."""

    names: tuple[str, ...]
    """The names of the two columns that are compared, or of the one."""
    quantity: Quantity
    place: tuple[str, str | None]
    """The name of the quantity, and the experiment or model."""
    role: Role
    kind: str | None
    """The key of ASKED that says what is asked; None if nothing is."""
    number: Any
    """The number of the question, or one for each layer."""
    part: Any = None
    elsewhere: str = ""
    """The experiment or model, after a comma, where it is not the claim's own."""
    if_lacking: str | None = None
    also: str | None = None
    less: Less | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns that the comparison reads."""
        return (*self.names, *(self.less.names if self.less else ()))

    def words(self, names: Sequence[str]) -> str:
        """What is compared of the columns called `names`."""
        than = " over " if self.quantity.unit == RATIO else " minus "
        words = than.join(names) + self.elsewhere
        if not self.less:
            return words
        sign = "less" if self.less.times > 0 else "plus"
        return f"{words}, {sign} {abs(self.less.times):g} times ({than.join(self.less.names)})"

    def question(self, column: str) -> Question | None:
        """What is asked of a column, with the number of its layer; None if nothing is asked."""
        if self.kind is None:
            return None
        layers = isinstance(self.number, list)
        bound = self.number[int(column.split()[-1]) - 1] if layers else self.number
        return ask(self.kind, bound, self.quantity.unit)

    def lacking(self) -> Comparison:
        """The comparison where there are no runs: its question is undecided."""
        question, unit = self.question(self.names[0]), self.quantity.unit
        return Comparison(self.words(self.names), NOTHING, None, question, self.role, unit)

    def comparisons(self, measured: Measured, beginning: str = "") -> Iterator[Comparison]:
        """The comparisons of the columns whose names have this beginning; Untestable without columns or seeds.

        Those with a beginning count in no part of the verdict.
        """
        names, role, part = [beginning + name for name in self.names], self.role, self.part
        for i, column in enumerate([names] if names[1:] else [[name] for name in measured.columns(names[0])]):
            estimate, n, worst = measured.estimate(*column, less=self.less)
            counted = "" if names[1:] else measured.counted(column[0], estimate)
            yield Comparison(
                self.words(column),
                estimate,
                n,
                self.question(column[0]),
                "context" if beginning else role,
                self.quantity.unit,
                ", ".join(filter(None, (self.quantity.words, counted))),
                None if beginning else i if part == "each" else part,
                worst,
            )


_KEYS = ("over", "alone", "less", "plus", "role", "part", "of", "quantity", "if_lacking", "also", *ASKED)


def request(
    spec: Mapping[str, Any], defaults: Mapping[str, Any], quantities: Mapping[str, Quantity]
) -> Request:
    """The checked comparison of an entry, from its YAML; ValueError, naming what is wrong."""
    for key in spec:
        one_of(_KEYS, key, "key")
    name, of = (defaults | spec)["quantity"], (defaults | spec)["of"]
    quantity = quantities[one_of(quantities, name, "quantity")]
    names, less = tuple(spec.get("over") or [spec.get("alone", "")]), None
    for key, sign in (("less", 1), ("plus", -1)):
        if key in spec:
            less = Less(sign * number(spec[key][0]), (*spec[key][1:],))
    if unknown := [each for each in (*names, *(less.names if less else ())) if not quantity.knows(each)]:
        raise ValueError(f"{name}: unknown column {unknown[0]!r} under over, alone, less or plus")
    kind = next((key for key in spec if key in ASKED), None)
    return Request(
        names,
        quantity,
        (name, of),
        one_of(get_args(Role), spec["role"], "role"),
        kind,
        kind and number(spec[kind]),
        spec.get("part"),
        f", {of}" if "of" in spec else "",
        one_of((None, "leave out", "cannot tell"), spec.get("if_lacking"), "value of if_lacking"),
        one_of((None, *PASSING), spec.get("also"), "value of also"),
        less,
    )


def compare(requests: Sequence[Request], reported: Any, tables: Tables) -> Outcome:
    """The outcome of the comparisons of an entry; `reported` is a number or, for a table of the paper, one a layer.

    The columns of a place that may not be lacking are measured together, and those that may be with them.
    """
    measured: dict[tuple[Any, ...], Measured] = {}
    rows, others, notes, specifics, passing = [], [], [], [], {}
    for each in requests:
        together = [*(own for own in requests if own.place == each.place and not own.if_lacking), each]
        names = (name.removeprefix(BEFORE_TRAINING) for own in together for name in own.columns)
        key = (each.place, *dict.fromkeys(names))
        try:
            if key not in measured:
                measured[key] = each.quantity.measure(tables, each.place[1], key[1:])
            own = [*each.comparisons(measured[key])]
        except Untestable:
            if each.if_lacking is None:
                raise
            rows += [each.lacking()] if each.if_lacking == "cannot tell" else []
            continue
        rows += own
        if not each.if_lacking:
            notes.append(measured[key].note)
            specifics.append(measured[key].specifics)
        if each.also:
            try:
                alike = [*each.comparisons(measured[key], each.also)]
            except Untestable:
                alike = []
            others += alike
            met = bool(alike) and all(row.met for row in own + alike)
            passing[PASSING[each.also]] = passing.get(PASSING[each.also], True) and met
    if count := rows[0].statistic.removeprefix(requests[0].quantity.words).removeprefix(", "):
        notes.append(f"The number is {count}.")
    gates = [row.words for row in rows if row.role == "gate" and not row.met]
    if gates:
        notes.append(f"No verdict, because {gates[0]} is not known to be more than 0.")
    if isinstance(reported, list):
        layers = sum(row.question is not None and row.question.words.startswith("at least") for row in rows)
        reported = float(np.mean(reported[:layers]))  # of as many layers as there are
    known = {(row.words, row.statistic) for row in rows}
    return Outcome(
        (*rows, *(row for row in others if (row.words, row.statistic) not in known)),
        sentences(*dict.fromkeys(notes)),
        reported,
        next((name for name, met in passing.items() if met), None),
        sentences(*dict.fromkeys(specifics)),
        not_trained=bool(gates),
    )
