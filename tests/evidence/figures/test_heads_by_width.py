"""The figures of unselectable keys, and of the attention that keys can get, by the width of a head."""

import copy

import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest

from layernorm_roles.evidence.figures import registry
from layernorm_roles.gaussian_keys import expected_unselectable


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def known(causal, model="wide", checkpoint="final"):
    """Per cent of the artificial keys in the heads, by layer; every context and head weighs the same."""
    k = worlds.key_selectability()
    k = k[(k.variant == "layernorm") & (k.texts == "long") & (k.site == "head") & (k.causal == causal)]
    k = k[(k.model == model) & (k.checkpoint == checkpoint)]
    return [100 * (part.n_unselectable / part.n_keys).mean() for _, part in k.groupby("layer")]


def lines(axes, **look):
    return [line for line in axes.lines if all(getattr(line, f"get_{k}")() == v for k, v in look.items())]


@pytest.mark.parametrize("causal", [False, True])
def test_points_are_layers_and_lines_gaussian_keys(causal):
    axes = worlds.draw("heads_by_width").axes[int(causal)]
    (law,) = lines(axes, linestyle="--")
    x, y = law.get_data()
    np.testing.assert_allclose(y, [100 * expected_unselectable(905, int(d), causal) / 905 for d in x])
    assert x[0] <= 2 and x[-1] >= 16
    points = [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines(axes, marker="o")]
    assert len(points) == 3 * 2 * 2  # models, layers, checkpoints
    right = [y for x, y in sorted(points) if x > 16]
    np.testing.assert_allclose(right, known(causal))
    left = [y for x, y in sorted(points)[::-1] if 8 < x < 16]
    np.testing.assert_allclose(left, known(causal, checkpoint="initial"))
    assert sum(len(bar.get_paths()) for bar in axes.collections) == 8, (
        "three seeds have an interval, two have none"
    )


def test_two_seeds_have_no_interval_and_each_number_of_keys_has_a_line():
    keys = worlds.key_selectability()
    keys.loc[keys.model == "wide", "n_keys"] = 3000
    axes = worlds.draw("heads_by_width", key_selectability=keys[keys.seed < 2]).axes[0]
    assert not axes.collections and len(lines(axes, linestyle="--")) == 2


@pytest.mark.parametrize("queries", ["any", "norm"])
def test_reach_is_drawn_for_each_threshold_and_checkpoint(queries):
    axes = worlds.draw("reach_by_width").axes[["any", "norm"].index(queries)]
    table = worlds.language_model_ceilings()
    table = table[(table.variant == "layernorm") & (table.queries == queries)]
    drawn = {tuple(line.get_ydata()): line.get_linestyle() for line in axes.lines}
    assert len(drawn) == 3 * 2
    for threshold in (0.5, 0.1, 0.01):
        for checkpoint, stroke in (("initial", ":"), ("final", "-")):
            part = table[table.checkpoint == checkpoint]
            expected = [
                100 * (of_width.upper >= threshold).groupby(of_width.seed).mean().mean()
                for _, of_width in part.groupby("dimensions")
            ]
            assert sum(np.allclose(y, expected) for y, look in drawn.items() if look == stroke) == 1


def test_one_width_has_no_figure():
    models = copy.deepcopy(worlds.MODELS)
    assert "heads_by_width" in registry.figures({"language_model": models})
    models["wide"]["heads"] = 32
    assert "heads_by_width" not in registry.figures({"language_model": models})
    models = copy.deepcopy(worlds.MODELS)
    models["wide"]["seeds"]["layernorm"] = 0
    assert "heads_by_width" not in registry.figures({"language_model": models})
