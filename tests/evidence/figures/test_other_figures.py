"""What the figures of random keys, pretrained models, statements and verdicts draw."""

from itertools import pairwise, product

import figure_worlds as worlds
import numpy as np
import pandas as pd
import pytest
from figure_worlds import curve, labels, named

from layernorm_roles.evidence.analysis.random_keys import z_scores
from layernorm_roles.evidence.claims.rules import MEANINGS
from layernorm_roles.evidence.figures import forest, pretrained
from layernorm_roles.evidence.figures.statements import batch_dependence as batches
from layernorm_roles.evidence.figures.statements import fusion, geometry, placement, score_scale


def shows(line, values, by, geometric=False):
    """The line has the means of the values over each value of `by`, in its order."""
    means = np.exp(np.log(values).groupby(by).mean()) if geometric else values.groupby(by).mean()
    np.testing.assert_allclose(line.get_ydata(), means, rtol=1e-9)


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


def test_fusion_draws_small_errors_where_they_are_and_the_cost_of_the_map():
    figure, table = worlds.draw("statement_fusion"), worlds.fusion()
    table = table[table.source == "random"]
    for inputs, title in fusion.INPUTS.items():
        (lower,) = [axes for axes in figure.axes if axes.get_label() == f"{inputs}_exact"]
        for arrangement, look in fusion.ARRANGEMENTS.items():
            part = table[(table.d == table.d_heads) & (table.inputs == inputs)]
            part = part[part.arrangement == arrangement]
            axes = lower if part.error.max() < 1e-20 else panels(figure)[title]
            shows(stroked(axes, **look), part.error, part.d)
            low, high = axes.get_ylim()
            assert low <= part.error.min() and part.error.max() <= high
    for inputs, look in fusion.COSTS.items():
        rows = table[(table.arrangement == "plain") & (table.d == 32) & (table.inputs == inputs)]
        line = stroked(panels(figure)["size of the map"], **look)
        shows(line, rows.parameters_single / rows.parameters_pair, rows.d_heads)
        assert list(line.get_xdata()) == [0.5, 1, 2]


def test_geometry_shows_torch_s_difference_and_the_radius():
    figure, table = worlds.draw("statement_geometry"), worlds.geometry()
    torch = table[
        (table.eps == 1e-5) & (table.eps_placement == "inside") & (table.quantity == "difference_from_torch")
    ]
    axes = panels(figure)["difference from torch"]
    for dtype, (offset, stroke) in product(("float16", "float32", "float64"), ((0.0, "-"), (1000.0, ":"))):
        rows = torch[(torch.dtype == dtype) & (torch.offset == offset)]
        largest = rows.groupby("input_norm").value.max()
        line = stroked(axes, geometry.DTYPES[dtype], stroke)
        np.testing.assert_allclose(line.get_ydata(), largest[np.isfinite(largest)])
    assert {tuple(line.get_xdata()) for line in axes.lines if line.get_marker() == "x"} == {(1e3,)}
    finite = table[np.isfinite(table.value)]
    assert "not finite" not in labels(worlds.draw("statement_geometry", geometry=finite))
    axes = panels(figure)["radius after scaling"]
    for (place, colour), (eps, stroke) in product(geometry.PLACEMENTS.items(), ((1e-5, "-"), (1e-12, "--"))):
        line = stroked(axes, colour, stroke)
        x = line.get_xdata()
        exact = 1 / np.sqrt(1 + eps / x**2) if place == "inside" else x / (x + eps)
        np.testing.assert_allclose(line.get_ydata(), exact)


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
    table = worlds.position_probe()
    for axes in worlds.draw("statement_residual_position").axes:
        here = table[(table.depth == 3) & (table.step.gt(0) == (axes.get_title() == "trained"))]
        (level,) = {*curve(axes, "guessing").get_ydata()}
        assert level == pytest.approx(5)
        for (kind, residual), part in here.groupby(["placement", "residual"]):
            seeds = part.groupby(["layer", "seed"]).position_accuracy.mean().dropna()
            line = stroked(axes, placement.PLACEMENTS[kind]["color"], placement.RESIDUAL[residual]["ls"])
            shows(line, 100 * seeds, "layer")


