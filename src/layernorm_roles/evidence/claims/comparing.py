"""Tests of claims that YAML files give as data: which columns of a measured quantity to compare, and what to ask."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainValidator, model_validator

from layernorm_roles.evidence.analysis.estimate import NOTHING
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import documents, language_model, pretrained, projection, rules, scaling
from layernorm_roles.evidence.claims.comparison import (
    ASKED,
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Role,
    Tables,
    Untestable,
    Value,
    ask,
    sentences,
)
from layernorm_roles.evidence.claims.quantities import BEFORE_TRAINING, Measured, Quantity
from layernorm_roles.variants import PAPER_PROJECTION

MODULES = (projection, scaling, language_model, pretrained, documents)
"""Modules of claims in the report's order, each with QUANTITIES, what is measured, and a YAML file of claims."""

QUANTITIES = {name: quantity for module in MODULES for name, quantity in module.QUANTITIES.items()}
"""All measured quantities that the YAML entries of claims can compare, by name."""

PASSING = {BEFORE_TRAINING: UNTRAINED, "without norm ": "the same heads without the norm"}
"""What the report calls models or keys that pass a claim's test as well, by the beginning of their columns' names."""


def one_of(known: Collection[Any], name: Any, what: str) -> Any:
    """Return `name`; raise ValueError, which says `what` is named, such as "table", if it is not `known`."""
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; expected one of {', '.join(map(str, known))}")
    return name


@cache
def reported_numbers() -> dict[str, Any]:
    """Return the effects that the paper reports, by their names in YAML entries; of its tables, a list by layer."""
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


def number(given: Any) -> Any:
    """Return the number that an entry of a YAML file gives as such, by name, or as a product like "0.5 accuracy_gap".

    None stays None. Raises ValueError for a name that is neither a reported number nor a threshold of `rules`.
    """
    if not isinstance(given, str):
        return given if given is None else float(given)
    known = reported_numbers() | {name: value for name, value in vars(rules).items() if name.isupper()}
    words = given.split(" ")
    values = [
        float(w) if re.fullmatch(r"\d+(\.\d*)?", w) else known[one_of(known, w, "number")] for w in words
    ]
    return values[0] if isinstance(values[0], list) else float(np.prod(values))


Number = Annotated[Any, BeforeValidator(number)]
"""Pydantic type of a number in the entry of a claim: plain, the name of a known number, or a product of both."""


