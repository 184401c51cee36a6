"""Verdicts on the paper's claims, on tables whose truth is known by construction."""

import numpy as np
import pytest
import worlds
from judging import (
    CONFOUNDED,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTIAL,
    REPRODUCED,
    verdict_on,
)

SIZE = {"layernorm": 1.0, "scale_released": 3.0, "scale": 1.05, "layernorm_small": 2.9}
PROJECTION = {"layernorm": 1.0, "scale_released": 3.0, "scale": 3.1, "layernorm_small": 1.02}
ALL_TURNED, ONLY_LAYERNORM = (
    dict.fromkeys(("layernorm", "scale"), True),
    {"layernorm": True, "scale": False},
)


FASTER = [
    # the truth, and what must be said about it
    (PROJECTION, REPRODUCED),
    (SIZE, CONFOUNDED),
    (SIZE | {"scale_released": 1.1}, NOT_REPRODUCED),
    ({"layernorm": 1.0, "scale_released": 3.0}, NOT_TESTED),
    ({"scale_released": 3.0, "scale": 1.0}, NOT_TESTED),
]


@pytest.mark.parametrize(("ratios", "expected"), FASTER)
@pytest.mark.parametrize(("experiment", "name"), [("d8", "faster"), ("d8_uniform", "faster_uniform")])
def test_steps(ratios, expected, experiment, name):
    table = worlds.metrics(ratios, experiment=experiment)
    verdict, row = verdict_on(name, majority_metrics=table)
    assert verdict == expected
    if expected != NOT_TESTED:
        assert row.control_measured == pytest.approx(ratios["scale"], rel=0.05)
        assert row.control_low <= row.control_measured <= row.control_high
        assert row.ci_low <= ratios["scale_released"] <= row.ci_high or row.measured == pytest.approx(
            ratios["scale_released"], rel=0.05
        )
        assert row.n_seeds == 10


def test_the_size_is_named_as_the_cause_only_if_its_control_shows_it():
    _, confounded = verdict_on("faster", majority_metrics=worlds.metrics(SIZE))
    _, open_cause = verdict_on("faster", majority_metrics=worlds.metrics(SIZE | {"layernorm_small": 1.0}))
    assert "size of the attention input" in confounded.reason
    assert "size of the attention input" not in open_cause.reason


def test_one_seed_has_no_interval():
    verdict, row = verdict_on("faster", majority_metrics=worlds.metrics(PROJECTION, seeds=1))
    assert verdict == NOT_TESTED and "only 1 seed" in row.reason
    assert np.isnan(row.measured)


def test_scattered_seeds_cannot_tell():
    """3 times the steps with one seed, 0.6 times with the other."""
    table = worlds.metrics({"layernorm": 1.0, "scale_released": 3.0, "scale": 3.0}, seeds=2, spread=0)
    slow = (table.variant == "scale_released") & (table.seed == 1)
    table.loc[slow, "test_loss"] = 3 * (table.test_loss[slow] / 3) ** 5
    verdict, row = verdict_on("faster", majority_metrics=table)
    assert verdict == NOT_TESTED and "too wide to tell" in row.reason


def test_runs_that_never_get_there_bound_the_ratio_from_below():
    """scale never reaches the loss: the ratio is at least what the last step says, with no upper end."""
    table = worlds.metrics(PROJECTION | {"scale_released": 50.0}, last=6000)
    verdict, row = verdict_on("faster", majority_metrics=table)
    assert verdict == REPRODUCED
    assert row.ci_high == np.inf
    assert row.measured == pytest.approx(6000 / 1200, rel=0.05)


def test_a_run_that_ends_too_early_is_not_tested():
    table = worlds.metrics(PROJECTION, last=300)
    verdict, row = verdict_on("faster", majority_metrics=table)
    assert verdict == NOT_TESTED and "do not reach a test loss of 0.5" in row.reason


ANGLES = [
    ({"layernorm": 15, "scale_released": 80, "scale": 75}, REPRODUCED),
    ({"layernorm": 15, "scale_released": 80, "scale": 18}, CONFOUNDED),
    ({"layernorm": 70, "scale_released": 80, "scale": 75}, NOT_REPRODUCED),
    ({"layernorm": 15, "scale_released": 20, "scale": 75}, NOT_REPRODUCED),
]


@pytest.mark.parametrize(("angles", "expected"), ANGLES)
def test_angles(angles, expected):
    table = worlds.metrics(dict.fromkeys(angles, 1.0), angles=angles)
    keys = worlds.vectors(ONLY_LAYERNORM, ONLY_LAYERNORM, dim=8, experiment="d8")
    verdict, row = verdict_on("parallel", majority_metrics=table, majority_vectors=keys)
    assert verdict == expected
    assert row.measured == pytest.approx(angles["layernorm"], abs=1)
    assert row.control_measured == pytest.approx(angles["scale"], abs=1)


