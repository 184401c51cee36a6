import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest


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
    z = (none.mean_unselectable - none.expected_unselectable) / (none.std_unselectable / 10)
    np.testing.assert_allclose(heat(below), grid(z, none))


def test_precision_shows_every_setting_and_titles_every_panel():
    figure = worlds.draw("figure_random_keys_precision")
    assert [axes.get_title() for axes in figure.axes] == ["d = 3", "n = 4 to 30 together", "d = 3"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["keys n", "dimension d", "keys n"]
    table = worlds.random_keys_precision()
    expected = {"any": [], "all": [], "borderline": []}
    for _, part in table.groupby(["dtype", "eps"]):
        small = part[part.d == 3].sort_values("n")
        expected["any"].append(small.any_unselectable.to_numpy())
        expected["all"].append(part.groupby("d").any_unselectable.mean().to_numpy())
        expected["borderline"].append((small.n_borderline / (small.n * small.matrices)).to_numpy())
    for axes, lines in zip(figure.axes, expected.values(), strict=True):
        np.testing.assert_allclose([line.get_ydata() for line in axes.lines], lines)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "float64, ε = 0",
        "float64, ε = 1e-05",
        "float32, ε = 0",
        "float32, ε = 1e-05",
    ]


def test_lines_that_coincide_are_both_seen():
    (axes, *_) = worlds.draw("figure_random_keys_precision").axes
    looks = {(line.get_linewidth(), line.get_linestyle()) for line in axes.lines}
    assert looks == {(4.0, "-"), (1.1, "--")}
