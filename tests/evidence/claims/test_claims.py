"""The list of claims, and the table that judging writes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import random_world
import worlds
from judging import CLAIMS, verdict_on
from pytest import approx
from scipy import stats

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.claims.testing import Number, Test


def test_an_empty_run_has_a_row_for_every_claim_and_says_what_is_missing():
    table, comparisons = claims.judge({})
    assert len(table) == len(claims.CLAIMS) == table.claim.nunique() and comparisons.empty
    assert set(table.verdict) == {"not run here"} and set(table.n_seeds) == {0}
    assert table.reason.str.contains(r"This run has no \w+").all()


STEPS = {"layernorm": 1.0, "scale_released": 1.1, "scale": 0.97, "layernorm_small": 1.5}


def test_primary_claims_have_holm_s_p_of_no_effect_on_the_scale_of_their_interval():
    unequal = worlds.metrics(STEPS, spread=0.1, seeds=6)
    accuracies = {"layernorm": 0.9, "scale": 0.92, "scale_released": 0.8}
    ends = worlds.metrics(accuracies=accuracies, experiment="rates", rate=0.03, seeds=6)
    judged = claims.judge({"majority_metrics": pd.concat([unequal, ends])})[0].set_index("claim")
    last = ends[ends.step == ends.step.max()].pivot(index="seed", columns="variant", values="test_accuracy")
    reached = majority.steps_to_reach(unequal, [0.5])
    steps = np.log(reached.pivot(index="seed", columns="variant", values="steps"))
    released = steps.scale_released - steps.layernorm
    effects = {
        "faster": released,
        "size_or_projection": released + steps.layernorm_small - steps.scale,
        "final_accuracy": last.layernorm - last.scale,
    }
    alone = {name: stats.ttest_1samp(values, 0).pvalue for name, values in effects.items()}
    tested = judged.p_holm.dropna()
    assert {*alone} - {"final_accuracy"} == {*tested.index} and judged.role[tested.index].eq("primary").all()
    others = [other for claim in claims.CLAIMS for _, other in claim.test({}).variations.values()]
    family, least = sum(test.primary for test in (*claims.CLAIMS, *others)), 0.0
    for left, name in enumerate(sorted(alone, key=alone.get)):
        least = max(least, min(1, (family - left) * (1 + (name == "final_accuracy")) * alone[name]))
        assert name == "final_accuracy" or tested[name] == approx(least)


def test_an_effect_that_the_correction_leaves_open_makes_no_verdict():
    """Alone the size is seen; in a family of primary claims it is not, and so is none of another claim's."""
    for seeds, spread in ((3, 0.25), (10, 0.03)):
        ratios = STEPS | {"layernorm_small": 3.0, "scale_released": 3.1}
        runs = worlds.metrics(ratios, spread=spread, seeds=seeds)
        alone = verdict_on("size_or_projection", majority_metrics=runs)[0]
        row = claims.judge({"majority_metrics": runs})[0].set_index("claim").loc["size_or_projection"]
        assert alone == "holds"
        assert (row.verdict == "holds") == (row.p_holm < 0.05) == (seeds == 10)
        assert ("with Holm's correction for" in row.reason) == (seeds == 3)


def of_family(p: dict[str, float], kind="ours"):
    """A primary test whose comparisons have these p-values and findings."""
    asked = {name: {"more_than": 0} for name in ("seen", "bound", "control", "context")}
    asked |= {"at most": {"at_most": 9.0}, "smaller": {"at_least": 9.0}}
    test = Test({}, kind, primary=True)
    for i, (name, value) in enumerate(p.items()):
        half = stats.t.ppf(0.975, 9) / stats.t.isf(value / 2, 9)  # of an estimate of 1 from ten values
        number = Number(Estimate(1.0, 1 - half, np.inf if name == "bound" else 1 + half), 10, name)
        if name == "context":
            test.show(number, **asked[name])
        elif name == "control":
            test.control(number, **asked[name])
        else:
            test.effect(number, part=i, **asked[name])
    return test


def test_the_p_of_a_claim_is_the_largest_of_the_effects_that_its_verdict_needs():
    test = of_family({"seen": 0.001, "at most": 0.5})
    assert test.p == approx(0.001) and test.verdict(0.01) == "holds"
    for other in ("control", "smaller"):
        assert of_family({"seen": 0.001, other: 0.03, "context": 0.04}).p == approx(0.03)
    test = of_family({"at most": 0.01, "seen": 0.02})
    assert test.p == approx(0.02) and test.verdict(0.2) == "inconclusive"
    test = of_family({"at most": 0.3})  # it says that there is no effect
    assert test.p == approx(0.3) and test.verdict(1.0) == "holds"
    test = of_family({"bound": 0.001})
    assert np.isnan(test.p) and test.verdict(np.nan) == "inconclusive"
    assert np.isnan(of_family({"seen": 0.01, "bound": 0.001}).p)


def test_after_two_looks_intervals_are_wider_and_p_values_count_twice():
    values = pd.Series(worlds.noise(3).normal(1.0, 1.0, 8))
    once, twice = (Test({}, "ours", looks) for looks in (1, 2))
    for test, level in ((once, 0.95), (twice, 0.975)):
        test.effect(test.mean(values, "x"), more_than=0)
        low, high = stats.t.interval(level, 7, values.mean(), stats.sem(values))
        assert test.rows[0].number.estimate == approx((values.mean(), low, high))
    alone = stats.ttest_1samp(values, 0).pvalue
    assert (once.p, twice.p) == approx((alone, 2 * alone))


