"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

claims.yaml says in words what is claimed and how it is tested. `rules` has the thresholds and says how a verdict is
reached. The tests themselves stand in `projection` and `scaling` (the paper's claims) and, for the statements of
other documents, in a module for each experiment.
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
    placement,
    projection,
    rules,
    scaling,
    score_scale,
    sizes,
    worked_numbers,
)
from layernorm_roles.evidence.claims.rules import MEANINGS, Claim, Outcome, Tables, Verdict
from layernorm_roles.provenance import joined

OTHER_DATA = " Again, on uniformly drawn partitions, none of them in both training and test."
TESTS: dict[str, Callable[..., Outcome]] = (
    projection.TESTS
    | scaling.TESTS
    | geometry.TESTS
    | fusion.TESTS
    | placement.TESTS
    | batch_dependence.TESTS
    | score_scale.TESTS
    | worked_numbers.TESTS
)
"""The test of each claim by its name; those of `projection` take the name of an experiment first."""
_TUPLES = ("tables", "figures", "shown")


def _claims() -> Iterator[Claim]:
    for entry in yaml.safe_load((Path(__file__).parent / "claims.yaml").read_text()):
        test = TESTS[entry["name"]]
        again = entry.pop("again", None)
        if again is None:
            yield _claim(entry, test)
            continue
        yield _claim(entry, partial(test, entry["experiment"]))
        changed = {
            "name": entry["name"] + "_uniform",
            "source": entry["source"] + "; on other data",
            "statement": entry["statement"] + OTHER_DATA,
        }
        yield _claim(entry | changed | again, partial(test, again["experiment"]))


def _claim(entry: Mapping[str, Any], test: Callable[[Tables], Outcome]) -> Claim:
    """The claim of an entry of claims.yaml, with the thresholds filled in."""
    texts = {key: text and text.format_map(vars(rules)) for key, text in entry.items() if key not in _TUPLES}
    experiment, describe = texts.pop("experiment", None), sizes.SIZES[texts.pop("sizes", "none")]
    return Claim(
        **texts,
        **{key: tuple(entry[key]) for key in _TUPLES},
        test=test,
        sizes=partial(describe, experiment) if experiment else describe,
    )


CLAIMS: tuple[Claim, ...] = tuple(_claims())
"""All claims, in the order of the page."""

TABLES = tuple(dict.fromkeys([name for claim in CLAIMS for name in claim.tables] + ["random_keys_precision"]))
"""Names of the tables that the tests may read."""


def judge(tables: Tables) -> pd.DataFrame:
    """Table `claims`: one row for every claim, from those of the reproduction's tables that are there."""
    rows = []
    for claim in CLAIMS:
        outcome = claim.judge(tables)
        rows.append(
            {
                "claim": claim.name,
                "source": claim.source,
                "statement": claim.statement,
                "setting": " ".join(filter(None, (claim.setting, claim.sizes(tables)))),
                "paper_value": claim.paper_value,
                "statistic": claim.statistic,
                **_numbers(outcome),
                "control": claim.control,
                "verdict": str(outcome.verdict),
                "reason": outcome.reason,
                "rule_fixed": claim.rule_fixed,
            }
        )
    return pd.DataFrame(rows)


def _numbers(outcome: Outcome) -> dict[str, float | int]:
    measured, control = outcome.measured, outcome.control
    return {
        "measured": measured.mean,
        "ci_low": measured.low,
        "ci_high": measured.high,
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


__all__ = ["CLAIMS", "MEANINGS", "TABLES", "Claim", "Verdict", "judge", "judge_files"]
