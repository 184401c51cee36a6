"""What the figures of random keys, pretrained models, statements and verdicts draw."""

from itertools import pairwise, product

import figure_worlds as worlds
import numpy as np
import pandas as pd
import pytest
from figure_worlds import curve, labels, named, shows

from layernorm_roles.evidence.analysis.random_keys import z_scores
from layernorm_roles.evidence.claims.rules import MEANINGS
from layernorm_roles.evidence.figures import forest, pretrained, statements


def stroked(axes, color, ls="-", **_):
    """The one line of more than one point that has the colour and the stroke of a look."""
    lines = [line for line in axes.lines if len(line.get_xdata()) > 1 and line.get_linestyle() != "None"]
    (found,) = [line for line in lines if (line.get_color(), line.get_linestyle()) == (color, ls)]
    return found


# Random keys


def heat(axes):
    """What a heat map shows, a row for each d and a column for each n."""
    return axes.collections[0].get_array()


def grid(values, part):
    return part.assign(value=values).pivot(index="d", columns="n", values="value").to_numpy()


@pytest.mark.parametrize(("name", "norm"), [("figure_1c", "none"), ("figure_1d", "layernorm")])
def test_the_paper_s_figures_show_shares_of_matrices(name, norm):
    table = worlds.random_keys()
    table.loc[table.norm == "none", "n_borderline"] = 1
    figure = worlds.draw(name, random_keys=table.sample(frac=1, random_state=1))
    axes = figure.axes[0]
    cells = table[table.norm == norm]
    np.testing.assert_allclose(heat(axes), grid(cells.any_unselectable, cells))
    assert axes.collections[0].get_clim() == (0, 1) and axes.get_ylabel() == "dimension d"
    title = axes.get_title(loc="left")
    if norm == "none":
        assert "9 of 12,900 keys borderline" in title
        assert figure.get_supxlabel() == "after LayerNorm: none in 900 matrices each"
    else:
        assert "none in 900 matrices" in title and not figure.get_supxlabel()


def test_simulated_and_exact_are_not_exchanged_and_rare_events_have_no_z_score():
    table = worlds.random_keys()
    rare = (table.norm == "none") & (table.n == 30) & (table.d == 7)
    table.loc[rare, "expected_unselectable"] = 0.09  # times 100 matrices: under ten
    figure = worlds.draw("figure_random_keys_exact", random_keys=table)
    panels = [axes for axes in figure.axes if "simulated" in axes.get_title(loc="left")]
    assert [axes.get_title(loc="left").split(":")[0] for axes in panels] == ["projection only", "no norm"]
    none = table[table.norm == "none"]
    np.testing.assert_allclose(heat(panels[1]), grid(none.mean_unselectable / none.n, none))
    z = z_scores(none[(none.n < 30) | (none.d < 7)]).z
    words = f"z of 8 cells: mean {z.mean():.2f}, s.d. {z.std():.2f}".replace("-", "−")
    assert panels[1].get_title(loc="left").splitlines()[1] == words
    figure = worlds.draw("figure_random_keys_exact", random_keys=table.assign(mean_unselectable=0.0))
    found, *lines = figure.axes[0].collections
    assert not found.get_array().any()
    assert any(len(path.vertices) for line in lines for path in line.get_paths())


def test_the_law_has_a_line_for_every_share_and_its_causal_one():
    axes = worlds.draw("gaussian_law").axes[0]
    drawn = {tuple(line.get_ydata()): (line.get_color(), line.get_linestyle()) for line in axes.lines}
    for (share, causal), part in worlds.gaussian_law().dropna().groupby(["share", "causal"]):
        colour = worlds.handles(axes.figure)[f"{100 * share:g} % unselectable"].get_color()
        assert drawn[tuple(part.n)] == (colour, "--" if causal else "-")
    assert len(drawn) == 6 and "d ≥ 64: under 1 %" in " ".join(text.get_text() for text in axes.texts)


# Pretrained models


def share(column="upper", **where):
    """Per cent of the artificial keys that reach a half, by layer."""
    table = worlds.attention_ceilings(summed=False)
    table = table[(table[[*where]] == pd.Series(where)).all(axis=1)]
    return 100 * (table[column] >= 0.5).groupby(table.layer).mean()