ACCURACIES = [
    ({"layernorm": 0.93, "scale_released": 0.85, "scale": 0.86}, REPRODUCED),
    ({"layernorm": 0.93, "scale_released": 0.85, "scale": 0.93}, CONFOUNDED),
    ({"layernorm": 0.93, "scale_released": 0.93, "scale": 0.93}, NOT_REPRODUCED),
]


@pytest.mark.parametrize(("accuracies", "expected"), ACCURACIES)
def test_accuracy(accuracies, expected):
    table = worlds.metrics(dict.fromkeys(accuracies, 1.0), accuracies=accuracies)
    verdict, row = verdict_on("accurate", majority_metrics=table)
    assert verdict == expected
    assert row.control_measured == pytest.approx(
        100 * (accuracies["layernorm"] - accuracies["scale"]), abs=0.5
    )


PLANES = [
    ({"layernorm": True, "scale": False}, ONLY_LAYERNORM, REPRODUCED),
    ({"layernorm": True, "scale": False}, {"layernorm": False, "scale": False}, NOT_REPRODUCED),
    ({"layernorm": False, "scale": False}, ONLY_LAYERNORM, NOT_REPRODUCED),
    ({"layernorm": True, "scale": True}, ALL_TURNED, CONFOUNDED),
]


@pytest.mark.parametrize(("flat", "turned", "expected"), PLANES)
def test_plane(flat, turned, expected):
    keys = worlds.vectors(flat, turned)
    table = worlds.metrics(dict.fromkeys(flat, 1.0), experiment="d3")
    assert verdict_on("plane", majority_vectors=keys, majority_metrics=table)[0] == expected


@pytest.mark.parametrize(
    ("turned", "expected"),
    [
        (ONLY_LAYERNORM, REPRODUCED),
        (ALL_TURNED, CONFOUNDED),
        ({"layernorm": False, "scale": False}, NOT_REPRODUCED),
    ],
)
def test_equal_attention(turned, expected):
    """Queries orthogonal to all keys give every key the same score."""
    flat = dict(turned)  # only keys on the plane score alike for a query along the ones vector
    keys = worlds.vectors(flat, turned, dim=8, experiment="d8", classes=20)
    table = worlds.metrics(dict.fromkeys(flat, 1.0))
    assert verdict_on("equal_attention", majority_vectors=keys, majority_metrics=table)[0] == expected


# Scaling

SOME, NONE = (1.0, 0.0), (0.0, 0.0)


@pytest.mark.parametrize(
    ("none", "expected"), [(SOME, REPRODUCED), ((1.0, 0.5), NOT_REPRODUCED), (NONE, NOT_REPRODUCED)]
)
def test_random_keys(none, expected):
    assert verdict_on("random_keys", random_keys=worlds.random_keys({"none": none}))[0] == expected


def test_few_matrices_cannot_tell():
    table = worlds.random_keys({"none": SOME}, matrices=5)
    verdict, row = verdict_on("random_keys", random_keys=table)
    assert verdict == NOT_TESTED and "too wide" in row.reason


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"none": SOME, "layernorm": NONE, "projection": SOME, "scale": NONE}, REPRODUCED),
        ({"none": SOME, "layernorm": NONE, "projection": NONE, "scale": NONE}, CONFOUNDED),
        ({"none": NONE, "layernorm": NONE}, CONFOUNDED),
        ({"none": SOME, "layernorm": (0.2, 0.0)}, NOT_REPRODUCED),
        ({"layernorm": NONE}, NOT_TESTED),
    ],
)
def test_random_keys_after_layernorm(shares, expected):
    table = worlds.random_keys(shares)
    assert verdict_on("random_keys_layernorm", random_keys=table)[0] == expected


def attention_input(without: float, with_scaling: float, **more):
    return {
        (variant, checkpoint, "after_norm"): share
        for variant, share in (("projection", without), ("layernorm", with_scaling))
        for checkpoint in ("initial", "final")
    } | more


@pytest.mark.parametrize(
    ("without", "with_scaling", "expected"),
    [(0.3, 0.0, REPRODUCED), (0.05, 0.0, NOT_REPRODUCED), (0.3, 0.1, NOT_REPRODUCED)],
)
def test_table_1(without, with_scaling, expected):
    shares = attention_input(without, with_scaling) | {("projection", "initial", "after_norm"): 0.6}
    verdict, row = verdict_on("table_1", key_selectability=worlds.keys(shares))
    assert verdict == expected
    assert row.measured == pytest.approx(100 * without * 1.02, abs=0.2)
    assert row.control_measured == pytest.approx(100 * 0.6 * 1.02, abs=0.2)  # untrained
    assert "Untrained" in row.reason


