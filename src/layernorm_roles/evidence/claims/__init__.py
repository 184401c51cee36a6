"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

The YAML files say in words what is claimed and how it is tested, as `claim` explains. Most tests are data there:
comparisons of `quantities`; others are functions in the module beside the file. `rules` has the thresholds and says how
findings make a verdict.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from layernorm_roles import store
from layernorm_roles.evidence.analysis.estimate import holm
from layernorm_roles.evidence.claims import preregistration
from layernorm_roles.evidence.claims.claim import Claim, claims
from layernorm_roles.evidence.claims.comparison import Tables
from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.provenance import joined
from layernorm_roles.schemas import SCHEMAS

CLAIMS: tuple[Claim, ...] = tuple(claims())
"""All claims of the paper, of other documents and of this repository, in the order of the report."""

_BESIDE = ("random_keys_precision", "language_model_attention")
TABLES = tuple(dict.fromkeys([*(name for claim in CLAIMS for name in claim.tables), *_BESIDE]))
"""Names of the Parquet tables of a reproduction that the tests of claims may read."""


class Judged(NamedTuple):
    """The tables `claims` and `comparisons` as data frames, which the function `judge` makes."""

    claims: pd.DataFrame
    """Table `claims`: a row with number, interval and verdict for every claim."""
    comparisons: pd.DataFrame
    """Table `comparisons`: a row for each number that a claim's test compares, in the order of the claims."""


def judge(tables: Tables, at_the_start: Mapping[str, str] = {}, settings: Mapping[str, Any] = {}) -> Judged:
    """Return the verdict on every claim and the comparisons behind it, from the `tables` that a reproduction has.

    `at_the_start` has each claim's hash of its rule when the reproduction began, and `settings` are the reproduction's
    today. A rule whose hash is another one today was made after the data.
    """
    today = preregistration.rule_hashes(CLAIMS, settings)
    outcomes = [(claim, claim.judge(tables)) for claim in CLAIMS]
    adjusted = holm({claim.name: outcome.p for claim, outcome in outcomes if claim.primary})
    rows, compared = [], []
    for claim, outcome in outcomes:
        row = claim.row(outcome, tables) | {"p_holm": math.nan}
        if claim.primary:
            row = claim.corrected(row, outcome, adjusted[claim.name], len(adjusted))
        before = today[claim.name] == at_the_start.get(claim.name)
        rows.append(row | {"rule_fixed": "before" if before else "after"})
        compared += claim.comparisons(outcome)
    comparisons = pd.DataFrame(compared, columns=SCHEMAS["comparisons"].names)
    return Judged(pd.DataFrame(rows), comparisons.astype({"n_runs": "Int64", "met": "boolean"}))


def judge_files(
    inputs: Mapping[str, str | Path],
    out_claims: str | Path,
    out_comparisons: str | Path,
    rules: str | Path,
    settings: Mapping[str, Any],
) -> None:
    """Write the tables `claims` and `comparisons` from the Parquet files `inputs`, by the names of their tables.

    Tables that no test reads are left out. `rules` is the file that `preregistration.write_rules` wrote when the
    reproduction began, if it did, and `settings` are the reproduction's. Both files get the joined provenance of the
    inputs: nothing is drawn at random, so equal files and code give equal bytes.
    """
    chosen = {name: path for name, path in inputs.items() if name in TABLES}
    provenance = joined((store.read_provenance(path) for path in chosen.values()), {})
    tables = {name: store.read(path, name) for name, path in chosen.items()}
    judged = judge(tables, preregistration.read_rules(rules).rules, settings)
    store.write(judged.claims, "claims", out_claims, provenance)
    store.write(judged.comparisons, "comparisons", out_comparisons, provenance)


__all__ = ["CLAIMS", "MEANINGS", "TABLES", "Claim", "Judged", "Verdict", "judge", "judge_files"]
