"""Convergence, learning rates, effects and geometry of runs that are built by hand."""

import numpy as np
import pandas as pd
import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st

from layernorm_roles.evidence.analysis import majority


def run(
    variant: str, seed: int, *points: tuple[int, float], rate: float = 0.001, column: str = "test_loss"
) -> pd.DataFrame:
    """A run whose test loss, or another column, goes through the points (step, value)."""
    steps, values = zip(*points, strict=True)
    return pd.DataFrame(
        {
            "experiment": "d8",
            "variant": variant,
            "seed": seed,
            "d_model": 8,
            "base_learning_rate": rate,
            "step": steps,
            column: values,
        }
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


def between(first: float, last: float, share: float) -> float:
    """The step at this share of the way from `first` to `last`, on the scale log(1 + step)."""
    return (1 + first) ** (1 - share) * (1 + last) ** share - 1


def test_steps_are_interpolated_between_the_rows():
    table = majority.steps_to_reach(METRICS, [1.0, 0.5])
    assert list(table.columns) == [*majority.RUN, "test_loss", "steps", "last_step"]
    steps = table.set_index(["variant", "seed", "test_loss"]).steps
    assert steps["layernorm", 0, 1.0] == pytest.approx(100)
    assert steps["layernorm", 0, 0.5] == pytest.approx(between(100, 200, 0.5 / 0.6))
    assert steps["layernorm", 1, 1.0] == pytest.approx(between(100, 200, 0.5 / 0.75))
    assert steps["scale", 1, 0.5] == pytest.approx(750)
    assert steps["own:Norm", 1, 1.0] == 10  # at the first row already
    for never in (("layernorm", 1, 0.5), ("scale", 0, 0.5), ("projection", 0, 1.0)):
        assert np.isnan(steps[never])
    assert set(table.last_step[table.variant == "scale"]) == {300, 750}


@pytest.mark.parametrize(
    "rows", [np.arange(0, 3001, 50), np.unique(np.round(10 ** np.arange(0, 3.5, 0.1)).astype(int))]
)
def test_the_rows_at_which_a_run_is_evaluated_hardly_matter(rows):
    """A loss that falls with the logarithm of the step reaches 0.5 at step 300, evaluated evenly or not."""
    loss = 2.0 - 1.5 * np.log1p(rows) / np.log1p(300)
    found = majority.steps_to_reach(run("scale", 0, *zip(rows, loss, strict=True)), [0.5]).steps[0]
    assert found == pytest.approx(300, rel=1e-9)


def test_a_run_that_falls_from_infinity_arrives_at_its_row():
    table = run("none", 0, (0, 2.0), (10, np.inf), (20, np.nan), (40, 0.3))
    assert majority.steps_to_reach(table, [0.5]).steps[0] == pytest.approx(40)


def test_attention_is_equal_from_the_last_time_that_it_comes_to_be_so():
    shares = pd.concat(
        [
            run(variant, 0, *points, column="attention_share")
            for variant, points in {
                "from_the_start": ((0, 0.99), (100, 1.0)),
                "once": ((0, 0.8), (100, 0.8), (200, 1.0), (300, 1.0)),
                "in_between": ((0, 1.0), (100, 0.8), (200, 1.0)),
                "not_at_the_end": ((0, 1.0), (100, 1.0), (200, 0.8)),
            }.items()
        ]
    )
    table = majority.steps_to_equal_attention(shares, 0.9).set_index("variant")
    assert table.steps["from_the_start"] == 0
    assert table.steps["once"] == table.steps["in_between"] == pytest.approx(between(100, 200, 0.5))
    assert np.isnan(table.steps["not_at_the_end"]) and table.last_step["not_at_the_end"] == 200


def test_convergence_pairs_seeds_and_counts_who_arrived():
    table = majority.convergence(majority.steps_to_reach(METRICS, [1.0, 0.5]))
    assert list(table.variant.unique()) == ["layernorm", "projection", "scale", "own:Norm"]
    assert list(table.test_loss[:2]) == [1.0, 0.5]
    assert set(table.base_learning_rate) == {0.001} and set(table.d_model) == {8}
    table = table.set_index(["variant", "test_loss"])
    scale = table.loc["scale", 1.0]
    logs = np.log([200 / 100, between(250, 750, 0.5) / between(100, 200, 0.5 / 0.75)])
    half = 12.706 * logs.std(ddof=1) / np.sqrt(2)  # Student's, one degree of freedom
    assert (scale.runs, scale.reached, scale.pairs) == (2, 2, 2)
    assert scale.ratio_to_layernorm == pytest.approx(np.exp(logs.mean()))
    assert np.log([scale.ratio_low, scale.ratio_high]) == pytest.approx(
        [logs.mean() - half, logs.mean() + half], rel=1e-3
    )
    assert scale.median_steps == pytest.approx((200 + between(250, 750, 0.5)) / 2)
    both = table.loc["scale", 0.5]  # one run of each does not arrive, with different seeds
    assert (both.runs, both.reached, both.pairs) == (2, 1, 2) and np.isnan(both.ratio_to_layernorm)
    assert (both.ratio_low, both.ratio_high, both.median_steps) == (0, np.inf, np.inf)
    one = table.loc["own:Norm", 1.0]
    assert (one.runs, one.reached, one.pairs) == (1, 1, 1) and np.isnan(one.ratio_low)
    lost = table.loc["projection", 1.0]  # at least twice layernorm's steps: the run ends at 200
    assert (lost.runs, lost.reached, lost.median_steps) == (1, 0, np.inf)
    assert (
        lost.ratio_to_layernorm == pytest.approx(2) and lost.ratio_high == np.inf and np.isnan(lost.ratio_low)
    )
    assert (table.loc["layernorm"].ratio_to_layernorm.dropna() == 1).all()


def test_a_run_that_does_not_arrive_bounds_the_ratio():
    slow = pd.concat([METRICS, run("scale", 0, (0, 2.0), (400, 0.9)).assign(variant="projected_v", seed=0)])
    slow = pd.concat([slow, run("projected_v", 1, (0, 2.0), (400, 0.9))])
    table = majority.convergence(majority.steps_to_reach(slow, [0.75])).set_index("variant")
    row = table.loc["projected_v"]
    arrived = [between(100, 200, 0.25 / 0.6), 200]
    assert row.ratio_to_layernorm == pytest.approx(400 / np.sqrt(np.prod(arrived)))
    assert row.ratio_high == np.inf and 0 < row.ratio_low < row.ratio_to_layernorm


def test_convergence_without_layernorm_has_no_ratio():
    table = majority.convergence(majority.steps_to_reach(METRICS[METRICS.variant == "scale"]))
    assert table.ratio_to_layernorm.isna().all() and (table.pairs == 0).all()


def test_convergence_keeps_rates_and_widths_apart():
    both = pd.concat([METRICS, METRICS.assign(base_learning_rate=0.01), METRICS.assign(d_model=3)])
    alone = majority.convergence(majority.steps_to_reach(METRICS))
    table = majority.convergence(majority.steps_to_reach(both))
    assert len(table) == 3 * len(alone)
    part = table[(table.d_model == 8) & (table.base_learning_rate == 0.001)].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, alone)


