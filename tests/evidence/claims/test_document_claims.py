"""Verdicts on the statements of other documents, on tables whose truth is known by construction."""

import numpy as np
import pytest
import worlds
from judging import assert_judged, verdict_on

EXACT = 1e-20
FUSION = {"plain": EXACT, "residual": 0.5, "norm": 0.05, "residual_norm": 0.5}
SLOW_AND_FAST = {0.001: 0.5, 0.003: 0.8}
WELL = {"away": {"inside": 1.0, "outside": 0.995}, "near": {"inside": 0.1, "outside": 0.5}}
GRADIENTS = {"pre": (0.1, -2), "none": (-0.5, -9)}
PRE, POST = ([(name, seed) for seed in range(3)] for name in ("pre", "post"))
DIVERGED = "of these runs diverged and count as infinitely bad."
PROBE = worlds.position_probe((0.8, 0.1), (0.9, 0.5))
UNTRAINED = PROBE.assign(position_accuracy=PROBE.position_accuracy[PROBE.step == 0])
WORLDS = [
    ("geometry", worlds.geometry(), "holds"),
    ("geometry", worlds.geometry(difference=1e-3), "partial"),
    ("geometry", worlds.geometry(rank_lost=0), "partial"),
    ("geometry", worlds.geometry(difference=np.inf, off={"centre_deviation": 1e-3}), "does not hold"),
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
    ("placement", worlds.placement({0.001: 0.001}), "inconclusive"),
    ("residual_connections", worlds.untrained_gradients(GRADIENTS), "holds"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -2), "none": (9, -3)}), "partial"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.1, -0.2), "none": (0.1, -3)}), "partial"),
    ("residual_connections", worlds.untrained_gradients({"pre": (3, -2), "none": (-9, -3)}), "does not hold"),
    ("residual_connections", worlds.untrained_gradients({"pre": (0.99, -3)}), "inconclusive"),
    ("geometry", worlds.geometry(rms_off={"axes_cosine": 1e-3}), "partial"),
    ("fusion_norm", worlds.fusion(FUSION | {"residual": EXACT}), "holds"),
    ("fusion_norm", worlds.fusion(FUSION | {"residual": EXACT}, narrow=0.1), "partial"),
    ("fusion_norm", worlds.fusion(FUSION), "partial"),
    ("fusion_norm", worlds.fusion(FUSION | {"norm": 1e-3}), "does not hold"),
    ("residual_position", PROBE, "holds; untrained models"),
    ("residual_position", worlds.position_probe((0.13, 0.1), (0.9, 0.1)), "does not hold"),
    ("residual_position", worlds.position_probe((0.1, 0.8), (0.9, 0.1)), "does not hold"),
    ("residual_position", worlds.position_probe((0.16, 0.1), (0.9, 0.1), spread=0.05), "inconclusive"),
    ("residual_position", worlds.position_probe((0.2, 0.1), (0.9, 0.1), context_length=5), "does not hold"),
    ("geometry", worlds.geometry().query("norm == 'layernorm'"), "not run here: no ellipsoid of rmsnorm"),
    # vectors of four or sixteen entries whose length is above the threshold, and their root mean square below
    ("geometry_radius", worlds.geometry(**WELL, close=6e-4), "holds"),
    ("placement", worlds.placement({0.001: 0.5}, lost=POST), f"holds: 3 {DIVERGED}"),
    ("placement", worlds.placement({0.001: 0.5}, lost=PRE), f"does not hold: 3 {DIVERGED}"),
    # it may be this seed; and neither is worse
    ("placement", worlds.placement({0.001: 0.5}, lost=POST[:1]), f"inconclusive: 1 {DIVERGED}"),
    ("placement", worlds.placement({0.001: 0.5}, lost=PRE + POST), f"does not hold: 6 {DIVERGED}"),
    # networks whose first layer has no gradient have lost all decades
    ("residual_connections", worlds.untrained_gradients(GRADIENTS | {"none": (-0.5, -400)}), "holds"),
    ("residual_position", UNTRAINED, "not run here"),
    ("residual_position", PROBE[PROBE.residual], "not run here"),
    ("residual_position", PROBE[PROBE.placement == "post"], "not run here"),
]


TABLES = {"geometry_radius": "geometry", "fusion_residual": "fusion", "fusion_norm": "fusion"}
TABLES |= {"residual_connections": "untrained_gradients", "residual_position": "position_probe"}


def tables(name, world):
    return {TABLES.get(name, name): world}


@pytest.mark.parametrize(("name", "world", "expected"), WORLDS)
def test_worlds(name, world, expected):
    assert_judged(name, tables(name, world), expected)


@pytest.mark.parametrize("name", sorted({name for name, *_ in WORLDS if not name.startswith("geometry")}))
def test_a_single_seed_is_not_tested(name):
    world = next(world for claim, world, verdict in WORLDS if claim == name and verdict.startswith("holds"))
    assert_judged(name, tables(name, world[world.seed == 0]), "not run here: only 1 seed")


AXES = {"axes_deviation": 1e-3}
BESIDE = [
    ("geometry", worlds.geometry(off=AXES), {"layernorm, deviation from the ellipsoid": 1e-3}),
    ("fusion_residual", worlds.fusion(FUSION), {"residual, trained language models": 70}),
    ("fusion_norm", worlds.fusion(FUSION), {"norm, trained language models": 70, "norm, d = 8": 2.55}),
    (
        "placement",
        worlds.placement(SLOW_AND_FAST),
        {"shallowest, mean over rates": 0, "deepest, rate 0.003": 0.839},
    ),
]


@pytest.mark.parametrize(("name", "world", "shown"), BESIDE)
def test_numbers_beside_those_that_are_judged(name, world, shown):
    rows = verdict_on(name, **tables(name, world))[1].rows
    assert {each: rows[each].estimate for each in shown} == pytest.approx(shown)
