"""Numbers of the statements' experiments, on tables that are built by hand."""

import numpy as np
import pandas as pd
import pytest
import worlds

from layernorm_roles.evidence.analysis import statements


def test_differences_and_ellipsoids_of_a_norm():
    table = worlds.geometry(difference=1e-14, deviation=3e-15)
    differences = statements.differences_from_torch(table).set_index(["dtype", "n"]).value
    assert differences["float64", 4] == 1e-14 and differences["float32", 16] == pytest.approx(1e-6)
    shape = statements.ellipsoids(table, "layernorm")
    assert shape["rank"].to_dict() == {4: 3, 16: 15} and (shape.axes_deviation == 3e-15).all()
    assert statements.ellipsoids(table, "rmsnorm")["rank"].to_dict() == {4: 4, 16: 16}


def test_radii_are_of_the_largest_eps_in_float64():
    table = worlds.geometry(near={"inside": 0.3, "outside": 0.5})
    smaller = table[table.quantity == "radius_mean"].assign(eps=1e-12, value=1.0)
    coarse = table[table.quantity == "radius_mean"].assign(dtype="float16", value=0.0)
    radii = statements.radii(pd.concat([table, smaller, coarse]))
    assert list(radii.index.get_level_values("n")) == [4, 4, 16, 16]
    assert radii.inside.to_list() == [0.3, 1.0, 0.3, 1.0] and radii.outside.to_list() == [0.5, 1.0, 0.5, 1.0]


def test_fusion_errors_are_per_cent_of_the_widest_square_layout():
    table = worlds.fusion({"plain": 0.0, "residual": 0.5}, seeds=2, widths={8: 1.0, 32: 0.5}, heads=(0.5, 1))
    assert statements.fusion_errors(table, "residual").to_list() == pytest.approx([25, 25.25])
    assert statements.fusion_errors(table, "residual", d=8).to_list() == pytest.approx([50, 50.5])
    assert (statements.fusion_errors(table, "plain") == 0).all()
    assert statements.fusion_errors(table, "residual", trained=True).empty
    trained = table[table.d == 8].assign(source="language_model", error=0.1)
    both = pd.concat([table, trained, table.assign(inputs="stream_and_heads", error=0.9)])
    assert statements.fusion_errors(both, "residual", trained=True).to_list() == pytest.approx([10, 10])
    assert statements.fusion_errors(both, "residual").to_list() == pytest.approx([25, 25.25])


def falling_losses() -> pd.DataFrame:
    """Twenty steps; the last tenth, two steps, has losses of 2.0 and 1.5 (pre) or 3.0 and 2.5 (post)."""
    table = worlds.placement({0.001: 0.0}, seeds=2)
    ends = {18: 2.0, 19: 1.5}
    loss = table.step.map(ends).fillna(5.0) + (table.placement == "post")
    return table.assign(train_loss=loss)


def test_final_losses_are_means_of_the_last_tenth():
    losses = statements.final_losses(falling_losses())
    assert len(losses) == 2 * 2 and (losses.pre == 1.75).all() and (losses.post == 2.75).all()
    runs = statements.run_ends(falling_losses())
    assert list(runs.columns) == [*statements.RUN, "status", "loss"] and len(runs) == 8


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_run_that_is_not_finite_at_the_end_is_infinitely_bad(bad):
    table = falling_losses()
    late = (table.placement == "post") & (table.seed == 0) & (table.depth == 24) & (table.step == 19)
    table.loc[late, "train_loss"] = bad
    early = (table.placement == "pre") & (table.step == 3)
    table.loc[early, "train_loss"] = np.inf  # it recovered
    losses = statements.final_losses(table).set_index(["depth", "seed"])
    assert losses.post[24, 0] == np.inf and losses.post[24, 1] == 2.75
    assert (losses.pre == 1.75).all()


def test_excess_of_runs_that_diverged():
    loss, other = pd.Series([1.0, np.inf, 2.0, np.inf, 3.0]), pd.Series([0.5, 1.0, np.inf, np.inf, np.nan])
    assert statements.excess(loss, other).to_dict() == {0: 0.5, 1: np.inf, 2: -np.inf, 3: 0.0}


def test_gradient_slopes_are_least_squares_lines_through_decades():
    table = worlds.gradients({"pre": (0, 1), "post": (-0.2, -0.3)}, seeds=2, spread=0.05)
    bent = 10 ** np.random.default_rng(0).standard_normal(len(table))
    table["gradient_norm"] *= bent
    slopes = statements.gradient_slopes(table).set_index(["placement", "step", "seed"]).slope
    assert len(slopes) == 2 * 4 * 2
    for (placement, step, seed), slope in slopes.items():
        part = table[(table.placement == placement) & (table.step == step) & (table.seed == seed)]
        assert slope == pytest.approx(np.polyfit(part.layer, np.log10(part.gradient_norm), 1)[0])
        assert slope == pytest.approx(
            {"pre": (0, 1), "post": (-0.2, -0.3)}[placement][step > 0]
            * {0: 1, 50: 1, 100: 1.5, 150: 0.5}[step]
            + 0.05 * seed,
            abs=0.2,
        )


