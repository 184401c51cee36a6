"""The classes `Claim` and `Request`, filled from the YAML files of this folder, and how a claim is tested and judged.

A file <module>.yaml is pairs of YAML documents: keys of `Claim` that hold for all claims of the pair, and the list of
these claims. A claim may have `again`: a list of further claims that change some of its keys, mostly `name` and `of`,
append `source_adds` and `statement_adds` to its source and statement, and are primary only if they say so. Most tests
are data, a list of `Request`: which columns of a measured quantity to compare, and what to ask.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, model_validator

from layernorm_roles.evidence.analysis.estimate import LEVEL, NOTHING
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
    require,
    sentences,
)
from layernorm_roles.evidence.claims.quantities import BEFORE_TRAINING, Measured, Quantity
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.claims.sizes import SIZES
from layernorm_roles.schemas import SCHEMAS
from layernorm_roles.variants import PAPER_PROJECTION

MODULES = (projection, scaling, language_model, pretrained, documents)
"""Modules of claims in the report's order, each with QUANTITIES, what is measured, and a YAML file of claims."""

QUANTITIES = {name: quantity for module in MODULES for name, quantity in module.QUANTITIES.items()}
"""All measured quantities that the YAML entries of claims can compare, by name."""

TESTS = projection.TESTS | language_model.TESTS
"""The functions that test a claim where no comparisons of quantities can, by the name that the YAML files use."""

GEOMETRY = "Untrained models pass this test, too: it shows what geometry gives, and nothing that is learnt."
PASSING = {BEFORE_TRAINING: UNTRAINED, "without norm ": "the same heads without the norm"}
"""What the report calls models or keys that pass a claim's test as well, by the beginning of their columns' names."""


def one_of(known: Collection[Any], name: Any, what: str) -> Any:
    """Return `name` if it is in `known`; otherwise raise ValueError with the names that are allowed.

    `what` is the word for the named thing in the message, such as "table".
    """
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}; expected one of {', '.join(map(str, known))}")
    return name


@cache
def reported_numbers() -> dict[str, Any]:
    """Return the effects that the paper reports, by the names that the claims' YAML files use.

    An effect is a number or, where the paper has a table by layer, a list with a number for each layer.
    """
    small, models = reported()["majority"], reported()["language_model"]
    with_projection, without = (small[v]["test_accuracy"][rules.ACCURACY_STEP] for v in PAPER_PROJECTION)
    without_scaling, scaled = models["projection"], models["layernorm"]
    of_loss = {kind: without_scaling[f"{kind}_loss"] - scaled[f"{kind}_loss"] for kind in ("train", "valid")}
    gaps = {f"{kind}_gap": round(gap, 3) for kind, gap in of_loss.items()}  # as the plot was read
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
    """Return the number that a claim's YAML entry gives as a number, a name, or a product like "0.5 accuracy_gap".

    None gives None, and the name of a list gives the list. Raises ValueError if a name is neither in `reported_numbers`
    nor a threshold of the module `rules`.
    """
    if not isinstance(given, str):
        return given if given is None else float(given)
    known = reported_numbers() | {name: value for name, value in vars(rules).items() if name.isupper()}
    values = [
        float(word) if word[:1].isdecimal() else known[one_of(known, word, "number")]
        for word in given.split(" ")
    ]
    return values[0] if isinstance(values[0], list) else float(np.prod(values))


Number = Annotated[Any, BeforeValidator(number)]
"""Pydantic type of a number in the entry of a claim: plain, the name of a known number, or a product of both."""