# Learning rates


def losses(variant: str, table: dict[float, list[float]]) -> pd.DataFrame:
    """Runs with these test losses at the last step, for each rate one a seed."""
    return pd.concat(
        [
            run(variant, seed, (0, 3.0), (100, loss), rate=rate).assign(test_accuracy=0.5)
            for rate, values in table.items()
            for seed, loss in enumerate(values)
        ]
    )


@pytest.mark.parametrize(("by", "best"), [("loss", 0.03), ("accuracy", 0.01), ("speed", 0.1)])
def test_a_rate_is_chosen_by_what_is_judged(by, best):
    rows = [
        ("rates", "scale", seed, 8, rate, step, loss, accuracy)
        for rate, (early, late, right) in {
            0.001: (9, 9, 0.1),
            0.01: (4, 0.4, 0.9),
            0.03: (2, 0.2, 0.8),
        }.items()
        for seed in range(4)
        for step, loss, accuracy in ((0, 9.5, 0.0), (100, early, 0.0), (200, late, right))
    ]
    rows += [
        (*row[:4], 0.1, row[5], 0.3 if row[5] == 100 else row[6] + 0.1, 0.2) for row in rows if row[4] == 0.03
    ]
    rows += [(*row[:4], 0.3, *row[5:]) for row in rows if row[4] == 0.001]
    columns = [
        "experiment",
        "variant",
        "seed",
        "d_model",
        "base_learning_rate",
        "step",
        "test_loss",
        "test_accuracy",
    ]
    found = majority.best_rates(pd.DataFrame(rows, columns=columns), by, 0.5)
    assert set(found.base_learning_rate) == {best} and len(found) == 4 and not found.at_end.any()


