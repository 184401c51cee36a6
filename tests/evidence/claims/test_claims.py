"""The list of claims, and the table that judging writes."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
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
    REVERSED,
    verdict_on,
)
from scipy import stats

from layernorm_roles import store
from layernorm_roles.evidence import claims
from layernorm_roles.evidence.analysis import majority
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
        assert claim.role in {"primary", "exploratory", "other documents"}
        assert (claim.role == "other documents") == (claim.part == "documents")
    assert 8 <= sum(claim.primary for claim in claims.CLAIMS) <= 12
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
    paper = judged.claim.map({name: claim.of_paper for name, claim in CLAIMS.items()})
    words = {True: Counter(judged.verdict[paper]), False: Counter(judged.verdict[~paper])}
    assert words[True][REPRODUCED] and words[True][CONFOUNDED] and words[False][HOLDS]
    assert not set(words[True]) & {HOLDS, DOES_NOT_HOLD}
    assert not set(words[False]) & {REPRODUCED, NOT_REPRODUCED, CONFOUNDED, REVERSED}
    assert (
        not CLAIMS["faster_uniform"].of_paper and not CLAIMS["heads"].of_paper and CLAIMS["faster"].of_paper
    )


def test_a_row_has_students_interval_of_the_number_and_of_its_control():
    table = pd.concat(
        [
            worlds.losses(0.05, seeds=4, spread=0.02),
            worlds.losses(0.1, seeds=5, spread=0.03, model="gpt_rates"),
        ]
    )
    row = claims.row(CLAIMS["loss_gap"], {"language_model_metrics": table})
    for column, ends, model in (("measured", "ci", "gpt"), ("control_measured", "control", "gpt_rates")):
        last = table[(table.step == 1000) & (table.model == model)]
        loss = last.pivot(index="seed", columns="variant", values="valid_loss")
        known = stats.ttest_1samp(loss.projection - loss.layernorm, 0)
        low, high = known.confidence_interval()
        assert (row[f"{ends}_low"], row[f"{ends}_high"]) == pytest.approx((low, high))
        assert row[column] == pytest.approx((low + high) / 2)


def test_primary_claims_have_holm_s_p_of_no_effect_on_the_scale_of_their_interval():
    runs = worlds.metrics({"layernorm": 1.0, "scale_released": 1.1, "scale": 0.97}, spread=0.1, seeds=6)
    judged = claims.judge({"majority_metrics": runs}).set_index("claim")
    tested = judged.p_holm.dropna()
    assert {"faster", "final_accuracy"} == set(tested.index) and judged.role[tested.index].eq("primary").all()
    last = runs[runs.step == runs.step.max()].pivot(index="seed", columns="variant", values="test_accuracy")
    steps = majority.steps_to_reach(runs, [0.5]).pivot(index="seed", columns="variant", values="steps")
    alone = {
        "faster": stats.ttest_1samp(np.log(steps.scale_released / steps.layernorm), 0).pvalue,
        "final_accuracy": stats.ttest_1samp(last.layernorm - last.scale, 0).pvalue,
    }
    family = len([claim for claim in claims.CLAIMS if claim.primary])
    first, second = sorted(alone, key=alone.get)
    assert tested[first] == pytest.approx(min(1, family * alone[first]))
    assert tested[second] == pytest.approx(min(1, max(tested[first], (family - 1) * alone[second])))


def test_the_table_can_be_written_and_is_the_same_again(tmp_path):
    path = tmp_path / "language_model_metrics.parquet"
    both = pd.concat([worlds.losses(0.05), worlds.losses(0.06, model="gpt_rates")])
    store.write(both, "language_model_metrics", path, PROVENANCE | {"git_commit": "abc"})
    (tmp_path / "notes.parquet").touch()  # of no claim
    first, second = tmp_path / "first.parquet", tmp_path / "second.parquet"
    for out in (first, second):
        claims.judge_files(tmp_path.glob("[ln]*.parquet"), out)
    assert first.read_bytes() == second.read_bytes()
    table = store.read(first, "claims").set_index("claim")
    assert table.verdict["loss_gap"] == REPRODUCED
    assert table.control_measured["loss_gap"] == pytest.approx(0.06, abs=0.005)
    assert store.read_provenance(first)["git_commit"] == "abc"