class Request(BaseModel):
    """A comparison that a claim's YAML entry asks for, as an item of the list under the entry's key `compare`.

    The item's keys are the fields of this class, with four exceptions: `over: [a, b]` and `alone: a` set `names`; a key
    of ASKED, such as `positive`, sets `asked`, and its value sets `number`; `plus: [k, a, b]` means `less: [-k, a, b]`.
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
    of: str | None = None
    """The experiment of the majority task, or the model, whose runs are compared, if they are not the claim's."""
    if_lacking: Literal["leave out", "cannot tell"] | None = None
    """What becomes of the comparison if a column or experiment is missing; None: the claim cannot be tested then."""
    also: Literal[*PASSING] | None = None
    """A beginning of column names, see PASSING: readers are told if the columns with it meet what is asked as well."""

    @model_validator(mode="before")
    @classmethod
    def _from_entry(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        fields = {key: each for key, each in entry.items() if key not in ("over", "alone", "plus", *ASKED)}
        fields["names"] = entry.get("over") or [entry.get("alone")]
        if "plus" in entry:
            times, *names = entry["plus"]
            fields["less"] = (-number(times), *names)
        for kind in ASKED.keys() & entry.keys():
            fields |= {"asked": kind, "number": entry[kind]}
        return fields

    @model_validator(mode="after")
    def _columns_are_known(self) -> "Request":
        if unknown := [name for name in self.columns if not self.quantity.knows(name)]:
            raise ValueError(f"unknown column {unknown[0]!r}")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the measured columns that are compared: those in `names` and, if given, the two in `less`."""
        return (*self.names, *(self.less or ())[1:])

    def comparison(self, columns: Sequence[str], value: Value, **fields: Any) -> Comparison:
        """Return a `Comparison`: the measured `value` of `columns`, with the question and the unit of this request.

        `fields` are further fields of the `Comparison`, such as `statistic`; a `role` in them replaces the request's.
        """
        unit, number = self.quantity.unit, self.number
        than = " over " if unit == RATIO else " minus "
        words = than.join(columns) + (f", {self.of}" if self.of else "")
        if self.less:
            times, *others = self.less
            words += f", {'less' if times > 0 else 'plus'} {abs(times):g} times ({than.join(others)})"
        if isinstance(number, list):
            number = number[int(columns[0].split()[-1]) - 1]  # that of the column's layer
        question = ask(self.asked, number, unit) if self.asked else None
        return Comparison(words, value, question, unit=unit, **{"role": self.role} | fields)

    def comparisons(self, measured: Measured, beginning: str = "") -> list[Comparison]:
        """Return the request's comparisons of what was `measured`, one for each column or pair of columns.

        With a `beginning`, such as "untrained ", the columns with this text before their names are compared instead;
        their comparisons count in no part of the verdict. Raises Untestable if columns or seeds are missing.
        """
        names, rows = [beginning + name for name in self.names], []
        for i, columns in enumerate([names] if names[1:] else [[each] for each in measured.columns(*names)]):
            value = measured.value(*columns, less=self.less)
            counts = {"role": "context"} if beginning else {"part": i if self.part == "each" else self.part}
            statistic = ", ".join(filter(None, (self.quantity.words, value.counted)))
            rows.append(self.comparison(columns, value, statistic=statistic, **counts))
        return rows


def compare(requests: Sequence[Request], of: str | None, reported: Any, tables: Tables) -> Outcome:
    """Return the outcome of a claim's test that consists of the comparisons in `requests`, measured from `tables`.

    `of` is the experiment or model that is compared where a request names no other. `reported` is the number that the
    claim's source reports, or a list with a number for each layer. Raises Untestable if data are missing for a request,
    unless its field `if_lacking` says what to do then.
    """
    measure = cache(lambda quantity, of, columns: quantity.measure(tables, of, columns))
    needed = {(each.quantity, each.of): [] for each in requests}
    for each in requests:
        needed[each.quantity, each.of] += () if each.if_lacking else each.columns
    required, rows, alike, passing, layers = [], [], [], {}, 0
    for each in requests:
        names = (*needed[each.quantity, each.of], *each.columns)
        columns = dict.fromkeys(name.removeprefix(BEFORE_TRAINING) for name in names)
        try:
            measured = measure(each.quantity, each.of or of, tuple(columns))
            own = each.comparisons(measured)
        except Untestable:
            if each.if_lacking is None:
                raise
            if each.if_lacking == "cannot tell":
                rows.append(each.comparison(each.names, Value(NOTHING, None)))
            continue
        rows += own
        layers += len(own) * isinstance(each.number, list)
        required += [] if each.if_lacking else [measured]
        if each.also:
            others = []
            with suppress(Untestable):
                others = each.comparisons(measured, each.also)
            alike += others
            met = bool(others) and all(row.met for row in own + others)
            passing[PASSING[each.also]] = passing.get(PASSING[each.also], True) and met
    notes = [each.note for each in required]
    if count := rows[0].value.counted:
        notes.append(f"The number is {count}.")
    gates = [row.words for row in rows if row.role == "gate" and not row.met]
    if gates:
        notes.append(f"No verdict, because {gates[0]} is not known to be more than 0.")
    known = {(row.words, row.statistic) for row in rows}
    return Outcome(
        (*rows, *(row for row in alike if (row.words, row.statistic) not in known)),
        sentences(*dict.fromkeys(notes)),
        float(np.mean(reported[:layers])) if layers else reported,  # of as many layers as there are
        next((name for name, met in passing.items() if met), None),
        sentences(*dict.fromkeys(each.specifics for each in required)),
        not_trained=bool(gates),
    )


def _function(test: Mapping[str, Any]) -> Callable[..., Outcome]:
    """Return the function of TESTS that a claim names, with its arguments; raises ValueError for an unknown name."""
    given = {key: number(each) if str(each).isupper() else each for key, each in test.items()}
    return partial(TESTS[one_of(TESTS, given.pop("function", None), "function")], **given)


class Claim(BaseModel):
    """A claim and its test, from an entry of a YAML file.

    All texts are plain; a page or table that shows them has to escape them. The name of a threshold of the module
    `rules` in braces, such as {ZERO}, is replaced by the threshold's value in each text of the entry.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    part: Literal["projection", "scaling", "documents"]
    """Part of the report in which the claim is shown: on projection, on scaling, or on other documents."""
    source: str
    """The document that makes the claim, and where in it."""
    statement: str
    paper_value: str | None = None
    """The number that the claim's source gives, as written there; None if it gives none."""
    setting: str = ""
    """How the runs differ from the source's setting, in words; the sentence of `sizes` is appended to it."""
    statistic: str
    """In words, the measured number that the claim is judged by, with its unit."""
    unit: str = ""
    """The unit as it is written after the measured number, such as " nats", or "×" for a ratio."""
    control: str
    """In words, the comparisons that isolate the claimed cause, first the one whose number readers see."""
    rule: str
    """In words, what measurements must show for the claim to be reproduced, or for the statement to hold."""
    primary: bool = False
    """Whether the claim is one of about ten named before the runs, whose p-values are corrected for their number."""
    of: str | None = None
    """The experiment of the majority task, or the model, that the claim is about; None if it is about whole tables."""
    also: tuple[str, ...] = ()
    """Experiments of the majority task, or models, that the claim's test reads beside `of`."""
    tables: tuple[Literal[*SCHEMAS], ...]
    """Names of the Parquet tables without which the claim cannot be tested."""
    compare: tuple[Request, ...] = ()
    """The comparisons that test the claim, first that of its main number."""
    quantity: str | None = None
    """The quantity of all comparisons that name none."""
    test: Annotated[Callable[..., Outcome], PlainValidator(_function)] | None = None
    """In place of `compare`: a function of TESTS, which the YAML entry names under `function`, with its arguments."""
    gate: tuple[dict[str, tuple[str, ...]], ...] = ()
    """Variants of the model `of` that must be clearly better than two baselines, or there is no verdict: arguments
    keys_of and losses_of of `language_model.gated`."""
    reported: Number = None
    """What the source reports for the quantity that is compared first: a number or, for a table, a list by layer."""
    sizes: Literal[*SIZES] = "none"
    """Name of the function in SIZES that states the sizes of this reproduction beside those of the source."""
    figures: tuple[str, ...] = ()
    """Names of the figures that the report shows with the claim."""
    shown: tuple[str, ...] = ()
    """Names of the tables for readers (CSV and Markdown) that show the claim's numbers."""
    target: Literal["majority", "random_keys", "language_model", "pretrained", "statements"]
    """What to ask Snakemake for, such as `majority`, to make all tables that the claim's test reads."""
    numbers: dict[str, Any]
    """The numbers of the claim's rule: the test as in the YAML file, and all thresholds and effects that it names."""

    @model_validator(mode="before")
    @classmethod
    def _from_entry(cls, entry: Mapping[str, Any]) -> dict[str, Any]:
        if ("test" in entry) == ("compare" in entry):
            raise ValueError("expected one of the keys test and compare")
        texts = {key: text for key, text in entry.items() if isinstance(text, str)}
        named = {name for text in texts.values() for _, name, *_ in Formatter().parse(text) if name}
        named = {name: getattr(rules, one_of(vars(rules), name, "threshold")) for name in named}
        filled = {key: text.format_map(named) for key, text in texts.items()}
        requests = [
            {"quantity": entry.get("quantity"), "role": "context" if i else "effect"} | spec
            for i, spec in enumerate(entry.get("compare", ()))
        ]
        return entry | filled | {"compare": requests, "numbers": named | _numbers(entry)}

    @property
    def role(self) -> str:
        """The claim's role in table claims: "primary", "exploratory" or "other documents".

        Primary claims are few and were named before the runs; their p-values are corrected for their number.
        """
        others = "other documents" if self.part == "documents" else "exploratory"
        return "primary" if self.primary else others

    def judge(self, tables: Tables) -> Outcome:
        """Run the claim's test and return its outcome, without comparisons if `tables` lack what it needs."""
        missing = [name for name in self.tables if name not in tables]
        try:
            require(not missing, f"This run has no {' and no '.join(missing)}.parquet.")
            if self.test:
                outcome = self.test(tables, self.of)
            else:
                outcome = compare(self.compare, self.of, self.reported, tables)
            for gate in self.gate:
                outcome = language_model.gated(outcome, tables, self.of, **gate)
            return outcome
        except Untestable as lack:
            return Outcome((), str(lack), runs=lack.runs)

    def verdict(self, outcome: Outcome) -> Verdict:
        """Return the verdict on the claim that follows, by the module `rules`, from the `outcome` of its test."""
        if outcome.not_trained or not outcome.comparisons:
            return Verdict.NOT_TESTED
        parts, cause = outcome.findings()
        if not self.source.startswith("Brody"):
            return rules.statement_verdict(parts, cause)
        verdict = rules.verdict(parts[0], cause, *parts[1:])
        elsewhere = ";" in self.source  # the paper's claim in a setting that is not the paper's
        return rules.OUR_WORDS.get(verdict, verdict) if elsewhere else verdict

    def row(self, outcome: Outcome, tables: Tables) -> dict[str, Any]:
        """Return the claim's row of table claims, without p_holm and rule_fixed, from the `outcome` of its test.

        The text in the column setting states the sizes of the runs, which are taken from `tables`.
        """
        nothing = Comparison("", Value(NOTHING, outcome.runs))
        first = (*outcome.comparisons, nothing)[0]
        controls = (row for row in outcome.comparisons if (row.role, row.unit) == ("control", first.unit))
        return {
            "claim": self.name,
            "role": self.role,
            "source": self.source,
            "statement": sentences(self.statement, outcome.specifics),
            "setting": sentences(self.setting, SIZES[self.sizes](tables, self.of)),
            "paper_value": self.paper_value,
            "statistic": self.statistic,
            **first.shown("measured", "ci_low", "ci_high"),
            "reported": outcome.reported,
            "control": self.control,
            **next(controls, nothing).shown("control_measured", "control_low", "control_high"),
            "also_passed_by": outcome.also_passed_by,
            "n_seeds": first.value.n,
            "verdict": str(self.verdict(outcome)),
            "reason": sentences(outcome.reason, GEOMETRY * (outcome.also_passed_by == UNTRAINED)),
        }

    def corrected(
        self, row: Mapping[str, Any], outcome: Outcome, p_holm: float, family: int
    ) -> dict[str, Any]:
        """Return the claim's `row` of table claims with the corrected p-value `p_holm` and the verdict it allows.

        `outcome` is the outcome of the claim's test, and `family` the number of primary claims corrected for. A verdict
        by which an effect, or its opposite, was found becomes "not tested" unless `p_holm` is below 5 %.
        """
        row = {**row, "p_holm": p_holm}
        rests = row["verdict"] in rules.OF_EFFECTS and (outcome.effects or row["verdict"] == Verdict.REVERSED)
        if rests and not p_holm < 1 - LEVEL:
            p_is = f"p is {p_holm:.2g}" if np.isfinite(p_holm) else "a bound has no p-value"
            why = f"No verdict, because with Holm's correction for {family} primary claims {p_is}."
            row |= {"verdict": str(Verdict.NOT_TESTED), "reason": sentences(row["reason"], why)}
        return row

    def comparisons(self, outcome: Outcome) -> Iterator[dict[str, Any]]:
        """Yield the claim's rows of table `comparisons`: one for each number that the outcome of its test compares."""
        for place, row in enumerate(outcome.comparisons, start=1):
            yield {
                "claim": self.name,
                "number": place,
                "comparison": row.words,
                "statistic": row.statistic or self.statistic,
                **row.shown("estimate", "ci_low", "ci_high"),
                "unit": row.unit,
                "n_runs": row.value.n,
                "asked": row.question.words if row.question else "",
                "met": row.met,
                "role": row.role,
            }


def _numbers(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the test as the YAML file has it, and the values of the thresholds and reported numbers that it names."""
    keys = ("compare", "quantity", "test", "gate", "reported")
    tested = {key: entry[key] for key in keys if entry.get(key)}
    words = set(re.findall(r"\w+", json.dumps(tested)))
    names = {name for name in words if name.isupper() and name in vars(rules)}
    names |= {name for each in words & QUANTITIES.keys() for name in QUANTITIES[each].thresholds}
    reported = {name: value for name, value in reported_numbers().items() if name in words}
    return tested | {name: getattr(rules, name) for name in names} | reported


def claims() -> Iterator[Claim]:
    """Yield all claims of the YAML files, in the order of the report.

    Raises ValueError with the file, the claim and the key if an entry is wrong.
    """
    for module in MODULES:
        file = Path(module.__file__).with_suffix(".yaml")
        parts = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
        for common, entries in zip(parts[::2], parts[1::2], strict=True):
            for entry in (each for own in entries for each in _with_others(common | own)):
                try:
                    yield Claim.model_validate(entry)
                except ValueError as error:
                    raise ValueError(f"{file.name}, {entry.get('name')}: {error}") from None


def _with_others(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield an entry of a YAML file, and those that its key `again` derives from it."""
    for changes in ({"primary": entry.get("primary", False)}, *entry.pop("again", [])):
        derived = entry | {"primary": False} | changes
        for key in ("source", "statement"):
            if addition := derived.pop(f"{key}_adds", ""):
                derived[key] += addition
        yield derived
