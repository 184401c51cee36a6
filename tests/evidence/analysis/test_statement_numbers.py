"""Numbers of the statements' experiments where a run diverged or a gradient vanished."""

import numpy as np
import pytest
import worlds

from layernorm_roles.evidence.analysis import statements


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


def test_the_ratio_of_sizes_is_infinite_where_a_run_diverged():
    table = worlds.part_scales(pre=(1, 2), post=(1, 4), seeds=1)
    broken = table.assign(input_rms=table.input_rms.where(table.learning_rate == 0.001, np.inf))
    ratios = statements.scale_ratios(broken, "input_rms").set_index("learning_rate").ratio
    assert np.isinf(ratios[0.003]).all() and np.isfinite(ratios[0.001]).all()


def test_a_first_layer_without_gradient_has_lost_all_decades():
    table = worlds.untrained_gradients({"pre": (0.5, -2), "none": (9, -3)}, seeds=2)
    lost = (table.layer == 1) & (table.depth == 16) & ~table.residual
    table["gradient_norm"] = table.gradient_norm.mask(lost, 0.0)
    change = statements.first_layer_change(table)
    assert (change.decades[~change.residual] == -np.inf).all()