def test_ceilings_show_what_keys_can_get_and_what_they_get():
    half = worlds.draw("pretrained_ceilings").axes[0]
    assert "½" in half.get_title()
    for kind, words in (("as used", "can get, as used"), ("without norm", "could get, keys")):
        expected = share(queries="norm", normalised=kind)
        np.testing.assert_allclose(curve(half, words).get_ydata(), expected)
    own = share("received_max", queries="norm", normalised="as used")
    np.testing.assert_allclose([bar.get_height() for bar in half.patches], own)
    table = worlds.attention_ceilings()
    table = table[(table.queries != "norm") & (table.normalised == "as used")]
    half = worlds.draw("pretrained_ceilings", attention_ceilings=table).axes[0]
    expected = share(queries="any", normalised="as used")
    np.testing.assert_allclose(curve(half, "can get, as used").get_ydata(), expected)
    assert labels(half.figure) == ["can get, as used", pretrained.GETS["label"]]
    assert "minilm, any query" in half.get_ylabel()
    two = worlds.attention_ceilings().query("context < 2")
    (axes, *_) = worlds.draw("pretrained_ceilings", attention_ceilings=two).axes
    paths = [path.vertices for lines in axes.collections for path in lines.get_paths()]
    assert not any(np.isfinite(path).all() for path in paths), "two documents have no interval"


def test_many_layers_fit_a_page():
    first = worlds.attention_ceilings().query("layer == 1")
    deep = pd.concat([first.assign(layer=layer) for layer in range(1, 19)])
    figure = worlds.draw("pretrained_ceilings", attention_ceilings=deep)
    figure.canvas.draw()
    for axes in figure.axes:
        numbers = [text.get_window_extent() for text in axes.get_xticklabels()]
        assert all(one.x1 < other.x0 for one, other in pairwise(numbers)) and len(numbers) > 4


# The claims


def test_the_forest_has_the_paper_s_claims_in_reported_effects():
    figure = worlds.draw("claims_forest")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["Figure 2a", "Figure 3", "Table 1 †"]

    def row(artist):
        return round(float(np.ravel(artist.get_ydata())[0]))

    marks = {label: {row(m): float(m.get_xdata()[0]) for m in named(axes, label)} for label in labels(figure)}
    assert marks["partial (1)"] == {0: pytest.approx(0.5)}  # of logarithms
    assert marks["isolating comparison"] == {0: pytest.approx(0.0)}
    assert marks["not tested (1)"] == {1: pytest.approx(-0.5)}
    assert marks["untrained models"] == {2: pytest.approx(0.5)}
    spans = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 1.1]
    ends = sorted((row(line), *line.get_xdata()) for line in spans)
    np.testing.assert_allclose(ends[:2], [(0, -1, 1), (0, 0.25, 2)])
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    assert {(arrow.get_marker(), row(arrow)) for arrow in arrows} == {(">", 0), ("<", 1), (">", 2)}
    assert all(a.get_window_extent().x0 > axes.bbox.x1 for a in arrows if a.get_marker() == ">")
    assert "5.0" in [text.get_text() for text in axes.texts] and axes.get_xlim() == forest.ENDS
    assert set(forest.LOOKS) == set(MEANINGS)
    assert len({look["marker"] for look in forest.LOOKS.values()}) == len(MEANINGS)


def test_the_share_along_the_ones_vector_is_in_units_of_a_random_direction():
    left, middle, right, *other = worlds.draw("pretrained_projection").axes
    assert [axes.get_title() for axes in other] == ["other", "our GPTs", "projection added: other"]
    shares, own = worlds.ones_share(), worlds.language_model_ones_share()
    shares, own = shares.query("model == 'minilm' and dimensions == 32"), own.query("variant == 'layernorm'")
    panels = [("pretrained", left, shares, pretrained.TRAINED[True]["color"], 32)]
    for model, d in (("gpt", 8), ("wide", 64)):
        colour = curve(middle, f"{model}, d = {d}").get_color()
        panels.append(("final", middle, own[own.model == model], colour, d))
    for done, axes, table, colour, d in panels:
        for trained, look in pretrained.TRAINED.items():
            here = table[(table.checkpoint == done) == trained]
            shows(stroked(axes, colour, look["ls"]), d * here.ones_share, here.norm)
    assert {*curve(left, "a random direction").get_ydata()} == {1}
    shift = worlds.projection_shift().query("model == 'minilm'")
    shows(right.lines[0], shift.total_variation, shift.layer)
    shows(curve(right, "a random direction"), shift.random_direction, shift.layer)
    assert "left out" in right.get_title()


# Statements


