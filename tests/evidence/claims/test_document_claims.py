"""Verdicts on the statements of other documents, on tables whose truth is known by construction."""

import numpy as np
import pytest
import recomputed_documents
import worlds
from judging import CLAIMS, DOES_NOT_HOLD, HOLDS, NOT_TESTED, PARTIAL, REVERSED, verdict_on

EXACT = 1e-20
FUSION = {"plain": EXACT, "residual": 0.5, "norm": 0.05, "residual_norm": 0.5}
WIDE_AND_NARROW = {8: 1.0, 128: 0.01}
SLOW_AND_FAST = {0.001: 0.5, 0.003: 0.8}
WELL = {"away": {"inside": 1.0, "outside": 0.995}, "near": {"inside": 0.1, "outside": 0.5}}


def untrained(pre, post, spread=0.001):
    """Untrained networks whose gradient norm grows by so many decades from layer to layer."""
    nothing = {"pre": (0, 0), "post": (0, 0)}
    return worlds.untrained_gradients(nothing, slopes={"pre": pre, "post": post}, spread=spread)


WORLDS = [
    ("geometry", worlds.geometry(), HOLDS),
    ("geometry", worlds.geometry(difference=1e-3), PARTIAL),
    ("geometry", worlds.geometry(rank_lost=0), PARTIAL),
    ("geometry", worlds.geometry(difference=np.inf, deviation=1e-3), DOES_NOT_HOLD),
    ("geometry", worlds.geometry(rms_rank_lost=1), PARTIAL),
    ("geometry_radius", worlds.geometry(**WELL), HOLDS),
    ("geometry_radius", worlds.geometry(**WELL | {"away": {"inside": 0.9}}), PARTIAL),
    ("geometry_radius", worlds.geometry(away={"inside": 0.9, "outside": 1.02}), DOES_NOT_HOLD),
    ("geometry_rmsnorm", worlds.geometry(), HOLDS),
    ("geometry_rmsnorm", worlds.geometry(rms_rank_lost=1), PARTIAL),
    ("geometry_rmsnorm", worlds.geometry(rms_rank_lost=1, deviation=1e-3), DOES_NOT_HOLD),
    ("fusion_plain", worlds.fusion(FUSION), HOLDS),
    ("fusion_plain", worlds.fusion(FUSION | {"plain": 1e-3}), DOES_NOT_HOLD),
    ("fusion_residual", worlds.fusion(FUSION), HOLDS),
    ("fusion_residual", worlds.fusion(FUSION | {"residual": EXACT}), DOES_NOT_HOLD),
    ("fusion_residual", worlds.fusion(FUSION | {"plain": 0.1}), PARTIAL),
    ("fusion_norm", worlds.fusion(FUSION), DOES_NOT_HOLD),
    ("fusion_norm", worlds.fusion(FUSION | {"residual": EXACT}), HOLDS),
    ("fusion_norm_alone", worlds.fusion(FUSION), HOLDS),
    ("fusion_norm_alone", worlds.fusion(FUSION, widths=WIDE_AND_NARROW), PARTIAL),
    ("fusion_norm_alone", worlds.fusion(FUSION | {"norm": 1e-3}), DOES_NOT_HOLD),
    ("fusion_sizes", worlds.fusion(FUSION, heads=(0.5, 2)), HOLDS),
    ("fusion_sizes", worlds.fusion(FUSION, heads=(0.5, 1, 2)), PARTIAL),
    ("fusion_sizes", worlds.fusion(FUSION), DOES_NOT_HOLD),
    ("placement", worlds.placement(SLOW_AND_FAST), HOLDS),
    ("placement", worlds.placement({0.001: -0.5, 0.003: 0.8}), PARTIAL),
    ("placement", worlds.placement({0.001: -0.5, 0.003: -0.8}), REVERSED),
    ("placement", worlds.placement({0.001: 0.001}), NOT_TESTED),
    ("placement_tuned", worlds.placement(SLOW_AND_FAST), HOLDS),
    ("placement_tuned", worlds.placement({0.001: -0.5, 0.003: 0.8}), REVERSED),
    ("placement_tuned", worlds.placement({0.001: 0.001, 0.003: 0.8}), NOT_TESTED),
    ("placement_gradients_initial", untrained(pre=0.01, post=0.2), HOLDS),
    ("placement_gradients_initial", untrained(pre=0.01, post=-0.2), HOLDS),
    ("placement_gradients_initial", untrained(pre=-0.2, post=0.2), PARTIAL),
    ("placement_gradients_initial", untrained(pre=0.01, post=0.03), DOES_NOT_HOLD),
    ("placement_gradients_initial", untrained(pre=0.0, post=0.1, spread=0.1), NOT_TESTED),
    ("placement_gradients_training", worlds.gradients({"pre": (1, 0.01), "post": (0, 0.2)}), HOLDS),
    ("placement_gradients_training", worlds.gradients({"pre": (0, -0.2), "post": (0, 0.2)}), PARTIAL),
    ("placement_gradients_training", worlds.gradients({"pre": (0, 0.01), "post": (1, 0.03)}), DOES_NOT_HOLD),
    ("placement_scales", worlds.part_scales(pre=(1, 1.8), post=(1, 4)), HOLDS),
    ("placement_scales", worlds.part_scales(pre=(1, 3), post=(1, 4)), PARTIAL),
    ("placement_scales", worlds.part_scales(pre=(1, 1.8), post=(1, 4), stream=1.5), PARTIAL),
    ("placement_scales", worlds.part_scales(pre=(3, 3), post=(1, 4)), DOES_NOT_HOLD),
    ("placement_scales_post", worlds.part_scales(pre=(1, 1), post=(3, 4)), HOLDS),
    ("placement_scales_post", worlds.part_scales(pre=(1, 1), post=(1, 4)), PARTIAL),
    ("placement_scales_post", worlds.part_scales(pre=(1, 1), post=(1, 1.5)), DOES_NOT_HOLD),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -2), "none": (-0.5, -9)}), HOLDS),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -2), "none": (9, -3)}), PARTIAL),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -0.2), "none": (0.1, -3)}), PARTIAL),
    ("residual_connections", worlds.untrained_gradients({"pre": (3, -2), "none": (-9, -3)}), DOES_NOT_HOLD),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.99, -3)}), NOT_TESTED),
    ("placement_warm_up", worlds.placement(SLOW_AND_FAST, gains={2: 0.3, 24: 0.6}), HOLDS),
    ("placement_warm_up", worlds.placement(SLOW_AND_FAST, gains={2: 0.0, 24: 0.6}), PARTIAL),
    ("placement_warm_up", worlds.placement(SLOW_AND_FAST, gains={2: 0.0, 24: 0.01}), DOES_NOT_HOLD),
    ("placement_warm_up", worlds.placement(SLOW_AND_FAST, gains={2: 0.0, 24: 0.01}, stuck=(24,)), NOT_TESTED),
    ("placement_warm_up", worlds.placement(SLOW_AND_FAST), NOT_TESTED),
    ("batch_dependence", worlds.batch_dependence(0.0, -0.5), HOLDS),
    ("batch_dependence", worlds.batch_dependence(0.1, -0.5), PARTIAL),
    ("batch_dependence", worlds.batch_dependence(0.0, 0.5), PARTIAL),
    ("batch_dependence", worlds.batch_dependence(0.1, 0.5), DOES_NOT_HOLD),
    ("batch_dependence", worlds.batch_dependence(0.0, 0.0, spread=1.0), NOT_TESTED),
    ("batch_padding", worlds.batch_dependence(0.0, -0.5), HOLDS),
    ("batch_padding", worlds.batch_dependence(0.0, -0.5, padding=0.001), DOES_NOT_HOLD),
    ("batch_padding", worlds.batch_dependence(0.0, -0.5, padding=0.01), NOT_TESTED),
    ("score_scale", worlds.score_scale(0.5), HOLDS),
    ("score_scale", worlds.score_scale(1.0), DOES_NOT_HOLD),
    ("score_scale", worlds.score_scale(0.5, spread=0.1), NOT_TESTED),
    ("score_saturation", worlds.score_scale(0.5), HOLDS),
    ("score_saturation", worlds.score_scale(0.5, gradient=(0.9, 0.1)), PARTIAL),
    ("score_saturation", worlds.score_scale(0.5, kept=(0.9, 0.1), gradient=(0.9, 0.1)), REVERSED),
    ("score_saturation", worlds.score_scale(0.5, seeds=1), NOT_TESTED),
    ("score_mean", worlds.score_scale(0.5), PARTIAL),
    ("score_mean", worlds.score_scale(0.5, grows=(1.0, 1.0)), HOLDS),
    ("score_mean", worlds.score_scale(0.5, grows=(0.5, 0.5)), DOES_NOT_HOLD),
    ("score_mean", worlds.score_scale(0.5, grows=(1.0, 1.0), spread=0.1), NOT_TESTED),
    ("scores_majority", worlds.trained_scores("majority", 0.5, 1.5), HOLDS),
    ("scores_majority", worlds.trained_scores("majority", 0.5, 2.5), PARTIAL),
    ("scores_majority", worlds.trained_scores("majority", 2.5, 3.5), DOES_NOT_HOLD),
    ("scores_language_model", worlds.trained_scores("majority", 0.5), NOT_TESTED),
    ("scores_language_model", worlds.trained_scores("language_model", 0.5), HOLDS),
    ("scores_language_model", worlds.trained_scores("language_model", 2.5), DOES_NOT_HOLD),
    ("worked_numbers", worlds.worked_numbers("right", "right right"), HOLDS),
    ("worked_numbers", worlds.worked_numbers("right", "right rounding"), PARTIAL),
    ("worked_numbers", worlds.worked_numbers("right", "right hedged carried"), PARTIAL),
    ("worked_numbers", worlds.worked_numbers("rounding", "rounding right"), PARTIAL),
    ("worked_numbers", worlds.worked_numbers("hedged", "right hedged carried"), PARTIAL),
    ("worked_numbers", worlds.worked_numbers("right", "right wrong carried"), PARTIAL),
    ("worked_numbers", worlds.worked_numbers("right wrong", "wrong carried"), DOES_NOT_HOLD),
]


