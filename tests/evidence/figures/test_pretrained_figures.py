from itertools import pairwise

import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from layernorm_roles.evidence.figures.pretrained import FRACTIONS, FROM_ANY, WORDS


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def share(**where):
    """Per cent of the artificial keys that reach a half, by layer."""
    table = worlds.attention_ceilings()
    column = where.pop("column", "upper")
    for name, value in where.items():
        table = table[table[name] == value]
    return 100 * (table[column] >= 0.5).groupby(table.layer).mean()


def test_ceilings_show_what_keys_can_get_and_what_they_get():
    figure = worlds.draw("pretrained_minilm_ceilings")
    half = figure.axes[0]
    used, without = half.lines
    np.testing.assert_allclose(used.get_ydata(), share(queries="norm", normalised="as used"))
    np.testing.assert_allclose(without.get_ydata(), share(queries="norm", normalised="without norm"))
    own = share(queries="norm", normalised="as used", column="received_max")
    np.testing.assert_allclose([bar.get_height() for bar in half.patches], own)
    assert [axes.get_title() for axes in figure.axes] == [
        f"at least {fraction} of a query's attention" for fraction in FRACTIONS.values()
    ]
    assert legend(figure) == list(WORDS.values())


def test_a_model_whose_norm_is_not_known_shows_what_any_query_can_give():
    table = worlds.attention_ceilings()
    table = table[(table.queries == "any") & (table.normalised == "as used")]
    figure = worlds.draw("pretrained_minilm_ceilings", attention_ceilings=table)
    np.testing.assert_allclose(
        figure.axes[0].lines[0].get_ydata(), share(queries="any", normalised="as used")
    )
    assert legend(figure) == [FROM_ANY, WORDS["own"]]


def test_many_layers_fit_a_page():
    """Numbers of layers below the axis do not touch, the legend has few of them, and no figure is a page high."""
    ceilings, keys = worlds.attention_ceilings(), worlds.pretrained_keys()
    deep = [
        pd.concat([table[table.layer == 1].assign(layer=layer) for layer in range(1, 19)])
        for table in (ceilings, keys)
    ]
    changed = dict(zip(("attention_ceilings", "pretrained_keys"), deep, strict=True))
    figure = worlds.draw("pretrained_minilm_ceilings", **changed)
    figure.canvas.draw()
    for axes in figure.axes:
        numbers = [text.get_window_extent() for text in axes.get_xticklabels()]
        assert all(one.x1 < other.x0 for one, other in pairwise(numbers)) and len(numbers) > 4
        assert [len(line.get_xdata()) for line in axes.lines] == [18, 18]
    assert len(legend(worlds.draw("pretrained_minilm_cut_heads", **changed))) <= 10
    figure = worlds.draw("pretrained_minilm_distribution", **changed)
    assert len(figure.axes) == 18 and figure.get_size_inches()[1] < 8
    figure.canvas.draw()
    labels = [axes.xaxis.label.get_window_extent() for axes in figure.axes[-6:]]
    assert all(one.x1 < other.x0 for one, other in pairwise(labels))


def test_two_documents_have_no_interval_that_hides_the_rest():
    table = worlds.attention_ceilings()
    for number, expected in ((2, 0), (4, 2)):
        part = table[table.context < number]
        axes = worlds.draw("pretrained_minilm_ceilings", attention_ceilings=part).axes[0]
        paths = [path.vertices for lines in axes.collections for path in lines.get_paths()]
        assert sum(np.isfinite(path).all() for path in paths) == 3 * expected


def test_distributions_go_from_the_lowest_to_the_highest():
    figure = worlds.draw("pretrained_minilm_distribution")
    first = figure.axes[0]
    assert first.get_title(loc="left") == "layer 1" and first.get_xscale() == "log"
    for line in first.lines[:3]:
        assert (np.diff(line.get_xdata()) >= 0).all() and (np.diff(line.get_ydata()) > 0).all()
    x, y = first.lines[0].get_data()
    assert y[x < 0.5].max() == pytest.approx(100 - share(queries="norm", normalised="as used")[1], abs=0.1)
    assert legend(figure) == list(WORDS.values())


def test_the_law_has_a_line_for_every_share_and_its_causal_one():
    figure = worlds.draw("gaussian_law")
    axes, law = figure.axes[0], worlds.gaussian_law().dropna()
    drawn = {tuple(line.get_ydata()): line.get_linestyle() for line in axes.lines}
    for (_, causal), part in law.groupby(["share", "causal"]):
        assert drawn[tuple(part.n)] == ("--" if causal else "-")
    assert len(drawn) == 6 and axes.get_yscale() == "log"
    notes = " ".join(text.get_text() for text in axes.texts)
    assert "d ≥ 64: under 1 %" in notes


def test_cut_heads_show_the_gaussian_keys_beside_every_layer():
    figure = worlds.draw("pretrained_minilm_cut_heads")
    linear, logarithmic = figure.axes
    gaussian, *lines = [line for line in linear.lines if line.get_linestyle() != "None"]
    assert gaussian.get_color() == "black" and len(lines) == 2
    keys = worlds.pretrained_keys().query("layer == 1")
    known = (100 * keys.n_unselectable / keys.n_keys).groupby(keys.dimensions).mean()
    np.testing.assert_allclose(lines[0].get_ydata(), known)
    np.testing.assert_array_equal(lines[0].get_xdata(), [2, 8, 16, 32])
    none = [line for line in logarithmic.lines if line.get_marker() == "v"]
    assert [list(line.get_xdata()) for line in none] == [[32], [16, 32]]
    assert legend(figure)[:3] == ["layer 1", "layer 2", "200 Gaussian keys"]