def test_the_first_and_the_last_rate_are_marked_and_a_single_seed_has_none():
    falling = losses("scale", {0.1: [3.0] * 2, 0.2: [2.0] * 2, 0.3: [1.0] * 2})
    rising = losses("layernorm", {0.1: [1.0] * 2, 0.2: [2.0] * 2, 0.3: [3.0] * 2})
    alone = losses("none", {0.1: [1.0], 0.2: [0.5], 0.3: [1.0]})
    best = majority.best_rates(pd.concat([falling, rising, alone]), "loss")
    assert best.at_end.all() and set(best.variant) == {"scale", "layernorm"}


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_a_run_that_is_lost_is_never_best(lost):
    table = losses("scale", {0.1: [3.0] * 2, 0.2: [2.0] * 2, 0.3: [1.0] * 2, 0.4: [lost] * 2})
    ended = losses("scale", {0.5: [0.1] * 2}).query("step == 0").assign(test_loss=0.1)
    both = pd.concat([table, ended])
    assert set(majority.best_rates(both, "loss").base_learning_rate) == {0.3}
    last = majority.last_rows(both).set_index("base_learning_rate")
    assert (last.test_loss[[0.4, 0.5]] == np.inf).all() and (last.test_accuracy[[0.4, 0.5]] == 0).all()


# Size and projection


@given(*[st.floats(-5, 5)] * 4)
def test_effects_of_size_and_projection_are_found(base, size, projection, interaction):
    cells = {
        "layernorm": base + size + projection + interaction,
        "scale": base + size,
        "layernorm_small": base + projection,
        "scale_released": base,
    }
    values = pd.DataFrame([cells, cells, cells | {"scale": np.nan}])
    effects = majority.two_by_two(values)
    assert [len(effect) for effect in effects] == [2, 2, 2]
    assert effects.size.to_list() == pytest.approx([size + interaction / 2] * 2, abs=1e-9)
    assert effects.projection.to_list() == pytest.approx([projection + interaction / 2] * 2, abs=1e-9)
    assert effects.interaction.to_list() == pytest.approx([interaction] * 2, abs=1e-9)


# Vectors


@pytest.mark.parametrize(("dim", "angle"), [(2, 45.0), (3, 57.2958), (8, 72.6)])
def test_random_angle(dim, angle):
    """In the plane the angle is uniform; in three dimensions its cosine is, and the mean is a radian."""
    assert majority.random_angle(dim) == pytest.approx(angle, abs=0.05)
    draws = np.random.default_rng(0).standard_normal((100_000, dim))
    cosine = np.abs(draws[:, 0]) / np.linalg.norm(draws, axis=1)
    assert np.degrees(np.arccos(cosine)).mean() == pytest.approx(angle, abs=0.3)


FINAL = "checkpoint == 'final'"


def test_geometry_tells_planes_and_angles():
    flat = {"layernorm": True, "scale": False}
    runs = majority.geometry_of_runs(worlds.vectors(flat, flat, seeds=4).query(FINAL))
    assert list(runs.columns) == ["variant", "seed", "flatness", "angle"] and len(runs) == 8
    by = runs.groupby("variant")
    assert by.flatness.max()["layernorm"] < 1e-12 and by.angle.max()["layernorm"] < 5
    assert by.flatness.min()["scale"] > 0.1 and by.angle.mean()["scale"] > 30


def test_a_plane_beside_the_origin_is_found_with_centred_keys_only():
    flat = {"layernorm_affine": True}
    vectors = worlds.vectors(flat, flat, seeds=4, offset=2.0).query(FINAL)
    through, beside = (majority.geometry_of_runs(vectors, centred) for centred in (False, True))
    assert through.flatness.min() > 0.1 and through.angle.min() > 20
    assert beside.flatness.max() < 1e-12 and beside.angle.max() < 5


def test_fewer_keys_than_dimensions_lie_on_a_plane():
    vectors = worlds.vectors({"scale": False}, {"scale": False}, dim=8, classes=5, seeds=1).query(FINAL)
    assert majority.geometry_of_runs(vectors).flatness[0] == 0