def test_placement_has_final_losses_above_token_frequencies_and_curves_of_the_best_rate():
    figure, table = worlds.draw("statement_placement"), worlds.placement()
    table = table.assign(gain=table.train_loss - table.unigram_loss)
    places = product((2, 6), placement.PLACEMENTS.items(), ((0, "-"), (50, "--")))
    for depth, (kind, look), (warmup, stroke) in places:
        above, below = panels(figure)[f"{depth} layers"], figure.axes[2 + (depth > 2)]
        part = table[(table.depth == depth) & (table.placement == kind) & (table.warmup == warmup)]
        ends = part[part.step >= 36].groupby("learning_rate").gain.mean()  # the last tenth
        line = stroked(above, look["color"], stroke)
        np.testing.assert_allclose(line.get_xydata(), ends.reset_index().to_numpy())
        part = part[part.learning_rate == ends.idxmin()]
        shows(stroked(below, look["color"], stroke), part.gain, part.step // 2)
    table["status"] = np.where(table.placement == "post", "stuck", "trained")
    lost = (table.placement == "post") & (table.seed == 1)
    table.loc[lost, ["status", "train_loss"]] = "diverged", np.inf
    axes = worlds.draw("statement_placement", placement=table).axes[0]
    assert axes.texts[0].get_text() == "post-norm: 4 of 8 diverged\npost-norm: 4 of 8 stuck"
    assert np.isfinite(stroked(axes, **placement.PLACEMENTS["post"]).get_ydata()).all()


def test_gradients_that_have_vanished_draw_their_line_down():
    """As in the claim: left out, they would leave the layers that learn nothing to those runs that still do."""
    table = worlds.placement_gradients()
    layer = (table.depth == 6) & (table.placement == "post") & (table.layer == 1) & (table.warmup == 0)
    table.loc[layer & (table.seed == table.seed.min()) & (table.step > 0), "gradient_norm"] = 0.0
    figure = worlds.draw("statement_placement_gradients", placement_gradients=table)
    line = stroked(figure.axes[3], placement.PLACEMENTS["post"]["color"], "-")
    later = table[
        layer & (table.step > 0) & (table.learning_rate == 0.001) & np.isfinite(table.gradient_norm)
    ]
    norms = later.gradient_norm.replace(0.0, 2.0**-74.5)
    assert line.get_ydata()[0] == pytest.approx(10 ** np.log10(norms).mean())


def test_gradients_are_geometric_means_of_finite_ones():
    figure, table = worlds.draw("statement_placement_gradients"), worlds.placement_gradients()
    table = table[(table.warmup == 0) & np.isfinite(table.gradient_norm)]
    for column, (kind, look) in product((0, 1), placement.PLACEMENTS.items()):
        part = table[(table.depth == (2, 6)[column]) & (table.placement == kind)]
        first = part[(part.step == 0) & (part.learning_rate == 0.001)]
        shows(stroked(figure.axes[column], **look), first.gradient_norm, first.layer, geometric=True)
        for rate, stroke in ((0.001, "-"), (0.003, "--")):
            later = part[(part.step > 0) & (part.learning_rate == rate)]
            line = stroked(figure.axes[2 + column], look["color"], stroke)
            shows(line, later.gradient_norm, later.layer, geometric=True)
    table = worlds.untrained_gradients().query("layer == 1 and gradient_norm > 0")
    for axes, (kind, look) in zip(figure.axes[4:], placement.UNTRAINED.items(), strict=True):
        assert axes.get_title() == look["label"]
        for residual, stroke in ((True, "-"), (False, "--")):
            part = table[(table.placement == kind) & (table.residual == residual)]
            shows(stroked(axes, look["color"], stroke), part.gradient_norm, part.depth, geometric=True)


def test_batch_dependence_has_its_means_in_every_panel():
    figure, table = worlds.draw("statement_batch_dependence"), worlds.batch_dependence()
    for axes, (effect, (x, *_)) in zip(figure.axes, batches.EFFECTS.items(), strict=True):
        for norm, look in batches.NORMS.items():
            means = table[(table.effect == effect) & (table.norm == norm)].groupby(x).change.mean()
            np.testing.assert_allclose(
                curve(axes, look["label"]).get_xydata(), means.reset_index().to_numpy()
            )


def test_score_scale_has_means_of_random_scores_and_marks_of_others_in_every_panel():
    figure, table = worlds.draw("statement_score_scale"), worlds.score_scale()
    for (axes, column), (divided, look) in product(
        zip(figure.axes, score_scale.COLUMNS, strict=True), score_scale.DIVIDED.items()
    ):
        part = table[table.divided == divided]
        normal = part[part.source == "normal"]
        shows(curve(axes, look["label"]), normal[column], normal.d_k)
        for source, label in score_scale.SOURCES.items():
            marks = [m for m in named(axes, label) if m.get_markeredgecolor() == look["color"]]
            drawn = sorted(float(y) for mark in marks for y in mark.get_ydata())
            np.testing.assert_allclose(drawn, sorted(part[part.source == source][column]))
