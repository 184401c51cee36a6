"""What the figures of random keys, pretrained models, statements and verdicts draw."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import random_world as world
from matplotlib.legend import Legend
from plain import interval
from reading import bars, curve, handles, labels, named, stroked
from recomputed_tables import RECOMPUTED

from layernorm_roles.evidence.claims.rules import MEANINGS
from layernorm_roles.evidence.figures import forest, pretrained, statements, style

# Random keys


def test_norms_after_which_some_matrix_has_an_unselectable_key_have_a_panel_and_the_others_a_sentence():
    table = world.random_keys()
    table.loc[table.norm == "none", "n_borderline"] = 1
    table.loc[table.norm == world.OWN, "any_unselectable"] = 0.0
    figure = world.draw("figure_1c", random_keys=table.sample(frac=1, random_state=1))
    none, projection, _ = figure.axes
    titles = [axes.get_title(loc="left").splitlines() for axes in (none, projection)]
    assert titles[0] == ["no norm", "100 matrices for each n and d", "9 of 12,900 keys borderline"]
    assert titles[1] == ["projection only", "100 matrices for each n and d"]
    for axes, norm in ((none, "none"), (projection, "projection")):
        shares = table[table.norm == norm].pivot(index="d", columns="n", values="any_unselectable")
        np.testing.assert_allclose(axes.collections[0].get_array(), shares)
        assert axes.collections[0].get_clim() == (0, 1)
    assert none.get_ylabel() == "dimension d"
    assert figure.get_supxlabel() == "after LayerNorm and tanh: none in 900 matrices each"


def test_the_law_has_a_line_for_every_share_and_its_causal_one():
    table = world.gaussian_law().sample(frac=1, random_state=0)
    axes = world.draw("gaussian_law", gaussian_law=table).axes[0]
    drawn = {tuple(line.get_ydata()): (line.get_color(), line.get_linestyle()) for line in axes.lines}
    for (share, causal), part in world.gaussian_law().dropna().groupby(["share", "causal"]):
        colour = handles(axes.figure)[f"{100 * share:g} % unselectable"].get_color()
        assert drawn[tuple(part.n)] == (colour, "--" if causal else "-")
    assert len(drawn) == 6 and "d ≥ 64: under 1 %" in " ".join(text.get_text() for text in axes.texts)


# Pretrained models


def test_ceilings_show_what_keys_do_get_and_of_any_query_where_no_norm_is_known():
    half = world.drawn("pretrained_ceilings").axes[0]
    table = RECOMPUTED["ceilings"](world.TABLES).loc[0.5, "minilm"]
    shares, ends = table.percent, 100 - table.loc["own", "as used"][["high", "low"]].clip(0, 100)
    np.testing.assert_allclose(bars(half, style.GREY), ends)
    np.testing.assert_allclose([bar.get_height() for bar in half.patches], 100 - shares["own", "as used"])
    assert "½" in half.get_title()
    table = world.attention_ceilings().query("queries != 'norm' and normalised == 'as used'")
    half = world.draw("pretrained_ceilings", attention_ceilings=table).axes[0]
    np.testing.assert_allclose(curve(half, "can get, as used").get_ydata(), 100 - shares["any", "as used"])
    assert labels(half.figure) == ["can get, as used", pretrained.GETS["label"]]
    assert "all-MiniLM-L6-v2, any query" in half.get_ylabel()
    deep = pd.concat([table[table.layer == 1].assign(layer=layer) for layer in range(1, 16)])
    half = world.draw("pretrained_ceilings", attention_ceilings=deep).axes[0]
    assert [*half.get_xticks()] == [*range(1, 16, 2)], "at most eight ticks"


@pytest.mark.parametrize("contexts", [2, 3])
def test_ceilings_have_intervals_over_three_contexts_or_more(contexts):
    table = world.attention_ceilings().query("context < @contexts")
    half = world.draw("pretrained_ceilings", attention_ceilings=table).axes[0]
    for colour in (style.GREY, pretrained.LOOKS["as used"]["color"]):
        assert len(bars(half, colour)) == (2 if contexts == 3 else 0)


# The claims


def test_the_forest_has_the_paper_s_claims_in_reported_effects():
    figure = world.drawn("claims_forest")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["Figure 2a", "Figure 3", "Table 1 †"]

    def row(artist):
        return round(float(np.ravel(artist.get_ydata())[0]))

    assert labels(figure)[:3] == ["holds (1)", "partial (1)", "inconclusive (1)"]
    marks = {label: {row(m): float(m.get_xdata()[0]) for m in named(axes, label)} for label in labels(figure)}
    assert marks["partial (1)"] == {0: pytest.approx(0.5)}  # of logarithms
    assert marks["isolating comparison"] == {0: pytest.approx(0.0)}
    assert marks["inconclusive (1)"] == {1: pytest.approx(-0.5)}
    assert marks["untrained models"] == {2: pytest.approx(0.5)}
    spans = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.1]
    ends = sorted((row(line), *line.get_xdata()) for line in spans)
    np.testing.assert_allclose(ends[:2], [(0, -1, 1), (0, 0.25, 2)])
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    assert {(arrow.get_marker(), row(arrow)) for arrow in arrows} == {(">", 0), ("<", 1), (">", 2)}
    assert all(a.get_window_extent().x0 > axes.bbox.x1 for a in arrows if a.get_marker() == ">")
    places = {text.get_text(): text.xy[0] for text in axes.texts}
    assert places == {"no effect": 0, "as reported": 1, "5.0": 2} and axes.get_xlim() == forest.ENDS
    table = world.claims()
    table.loc[table.claim == "accurate", "measured"] = 12.0  # where -8 is reported
    (axes,) = world.draw("claims_forest", claims=table).axes
    beyond = {text.get_text(): text.get_ha() for text in axes.texts}
    assert (beyond["−1.5"], beyond["5.0"]) == ("left", "right")
    assert set(forest.LOOKS) == set(MEANINGS)
    assert len({look["marker"] for look in forest.LOOKS.values()}) == len(MEANINGS)


def test_the_share_along_the_ones_vector_of_our_models_is_in_units_of_a_random_direction():
    left, right, *other, below = world.drawn("pretrained_projection").axes
    assert [axes.get_title() for axes in (*other, below)] == [
        "other",
        "other, projection added",
        "our GPTs with LayerNorm",
    ]
    assert right.get_ylim() == other[1].get_ylim()
    own = world.language_model_ones_share().query("variant == 'layernorm'")
    checkpoints = ("final", "-"), ("initial", "--")
    models = (("gpt", 8, "GPT, d = 8"), ("wide", 64, "byte-level GPT, d = 64"))
    for (model, d, words), (checkpoint, stroke) in product(models, checkpoints):
        of_model = own[(own.model == model) & (own.checkpoint == checkpoint)]
        line = stroked(below, curve(below, words).get_color(), stroke)
        means = np.log(d * of_model.ones_share).groupby(of_model.norm).mean()
        np.testing.assert_allclose(np.log(line.get_ydata()), means)
    assert {*curve(left, "a random direction").get_ydata()} == {1}
    shifts = world.projection_shift().query("model == 'minilm'")
    moved = shifts.groupby("layer").random_direction.mean()
    np.testing.assert_allclose(curve(right, "a random direction").get_ydata(), moved)
    of_contexts = shifts[shifts.layer == 1].groupby("context").total_variation.mean()
    band = right.collections[0].get_paths()[0].vertices
    assert sorted({y for x, y in band if x == 1}) == pytest.approx(interval(of_contexts)[1:])
    assert "left out" in right.get_title()
    table = world.language_model_ones_share()
    table = table[(table.model == "gpt") | (table.variant == "layernorm")]
    figure = world.draw("pretrained_projection", language_model_ones_share=table)
    texts = " ".join(labels(figure))
    assert "GPT, d = 8" in texts and "d = 64" not in texts, "it has one variant"


# Statements


def panels(figure):
    """The axes that show data, by title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_geometry_shows_the_radius_of_each_place_and_size_of_eps():
    axes = panels(world.drawn("statement_geometry"))["radius after scaling"]
    marks = [line for line in axes.lines if line.get_linestyle() == "None"]
    radii = world.geometry().query("n == 64 and quantity == 'radius_mean'").sort_values("input_norm")
    strokes = {1e-5: "-", 1e-12: "--"}
    for (place, colour), (eps, stroke) in product(statements.PLACEMENTS.items(), strokes.items()):
        x, y = stroked(axes, colour, stroke).get_data()
        np.testing.assert_allclose(y, 1 / np.sqrt(1 + eps / x**2) if place == "inside" else x / (x + eps))
        of_place = radii[(radii.eps_placement == place) & (radii.eps == eps)]
        mark = marks.pop(0)
        assert mark.get_color() == colour
        np.testing.assert_allclose(mark.get_xydata(), np.c_[of_place.input_norm / 8, of_place.value])
    large = world.geometry().query("n == 512")
    axes = panels(world.draw("statement_geometry", geometry=large))["difference from torch"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), np.array([1e-3, 1, 1e3]) / 512**0.5)


