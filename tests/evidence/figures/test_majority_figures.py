"""What the figures of the majority task draw, under the names that their legends give it."""

from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import random_world as world
from matplotlib.colors import to_hex
from mpl_toolkits.mplot3d.axes3d import Axes3D
from reading import bars, curve, labels, named
from recomputed_tables import RECOMPUTED
from scipy import stats

from layernorm_roles.evidence.analysis.majority import best_rates
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import majority, style
from layernorm_roles.evidence.figures.vectors import plane_and_ones
from layernorm_roles.variants import BUILT_IN


def metrics(experiment, **where):
    table, where = world.majority_metrics(), {"experiment": experiment, **where}
    return table[(table[[*where]] == pd.Series(where)).all(axis=1)]


def test_bands_are_intervals_of_the_mean_of_five_seeds_and_fewer_have_thin_lines():
    (axes,) = world.drawn("figure_3").axes
    thin = [line for line in axes.lines if line.get_linewidth() == style.SINGLE["lw"]]
    assert len(thin) == 2 + 1 + 2, "scale, projection, tanh"
    assert len(axes.collections) == 2, "bands of the others"
    assert {"LayerNorm, 6 seeds", "projection only, 1 seed", "tanh, 2 seeds"} <= {*labels(axes.figure)}
    rows = metrics("d8", variant="layernorm", step=3600).test_accuracy
    half = stats.t.ppf(0.975, 5) * rows.std(ddof=1) / np.sqrt(6)
    vertices = axes.collections[0].get_paths()[0].vertices
    at = sorted(set(vertices[vertices[:, 0] == 3600][:, 1]))
    np.testing.assert_allclose(at, [rows.mean() - half, rows.mean() + half], rtol=1e-6)


def test_the_paper_s_values_are_in_its_setting_alone_and_end_with_the_runs():
    def diamonds(axes):
        points = [line for line in axes.lines if line.get_marker() == "D"]
        return sorted((p.get_markeredgecolor(), *map(float, p.get_xydata()[0])) for p in points)

    angles = {v: reported()["majority"][v]["query_angle_mean"] for v in ("layernorm", "scale_released")}
    for last, within in ((6000, (4000,)), (8000, (4000, 8000))):
        (axes,) = world.draw("figure_2b", {"d8": world.MAJORITY["d8"] | {"steps": last}}).axes
        expected = ((BUILT_IN[v].colour, step, angles[v][step]) for v in angles for step in within)
        assert diamonds(axes) == sorted(expected)
    smaller = {"d8": world.MAJORITY["d8"] | {"classes": 10}}
    assert not diamonds(world.draw("figure_2a", smaller).axes[0])


def test_titles_have_the_sizes_and_call_the_released_data_so():
    settings = world.MAJORITY["widths"]
    assert majority.title(settings) == "d = 3, 4, 8, 20 classes, released data"
    for other in ({"sampling": "uniform"}, {"split": "partitions"}):
        assert "released" not in majority.title(settings | other)


def test_the_grid_has_a_panel_for_each_quantity_and_shows_the_angle_of_a_random_direction():
    panels = np.array([world.drawn(f"majority_curves_{name}").axes for name in ("d8", "d3")])
    figure = panels[0, 0].figure
    quantities = [axes.get_ylabel().partition("\n")[0] for axes in panels[0]]
    assert quantities == [
        "test loss",
        "test accuracy (%),",
        "angle of queries to the",
        "distance from uniform:",
    ]
    assert figure.get_suptitle() == "d = 8, 20 classes, released data"
    assert [axes.get_yscale() for axes in panels[0]] == ["log", "function", "linear", "log"]
    places = [(0, 1 - error) for error in (0.2, 0.1, 0.05, 5e-5, 0)]
    lengths = np.diff(panels[0, 1].transData.transform(places)[:, 1])
    assert lengths[0] == pytest.approx(lengths[1]), "half of the errors is one length everywhere"
    assert lengths[3] == 0, "no error has a place on the axis"
    percents = [float(text.get_text()) for text in panels[0, 1].get_yticklabels()]
    np.testing.assert_allclose(percents, 100 * panels[0, 1].get_yticks())
    equal = world.draw("majority_curves_d8", majority_metrics=metrics("d8").assign(attention_share=1.0)).axes[
        3
    ]
    np.testing.assert_allclose(equal.lines[0].get_ydata(), 1e-6)  # and so has equal attention
    angles = [named(axes, "random direction")[0].get_ydata()[0] for axes in panels[:2, 2]]
    assert angles == [pytest.approx(72.6, abs=0.05), pytest.approx(57.296, abs=1e-3)]  # one radian in three
    assert "LayerNorm, 6 seeds" in labels(figure)