@pytest.mark.parametrize(("name", "table", "expected"), WORLDS)
def test_worlds(name, table, expected):
    (needed,) = CLAIMS[name].tables
    verdict, row = verdict_on(name, **{needed: table})
    assert verdict == expected, row.reason
    assert row.reason and "nan" not in row.reason


DRAWN_ANEW = {
    "geometry": ["value"],
    "fusion": ["error"],
    "placement": ["train_loss"],
    "placement_gradients": ["gradient_norm"],
    "placement_scales": ["input_rms", "stream_rms"],
    "untrained_gradients": ["gradient_norm"],
    "batch_dependence": ["change"],
    "score_scale": ["score_mean", "score_std", "entropy_share", "gradient"],
    "worked_numbers": [],
}
"""The columns with measurements, of each table."""


def drawn_anew(name, table, number):
    """The table with each measurement changed at random, by much in some worlds and by little in others.

    In a third of the worlds on placement some runs diverge, of one placement.
    """
    rng = np.random.default_rng(number)
    size = (0.0, 0.01, 0.3)[number % 3]
    table = table.copy()
    for column in DRAWN_ANEW[name]:
        table[column] *= np.exp(size * rng.standard_normal(len(table)))
    if name == "placement" and number % 3 == 0:
        lost = table[["depth", "learning_rate", "warmup", "seed"]].sum(axis=1).mod(rng.integers(2, 4)) < 1
        lost &= table.placement == rng.choice(["pre", "post"])
        table.loc[lost & (table.step > 10), ["train_loss", "status"]] = (
            rng.choice([np.inf, np.nan]),
            "diverged",
        )
    return table


