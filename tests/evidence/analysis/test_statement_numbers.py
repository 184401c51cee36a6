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
    both = pd.concat([table, trained])
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


def test_gradient_ratios_are_decades_of_first_over_last():
    table = worlds.gradients({"pre": (0, 1), "post": (-2, -6)}, seeds=2, spread=0.5)
    ratios = statements.gradient_ratios(table).set_index(["placement", "step", "seed"]).decades
    expected = {
        ("pre", 0, 0): 0, ("pre", 0, 1): 0.5, ("pre", 100, 0): 1, ("pre", 100, 1): 1.5,
        ("post", 0, 0): -2, ("post", 0, 1): -1.5, ("post", 100, 0): -6, ("post", 100, 1): -5.5,
    }  # fmt: skip
    assert ratios.to_dict() == pytest.approx(expected)


@pytest.mark.parametrize("bad", [0.0, np.inf])
def test_gradients_that_are_zero_or_infinite_are_left_out(bad):
    table = worlds.gradients({"pre": (0, 1), "post": (-2, -6)}, seeds=2)
    first = (table.placement == "post") & (table.seed == 0) & (table.step == 100) & (table.layer == 1)
    table.loc[first, "gradient_norm"] = bad
    ratios = statements.gradient_ratios(table)
    assert len(ratios) == 7 and np.isfinite(ratios.decades).all()
