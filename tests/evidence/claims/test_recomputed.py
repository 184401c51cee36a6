"""The number of every claim, computed a second time by a few lines that share no code; here from the kept tables."""

import ast
from pathlib import Path

import pandas as pd
import pytest
from judging import CLAIMS, MODULES, RECOMPUTED
from kept import TABLES

from layernorm_roles.evidence import claims

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


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_both_computations_agree_on_the_kept_tables(name):
    row = claims.row(CLAIMS[name], {table: TABLES[table] for table in CLAIMS[name].tables})
    if pd.isna(row["measured"]):
        pytest.skip(f"not measured: {row['reason']}")
    assert RECOMPUTED[name](TABLES) == pytest.approx(row["measured"], rel=1e-6, abs=1e-9)
