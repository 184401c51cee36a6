"""Every claim judged again from the kept tables: its number is that of a second computation that shares no code, and
what the kept tables of claims and comparisons say is found again."""

import ast
import json
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from judging import CLAIMS, MODULES, RECOMPUTED
from kept import AGAIN, KEPT, TABLES

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.claims import preregistration

HERE = Path(__file__).parents[1]
RUNS = {tables.folder: tables for tables in (TABLES, AGAIN) if tables.folder.is_dir()}


def settings_of(folder: Path) -> dict:
    return json.loads((folder / "settings.json").read_text(encoding="utf-8"))


def test_every_claim_is_recomputed_once():
    assert sorted(RECOMPUTED) == sorted(CLAIMS)
    assert len(RECOMPUTED) == sum(len(module.RECOMPUTED) for module in MODULES)


@pytest.mark.parametrize(
    "file", [HERE / "plain.py", *HERE.rglob("recomputed_*.py")], ids=lambda file: file.stem
)
def test_the_second_computation_shares_no_code_with_the_first(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not any(name.startswith("layernorm_roles.evidence") for name in names)


@cache
def judged(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    at_start = preregistration.read_rules(folder / "rules.json")
    return claims.judge(RUNS[folder].of(claims.TABLES), at_start, settings_of(folder))


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_both_computations_agree_on_the_kept_tables(name, folder):
    measured = judged(folder)[0].set_index("claim").measured[name]
    if pd.notna(measured):
        assert RECOMPUTED[name](RUNS[folder]) == pytest.approx(measured, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("table", ["claims", "comparisons"])
def test_the_kept_rows_are_found_again(table):
    """If this alone fails, the kept tables are old: snakemake --cores all results/published/report.html"""
    made = judged(KEPT)
    if AGAIN.folder in RUNS:
        made = claims.asked_again(made, judged(AGAIN.folder), settings_of(AGAIN.folder)["first_seed"])
    frames = (dict(zip(("claims", "comparisons"), made, strict=True))[table], TABLES[table])
    today, kept = (frame.convert_dtypes() for frame in frames)
    pd.testing.assert_frame_equal(today, kept, check_dtype=False, rtol=1e-6, atol=1e-15)