def test_no_verdict_is_read_off_words():
    """Neither the citation nor any other text of a claim counts; who claims it does."""
    world = {"majority_metrics": worlds.metrics(STEPS | {"scale_released": 3.0})}
    faster = CLAIMS["faster"]
    words = {
        "source": "arXiv 2305.02582, Figure 2a; elsewhere",
        "statement": "x",
        "rule": "x",
        "name": "Brody",
    }
    other = replace(faster, **words)
    assert faster.test(world).verdict() == other.test(world).verdict() == "confounded"
    assert replace(faster, kind="ours").test(world).verdict() == "partial"


def test_every_claim_has_words_a_known_kind_and_a_unit():
    """And the unit is that of its number."""
    for claim in claims.CLAIMS:
        assert claim.statement.endswith(".") and claim.rule and claim.statistic and claim.source, claim.name
        assert claim.kind in ("paper", "ours", "other document") and "{" not in claim.rule, claim.name
        assert ("97.5 %" in claim.rule) >= (claim.looks > 1), claim.name
    for name, world in (("faster", {"majority_metrics": worlds.metrics(STEPS)}), ("random_keys", RANDOM)):
        assert {row.number.unit for row in CLAIMS[name].test(world).rows} == {CLAIMS[name].unit}


RANDOM = {"random_keys": worlds.random_keys({"none": (1.0, 0.0)})}


# Sizes, and numbers on one scale


def of_majority(*parts):
    return {"majority_metrics": pd.concat([worlds.metrics(last=600, **part) for part in parts])}


LOSSES = [worlds.losses(0.05), worlds.losses(0.05, model="other", seeds=5)]
LOSSES = {"language_model_metrics": pd.concat(LOSSES)}
PAPER_RATE = {"language_model_metrics": worlds.losses(0.05, model="gpt_paper_rate")}
RANDOM_KEYS = worlds.random_keys({"none": (1.0, 0.0)})
AS_IN_PAPER = RANDOM_KEYS.replace({"n": {10: 3}})
TO_60 = "to 60, d = 3 to 15, 100 matrices for each"
OTHER = {"ratios": {"layernorm": 1.0, "scale": 1.0}, "experiment": "d3", "d_model": 3, "seeds": 5}
AT_ONE_RATE = {"ratios": {"layernorm": 1.0}, "seeds": 3}
AT_ANOTHER = {"ratios": {"none": 1.0}, "rate": 0.01, "seeds": 2}
PLACES = {("layernorm", "final", site): 0.1 for site in ("head", "after_norm")}
KEYS = [
    worlds.keys(PLACES, model, texts).assign(n_keys=n)
    for model, texts, n in (("other", "long", 70), ("gpt", "long", 900), ("gpt", "sentences", 30))
]
KEYS[0]["dimensions"] = 64
KEYS = {"key_selectability": pd.concat(KEYS)}
STEPS_OF_GPT = (
    "1,000 steps of 100 tokens, 3 runs of each variant "
    "(the paper: d_model = 8, 50,000 steps of 16,384 tokens, one run)."
)
SIZES = [
    (
        "faster",
        of_majority(AT_ONE_RATE, AT_ANOTHER, OTHER),
        "d = 8, learning rate 0.001 to 0.01; 600 steps, 2 to 3 runs of each variant (the paper: 10 runs).",
    ),
    ("random_keys", {"random_keys": RANDOM_KEYS}, f"n = 10 {TO_60} (the paper: n = 3 {TO_60})."),
    ("random_keys", {"random_keys": AS_IN_PAPER}, f"n = 3 {TO_60}, as in the paper."),
    ("attention_needs_size", PAPER_RATE, f"Wikipedia. {STEPS_OF_GPT}"),
    ("table_1", LOSSES | KEYS, f"d_model = 8; {STEPS_OF_GPT} Keys of 4 contexts of 900 tokens."),
    ("table_3", LOSSES | KEYS, f"d_model = 8; {STEPS_OF_GPT} Keys of 4 contexts of 30 tokens."),
    (
        "heads_of_practical_width",
        {"pretrained_keys": random_world.TABLES["pretrained_keys"]},
        "minilm: 3 documents of 1,000 to 1,200 tokens, 2 layers of 2 heads of 8 dimensions.",
    ),
]


@pytest.mark.parametrize(("name", "tables", "sentence"), SIZES)
def test_the_setting_of_a_claim_ends_with_the_sizes_of_what_ran(name, tables, sentence):
    assert verdict_on(name, **tables)[1].setting.endswith(sentence)


def test_on_the_common_scale_a_number_is_a_share_of_the_reported_one_and_a_ratio_by_its_logarithm():
    scaled = claims.on_common_scale(random_world.claims()).set_index("claim")
    scaled = scaled[["effect", "low", "high", "isolated", "isolated_low", "isolated_high"]]
    assert scaled.loc["faster"].tolist() == approx([0.5, 0.25, np.inf, 0, -1, 1])
    assert scaled.loc["accurate"].tolist() == approx([-0.5, 1, -1.5, *[np.nan] * 3], nan_ok=True)
    assert scaled.loc["table_1"].tolist() == approx([5, 4.5, 5.5, 0.5, 0.4, 0.6])
    assert scaled.loc["zero"].isna().all()