def panels(figure):
    """The axes that show data, by title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_fusion_draws_what_random_blocks_miss_on_average():
    axes, table = worlds.draw("statement_fusion").axes[0], worlds.fusion()
    low, high = axes.get_ylim()
    for arrangement, look in statements.ARRANGEMENTS.items():
        part = table[(table.source == "random") & (table.arrangement == arrangement)]
        shows(stroked(axes, **look), 100 * part.error, part.d)
        assert low <= 0 and 100 * part.error.max() <= high


def test_geometry_shows_the_radius_and_torch_s_difference_in_the_largest_dimension_up_to_64():
    figure, table = worlds.draw("statement_geometry"), worlds.geometry()
    table = table[(table.n == 64) & (table.quantity == "difference_from_torch")]
    for (place, colour), (eps, stroke) in product(
        statements.PLACEMENTS.items(), ((1e-5, "-"), (1e-12, "--"))
    ):
        line = stroked(panels(figure)["radius after scaling"], colour, stroke)
        x = line.get_xdata()
        exact = 1 / np.sqrt(1 + eps / x**2) if place == "inside" else x / (x + eps)
        np.testing.assert_allclose(line.get_ydata(), exact)
        rows = table[(table.eps_placement == place) & (table.eps == eps)]
        line = stroked(panels(figure)["difference from torch"], colour, stroke)
        np.testing.assert_allclose(line.get_xydata(), np.column_stack([rows.input_norm / 8, rows.value]))


def test_geometry_shows_the_cloud_in_the_colours_of_its_inputs():
    cloud = (
        worlds.geometry_cloud().sort_values("point", kind="stable").set_index(["norm", "stage"]).sort_index()
    )
    shown = [axes for axes in worlds.draw("statement_geometry").axes if hasattr(axes, "get_zlabel")]
    shown = [axes for axes in shown if axes.get_title()]
    keys = [("layernorm", s) for s in "xfgh"] + [("rmsnorm", s) for s in "xgh"]
    for axes, (norm, stage) in zip(shown, keys, strict=True):
        scatter = axes.collections[1]
        points = cloud.loc[(norm, stage), ["x1", "x2", "x3"]]
        np.testing.assert_allclose(np.column_stack(scatter._offsets3d), points)
        np.testing.assert_allclose(scatter.get_array(), cloud.loc[(norm, "x"), "x3"].rank(pct=True))


def test_positions_are_those_of_the_deepest_networks_untrained_and_trained():
    table, drawn = worlds.position_probe(), panels(worlds.draw("statement_placement"))
    for axes, trained in ((drawn["untrained"], False), (drawn["trained"], True)):
        here = table[(table.depth == 3) & (table.step.gt(0) == trained)]
        (level,) = {*curve(axes, "guessing").get_ydata()}
        assert level == pytest.approx(5)
        for (kind, residual), part in here.groupby(["placement", "residual"]):
            seeds = part.groupby(["layer", "seed"]).position_accuracy.mean().dropna()
            line = stroked(axes, statements.PLACES[kind]["color"], statements.RESIDUAL[residual]["ls"])
            shows(line, 100 * seeds, "layer")


def test_placement_has_final_losses_of_the_runs_that_did_not_diverge():
    drawn, table = panels(worlds.draw("statement_placement")), worlds.placement()
    for depth, kind in product((2, 6), ("pre", "post")):
        part = table[
            (table.depth == depth) & (table.placement == kind) & (table.step >= 36)
        ]  # the last tenth
        part = part[np.isfinite(part.train_loss)]
        line = stroked(drawn[f"{depth} layers"], statements.PLACES[kind]["color"], "-")
        shows(line, part.train_loss, part.learning_rate)
    assert [[text.get_text() for text in drawn[f"{depth} layers"].texts] for depth in (2, 6)] == [
        [],
        ["1 diverged"],
    ]


def test_gradients_are_geometric_means_of_those_that_have_not_vanished():
    drawn = panels(worlds.draw("statement_placement"))
    table = worlds.untrained_gradients().query("gradient_norm > 0")
    for (kind, look), (residual, stroke) in product(statements.PLACES.items(), statements.RESIDUAL.items()):
        part = table[(table.placement == kind) & (table.residual == residual)]
        axes = drawn["no LayerNorm" if kind == "none" else "LayerNorm"]
        shows(stroked(axes, look["color"], stroke["ls"]), part.gradient_norm, part.depth, geometric=True)


def test_batch_dependence_has_its_means_in_every_panel():
    figure, table = worlds.draw("statement_batch_dependence"), worlds.batch_dependence()
    effects = zip(figure.axes, (("others", "batch_size"), ("padding", "padding")), strict=True)
    for (axes, (effect, x)), (norm, look) in product(effects, statements.NORMS.items()):
        means = table[(table.effect == effect) & (table.norm == norm)].groupby(x).change.mean()
        np.testing.assert_allclose(curve(axes, look["label"]).get_xydata(), means.reset_index().to_numpy())


def test_score_scale_has_means_of_random_scores_in_every_panel():
    figure, table = worlds.draw("statement_score_scale"), worlds.score_scale()
    panel = zip(figure.axes, statements.SCORES, strict=True)
    for (axes, column), (divided, look) in product(panel, statements.DIVIDED.items()):
        normal = table[(table.divided == divided) & (table.source == "normal")]
        shows(curve(axes, look["label"]), normal[column], normal.d_k)