# Keys and queries


def vectors(variant, kind):
    table = world.majority_vectors()
    rows = table[(table.experiment == "d3") & (table.variant == variant) & (table.kind == kind)]
    return np.stack(rows.vector[rows.checkpoint == "final"].to_numpy())


@pytest.mark.parametrize(("figure", "variant"), [("figure_1a", "scale_released"), ("figure_1b", "layernorm")])
def test_trained_keys_and_queries_and_their_lengths_are_drawn(figure, variant):
    axes, strip = world.drawn(figure).axes
    points = [np.column_stack(scatter._offsets3d) for scatter in axes.collections[1:]]
    rows = [tick.get_text() for tick in strip.get_yticklabels()]
    for place, (kind, word) in enumerate({"key": "keys", "query": "queries"}.items()):
        np.testing.assert_allclose(points[place], vectors(variant, kind))
        (strip_points,) = [c for c in strip.collections if c.get_offsets()[0][1] == rows.index(word)]
        colour = to_hex(BUILT_IN[variant].colour) if kind == "key" else "#000000"
        assert {to_hex(c.get_facecolor()[0]) for c in (axes.collections[1 + place], strip_points)} == {colour}
        lengths = np.linalg.norm(vectors(variant, kind), axis=1)
        np.testing.assert_allclose(np.array(strip_points.get_offsets())[:, 0], lengths)
    both = [vectors(name, kind) for name in ("layernorm", "scale_released") for kind in ("key", "query")]
    lengths = np.linalg.norm(np.concatenate(both), axis=1)
    assert strip.get_xlim() == pytest.approx((lengths.min() / 1.2, lengths.max() * 1.2)), "one axis for both"


def test_what_is_outside_the_box_is_counted_or_shortened_and_diverged_runs_are_a_sentence():
    table = world.majority_vectors()
    chosen = (table.experiment == "d3") & (table.variant == "layernorm") & (table.checkpoint == "final")
    first = table.index[chosen & (table.token == 0)]
    key, query = (first[table.kind[first] == kind][0] for kind in ("key", "query"))
    table.at[key, "vector"] = np.array([0.0, 5.0, 0.0])
    table.at[query, "vector"] = np.array([0.0, 3.0, -6.0])
    table.at[first[table.kind[first] == "query"][1], "vector"] = np.zeros(3)
    figure = world.draw("figure_1b", majority_vectors=table)
    keys, queries, shortened = [np.column_stack(s._offsets3d) for s in figure.axes[0].collections[1:]]
    assert figure.axes[0].get_title() == "LayerNorm (6 runs)\n1 of 24 keys outside the box"
    assert min(figure.axes[1].collections[0].get_offsets()[:, 0]) == 1e-6, "it has a place on the axis"
    assert len(keys) == len(queries) == 6 * 4 - 1 and "queries, shortened" in labels(figure)
    np.testing.assert_allclose(shortened, [[0, 0.95, -1.9]])
    figure = world.draw("figure_1b", majority_vectors=table[table.checkpoint == "initial"])
    assert figure.texts[0].get_text().startswith("Every run has diverged")


def test_the_disc_is_orthogonal_to_the_ones_vector():
    axes = Mock(spec=Axes3D)
    plane_and_ones(axes, radius=2.0, half_length=3.0)
    disc = np.array(axes.plot_trisurf.call_args.args)
    np.testing.assert_allclose([disc.sum(axis=0), np.linalg.norm(disc, axis=0) - 2], 0, atol=1e-12)
    np.testing.assert_allclose(axes.plot.call_args.args, [[-3, 3]] * 3)


# Size and projection


