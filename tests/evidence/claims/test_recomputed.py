"""Every claim judged again from the kept tables: its number is that of a second computation that shares no code, and
what the kept tables of claims and comparisons say is found again."""

import ast
import json
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from judging import CLAIMS, MODULES, RECOMPUTED
from kept import KEPT, TABLES

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.claims import preregistration

HERE = Path(__file__).parents[1]


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
def judged() -> dict[str, pd.DataFrame]:
    there = (name for name in claims.TABLES if (KEPT / f"parquet/{name}.parquet").is_file())
    settings = json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))
    at_start = preregistration.read_rules(KEPT / "rules.json")
    tables = claims.judge({name: TABLES[name] for name in there}, at_start, settings)
    return dict(zip(("claims", "comparisons"), tables, strict=True))


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_both_computations_agree_on_the_kept_tables(name):
    measured = judged()["claims"].set_index("claim").measured[name]
    if pd.notna(measured):
        assert RECOMPUTED[name](TABLES) == pytest.approx(measured, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("table", ["claims", "comparisons"])
def test_the_kept_rows_are_found_again(table):
    """If this alone fails, the kept tables are old: snakemake --cores all results/published/report.html"""
    today, kept = (frame.convert_dtypes() for frame in (judged()[table], TABLES[table]))
    pd.testing.assert_frame_equal(today, kept, check_dtype=False, rtol=1e-6, atol=1e-15)
