"""Convergence, geometry and attention of runs that are built by hand."""

import numpy as np
import pandas as pd
import pytest
import worlds

from layernorm_roles.evidence.analysis import majority


def run(variant: str, seed: int, *points: tuple[int, float]) -> pd.DataFrame:
    """A run whose test loss goes through the points (step, loss)."""
    steps, losses = zip(*points, strict=True)
    return pd.DataFrame(
        {"experiment": "d8", "variant": variant, "seed": seed, "step": steps, "test_loss": losses}
    )


METRICS = pd.concat(
    [
        run("layernorm", 0, (0, 2.0), (100, 1.0), (200, 0.4)),
        run("layernorm", 1, (0, 2.0), (100, 1.5), (200, 0.75)),
        run("scale", 0, (0, 2.0), (200, 1.0), (300, 0.9)),
        run("scale", 1, (0, 2.0), (250, 1.5), (750, 0.5)),
        run("own:Norm", 1, (10, 0.9), (100, 0.2)),
        run("projection", 0, (0, 2.0), (100, np.inf), (200, np.nan)),
    ]
)


def test_steps_are_interpolated_between_the_rows():
    steps = majority.steps_to_reach(METRICS, [1.0, 0.5]).set_index(["variant", "seed", "test_loss"]).steps
    assert steps["layernorm", 0, 1.0] == 100
    assert steps["layernorm", 0, 0.5] == pytest.approx(100 + 100 * 0.5 / 0.6)
    assert steps["layernorm", 1, 1.0] == pytest.approx(100 + 100 * 0.5 / 0.75)
    assert steps["scale", 1, 0.5] == 750
    assert steps["own:Norm", 1, 1.0] == 10  # at the first row already
    for never in (("layernorm", 1, 0.5), ("scale", 0, 0.5), ("projection", 0, 1.0)):
        assert np.isnan(steps[never])


def test_convergence_pairs_seeds_and_counts_who_arrived():
    table = majority.convergence(majority.steps_to_reach(METRICS, [1.0, 0.5]))
    assert list(table.variant.unique()) == ["layernorm", "projection", "scale", "own:Norm"]
    assert list(table.test_loss[:2]) == [1.0, 0.5]
    table = table.set_index(["variant", "test_loss"])
    scale = table.loc["scale", 1.0]
    seed_0, seed_1 = 200 / 100, (250 + 500 * 0.5) / (100 + 100 * 0.5 / 0.75)
    assert (scale.runs, scale.reached, scale.pairs) == (2, 2, 2)
    assert scale.ratio_to_layernorm == pytest.approx(np.sqrt(seed_0 * seed_1))
    assert (scale.ratio_low, scale.ratio_high) == pytest.approx((seed_0, seed_1))  # all resamples of two
    assert scale.median_steps == pytest.approx((200 + 500) / 2)
    half = table.loc["scale", 0.5]
    assert (half.runs, half.reached, half.pairs) == (2, 1, 0) and np.isnan(half.ratio_to_layernorm)
    one = table.loc["own:Norm", 1.0]
    assert (one.runs, one.reached, one.pairs) == (1, 1, 1) and np.isnan(one.ratio_low)
    lost = table.loc["projection", 1.0]
    assert (lost.runs, lost.reached) == (1, 0) and np.isnan(lost.median_steps)
    assert (table.loc["layernorm"].ratio_to_layernorm == 1).all()


def test_convergence_without_layernorm_has_no_ratio():
    table = majority.convergence(majority.steps_to_reach(METRICS[METRICS.variant == "scale"]))
    assert table.ratio_to_layernorm.isna().all() and (table.pairs == 0).all()


@pytest.mark.parametrize(("dim", "angle"), [(2, 45.0), (3, 57.2958), (8, 72.6)])
def test_random_angle(dim, angle):
    """In the plane the angle is uniform; in three dimensions its cosine is, and the mean is a radian."""
    assert majority.random_angle(dim) == pytest.approx(angle, abs=0.05)
    draws = np.random.default_rng(0).standard_normal((100_000, dim))
    cosine = np.abs(draws[:, 0]) / np.linalg.norm(draws, axis=1)
    assert np.degrees(np.arccos(cosine)).mean() == pytest.approx(angle, abs=0.3)


def test_geometry_tells_planes_and_angles():
    vectors = worlds.vectors(
        {"layernorm": True, "scale": False}, {"layernorm": True, "scale": False}, seeds=4
    )
    runs = majority.geometry_of_runs(vectors)
    assert list(runs.columns) == ["variant", "seed", "flatness", "angle"] and len(runs) == 8
    by = runs.groupby("variant")
    assert by.flatness.max()["layernorm"] < 1e-12 and by.angle.max()["layernorm"] < 5
    assert by.flatness.min()["scale"] > 0.1 and by.angle.mean()["scale"] > 30


def test_fewer_keys_than_dimensions_lie_on_a_plane():
    vectors = worlds.vectors({"scale": False}, {"scale": False}, dim=8, classes=5, seeds=1)
    assert majority.geometry_of_runs(vectors).flatness[0] == 0


def test_attention_is_equal_or_on_one_key():
    keys = np.eye(4)
    rows = [("d", "equal", 0, i, kind, v) for kind in ("key", "query") for i, v in enumerate(0 * keys)]
    rows += [("d", "one", 0, i, kind, v) for kind in ("key", "query") for i, v in enumerate(100 * keys)]
    rows += [("d", "two", 0, i, "key", v) for i, v in enumerate(keys)]
    rows += [("d", "two", 0, 0, "query", np.array([1e3, 1e3, 0, 0]))]
    vectors = pd.DataFrame(rows, columns=["experiment", "variant", "seed", "token", "kind", "vector"])
    share = majority.attention_of_runs(vectors).set_index("variant").share
    assert share.to_dict() == pytest.approx({"equal": 1.0, "one": 0.25, "two": 0.5})
