"""The list of claims, and the table that judging writes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import CLAIMS, NOT_TESTED, verdict_on
from pytest import approx
from scipy import stats

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.analysis import majority
from layernorm_roles.schemas import SCHEMAS


def test_an_empty_run_has_a_row_for_every_claim_and_says_what_is_missing():
    table = claims.judge({})
    assert len(table) == len(claims.CLAIMS) == table.claim.nunique()
    assert set(table.verdict) == {NOT_TESTED}
    assert table.reason.str.contains(r"This run has no \w+").all()


def test_every_claim_names_its_control_its_rule_and_tables_that_exist():
    for claim in claims.CLAIMS:
        assert claim.control and claim.rule and "{" not in claim.rule + claim.statistic
        assert set(claim.tables) <= set(SCHEMAS)
        assert claim.target in {"majority", "random_keys", "language_model", "pretrained", "statements"}
        assert claim.part in {"projection", "scaling", "documents"}
        assert claim.role in {"primary", "exploratory", "other documents"}
        assert (claim.role == "other documents") == (claim.part == "documents")
    written = "".join(
        file.read_text(encoding="utf-8") for file in Path(claims.__file__).parent.glob("*.yaml")
    )
    assert written.count("primary: true") == sum(claim.primary for claim in claims.CLAIMS), "none inherits it"
    figures = "faster parallel accurate plane random_keys table_1 table_2 loss_gap table_3 table_4 heads"
    assert set(figures.split()) <= set(CLAIMS)
    assert CLAIMS["faster_uniform"].statement.startswith(CLAIMS["faster"].statement + " Again, ")
    assert CLAIMS["faster_uniform"].source == CLAIMS["faster"].source + "; on other data"


RUNS = worlds.metrics({"scale": 1.0}, last=9000, seeds=4)
RATES = pd.concat(worlds.metrics({"scale": 1.0}, experiment="rates", rate=rate) for rate in (0.001, 0.3))
KEYS = worlds.keys({("projection", "final", "after_norm"): 0.3})
MODELS = {"language_model_metrics": worlds.losses(0.05), "key_selectability": KEYS}
MATRICES = worlds.random_keys({"none": (1.0, 0.0)}, matrices=7)
HEADS = worlds.pretrained_keys({("head", 32): 0.0})
SIZES = [
    (
        "faster",
        {"majority_metrics": RUNS},
        "d = 8, learning rate 0.001; 9,000 steps, 4 runs of each variant (the",
    ),
    ("faster_best_rate", {"majority_metrics": RATES}, "learning rate 0.001 to 0.3"),
    ("table_1", MODELS, "d_model = 8; 1,000 steps of 100 tokens, 3 runs of each variant (the paper: d_model"),
    ("table_1", MODELS, "Keys of 4 contexts of 1,000 tokens."),
    ("random_keys", {"random_keys": MATRICES}, "n = 10 to 60, d = 3 to 15, 7 matrices for each (the paper"),
    (
        "heads_of_practical_width",
        {"pretrained_keys": HEADS},
        "minilm: 4 documents of 200 tokens, 2 layers of 2",
    ),
]


@pytest.mark.parametrize(("name", "tables", "words"), SIZES)
def test_the_setting_names_the_sizes_of_the_run_beside_those_of_the_paper(name, tables, words):
    assert words in verdict_on(name, **tables)[1].setting


def test_a_row_has_students_interval_of_the_number_and_of_its_control():
    own, best = worlds.losses(0.05, seeds=4, spread=0.02), worlds.losses(0.1, 5, 0.03, "gpt_rates")
    table = pd.concat([own, best])
    row = claims.row(CLAIMS["loss_gap"], {"language_model_metrics": table})
    for column, ends, model in (("measured", "ci", "gpt"), ("control_measured", "control", "gpt_rates")):
        last = table[(table.step == 1000) & (table.model == model)]
        loss = last.pivot(index="seed", columns="variant", values="valid_loss")
        low, high = stats.ttest_1samp(loss.projection - loss.layernorm, 0).confidence_interval()
        assert (row[f"{ends}_low"], row[f"{ends}_high"]) == approx((low, high))
        assert row[column] == approx((low + high) / 2)


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
    assert tested[first] == approx(min(1, family * alone[first]))
    assert tested[second] == approx(min(1, max(tested[first], (family - 1) * alone[second])))