def test_geometry_shows_the_cloud_in_the_colours_of_its_inputs():
    cloud = world.geometry_cloud().sort_values(["norm", "stage", "point"]).set_index(["norm", "stage"])
    shown = [axes for axes in world.drawn("statement_geometry").axes if hasattr(axes, "get_zlabel")]
    shown = [axes for axes in shown if axes.get_title()]
    keys = [("layernorm", s) for s in "xfgh"] + [("rmsnorm", s) for s in "xgh"]
    assert [axes.get_title() == "gain" for axes in shown] == [False] * 6 + [True], "RMSNorm has no bias"
    for axes, (norm, stage) in zip(shown, keys, strict=True):
        scatter = axes.collections[1]
        points = cloud.loc[(norm, stage), ["x1", "x2", "x3"]]
        np.testing.assert_allclose(np.column_stack(scatter._offsets3d), points)
        np.testing.assert_allclose(scatter.get_array(), cloud.loc[(norm, "x"), "x3"].rank(pct=True))


def test_placement_counts_the_runs_that_diverged_and_shows_what_guessing_gives():
    drawn = panels(world.drawn("statement_placement"))
    lost = [[text.get_text() for text in drawn[f"{depth} layers"].texts] for depth in (2, 6)]
    assert lost == [[], ["1 diverged"]]
    drawn = panels(world.drawn("statement_residual"))
    for title in ("untrained", "trained"):
        assert [*{*curve(drawn[title], "guessing").get_ydata()}] == pytest.approx([5])


@pytest.mark.parametrize(
    ("name", "seeds"),
    [("statement_placement", "2"), ("statement_residual", "2 to 3"), ("heads_by_width", "3")],
)
def test_legends_say_over_how_many_seeds_means_are(name, seeds):
    titles = [legend.get_title().get_text() for legend in world.drawn(name).findobj(Legend)]
    assert f"means over {seeds} seeds" in titles
