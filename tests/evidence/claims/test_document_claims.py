"""Verdicts on the statements of other documents, on tables whose truth is known by construction."""

import numpy as np
import pytest
import worlds
from judging import CLAIMS, verdict_on

from layernorm_roles.evidence.claims import rules

EXACT = 1e-20
FUSION = {"plain": EXACT, "residual": 0.5, "norm": 0.05, "residual_norm": 0.5}
SLOW_AND_FAST = {0.001: 0.5, 0.003: 0.8}
WELL = {"away": {"inside": 1.0, "outside": 0.995}, "near": {"inside": 0.1, "outside": 0.5}}


WORLDS = [
    ("geometry", worlds.geometry(), "holds"),
    ("geometry", worlds.geometry(difference=1e-3), "partial"),
    ("geometry", worlds.geometry(rank_lost=0), "partial"),
    ("geometry", worlds.geometry(difference=np.inf, deviation=1e-3), "does not hold"),
    ("geometry", worlds.geometry(rms_rank_lost=1), "partial"),
    ("geometry_radius", worlds.geometry(**WELL), "holds"),
    ("geometry_radius", worlds.geometry(**WELL | {"away": {"inside": 0.9}}), "partial"),
    ("geometry_radius", worlds.geometry(away={"inside": 0.9, "outside": 1.02}), "does not hold"),
    ("fusion_residual", worlds.fusion(FUSION), "holds"),
    ("fusion_residual", worlds.fusion(FUSION | {"residual": EXACT}), "does not hold"),
    ("fusion_residual", worlds.fusion(FUSION | {"plain": 0.1}), "partial"),
    ("placement", worlds.placement(SLOW_AND_FAST), "holds"),
    ("placement", worlds.placement({0.001: -0.5, 0.003: 0.8}), "partial"),
    ("placement", worlds.placement({0.001: -0.5, 0.003: -0.8}), "does not hold"),
    ("placement", worlds.placement({0.001: 0.001}), "not tested"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -2), "none": (-0.5, -9)}), "holds"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -2), "none": (9, -3)}), "partial"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -0.2), "none": (0.1, -3)}), "partial"),
    ("residual_connections", worlds.untrained_gradients({"pre": (3, -2), "none": (-9, -3)}), "does not hold"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.99, -3)}), "not tested"),
    ("batch_dependence", worlds.batch_dependence(0.0, -0.5), "holds"),
    ("batch_dependence", worlds.batch_dependence(0.1, -0.5), "partial"),
    ("batch_dependence", worlds.batch_dependence(0.0, 0.5), "partial"),
    ("batch_dependence", worlds.batch_dependence(0.1, 0.5), "does not hold"),
    ("batch_dependence", worlds.batch_dependence(0.0, 0.0, spread=1.0), "not tested"),
    ("score_saturation", worlds.score_scale(0.5), "holds"),
    ("score_saturation", worlds.score_scale(0.5, gradient=(0.9, 0.1)), "partial"),
    ("score_saturation", worlds.score_scale(0.5, kept=(0.9, 0.1), gradient=(0.9, 0.1)), "does not hold"),
    ("score_saturation", worlds.score_scale(0.5, seeds=1), "not tested"),
    ("score_mean", worlds.score_scale(0.5), "partial"),
    ("score_mean", worlds.score_scale(0.5, grows=(1.0, 1.0)), "holds"),
    ("score_mean", worlds.score_scale(0.5, grows=(0.5, 0.5)), "does not hold"),
    ("score_mean", worlds.score_scale(0.5, grows=(1.0, 1.0), spread=0.1), "not tested"),
    ("geometry", worlds.geometry(rms_deviation=1e-3), "partial"),
    ("fusion_norm", worlds.fusion(FUSION | {"residual": EXACT}), "holds"),
    ("fusion_norm", worlds.fusion(FUSION | {"residual": EXACT}, narrow=0.1), "partial"),
    ("fusion_norm", worlds.fusion(FUSION), "partial"),
    ("fusion_norm", worlds.fusion(FUSION | {"norm": 1e-3}), "does not hold"),
    ("residual_position", worlds.position_probe((0.8, 0.1), (0.9, 0.5)), "holds"),
    ("residual_position", worlds.position_probe((0.13, 0.1), (0.9, 0.1)), "does not hold"),
    ("residual_position", worlds.position_probe((0.1, 0.8), (0.9, 0.1)), "does not hold"),
    ("residual_position", worlds.position_probe((0.16, 0.1), (0.9, 0.1), spread=0.05), "not tested"),
    ("residual_position", worlds.position_probe((0.2, 0.1), (0.9, 0.1), context_length=5), "does not hold"),
]


