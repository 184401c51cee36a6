"""Every claim judged again from the kept tables: its number is that of a second computation that shares no code, and
what the kept tables of claims and comparisons say is found again."""

import ast
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from judging import HOMES, MODULES, RECOMPUTED, outcome_of
from kept import TABLES

from layernorm_roles.evidence import claims

HERE = Path(__file__).parents[1]


def test_every_claim_is_recomputed_once():
    assert sorted(RECOMPUTED) == sorted(HOMES)
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
def judged() -> tuple[pd.DataFrame, pd.DataFrame]:
    return claims.judge(TABLES.of(claims.TABLES))


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_both_computations_agree_on_the_kept_tables(name):
    numbers = [row.number for row in outcome_of(name, TABLES.of(claims.TABLES)).rows[:1]]
    for number in numbers:
        assert RECOMPUTED[name](TABLES) == pytest.approx(number.shown().mean, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("table", ["claims", "comparisons"])
def test_the_kept_rows_are_found_again(table):
    """If this alone fails, the kept tables are old: snakemake --cores all results/published/report.html"""
    frames = (dict(zip(("claims", "comparisons"), judged(), strict=True))[table], TABLES[table])
    today, kept = (frame.convert_dtypes() for frame in frames)
    pd.testing.assert_frame_equal(today, kept, check_dtype=False, rtol=1e-6, atol=1e-15)