@pytest.mark.parametrize("number", range(len(WORLDS)), ids=[world[0] for world in WORLDS])
def test_another_computation_finds_the_same(number):
    name, table, _ = WORLDS[number]
    (needed,) = CLAIMS[name].tables
    for changed in (table, *(drawn_anew(needed, table, 3 * number + i) for i in range(3))):
        verdict, row = verdict_on(name, **{needed: changed})
        assert recomputed_documents.VERDICTS[name]({needed: changed}) == verdict, row.reason
        if not np.isnan(row.measured):
            found = recomputed_documents.RECOMPUTED[name]({needed: changed})
            assert found == pytest.approx(row.measured, rel=1e-9, abs=1e-12)


def test_every_statement_is_seen_holding_and_failing():
    seen = {}
    for name, _, expected in WORLDS:
        seen.setdefault(name, set()).add(expected)
    statements = {name for name, claim in CLAIMS.items() if claim.part == "documents"}
    assert statements == set(seen)
    for name, verdicts in seen.items():
        assert HOLDS in verdicts and verdicts & {PARTIAL, REVERSED, DOES_NOT_HOLD}, name


@pytest.mark.parametrize(
    ("name", "table", "measured", "control"),
    [
        ("fusion_residual", worlds.fusion(FUSION), 51.0, 0.0),
        ("fusion_norm_alone", worlds.fusion(FUSION, widths=WIDE_AND_NARROW), 0.051, 0.0),
        ("fusion_sizes", worlds.fusion(FUSION, heads=(0.5, 1, 2, 4)), 75.0, None),
        ("placement", worlds.placement(SLOW_AND_FAST), 0.65 * 1.05 - 0.001, 0.0),
        ("placement_tuned", worlds.placement({0.001: 0.5, 0.003: 0.3}), 0.3 * 1.05 - 0.001, 0.0),
        ("placement_gradients_initial", untrained(pre=-0.01, post=0.2), 0.201, -0.009),
        (
            "placement_gradients_training",
            worlds.gradients({"pre": (1, -0.01), "post": (2, 0.2)}),
            0.201,
            -0.009,
        ),
        ("placement_scales", worlds.part_scales((1, 1.8), (1, 4)), 1.8 * 1.01, 5.0),
        ("placement_scales_post", worlds.part_scales((1, 1.8), (1, 4)), 4 * 1.01, 1.8 * 1.01),
        (
            "residual_connections",
            worlds.untrained_gradients({"none": (9, -9), "pre": (0.1, -2)}),
            0.11,
            -1.99,
        ),
        ("placement_warm_up", worlds.placement(SLOW_AND_FAST, gains={2: 0.0, 24: 0.6}), 0.606, 0.0),
        ("batch_padding", worlds.batch_dependence(0.0, -0.5), 55.0, 0.0),
        ("score_mean", worlds.score_scale(0.5), 1.0, 0.5),
        ("worked_numbers", worlds.worked_numbers("right", "rounding", "hedged", "wrong"), 25.0, 75.0),
    ],
)
def test_numbers(name, table, measured, control):
    (needed,) = CLAIMS[name].tables
    _, row = verdict_on(name, **{needed: table})
    assert row.measured == pytest.approx(measured, abs=2e-3)
    if control is None:
        assert np.isnan(row.control_measured)
    else:
        assert row.control_measured == pytest.approx(control, abs=2e-3)


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ({"post": (0, 1, 2)}, HOLDS),
        ({"pre": (0, 1, 2)}, REVERSED),
        ({"post": (0,)}, NOT_TESTED),  # one of three: it may be this seed
        ({"pre": (0, 1, 2), "post": (0, 1, 2)}, DOES_NOT_HOLD),  # neither is worse
    ],
)
def test_a_diverged_run_is_worse_than_any_other(lost, verdict):
    table = worlds.placement({0.001: 0.5})
    for name, seeds in lost.items():
        rows = (table.placement == name) & table.seed.isin(seeds) & (table.depth == 24) & (table.step > 10)
        table.loc[rows, ["train_loss", "status"]] = np.inf, "diverged"
    found, row = verdict_on("placement", placement=table)
    assert found == verdict, row
    assert f"{sum(map(len, lost.values()))} of these runs diverged and count as infinitely bad." in row.reason


def test_a_run_without_a_part_of_the_table_says_so():
    _, row = verdict_on("placement", placement=worlds.placement({0.001: 0.5}).query("placement == 'pre'"))
    assert row.verdict == NOT_TESTED and row.reason == "The run has no post-norm."
    _, row = verdict_on("geometry_rmsnorm", geometry=worlds.geometry().query("norm == 'layernorm'"))
    assert row.verdict == NOT_TESTED and "no ellipsoid of rmsnorm" in row.reason


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.part == "documents"])
def test_a_single_seed_or_no_table_is_not_tested(name):
    (needed,) = CLAIMS[name].tables
    assert verdict_on(name)[0] == NOT_TESTED
    if name.startswith(("geometry", "fusion_sizes", "worked_numbers")):
        return  # nothing is random but the inputs
    table = next(table for world, table, verdict in WORLDS if (world, verdict) == (name, HOLDS))
    verdict, row = verdict_on(name, **{needed: table[table.seed == 0]})
    assert verdict == NOT_TESTED and "only 1 seed" in row.reason
