import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from layernorm_roles.evidence.analysis.random_keys import z_scores


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def cells(norm):
    table = worlds.random_keys()
    return table[table.norm == norm]


def heat(axes):
    """What a heat map shows, a row for each d and a column for each n."""
    return axes.collections[0].get_array()


def grid(values, part):
    return part.assign(value=values).pivot(index="d", columns="n", values="value").to_numpy()


@pytest.mark.parametrize(("name", "norm"), [("figure_1c", "none"), ("figure_1d", "layernorm")])
def test_the_paper_s_figures_show_shares_of_matrices(name, norm):
    axes, bar = worlds.draw(name).axes
    np.testing.assert_allclose(heat(axes), grid(cells(norm).any_unselectable, cells(norm)))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("keys n", "dimension d")
    assert "share of matrices" in bar.get_ylabel()
    assert axes.collections[0].get_clim() == (0, 1)


def test_rows_in_another_order_draw_one_picture():
    table = worlds.random_keys()
    (first, _), (second, _) = (
        worlds.draw("figure_1c", random_keys=rows).axes
        for rows in (table, table.sample(frac=1, random_state=1))
    )
    np.testing.assert_array_equal(heat(first), heat(second))


def test_every_norm_has_a_panel_in_order_and_an_empty_one_says_so():
    titles = [axes.get_title(loc="left") for axes in worlds.draw("figure_random_keys_norms").axes[:4]]
    assert titles == ["LayerNorm: none in 900 matrices", "projection only", "no norm", "tanh"]


def test_undecided_keys_are_counted():
    table = worlds.random_keys()
    table.loc[table.norm == "none", "n_borderline"] = 1
    axes = worlds.draw("figure_1c", random_keys=table).axes[0]
    assert "9 of 12,900 keys borderline" in axes.get_title(loc="left")


def test_simulated_and_exact_are_not_exchanged():
    figure = worlds.draw("figure_random_keys_exact")
    above = [axes for axes in figure.axes if "simulated" in axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").split(":")[0] for axes in above] == ["projection only", "no norm"]
    none = cells("none")
    np.testing.assert_allclose(heat(above[1]), grid(none.mean_unselectable / none.n, none))
    (below,) = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("z")][1:]
    np.testing.assert_allclose(heat(below), grid(z_scores(none).z, none))


SETTINGS = [(0.0, "float32"), (0.0, "float64"), (1e-5, "float32"), (1e-5, "float64")]


def test_precision_shows_every_setting_and_titles_every_panel():
    figure = worlds.draw("figure_random_keys_precision")
    assert [axes.get_title() for axes in figure.axes] == [
        "unselectable by n, d = 3",
        "unselectable by d, n = 4 to 30",
        "undecided by n, d = 3",
    ]
    assert [axes.get_xlabel() for axes in figure.axes] == ["keys n", "dimension d", "keys n"]
    assert all("%" in axes.get_ylabel() for axes in figure.axes)
    table = worlds.random_keys_precision()
    for number, (eps, dtype) in enumerate(SETTINGS):
        part = table[(table.eps == eps) & (table.dtype == dtype)]
        small = part[part.d == 3].sort_values("n")
        expected = (
            100 * small.any_unselectable,
            100 * part.groupby("d").any_unselectable.mean(),
            100 * small.n_borderline / (small.n * small.matrices),
        )
        for axes, values in zip(figure.axes, expected, strict=True):
            np.testing.assert_allclose(axes.lines[number].get_ydata(), values)
    power = {0.0: r"$\mathdefault{0}$", 1e-5: r"$\mathdefault{10^{-5}}$"}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        f"{dtype}, ε = {power[eps]}" for eps, dtype in SETTINGS
    ]


def test_neighbouring_numbers_of_keys_are_pooled_with_their_matrices():
    rows = worlds.random_keys_precision()
    many = [rows[rows.n == 4].assign(n=n, any_unselectable=n / 100, matrices=n) for n in range(10, 34)]
    (axes, *_) = worlds.draw("figure_random_keys_precision", random_keys_precision=pd.concat(many)).axes
    line = axes.lines[0]
    assert len(line.get_xdata()) == 10
    first = np.arange(10, 13)  # 24 numbers in ten groups: the first four have three
    assert line.get_ydata()[0] == pytest.approx((first**2).sum() / first.sum())
    assert abs(line.get_xdata()[0] - 11) < 1.5


def test_settings_with_equal_values_stand_side_by_side():
    table = worlds.random_keys_precision().assign(any_unselectable=0.0, n_borderline=0)
    for axes in worlds.draw("figure_random_keys_precision", random_keys_precision=table).axes:
        places = np.concatenate([line.get_xdata() for line in axes.lines])
        assert len(np.unique(places.round(9))) == len(places)
        assert axes.get_ylim()[0] < 0
