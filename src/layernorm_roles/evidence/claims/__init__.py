"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

YAML files have the claims in words, see the module `claim`, and their tests. Most tests are data there, comparisons of
measured quantities; others are functions in the module of the file's name. The module `rules` has the thresholds and
says how findings make a verdict.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from layernorm_roles import store
from layernorm_roles.evidence.analysis.estimate import holm
from layernorm_roles.evidence.claims import preregistration
from layernorm_roles.evidence.claims.claim import Claim, claims
from layernorm_roles.evidence.claims.comparison import RATIO, Tables
from layernorm_roles.provenance import joined
from layernorm_roles.schemas import SCHEMAS

CLAIMS: tuple[Claim, ...] = tuple(claims())
"""All claims of the paper, of other documents and of this repository, in the order of the report."""

_BESIDE = ("random_keys_precision", "language_model_attention")
TABLES = tuple(dict.fromkeys([*(name for claim in CLAIMS for name in claim.tables), *_BESIDE]))
"""Names of the Parquet tables of a reproduction that the tests of claims may read."""


def judge(
    tables: Tables, at_the_start: Mapping[str, str] = {}, settings: Mapping[str, Any] = {}
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables claims and comparisons: the verdict on every claim, and each number that its test compares.

    `tables` are those that a reproduction has; `at_the_start` has the hash of each claim's rule when it began. A rule
    whose hash with today's `settings` of the reproduction is another one was made after the data.
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
    return pd.DataFrame(rows), comparisons.astype({"n_runs": "Int64", "met": "boolean"})


def judge_files(
    inputs: Mapping[str, str | Path],
    out_claims: str | Path,
    out_comparisons: str | Path,
    rules: str | Path,
    settings: Mapping[str, Any],
) -> None:
    """Write the tables `claims` and `comparisons` from the Parquet files `inputs`, by the names of their tables.

    Tables that no test reads are left out. `rules` is the file that `preregistration.write_rules` wrote when the
    reproduction with these `settings` began; it may be missing. Both tables get the joined provenance of the inputs.
    """
    chosen = {name: path for name, path in inputs.items() if name in TABLES}
    provenance = joined((store.read_provenance(path) for path in chosen.values()), {})
    tables = {name: store.read(path, name) for name, path in chosen.items()}
    claims, comparisons = judge(tables, preregistration.read_rules(rules), settings)
    store.write(claims, "claims", out_claims, provenance)
    store.write(comparisons, "comparisons", out_comparisons, provenance)


def on_common_scale(claims: pd.DataFrame) -> pd.DataFrame:
    """Return table claims with its numbers in units of the effect that the source reports: 0 is none, 1 the reported.

    Columns effect, low and high are of the claim's number, isolated, isolated_low and isolated_high of its control. Of
    ratios it is the logarithms that are divided. NaN where the source gives no number, or one that means no effect.
    """
    names = ("effect", "low", "high", "isolated", "isolated_low", "isolated_high")
    columns = ("measured", "ci_low", "ci_high", "control_measured", "control_low", "control_high")
    ratios = claims.claim.isin([claim.name for claim in CLAIMS if claim.unit == RATIO])
    numbers = claims[[*columns, "reported"]].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = numbers.where(~ratios, np.log(numbers))
    reported = numbers.reported.where(numbers.reported != 0)
    scaled = {name: numbers[column] / reported for name, column in zip(names, columns, strict=True)}
    return claims.assign(**scaled)