def test_gradients_that_are_infinite_are_left_out_and_those_of_0_count_as_the_smallest_norm():
    """Before, the gradients that vanish most were taken out of the claim that they vanish."""
    table = worlds.gradients({"pre": (0, 1), "post": (-0.2, -0.3)}, seeds=2)
    first = (table.placement == "post") & (table.seed == 0) & (table.layer == 1)
    table.loc[first & (table.step == 100), "gradient_norm"] = np.inf
    table.loc[first & (table.step == 150), "gradient_norm"] = 0.0
    slopes = statements.gradient_slopes(table).set_index(["placement", "seed", "step"]).slope
    assert len(slopes) == 15 and np.isfinite(slopes).all()
    vanished = table[(table.placement == "post") & (table.seed == 0) & (table.step == 150)]
    norms = vanished.gradient_norm.replace(0.0, 1.4012985e-45**0.5)
    expected = np.polyfit(vanished.layer, np.log10(norms), 1)[0]
    assert slopes["post", 0, 150] == pytest.approx(expected) and expected > 0 > slopes["post", 1, 150]


def test_tuned_runs_are_at_the_setting_that_was_best_for_the_other_half_of_the_seeds():
    losses = {0.001: [0.0, 5.0, 6.0], 0.003: [3.0, 3.0, 2.0], 0.01: [4.0, 6.0, 6.0]}
    ends = pd.DataFrame(
        [
            (placement, 24, rate, 0, seed, "trained", loss + (placement == "post"))
            for placement in ("pre", "post")
            for rate, by_seed in losses.items()
            for seed, loss in enumerate(by_seed)
        ],
        columns=[*statements.RUN, "status", "loss"],
    )
    tuned = statements.tuned(pd.concat([ends, ends.assign(depth=2, loss=0.0)]), 24).set_index("placement")
    # Seed 1 alone chooses 0.003 for seeds 0 and 2; their means, 3, 2.5 and 5, choose 0.003 for seed 1.
    assert tuned.loss["pre"].to_list() == [3.0, 3.0, 2.0] and tuned.loss["post"].to_list() == [4.0, 4.0, 3.0]
    assert not tuned.at_end.any()
    lower = ends.assign(warmup=100, loss=ends.loss - ends.learning_rate.eq(0.01) * 5)
    warmed = statements.tuned(pd.concat([ends, lower]), 24)
    assert warmed.at_end.all() and set(warmed.learning_rate) == {0.01}


def test_scale_ratios_are_largest_over_smallest_size():
    table = worlds.part_scales(pre=(1, 2), post=(1, 4), stream=6.0, seeds=1)
    ratios = (
        statements.scale_ratios(table, "input_rms").set_index(["placement", "step", "learning_rate"]).ratio
    )
    expected = {
        ("pre", 100, 0.003): 2,
        ("pre", 100, 0.001): 1,
        ("post", 100, 0.003): 4,
        ("post", 100, 0.001): 2,
    }
    assert {key: ratios[key] for key in expected} == pytest.approx(expected)
    assert (statements.scale_ratios(table, "stream_rms").ratio == 6.0).all()
    broken = table.assign(input_rms=table.input_rms.where(table.learning_rate == 0.001, np.inf))
    lost = statements.scale_ratios(broken, "input_rms")
    assert np.isinf(lost.ratio[lost.learning_rate == 0.003]).all()


def test_first_layer_change_is_from_the_shallowest_to_the_deepest():
    table = worlds.untrained_gradients({"pre": (0.5, -2), "none": (9, -3)}, seeds=2)
    change = statements.first_layer_change(table).set_index(["placement", "residual", "seed"]).decades
    assert change["pre", True, 0] == pytest.approx(0.5) and change["pre", True, 1] == pytest.approx(0.51)
    assert change["none", False, 0] == pytest.approx(-3) and len(change) == 8
    lost = (table.layer == 1) & (table.depth == 16) & ~table.residual
    change = statements.first_layer_change(table.assign(gradient_norm=table.gradient_norm.mask(lost, 0.0)))
    assert (change.decades[~change.residual] == -np.inf).all()


def test_example_verdicts():
    table = worlds.worked_numbers(
        "right right", "right rounding", "rounding hedged carried", "hedged wrong right"
    )
    assert statements.example_verdicts(table)[:4].to_list() == ["right", "rounding", "hedged", "wrong"]
