"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

The file <module>.yaml beside a module says in words what is claimed and how it is tested; the tests stand in the
modules: `projection`, `scaling` and `language_model` for the paper's claims, and a module for each experiment on
statements of other documents. `rules` has the thresholds and says how a verdict is reached.

A file begins with what all its entries have in common. An entry has the texts of `rules.Claim`, where {NAMES} in
braces are thresholds of `rules`; a text that it lacks is empty. Besides these it may have

    of       what the claim is about: an experiment of the majority task or a language model. The claim's test, and the
             function that describes the sizes, take it before the tables. Entries without it take the tables alone.
    sizes    a key of sizes.SIZES: what describes the sizes of the run at hand
    again    a list of further claims that change some of the entry's keys: `name` at least, mostly `of` as well.
             `source_adds` and `statement_adds` are appended to the entry's source and statement.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from layernorm_roles import store
from layernorm_roles.evidence.claims import (
    batch_dependence,
    fusion,
    geometry,
    head_widths,
    language_model,
    placement,
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

MODULES = {
    "projection.yaml": projection,
    "scaling.yaml": scaling,
    "language_model.yaml": language_model,
    "head_widths.yaml": head_widths,
    "pretrained.yaml": pretrained,
    "geometry.yaml": geometry,
    "fusion.yaml": fusion,
    "placement.yaml": placement,
    "batch_dependence.yaml": batch_dependence,
    "score_scale.yaml": score_scale,
    "worked_numbers.yaml": worked_numbers,
}
"""The YAML files of claims, in the order of the page, each with the module whose TESTS judge its entries by name."""

_TUPLES = ("tables", "figures", "shown")
_DEFAULTS = {"paper_value": None, "figures": [], "shown": []}


def _claims() -> Iterator[Claim]:
    for file, module in MODULES.items():
        common, entries = yaml.safe_load_all((Path(__file__).parent / file).read_text(encoding="utf-8"))
        for own in entries:
            entry = _DEFAULTS | common | own
            test = module.TESTS[entry["name"]]
            further = entry.pop("again", [])
            yield _claim(entry, test)
            for changes in further:
                adds = {
                    key: f"{entry[key]}{changes.pop(f'{key}_adds', '')}" for key in ("source", "statement")
                }
                yield _claim(entry | adds | changes, test)


def _claim(entry: Mapping[str, Any], test: Callable[..., Outcome]) -> Claim:
    """The claim of an entry of the YAML files, with the thresholds filled in."""
    texts = {key: text and text.format_map(vars(rules)) for key, text in entry.items() if key not in _TUPLES}
    of, describe = texts.pop("of", None), sizes.SIZES[texts.pop("sizes", "none")]
    return Claim(
        **texts,
        **{key: tuple(entry[key]) for key in _TUPLES},
        test=partial(test, of) if of else test,
        sizes=partial(describe, of) if of else describe,
    )


CLAIMS: tuple[Claim, ...] = tuple(_claims())
"""All claims, in the order of the page."""

TABLES = tuple(dict.fromkeys([name for claim in CLAIMS for name in claim.tables] + ["random_keys_precision"]))
"""Names of the tables that the tests may read."""


def judge(tables: Tables) -> pd.DataFrame:
    """Table `claims`: one row for every claim, from those of the reproduction's tables that are there."""
    return pd.DataFrame([row(claim, tables) for claim in CLAIMS])


def row(claim: Claim, tables: Tables) -> dict[str, Any]:
    """The row of table `claims` for one claim."""
    outcome = claim.judge(tables)
    return {
        "claim": claim.name,
        "source": claim.source,
        "statement": " ".join(filter(None, (claim.statement, outcome.specifics))),
        "setting": " ".join(filter(None, (claim.setting, claim.sizes(tables)))),
        "paper_value": claim.paper_value,
        "statistic": claim.statistic,
        **_numbers(outcome),
        "control": claim.control,
        "also_passed_by": outcome.also_passed_by,
        "verdict": str(outcome.verdict),
        "reason": outcome.reason,
        "rule_fixed": claim.rule_fixed,
    }


def _numbers(outcome: Outcome) -> dict[str, float | int | None]:
    measured, control = outcome.measured, outcome.control
    return {
        "measured": measured.mean,
        "ci_low": measured.low,
        "ci_high": measured.high,
        "reported": outcome.reported,
        "control_measured": control.mean,
        "control_low": control.low,
        "control_high": control.high,
        "n_seeds": outcome.n_seeds,
    }


def judge_files(paths: Iterable[str | Path], out: str | Path) -> None:
    """Write table `claims` to `out`, from those of the Parquet files `paths` that the tests read.

    The name of a file, without its suffix, is that of its table. The provenance of `out` is that of these files,
    joined: judging draws nothing at random, so equal files and equal code give equal bytes.
    """
    chosen = {Path(path).stem: path for path in paths if Path(path).stem in TABLES}
    provenance = joined((store.read_provenance(path) for path in chosen.values()), {})
    tables = {name: store.read(path, name) for name, path in chosen.items()}
    store.write(judge(tables), "claims", out, provenance)


__all__ = ["CLAIMS", "MEANINGS", "TABLES", "Claim", "Verdict", "judge", "judge_files", "row"]
