"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

A claim is a function with its words, see the module `testing`. The module `rules` has the thresholds and says how
findings make a verdict.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from layernorm_roles import store
from layernorm_roles.evidence.analysis.estimate import holm
from layernorm_roles.evidence.claims import (
    documents,
    language_model,
    majority,
    pretrained,
    random_keys,
    step_size,
    testing,
)
from layernorm_roles.evidence.claims.testing import RATIO, Claim, Tables
from layernorm_roles.provenance import joined
from layernorm_roles.schemas import SCHEMAS

_MODULES = (majority, random_keys, language_model, step_size, pretrained, documents)
CLAIMS: tuple[Claim, ...] = tuple(
    claim
    for module in _MODULES
    for claim in testing.CLAIMS.values()
    if claim.function.__module__ == module.__name__
)
"""All claims of the paper, of other documents and of this repository, in the order of the report."""

_TABLES = """majority_metrics majority_vectors random_keys random_keys_precision
key_selectability language_model_metrics language_model_attention
attention_ceilings pretrained_keys gaussian_law ones_share projection_shift
geometry fusion placement untrained_gradients position_probe"""
TABLES = tuple(_TABLES.split())
"""Names of the Parquet tables of a reproduction that the tests of claims may read."""


def judge(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge every claim from the tables of a reproduction, and return the tables claims and comparisons."""
    tests = {claim: claim.test(tables) for claim in CLAIMS}
    primary = {claim.name: test for claim, test in tests.items() if claim.primary}
    for test in tests.values():
        primary |= {name: other for name, (_, other) in test.variations.items() if other.primary}
    p_holm = holm({name: test.p for name, test in primary.items()})
    rows = [claim.row(test, tables, p_holm) for claim, test in tests.items()]
    compared = [row for claim, test in tests.items() for row in claim.comparisons(test)]
    comparisons = pd.DataFrame(compared, columns=SCHEMAS["comparisons"].names)
    claims = pd.DataFrame(rows, columns=SCHEMAS["claims"].names)
    return claims, comparisons.astype({"n_runs": "Int64", "met": "boolean"})


def judge_files(
    inputs: Mapping[str, str | Path], out_claims: str | Path, out_comparisons: str | Path
) -> None:
    """Write the tables claims and comparisons of a reproduction, with joined provenance, from its Parquet files.

    `inputs` has the files by table name.
    """
    chosen = {name: Path(path) for name, path in inputs.items() if name in TABLES}
    judged = judge({name: store.read(path, name) for name, path in chosen.items()})
    provenance = joined((store.read_provenance(path) for path in chosen.values()), {})
    for table, name, out in zip(
        judged, ("claims", "comparisons"), (out_claims, out_comparisons), strict=True
    ):
        store.write(table, name, out, provenance)


def on_common_scale(claims: pd.DataFrame) -> pd.DataFrame:
    """Return table claims with columns in units of the effect that the source reports (0: no effect, 1: as reported).

    The columns effect, low and high are the claim's main number and its interval; isolated, isolated_low and
    isolated_high are its control's number and interval. Ratios are put on this scale by their logarithms. All six are
    NaN where the source gives no number, or a number that means no effect.
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