def test_table_2():
    shares = {
        ("layernorm", checkpoint, site): share
        for site, share in (("before_norm", 0.3), ("after_norm", 0.0))
        for checkpoint in ("initial", "final")
    }
    assert verdict_on("table_2", key_selectability=worlds.keys(shares))[0] == REPRODUCED
    shares["layernorm", "final", "after_norm"] = 0.2
    assert verdict_on("table_2", key_selectability=worlds.keys(shares))[0] == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("gap", "spread", "expected"),
    [
        (0.05, 0.001, REPRODUCED),
        (0.001, 0.001, NOT_REPRODUCED),
        (-0.05, 0.001, NOT_REPRODUCED),
        (0.05, 0.2, NOT_TESTED),
    ],
)
def test_loss_gap(gap, spread, expected):
    """The seeds' own losses differ by far more than the gap: only the paired difference can find it."""
    verdict, row = verdict_on("loss_gap", language_model_metrics=worlds.losses(gap, spread=spread))
    assert verdict == expected
    assert spread > 0.1 or row.measured == pytest.approx(gap, abs=0.005)


@pytest.mark.parametrize(
    ("name", "model", "without"), [("table_3", "gpt", "projection"), ("table_4", "bert", "none")]
)
def test_sentences(name, model, without):
    shares = {
        (v, c, "after_norm"): s for v, s in ((without, 0.2), ("layernorm", 0.0)) for c in ("initial", "final")
    }
    where = {"model": model, "texts": "sentences"}
    assert verdict_on(name, key_selectability=worlds.keys(shares, **where))[0] == REPRODUCED
    kept = shares | {("layernorm", "final", "after_norm"): 0.3}
    assert verdict_on(name, key_selectability=worlds.keys(kept, **where))[0] == CONFOUNDED
    nowhere = dict.fromkeys(shares, 0.0)
    assert verdict_on(name, key_selectability=worlds.keys(nowhere, **where))[0] == NOT_REPRODUCED


@pytest.mark.parametrize(
    ("layernorm", "qk", "expected", "expected_qk"),
    [
        (0.6, 0.0, NOT_REPRODUCED, HOLDS),
        (0.0, 0.0, REPRODUCED, PARTIAL),
        (0.6, 0.6, NOT_REPRODUCED, DOES_NOT_HOLD),
    ],
)
def test_heads(layernorm, qk, expected, expected_qk):
    shares = attention_input(0.3, 0.0) | {
        ("layernorm_qk", "final", "after_norm"): 0.0,
        ("projection", "final", "head"): 0.7,
        ("layernorm", "final", "head"): layernorm,
        ("layernorm_qk", "final", "head"): qk,
    }
    table = worlds.keys(shares)
    assert verdict_on("heads", key_selectability=table)[0] == expected
    verdict, row = verdict_on("heads_qk_norm", key_selectability=table)
    assert verdict == expected_qk and row.control_measured == pytest.approx(100 * layernorm * 1.02, abs=0.2)
    one = table[(table.variant != "layernorm_qk") | (table.seed == 0)]
    verdict, row = verdict_on("heads_qk_norm", key_selectability=one)
    assert verdict == NOT_TESTED and "only 1 seed of layernorm_qk" in row.reason


def test_the_setting_names_the_sizes_of_the_run_beside_those_of_the_paper():
    _, row = verdict_on(
        "faster",
        majority_metrics=worlds.metrics(SIZE, last=9_000, seeds=4),
        majority_vectors=worlds.vectors(ONLY_LAYERNORM, ONLY_LAYERNORM, dim=8, experiment="d8"),
    )
    assert "d = 8; 9,000 steps, 4 runs of each variant (the paper: 10 runs)" in row.setting
    _, row = verdict_on("random_keys", random_keys=worlds.random_keys({"none": SOME}, matrices=7))
    assert "n = 10 to 60, d = 3 to 15, 7 matrices" in row.setting and "(the paper: n = 3 to 60" in row.setting
    _, row = verdict_on(
        "table_1",
        key_selectability=worlds.keys(attention_input(0.3, 0.0)),
        language_model_metrics=worlds.losses(0.05),
    )
    assert (
        "1,000 steps of 100 tokens, 3 runs" in row.setting
        and "Keys of 4 contexts of 1,000 tokens." in row.setting
    )