class Request(BaseModel):
    """A comparison that a claim asks for under `compare` in its YAML entry.

    Keys of the entry are these fields, but for four: `over: [a, b]` and `alone: a` give `names`, a key of ASKED gives
    `asked` and, as its value, `number`, and `plus: [k, a, b]` is `less: [-k, a, b]`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    names: tuple[str] | tuple[str, str]
    """Two columns of the quantity, compared as first minus second (where the unit is ×, as a ratio by its logarithm),
    or a single one. A * in the name of a single column stands for any text, and each column that matches is compared.
    """
    less: tuple[Number, str, str] | None = None
    """(k, a, b): for each seed, k times column a minus column b is taken from the difference of `names`."""
    asked: str | None = None
    """What is asked of the estimate, as a key of ASKED; None if nothing is asked."""
    number: Number = None
    """What the estimate is held against; a list has a number for each layer."""
    role: Role
    """Why the comparison is made, see `Role`. The claim gets no verdict where one in the role gate is not met."""
    part: int | Literal["cause", "each"] | None = None
    """The part of the verdict in which the comparison counts, see `Comparison.part`; "each": every column is a part."""
    quantity: Annotated[
        Quantity, PlainValidator(lambda name: QUANTITIES[one_of(QUANTITIES, name, "quantity")])
    ]
    of: str | None
    """The experiment of the majority task, or the model, whose runs are compared; None for whole tables."""
    elsewhere: bool = False
    """Whether `of` is another experiment or model than that of the claim."""
    if_lacking: Literal["leave out", "cannot tell"] | None = None
    """What becomes of the comparison if a column or experiment is missing; None: the claim cannot be tested then."""
    also: Annotated[str, AfterValidator(partial(one_of, PASSING, what="value of also"))] | None = None
    """A beginning of column names, see PASSING: readers are told if the columns with it meet what is asked as well."""

    @model_validator(mode="before")
    @classmethod
    def _from_entry(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        fields = dict(entry)
        if "alone" in fields:
            fields["over"] = [fields.pop("alone")]
        if "over" in fields:
            fields["names"] = fields.pop("over")
        for kind in ASKED.keys() & fields.keys():
            fields |= {"asked": kind, "number": fields.pop(kind)}
        if "plus" in fields:
            times, *names = fields.pop("plus")
            fields["less"] = (-number(times), *names)
        return fields

    @model_validator(mode="after")
    def _columns_are_known(self) -> "Request":
        if unknown := [name for name in self.columns if not self.quantity.knows(name)]:
            raise ValueError(f"unknown column {unknown[0]!r}")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns that the request reads: those that it compares, and those of `less`."""
        return (*self.names, *(self.less[1:] if self.less else ()))

    def comparison(self, columns: Sequence[str], value: Value, **fields: Any) -> Comparison:
        """Return the comparison of `columns`, of which `value` was measured, with further `fields` of Comparison."""
        unit, number, question = self.quantity.unit, self.number, None
        than = " over " if unit == RATIO else " minus "
        words = than.join(columns) + (f", {self.of}" if self.elsewhere else "")
        if self.less:
            times, *others = self.less
            words += f", {'less' if times > 0 else 'plus'} {abs(times):g} times ({than.join(others)})"
        if self.asked:
            if isinstance(number, list):
                number = number[int(columns[0].split()[-1]) - 1]  # that of the column's layer
            question = ask(self.asked, number, unit)
        fields = {"role": self.role} | fields
        return Comparison(words, value, question, unit=unit, **fields)

    def comparisons(self, measured: Measured, beginning: str = "") -> list[Comparison]:
        """Return the request's comparisons of what was `measured`, in the columns whose names have this `beginning`.

        With a beginning they count in no part of the verdict. Untestable if columns or seeds are missing.
        """
        names, rows = [beginning + name for name in self.names], []
        for i, columns in enumerate([names] if names[1:] else [[each] for each in measured.columns(*names)]):
            value = measured.value(*columns, less=self.less)
            counts = {"role": "context"} if beginning else {"part": i if self.part == "each" else self.part}
            statistic = ", ".join(filter(None, (self.quantity.words, value.counted)))
            rows.append(self.comparison(columns, value, statistic=statistic, **counts))
        return rows


def compare(requests: Sequence[Request], reported: Any, tables: Tables) -> Outcome:
    """Return the outcome of the comparisons that a claim asks for; `reported` is the source's number, or one a layer.

    Columns of one experiment or model that must be there are measured together, and an optional one along with them.
    """
    measure = cache(lambda quantity, of, columns: quantity.measure(tables, of, columns))
    required, rows, alike, passing = [], [], [], {}
    for each in requests:
        place = each.quantity, each.of
        together = [own for own in requests if (own.quantity, own.of) == place and not own.if_lacking]
        names = (name.removeprefix(BEFORE_TRAINING) for own in [*together, each] for name in own.columns)
        try:
            measured = measure(*place, tuple(dict.fromkeys(names)))
            own = each.comparisons(measured)
        except Untestable:
            if each.if_lacking is None:
                raise
            if each.if_lacking == "cannot tell":
                rows.append(each.comparison(each.names, Value(NOTHING, None)))
            continue
        rows += own
        if not each.if_lacking:
            required.append(measured)
        if each.also:
            try:
                others = each.comparisons(measured, each.also)
            except Untestable:
                others = []
            alike += others
            met = bool(others) and all(row.met for row in own + others)
            passing.setdefault(PASSING[each.also], []).append(met)
    notes = [each.note for each in required]
    if count := rows[0].value.counted:
        notes.append(f"The number is {count}.")
    gates = [row.words for row in rows if row.role == "gate" and not row.met]
    if gates:
        notes.append(f"No verdict, because {gates[0]} is not known to be more than 0.")
    if isinstance(reported, list):
        layers = sum(row.question is not None and row.question.words.startswith("at least") for row in rows)
        reported = float(np.mean(reported[:layers]))  # of as many layers as there are
    known = {(row.words, row.statistic) for row in rows}
    return Outcome(
        (*rows, *(row for row in alike if (row.words, row.statistic) not in known)),
        sentences(*dict.fromkeys(notes)),
        reported,
        next((name for name, met in passing.items() if all(met)), None),
        sentences(*dict.fromkeys(each.specifics for each in required)),
        not_trained=bool(gates),
    )
