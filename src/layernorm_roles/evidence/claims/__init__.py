"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

The file <module>.yaml beside a module says in words what is claimed and how it is tested; the tests stand in the
modules: `projection`, `scaling` and `language_model` for the paper's claims, and a module for each experiment on
statements of other documents. `rules` has the thresholds and says how a verdict is reached.

A file begins with what its entries have where they say nothing else. An entry has the texts of `rules.Claim`, where
{NAMES} in braces are thresholds of `rules`; a text that it lacks is empty. Besides these it may have

    of       what the claim is about: an experiment of the majority task or a language model. The claim's test, and the
             function that describes the sizes, take it before the tables. Entries without it take the tables alone.
    also     further experiments or models that the test reads
    primary  whether the claim is one of about ten that are named before the run, see `rules.Claim.role`
    sizes    a key of sizes.SIZES: what describes the sizes of the run at hand
    again    a list of further claims that change some of the entry's keys: `name` at least, mostly `of` as well.
             `source_adds` and `statement_adds` are appended to the entry's source and statement.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd
import yaml

from layernorm_roles import store
from layernorm_roles.evidence.analysis.estimate import Estimate, holm, p_value
from layernorm_roles.evidence.claims import (
    batch_dependence,
    fusion,
    geometry,
    head_widths,
    language_model,
    placement,
    preregistration,
    pretrained,
    projection,
    rules,
    scaling,
    score_scale,
    sizes,
    worked_numbers,
)
from layernorm_roles.evidence.claims.rules import MEANINGS, Claim, Outcome, Tables, Verdict
from layernorm_roles.provenance import joined

MODULES = (
    projection,
    scaling,
    language_model,
    head_widths,
    pretrained,
    geometry,
    fusion,
    placement,
    batch_dependence,
    score_scale,
    worked_numbers,
)
"""The modules whose TESTS judge the entries of the YAML files beside them by name, in the order of the page."""

_TUPLES = ("tables", "figures", "shown")
_DEFAULTS = {"paper_value": None, "primary": False}
_DEFAULTS |= dict.fromkeys(("setting", "unit"), "") | {key: [] for key in ("figures", "shown", "also")}


def _claims() -> Iterator[Claim]:
    for module in MODULES:
        text = Path(module.__file__).with_suffix(".yaml").read_text(encoding="utf-8")
        common, entries = yaml.safe_load_all(text)
        for own in entries:
            entry = _DEFAULTS | common | own
            test = module.TESTS[entry["name"]]
            further = entry.pop("again", [])
            yield _claim(entry, test)
            for changes in further:
                adds = {
                    key: f"{entry[key]}{changes.pop(f'{key}_adds', '')}" for key in ("source", "statement")
                }
                own_test = module.TESTS.get(changes["name"], test)
                yield _claim(entry | {"primary": False} | adds | changes, own_test)


def _claim(entry: Mapping[str, Any], test: Callable[..., Outcome]) -> Claim:
    """The claim of an entry of the YAML files, with the thresholds filled in."""
    plain = {*_TUPLES, "primary", "also"}
    raw = {key: text for key, text in entry.items() if key not in plain}
    named = {name for text in raw.values() if text for _, name, _, _ in Formatter().parse(text) if name}
    texts = {key: text and text.format_map(vars(rules)) for key, text in raw.items()}
    of, describe = texts.pop("of", None), sizes.SIZES[texts.pop("sizes", "none")]
    return Claim(
        **texts,
        **{key: tuple(entry[key]) for key in _TUPLES},
        primary=entry["primary"],
        of=(*([of] if of else []), *entry["also"]),
        test=partial(test, of) if of else test,
        sizes=partial(describe, of) if of else describe,
        numbers={name: getattr(rules, name) for name in sorted(named)},
    )


CLAIMS: tuple[Claim, ...] = tuple(_claims())
"""All claims, in the order of the page."""

TABLES = tuple(dict.fromkeys([name for claim in CLAIMS for name in claim.tables] + ["random_keys_precision"]))
"""Names of the tables that the tests may read."""


def judge(
    tables: Tables, at_the_start: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Table `claims`: one row for every claim, from those of the reproduction's tables that are there.

    `at_the_start` are the hashes of the rules when the run began, by claim, as `record` wrote them, and `settings` those
    of the reproduction today. Where the hash of a rule at the start is not today's, the rule was made after the data.
    """
    today, start = preregistration.rule_hashes(CLAIMS, settings or {}), at_the_start or {}
    fixed = {
        name: preregistration.fixed_before_or_after(rule, start.get(name)) for name, rule in today.items()
    }
    rows = [row(claim, tables) | {"rule_fixed": fixed[claim.name]} for claim in CLAIMS]
    adjusted = holm(
        {claim.name: _p(claim, found) for claim, found in zip(CLAIMS, rows, strict=True) if claim.primary}
    )
    return pd.DataFrame([found | {"p_holm": adjusted.get(found["claim"], math.nan)} for found in rows])


def _p(claim: Claim, found: Mapping[str, Any]) -> float:
    """The p-value of a claim's own effect being none, on the scale of its interval; NaN without Student's interval."""
    measured = Estimate(*(found[column] for column in ("measured", "ci_low", "ci_high")))
    if claim.unit == "×":
        with np.errstate(divide="ignore"):
            measured = measured.map(np.log)
    return p_value(measured, found["n_seeds"])


def row(claim: Claim, tables: Tables) -> dict[str, Any]:
    """The row of table `claims` for one claim, but for the columns that need its hash or the other claims."""
    outcome = claim.judge(tables)
    measured, control = outcome.measured, outcome.control
    return {
        "claim": claim.name,
        "role": claim.role,
        "source": claim.source,
        "statement": " ".join(filter(None, (claim.statement, outcome.specifics))),
        "setting": " ".join(filter(None, (claim.setting, claim.sizes(tables)))),
        "paper_value": claim.paper_value,
        "statistic": claim.statistic,
        "measured": measured.mean,
        "ci_low": measured.low,
        "ci_high": measured.high,
        "reported": outcome.reported,
        "control": claim.control,
        "control_measured": control.mean,
        "control_low": control.low,
        "control_high": control.high,
        "also_passed_by": outcome.also_passed_by,
        "n_seeds": outcome.n_seeds,
        "verdict": str(outcome.verdict),
        "reason": outcome.reason,
    }


def judge_files(
    paths: Iterable[str | Path],
    out: str | Path,
    rules_at_start: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write table `claims` to `out`, from those of the Parquet files `paths` that the tests read.

    The name of a file, without its suffix, is that of its table. `rules_at_start` is the file that `record` wrote
    when the run began, None or a path without a file if there is none, and `settings` are those of the reproduction. The
    provenance of `out` is that of the Parquet files, joined: judging draws nothing at random, so equal files and equal
    code give equal bytes.
    """
    chosen = {Path(path).stem: path for path in paths if Path(path).stem in TABLES}
    provenance = joined((store.read_provenance(path) for path in chosen.values()), {})
    tables = {name: store.read(path, name) for name, path in chosen.items()}
    at_the_start = preregistration.read_record(rules_at_start).rules
    store.write(judge(tables, at_the_start, settings), "claims", out, provenance)


def record(path: str | Path, settings: Mapping[str, Any], commit: str) -> None:
    """Write the hash of every claim's rule to `path` when a run begins with the code of `commit`.

    A file beside results that have been made since stays as it is, see `preregistration.record`.
    """
    preregistration.record(path, CLAIMS, settings, commit)


__all__ = ["CLAIMS", "MEANINGS", "TABLES", "Claim", "Verdict", "judge", "judge_files", "record", "row"]
