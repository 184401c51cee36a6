"""The class `Claim`, filled from the YAML files of this folder, and how the outcome of its test makes rows of tables.

A file <module>.yaml is pairs of YAML documents: keys of `Claim` that hold for all claims of the pair, and the list of
these claims. A claim may have `again`: a list of further claims that change some of its keys, mostly `name` and `of`,
append `source_adds` and `statement_adds` to its source and statement, and are primary only if they say so.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import numpy as np
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, PlainValidator, model_validator

from layernorm_roles.evidence.analysis.estimate import LEVEL, NOTHING
from layernorm_roles.evidence.claims import comparing, language_model, projection, rules
from layernorm_roles.evidence.claims.comparing import QUANTITIES, Number, Request, one_of
from layernorm_roles.evidence.claims.comparison import (
    UNTRAINED,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    Value,
    require,
    sentences,
)
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.claims.sizes import SIZES
from layernorm_roles.schemas import SCHEMAS

TESTS = projection.TESTS | language_model.TESTS
"""The functions that test a claim where no comparisons of quantities can, by the name that the YAML files use."""

GEOMETRY = "Untrained models pass this test, too: it shows what geometry gives, and nothing that is learnt."
"""Sentence added to the reason of a verdict where untrained models pass the claim's test as well."""


def _function(test: Mapping[str, Any]) -> Callable[..., Outcome]:
    """Return the function of TESTS that a claim names, with its arguments; ValueError for unknown ones."""
    given = {key: comparing.number(each) if str(each).isupper() else each for key, each in test.items()}
    function = TESTS[one_of(TESTS, given.pop("function", None), "function")]
    try:
        inspect.signature(function).bind({}, "", **given)
    except TypeError as error:
        raise ValueError(f"{function.__name__}: {error}") from None
    return partial(function, **given)


class Claim(BaseModel):
    """One claim and its test. All texts are plain; a page or table that shows them escapes them.

    A name in braces in a text, such as {ZERO}, is a threshold of `rules`, whose value is filled in.
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
    tables: tuple[Annotated[str, AfterValidator(partial(one_of, SCHEMAS, what="table"))], ...]
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
    sizes: Annotated[str, AfterValidator(partial(one_of, SIZES, what="sizes"))] = "none"
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
        own = {"quantity": entry.get("quantity"), "of": entry.get("of")}
        requests = [
            own | {"role": "context" if i else "effect", "elsewhere": "of" in spec} | spec
            for i, spec in enumerate(entry.get("compare", ()))
        ]
        return entry | filled | {"compare": requests, "numbers": named | _numbers(entry)}

    @property
    def role(self) -> str:
        """The claim's role in table claims: primary, exploratory or other documents."""
        if self.primary:
            return "primary"
        return "other documents" if self.part == "documents" else "exploratory"

    def judge(self, tables: Tables) -> Outcome:
        """Return the outcome of the claim's test, without comparisons if `tables` lack what the test needs."""
        missing = [name for name in self.tables if name not in tables]
        try:
            require(not missing, f"This run has no {' and no '.join(missing)}.parquet.")
            if self.test:
                outcome = self.test(tables, self.of)
            else:
                outcome = comparing.compare(self.compare, self.reported, tables)
            for gate in self.gate:
                outcome = language_model.gated(outcome, tables, self.of, **gate)
            return outcome
        except Untestable as lack:
            return Outcome((), str(lack), runs=lack.runs)

    def verdict(self, outcome: Outcome) -> Verdict:
        """Return the claim's verdict on its test's `outcome`, by one of the two tables in `rules`."""
        if outcome.not_trained or not outcome.comparisons:
            return Verdict.NOT_TESTED
        parts, cause = outcome.findings()
        if not self.source.startswith("Brody"):
            return rules.statement_verdict(parts, cause)
        verdict = rules.verdict(parts[0], cause, *parts[1:])
        elsewhere = ";" in self.source  # the paper's claim in a setting that is not the paper's
        return rules.OUR_WORDS.get(verdict, verdict) if elsewhere else verdict

    def row(self, outcome: Outcome, tables: Tables) -> dict[str, Any]:
        """Return the claim's row of table `claims` for its test's `outcome`, but for p_holm and rule_fixed."""
        nothing = Comparison("", Value(NOTHING, outcome.runs))
        first = (*outcome.comparisons, nothing)[0]
        controls = (row for row in outcome.comparisons if (row.role, row.unit) == ("control", first.unit))
        untrained = GEOMETRY if outcome.also_passed_by == UNTRAINED else ""
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
            "reason": sentences(outcome.reason, untrained),
        }

    def corrected(
        self, row: Mapping[str, Any], outcome: Outcome, p_holm: float, family: int
    ) -> dict[str, Any]:
        """Return the claim's row of table `claims` with `p_holm`, its p-value corrected for `family` primary claims.

        A verdict that rests on effects becomes "not tested" where the correction leaves them open.
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
    reported = {name: value for name, value in comparing.reported_numbers().items() if name in words}
    return tested | {name: getattr(rules, name) for name in names} | reported


def claims() -> Iterator[Claim]:
    """Yield all claims, in the order of the report; a ValueError names file, claim and key of a wrong one."""
    for module in comparing.MODULES:
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