def test_the_cross_shows_its_cells_main_effects_and_interaction():
    """Of the 6,000 steps 1,200 are a fifth."""
    *moments, right = world.drawn("majority_size_and_projection").axes
    table = RECOMPUTED["size_and_projection"](world.TABLES).sort_index().loc["crossed", 8, 0.001, "accuracy"]
    spans = np.concatenate([lines.get_segments()[0][:, 0] for lines in right.collections])
    np.testing.assert_allclose(sorted(spans), sorted(table[["low", "high"]].to_numpy().ravel()))
    effects = table["mean"]
    assert "with projection, 3 seeds" in labels(right.get_figure(root=True))
    rows = [tick.get_text() for tick in right.get_yticklabels()]
    pairs = {"with": ["layernorm_small", "layernorm"], "without": ["scale_released", "scale"]}
    for axes, (title, step) in zip(moments, {"step 1,200": 1200, "step 6,000": 6000}.items(), strict=True):
        at = metrics("crossed", step=step).pivot(index="seed", columns="variant", values="test_accuracy")
        assert axes.get_title() == title and len(at.dropna()) == 3  # layernorm has four
        places = dict(zip((t.get_text() for t in axes.get_xticklabels()), axes.get_xticks(), strict=True))
        for label, pair in pairs.items():
            line = curve(axes, f"{label} projection")
            x, y = line.get_data()
            assert [round(place) for place in x] == [places["1/√d (small)"], places["√d (large)"]]
            np.testing.assert_allclose(y, at.dropna()[pair].mean())
            np.testing.assert_allclose(bars(axes, line.get_color()).mean(axis=1), y)
        marks = [mark for mark in named(right, f"effect at {title}") if len(mark.get_xdata()) == 1]
        assert {mark.get_markerfacecolor() for mark in marks} == {"white" if step < 6000 else "black"}
        drawn = {rows[round(float(mark.get_ydata()[0]))]: float(mark.get_xdata()[0]) for mark in marks}
        assert drawn == pytest.approx(effects[step].to_dict())


# Widths and learning rates


def nearest(values, choices):
    return [min(choices, key=lambda choice: abs(np.log(choice / value))) for value in values]


def test_each_width_and_rate_has_a_row_with_its_runs():
    many = {"rates": world.MAJORITY["rates"] | {"d_model": [4, 8]}}
    titles = [axes.get_title() for axes in world.draw("majority_by_rate", many).axes]
    assert titles == ["d = 4, 20 classes, released data", "", "d = 8, 20 classes, released data", ""]
    drawn = world.draw("majority_by_width", many).axes
    means = RECOMPUTED["widths"]({"majority_metrics": world.majority_metrics(many)}).test_accuracy
    for axes, rate in zip(drawn[::2], world.RATES, strict=True):
        assert axes.get_title() == f"20 classes, learning rate {rate:g}"
        np.testing.assert_allclose(curve(axes, "no projection").get_ydata(), means["rates", :, rate, "scale"])
    assert "projection in V, 1 to 2 seeds" in labels(world.drawn("majority_by_width")), "one is lost at d = 3"
    alone = {"widths": world.MAJORITY["widths"] | {"seeds": {"scale": 3}}}
    assert len(world.draw("majority_by_width", alone).axes) == 1
    lacking = {"lacking": world.MAJORITY["widths"] | {"seeds": {"layernorm": 3}}}
    drawn = world.draw("majority_by_width", {"widths": world.MAJORITY["widths"]} | lacking).axes
    assert [axes.axison for axes in drawn] == [True, True, True, False]


@pytest.mark.parametrize("variant", world.MAJORITY["rates"]["seeds"])
def test_marks_by_rate_are_bounds_diverged_runs_and_the_rates_at_which_claims_judge(variant):
    """A diverged run counts as no accuracy, and hides no other."""
    panels = world.drawn("majority_by_rate").axes
    rows = RECOMPUTED["rates"](world.TABLES).query("variant == @variant").reset_index()
    runs, colour = metrics("rates", variant=variant), style.looks_of([variant])[variant]["color"]
    accurate, fast = (
        rows.base_learning_rate.isin(best_rates(runs, by, 0.5).base_learning_rate)
        for by in ("accuracy", "speed")
    )
    late, lost = rows.reached < rows.runs, np.isinf(rows.test_loss)
    for axes, label, column, of_mark in (
        (panels[1], "lower bound", "steps", late), (panels[0], "mean with diverged runs", "test_accuracy", lost),
        (panels[0], "best rate", "test_accuracy", accurate), (panels[1], "best rate", "steps", fast),
    ):  # fmt: skip
        marks = [mark.get_xydata()[0] for mark in named(axes, label) if mark.get_markeredgecolor() == colour]
        marks.sort(key=lambda mark: mark[0])
        places = [nearest([x], world.RATES)[0] for x, _ in marks]
        expected = rows[of_mark].set_index("base_learning_rate")[column]
        assert places == [*expected.index]
        np.testing.assert_allclose([y for _, y in marks], expected)
    assert np.isfinite([axes.get_ylim() for axes in panels]).all()
    assert [tick.get_text() for tick in panels[0].get_xticklabels()] == [".001", ".01", ".1"]
