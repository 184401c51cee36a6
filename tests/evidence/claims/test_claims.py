"""The list of claims, and the table that judging writes."""

import ast
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import worlds
from judging import (
    CLAIMS,
    CONFOUNDED,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_REPRODUCED,
    NOT_TESTED,
    REPRODUCED,
    verdict_on,
)
from scipy import stats

from layernorm_roles import store
from layernorm_roles.evidence import claims
from layernorm_roles.schemas import SCHEMAS

PROVENANCE = {
    key: "x" for key in ("config", "version", "git_commit", "seed_rule", "torch", "python", "device")
}


def test_an_empty_run_has_a_row_for_every_claim_and_says_what_is_missing():
    table = claims.judge({})
    assert len(table) == len(claims.CLAIMS) == table.claim.nunique()
    assert set(table.verdict) == {NOT_TESTED}
    assert table.reason.str.contains(r"This run has no \w+").all()


def test_a_run_of_one_experiment_says_which_other_it_lacks():
    table = worlds.metrics({"layernorm": 1.0, "scale": 1.0}, experiment="d8")
    verdict, row = verdict_on("faster_uniform", majority_metrics=table)
    assert verdict == NOT_TESTED and row.reason == "The run has no experiment d8_uniform."


def test_every_claim_names_its_control_its_rule_and_tables_that_exist():
    for claim in claims.CLAIMS:
        assert claim.control and claim.rule and "{" not in claim.rule + claim.statistic
        assert set(claim.tables) <= set(SCHEMAS)
        assert claim.target in {"majority", "random_keys", "language_model", "pretrained", "statements"}
        assert claim.part in {"projection", "scaling", "documents"}
        assert claim.rule_fixed in {"before", "after"}
    figures = (
        "faster parallel accurate plane random_keys table_1 table_2 loss_gap table_3 table_4 heads".split()
    )
    assert set(figures) <= set(CLAIMS)


def test_thresholds_stand_in_rules_alone():
    """Outside of rules.py nothing is compared with a number but counts and signs: 0, 1 and 2."""
    for file in Path(claims.__file__).parent.glob("*.py"):
        tree = ast.walk(ast.parse(file.read_text()) if file.name != "rules.py" else ast.Module([], []))
        for node in tree:
            compared = []
            if isinstance(node, ast.Compare):
                compared = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                compared = {"above": node.args[1:], "effect": node.args[1:], "within": node.args[2:]}.get(
                    node.func.id, []
                )
            numbers = {part.value for part in compared if isinstance(part, ast.Constant)}
            others = {n for n in numbers if isinstance(n, int | float) and n not in (0, 1, 2)}
            assert not others, f"{file.name}, line {node.lineno}: {ast.unparse(node)}"


def test_only_claims_of_the_paper_are_reproduced_and_only_others_hold():
    tables = {
        "majority_metrics": worlds.metrics({"layernorm": 1.0, "scale_released": 3.0, "scale": 0.9}),
        "random_keys": worlds.random_keys({"none": (1.0, 0.0), "layernorm": (0.0, 0.0)}),
        "fusion": worlds.fusion({"plain": 1e-20, "residual": 0.5, "norm": 0.5, "residual_norm": 0.5}),
        "geometry": worlds.geometry(),
        "score_scale": pd.concat([worlds.score_scale(0.5), worlds.trained_scores("majority", 1.0)]),
    }
    judged = claims.judge(tables)
    paper = judged.source.str.startswith("Brody")
    words = {True: Counter(judged.verdict[paper]), False: Counter(judged.verdict[~paper])}
    assert words[True][REPRODUCED] and words[True][CONFOUNDED] and words[False][HOLDS]
    assert not set(words[True]) & {HOLDS, DOES_NOT_HOLD}
    assert not set(words[False]) & {REPRODUCED, NOT_REPRODUCED, CONFOUNDED}


def test_a_row_has_students_interval_of_the_number_and_of_its_control():
    table = worlds.losses(0.05, seeds=4, spread=0.02)
    row = claims.row(CLAIMS["loss_gap"], {"language_model_metrics": table})
    loss = table[table.step == table.step.max()].pivot(index="seed", columns="variant", values="valid_loss")
    for column, ends, other in (
        ("measured", "ci", "layernorm"),
        ("control_measured", "control", "layernorm_shrunk"),
    ):
        known = stats.ttest_1samp(loss.projection - loss[other], 0)
        low, high = known.confidence_interval()
        assert (row[f"{ends}_low"], row[f"{ends}_high"]) == pytest.approx((low, high))
        assert row[column] == pytest.approx((low + high) / 2)


def test_the_table_can_be_written_and_is_the_same_again(tmp_path):
    path = tmp_path / "language_model_metrics.parquet"
    store.write(worlds.losses(0.05), "language_model_metrics", path, PROVENANCE | {"git_commit": "abc"})
    (tmp_path / "notes.parquet").touch()  # of no claim
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    for out in (first, second):
        claims.judge_files(tmp_path.glob("[ln]*.parquet"), out)
    assert first.read_bytes() == second.read_bytes()
    table = store.read(first, "claims").set_index("claim")
    assert table.verdict["loss_gap"] == REPRODUCED
    assert table.control_measured["loss_gap"] == pytest.approx(0.05, abs=0.005)
    assert store.read_provenance(first)["git_commit"] == "abc"
