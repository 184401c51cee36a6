"""Every claim judged again from the kept tables: its number is that of a second computation that shares no code, and
its whole row, but for the reason, is the kept one where the claim's rule is that of the kept run."""

import ast
import json
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
    "file", [HERE / "plain.py", *HERE.glob("*/recomputed_*.py")], ids=lambda file: file.stem
)
def test_the_second_computation_shares_no_code_with_the_first(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = [node.module] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not any(name.startswith("layernorm_roles.evidence") for name in names)


def with_the_kept_rule() -> set[str]:
    """The claims whose words, numbers and settings are those with which the kept run began."""
    settings = json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))
    kept = preregistration.read_record(KEPT / "rules.json").rules
    today = preregistration.rule_hashes(claims.CLAIMS, settings)
    return {name for name, rule in today.items() if kept.get(name) == rule}


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_both_computations_agree_on_the_kept_tables_and_the_kept_row_is_found_again(name):
    """If the row alone is another one, the kept row is old: snakemake --cores all results/published/report.html"""
    tables = {
        table: TABLES[table] for table in claims.TABLES if (KEPT / f"parquet/{table}.parquet").is_file()
    }
    claim = CLAIMS[name]
    outcome = claim.judge(tables)
    row = claim.row(outcome, tables)
    if pd.notna(row["measured"]):
        assert RECOMPUTED[name](TABLES) == pytest.approx(row["measured"], rel=1e-6, abs=1e-9)
    if name in with_the_kept_rule():
        kept = TABLES["claims"].set_index("claim").loc[name]
        corrected = claim.corrected(row, outcome, kept.p_holm, 0) if claim.primary else row
        assert kept.verdict in (row["verdict"], corrected["verdict"])
        for column in row.keys() - {"claim", "reason", "verdict"}:
            one, other = (None if pd.isna(value) else value for value in (row[column], kept[column]))
            number = isinstance(one, float) and other is not None
            assert one == (pytest.approx(other, rel=1e-6, abs=1e-9) if number else other), column