def tables(name, world):
    """The tables of a claim by name; a world of a single table is that of the claim's."""
    return world if isinstance(world, dict) else {CLAIMS[name].tables[0]: world}


@pytest.mark.parametrize(("name", "world", "expected"), WORLDS)
def test_worlds(name, world, expected):
    verdict, row = verdict_on(name, **tables(name, world))
    assert verdict == expected, row.reason


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ({"post": (0, 1, 2)}, "holds"),
        ({"pre": (0, 1, 2)}, "does not hold"),
        ({"post": (0,)}, "not tested"),  # one of three: it may be this seed
        ({"pre": (0, 1, 2), "post": (0, 1, 2)}, "does not hold"),  # neither is worse
    ],
)
def test_a_diverged_run_is_worse_than_any_other(lost, verdict):
    table = worlds.placement({0.001: 0.5})
    for name, seeds in lost.items():
        rows = (table.placement == name) & table.seed.isin(seeds) & (table.depth == 24) & (table.step > 10)
        table.loc[rows, "train_loss"] = np.inf
    found, row = verdict_on("placement", placement=table)
    assert found == verdict, row
    assert row.reason == f"{sum(map(len, lost.values()))} of these runs diverged and count as infinitely bad."


def test_a_run_without_a_part_of_the_table_says_so():
    _, row = verdict_on("placement", placement=worlds.placement({0.001: 0.5}).query("placement == 'pre'"))
    assert row.verdict == "not tested" and row.reason == "The run has no post-norm."
    _, row = verdict_on("geometry", geometry=worlds.geometry().query("norm == 'layernorm'"))
    assert row.verdict == "not tested" and "no ellipsoid of rmsnorm" in row.reason


RANDOM = [name for name, claim in CLAIMS.items() if claim.part == "documents"]
RANDOM = [name for name in RANDOM if not name.startswith("geometry")]


@pytest.mark.parametrize("name", RANDOM)
def test_a_single_seed_or_no_table_is_not_tested(name):
    assert verdict_on(name)[0] == "not tested"
    world = next(world for claim, world, verdict in WORLDS if (claim, verdict) == (name, "holds"))
    one = {table: frame[frame.seed == 0] for table, frame in tables(name, world).items()}
    verdict, row = verdict_on(name, **one)
    assert verdict == "not tested" and "only 1 seed" in row.reason


def test_close_to_the_origin_is_meant_of_the_root_mean_square():
    """Vectors of four or sixteen entries whose length is above the threshold, and their root mean square below."""
    table = worlds.geometry(**WELL)
    near = table.input_norm < 0.01
    table.loc[near, "input_norm"] *= 0.6 * rules.CLOSE / 1e-5
    assert (table.input_norm[near] > rules.CLOSE).all()
    assert verdict_on("geometry_radius", geometry=table)[0] == "holds"


def test_a_first_layer_without_gradient_has_lost_all_decades():
    table = worlds.untrained_gradients({"pre": (0.1, -2), "none": (-0.5, -9)})
    lost = (table.depth == 16) & ~table.residual & (table.placement == "none")
    table["gradient_norm"] = table.gradient_norm.mask(lost, 0.0)
    found = verdict_on("residual_connections", untrained_gradients=table)
    assert found[0] == "holds"


def test_positions_of_runs_that_all_diverged_tell_nothing():
    table = worlds.position_probe((0.8, 0.1), (0.9, 0.5))
    lost = table.assign(position_accuracy=table.position_accuracy.where(table.step == 0))
    without = table[table.residual]
    for world in (lost, without, table[table.placement == "post"]):
        assert verdict_on("residual_position", position_probe=world)[0] == "not tested"
