import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from layernorm_roles.evidence.figures.statements import (
    batch_dependence,
    fusion,
    geometry,
    placement,
    score_scale,
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def lines(axes, colour, style="-"):
    """Lines of a colour and a line style with more than one point."""
    return [
        line
        for line in axes.lines
        if to_hex(line.get_color()) == to_hex(colour)
        and line.get_linestyle() == style
        and len(line.get_xdata()) > 1
    ]


def labels(legend):
    return [text.get_text() for text in legend.get_texts()]


def panels(figure):
    """The axes that show data, by title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.get_title()}


def test_fusion_draws_small_errors_where_they_are():
    figure = worlds.draw("statement_fusion")
    table = worlds.fusion()
    square = table[(table.d == table.d_heads) & (table.source == "random")]
    for inputs, title in fusion.INPUTS.items():
        upper = panels(figure)[title]
        (lower,) = [axes for axes in figure.axes if axes.get_label() == f"{inputs}_exact"]
        for arrangement, look in fusion.ARRANGEMENTS.items():
            part = square[(square.inputs == inputs) & (square.arrangement == arrangement)]
            expected = part.groupby("d").error.mean()
            exact = expected.max() < 1e-20
            axes, other = (lower, upper) if exact else (upper, lower)
            (line,) = lines(axes, look["color"], look.get("ls", "-"))
            np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-9)
            low, high = axes.get_ylim()
            assert low <= expected.min() and expected.max() <= high
            assert not lines(other, look["color"], look.get("ls", "-"))
    assert "share of variance" in panels(figure)["map of the heads c"].get_ylabel()


def test_fusion_s_cost_is_the_map_over_the_pair():
    axes = panels(worlds.draw("statement_fusion"))["size of the map"]
    table = worlds.fusion()
    part = table[(table.source == "random") & (table.arrangement == "plain") & (table.d == 32)]
    for label, inputs in (("map of c", "heads"), ("map of [x, c]", "stream_and_heads")):
        (line,) = [line for line in axes.lines if line.get_label() == label]
        rows = part[part.inputs == inputs].drop_duplicates("d_heads").sort_values("d_heads")
        np.testing.assert_allclose(line.get_xdata(), rows.d_heads / 32)
        np.testing.assert_allclose(line.get_ydata(), rows.parameters_single / rows.parameters_pair)


def test_geometry_shows_torch_s_difference_and_marks_what_is_not_finite():
    figure = worlds.draw("statement_geometry")
    axes = panels(figure)["difference from torch"]
    table = worlds.geometry()
    table = table[(table.eps == 1e-5) & (table.eps_placement == "inside")]
    table = table[table.quantity == "difference_from_torch"]
    for dtype in ("float16", "float32", "float64"):
        for offset, style in ((0.0, "-"), (1000.0, ":")):
            rows = table[(table.dtype == dtype) & (table.offset == offset)]
            largest = rows.groupby("input_norm").value.max()
            (line,) = lines(axes, geometry.DTYPES[dtype], style)
            np.testing.assert_allclose(line.get_ydata(), largest[np.isfinite(largest)])
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert {tuple(line.get_xdata()) for line in crosses} == {(1e3,)}
    legends = [labels(axes.get_legend()) for axes in figure.axes if axes.get_legend()]
    assert legends[0] == ["float16", "float32", "float64", "mean near 0", "mean 1000 × length", "not finite"]
    finite = worlds.geometry()
    finite = finite[np.isfinite(finite.value)]
    figure = worlds.draw("statement_geometry", geometry=finite)
    legends = [labels(axes.get_legend()) for axes in figure.axes if axes.get_legend()]
    assert "not finite" not in legends[0]


def test_geometry_s_radius_is_measured_in_points_and_computed_in_lines():
    axes = panels(worlds.draw("statement_geometry"))["radius after scaling"]
    table = worlds.geometry()
    table = table[(table.dtype == "float64") & (table.offset == 0) & (table.n == 64)]
    for place, colour in geometry.PLACEMENTS.items():
        for eps, style in ((1e-5, "-"), (1e-12, "--")):
            (line,) = lines(axes, colour, style)
            x = line.get_xdata()
            exact = 1 / np.sqrt(1 + eps / x**2) if place == "inside" else x / (x + eps)
            np.testing.assert_allclose(line.get_ydata(), exact)
        rows = table[(table.eps_placement == place) & (table.quantity == "radius_mean")]
        points = [line for line in axes.lines if line.get_marker() == "o" and line.get_color() == colour]
        drawn = sorted(float(y) for line in points for y in line.get_ydata())
        np.testing.assert_allclose(drawn, sorted(rows.value))


def test_the_cloud_keeps_its_points_axes_and_colours():
    figure = worlds.draw("statement_geometry_cloud")
    cloud = worlds.geometry_cloud()
    shown = [axes for axes in figure.axes if hasattr(axes, "get_zlabel") and axes.get_title()]
    keys = [("layernorm", s) for s in "xfgh"] + [("rmsnorm", s) for s in "xgh"]
    assert len(shown) == len(keys)
    for axes, (norm, stage) in zip(shown, keys, strict=True):
        part = cloud[(cloud.norm == norm) & (cloud.stage == stage)].sort_values("point")
        scatter = axes.collections[1]
        np.testing.assert_allclose(np.column_stack(scatter._offsets3d), part[["x1", "x2", "x3"]])
        before = cloud[(cloud.norm == norm) & (cloud.stage == "x")].sort_values("point").x3
        np.testing.assert_allclose(scatter.get_array(), before.rank(pct=True))
        assert axes.get_zlabel() == "$x_3$"
    assert any("rank" in axes.get_ylabel() for axes in figure.axes)


def line_of(axes, colour, style="-"):
    """The line of a colour and a line style, or None; a line of one point counts too."""
    found = [
        line
        for line in axes.lines
        if to_hex(line.get_color()) == to_hex(colour)
        and line.get_linestyle() == style
        and len(line.get_xdata())
    ]
    assert len(found) < 2
    return found[0] if found else None


def test_placement_s_final_losses_are_above_token_frequencies_at_every_rate():
    figure = worlds.draw("statement_placement")
    table = worlds.placement()
    end = table[table.step >= 36]  # the last tenth
    end = end.assign(gain=end.train_loss - end.unigram_loss)
    for axes, depth in zip(figure.axes[:2], (2, 6), strict=True):
        assert axes.get_title() == f"{depth} layers" and axes.get_xlabel() == "learning rate"
        for kind, (_, colour) in placement.PLACEMENTS.items():
            for warmup, style in ((0, "-"), (50, "--")):
                part = end[(end.placement == kind) & (end.warmup == warmup) & (end.depth == depth)]
                expected = part.groupby("learning_rate").gain.mean()
                (line,) = lines(axes, colour, style)
                np.testing.assert_allclose(line.get_xdata(), expected.index)
                np.testing.assert_allclose(line.get_ydata(), expected)
                low, high = axes.get_ylim()
                assert low < expected.min() and expected.max() < high
    assert "nats" in figure.axes[0].get_ylabel()


def test_placement_s_curves_are_those_of_the_best_rate():
    figure = worlds.draw("statement_placement")
    table = worlds.placement()
    table = table.assign(gain=table.train_loss - table.unigram_loss)
    for axes, depth in zip(figure.axes[2:], (2, 6), strict=True):
        for kind, (_, colour) in placement.PLACEMENTS.items():
            for warmup, style in ((0, "-"), (50, "--")):
                part = table[(table.depth == depth) & (table.placement == kind) & (table.warmup == warmup)]
                ends = part[part.step >= 36].groupby("learning_rate").gain.mean()
                part = part[part.learning_rate == ends.idxmin()]
                (line,) = lines(axes, colour, style)
                np.testing.assert_allclose(line.get_ydata(), part.gain.groupby(part.step // 2).mean())


def test_placement_counts_runs_that_did_not_train_and_draws_no_diverged_one():
    table = worlds.placement()
    table["status"] = np.where(table.placement == "post", "stuck", "trained")
    lost = (table.placement == "post") & (table.seed == 1)
    table.loc[lost, ["status", "train_loss"]] = "diverged", np.inf
    figure = worlds.draw("statement_placement", placement=table)
    assert figure.axes[0].texts[0].get_text() == "post-norm: 4 of 8 diverged\npost-norm: 4 of 8 stuck"
    (line,) = lines(figure.axes[0], placement.PLACEMENTS["post"][1])
    assert np.isfinite(line.get_ydata()).all()


def test_gradients_are_geometric_means_of_finite_ones_by_layer():
    figure = worlds.draw("statement_placement_gradients")
    table = worlds.placement_gradients()
    table = table[(table.warmup == 0) & np.isfinite(table.gradient_norm)]
    for column, depth in enumerate((2, 6)):
        above, below = figure.axes[column], figure.axes[2 + column]
        for kind, (_, colour) in placement.PLACEMENTS.items():
            part = table[(table.depth == depth) & (table.placement == kind)]
            first = part[(part.step == 0) & (part.learning_rate == 0.001)]
            (line,) = lines(above, colour)
            expected = np.exp(np.log(first.gradient_norm).groupby(first.layer).mean())
            np.testing.assert_allclose(line.get_ydata(), expected)
            np.testing.assert_array_equal(line.get_xdata(), expected.index)
            for rate, style in ((0.001, "-"), (0.003, "--")):
                training = part[(part.step > 0) & (part.learning_rate == rate)]
                (line,) = lines(below, colour, style)
                expected = np.exp(np.log(training.gradient_norm).groupby(training.layer).mean())
                np.testing.assert_allclose(line.get_ydata(), expected)
    assert "at initialisation" in figure.axes[0].get_ylabel()
    assert "no warm-up" in figure.legends[0].get_title().get_text()


def test_scales_are_of_the_deepest_networks_part_by_part():
    figure = worlds.draw("statement_placement_scales")
    table = worlds.placement_scales()
    table = table[(table.depth == 6) & (table.warmup == 0)]
    panels = [(column, step) for column in ("input_rms", "stream_rms") for step in (0, 40)]
    for axes, (column, step) in zip(figure.axes, panels, strict=True):
        for kind, (_, colour) in placement.PLACEMENTS.items():
            for rate, style in ((0.001, "-"), (0.003, "--")):
                part = table[(table.placement == kind) & (table.learning_rate == rate) & (table.step == step)]
                part = part[np.isfinite(part[column])]
                line = line_of(axes, colour, style)
                if step == 0 and rate == 0.003:
                    assert line is None  # all rates start alike
                    continue
                order = part.layer + 0.5 * (part.part == "feed_forward")
                expected = np.exp(np.log(part[column]).groupby(order).mean())
                np.testing.assert_allclose(line.get_ydata(), expected)
                assert list(line.get_xdata())[:3] == [1.0, 1.5, 2.0]
    assert "6 layers, no warm-up" in figure.legends[0].get_title().get_text()


def test_untrained_gradients_are_those_of_the_first_layer_with_and_without_residuals():
    figure = worlds.draw("statement_untrained_gradients")
    table = worlds.untrained_gradients()
    table = table[(table.layer == 1) & (table.gradient_norm > 0)]
    for axes, (kind, (label, colour)) in zip(figure.axes, placement.UNTRAINED.items(), strict=True):
        assert axes.get_title() == label
        for residual, style in ((True, "-"), (False, "--")):
            part = table[(table.placement == kind) & (table.residual == residual)]
            (line,) = lines(axes, colour, style)
            expected = np.exp(np.log(part.gradient_norm).groupby(part.depth).mean())
            np.testing.assert_allclose(line.get_ydata(), expected)
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_batch_dependence_has_a_panel_for_each_effect():
    figure = worlds.draw("statement_batch_dependence")
    table = worlds.batch_dependence()
    for axes, (effect, (x, title, label)) in zip(figure.axes, batch_dependence.EFFECTS.items(), strict=True):
        assert (axes.get_title(), axes.get_xlabel()) == (title, label)
        for norm, (_, colour) in batch_dependence.NORMS.items():
            part = table[(table.effect == effect) & (table.norm == norm)]
            expected = part.groupby(x).change.mean()
            (line,) = lines(axes, colour)
            np.testing.assert_allclose(line.get_xdata(), expected.index)
            np.testing.assert_allclose(line.get_ydata(), expected)
    assert labels(figure.legends[0]) == ["LayerNorm", "BatchNorm"]


def test_score_scale_parts_divided_from_not_divided_and_trained_from_random():
    figure = worlds.draw("statement_score_scale")
    table = worlds.score_scale()
    for axes, column in zip(figure.axes, score_scale.COLUMNS, strict=True):
        for divided, (_, colour) in score_scale.DIVIDED.items():
            part = table[table.divided == divided]
            (line,) = lines(axes, colour)
            expected = part[part.source == "normal"].groupby("d_k")[column].mean()
            np.testing.assert_allclose(line.get_ydata(), expected)
            marks = [
                m for m in axes.lines if m.get_markeredgecolor() == colour and m.get_linestyle() == "None"
            ]
            drawn = sorted(float(y) for mark in marks for y in mark.get_ydata())
            np.testing.assert_allclose(drawn, sorted(part[~part.source.str.startswith("normal")][column]))
    names = labels(figure.legends[0])
    assert names[:2] == ["not divided", "divided by $\\sqrt{d_k}$"]
    assert names[3:] == ["trained: language model", "trained: majority task"]


def test_worked_numbers_counts_verdicts_in_the_order_of_the_notes():
    left, right = worlds.draw("statement_worked_numbers").axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["gamma", "beta", "alpha"]
    widths = np.array([bar.get_width() for bar in left.patches]).reshape(5, 3)  # verdicts, examples
    np.testing.assert_array_equal(widths, [[1, 1, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0], [1, 0, 2]])
    table = worlds.worked_numbers()
    shown = table[table.verdict.isin(["wrong", "hedged"])]
    (points,) = (found for found in right.collections if len(found.get_offsets()) == len(shown))
    x, y = np.asarray(points.get_offsets()).T
    np.testing.assert_allclose(x, 100 * (shown.stated.astype(float) / shown.recomputed - 1))
    np.testing.assert_array_equal(y, range(len(shown)))
    low, high = right.get_xlim()
    assert low < min(x) and max(x) < high
    assert right.get_yticklabels()[0].get_text() == "query [2], line 22: 1.0 for 1.9"


def test_durations_has_the_longest_rule_on_top():
    (axes,) = worlds.draw("durations").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["page", "keys", "train"]
    assert [bar.get_width() for bar in axes.patches] == [0.1, 5.0, 60.0]
    assert "minutes" in axes.get_xlabel()
    assert [text.get_text() for text in axes.texts] == ["1 job", "1 job, 300 MB", "9 jobs, 500 MB"]
