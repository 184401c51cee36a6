import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest

from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import colours

COLUMNS = {"loss": "train_loss", "angle": "query_angle_mean", "accuracy": "test_accuracy"}
PAPER = {"figure_2a": "train_loss", "figure_2b": "query_angle_mean", "figure_3": "test_accuracy"}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def means(experiment, variant, column):
    metrics = worlds.majority_metrics()
    rows = metrics[(metrics.experiment == experiment) & (metrics.variant == variant)]
    return rows.groupby("step")[column].mean()


def curve(axes, variant):
    """The line of a variant's mean."""
    colour = colours.palette([worlds.OWN])[variant]
    lines = [line for line in axes.lines if line.get_color() == colour and line.get_linewidth() > 1]
    (line,) = [line for line in lines if line.get_marker() in ("None", "o")]
    return line


def diamonds(axes, within=True):
    """Colour and place of the paper's values within the axes, or of those right of them."""
    points = [line for line in axes.lines if line.get_marker() == "D"]
    chosen = [line for line in points if (line.get_transform() == axes.transData) == within]
    return sorted((line.get_markeredgecolor(), *map(float, line.get_xydata()[0])) for line in chosen)


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("experiment", ["d8", "d3"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_variant_s_line_is_its_mean_over_seeds(experiment, kind):
    (axes,) = worlds.draw(f"majority_{experiment}_{kind}").axes
    for variant in worlds.SEEDS:
        expected = means(experiment, variant, COLUMNS[kind])
        np.testing.assert_array_equal(curve(axes, variant).get_xdata(), expected.index)
        np.testing.assert_allclose(curve(axes, variant).get_ydata(), expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "column"), PAPER.items())
def test_the_paper_s_figures_show_its_two_variants(name, column):
    (axes,) = worlds.draw(name).axes
    for variant in ("layernorm", "scale_released"):
        np.testing.assert_allclose(curve(axes, variant).get_ydata(), means("d8", variant, column), rtol=1e-12)
    assert labels(worlds.draw(name)) == [
        "LayerNorm, 6 seeds",
        "scaling only, as released (÷ d), 5 seeds",
        "paper, read off its figure",
        *(["random direction"] if name == "figure_2b" else []),
    ]


def paper_angles(*steps):
    return sorted(
        (colours.COLOURS[variant], step, float(reported()["majority"][variant]["query_angle_mean"][step]))
        for variant in ("layernorm", "scale_released")
        for step in steps
    )


def test_the_paper_s_values_are_where_the_paper_has_them():
    (axes,) = worlds.draw("figure_2b").axes
    assert diamonds(axes) == paper_angles(4000)
    assert axes.get_xlim() == (0, 6000)


def test_the_paper_s_values_after_the_last_step_stand_right_of_the_axes_with_their_step():
    figure = worlds.draw("figure_2b")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    beyond = diamonds(axes, within=False)
    assert [(colour, y) for colour, _, y in beyond] == [(c, y) for c, _, y in paper_angles(8000)]
    marks = [
        line for line in axes.lines if line.get_marker() == "D" and line.get_transform() != axes.transData
    ]
    assert all(line.get_window_extent().x0 > axes.bbox.x1 + 10 for line in marks)
    assert "8,000" in [text.get_text() for text in axes.texts]
    longer = {"d8": worlds.MAJORITY["d8"] | {"steps": 10_000}}
    (axes,) = worlds.draw("figure_2b", longer).axes
    assert diamonds(axes) == paper_angles(4000, 8000)
    assert [(c, y) for c, _, y in diamonds(axes, within=False)] == [
        (c, y) for c, _, y in paper_angles(17_000)
    ]
    assert "17,000" in [text.get_text() for text in axes.texts]


def test_the_paper_s_values_belong_to_its_setting():
    assert not diamonds(worlds.draw("majority_d8_uniform_loss").axes[0])
    assert "paper, read off its figure" not in labels(worlds.draw("majority_d8_uniform_loss"))
    smaller = {"d8": worlds.MAJORITY["d8"] | {"classes": 10}}
    assert not diamonds(worlds.draw("figure_2a", smaller).axes[0])


def test_labels_have_units_and_angles_a_right_angle():
    (axes,) = worlds.draw("majority_d8_angle").axes
    assert "degrees" in axes.get_ylabel() and axes.get_xlabel() == "optimiser steps"
    assert axes.get_ylim() == (0, 90)
    assert "nats" in worlds.draw("majority_d8_loss").axes[0].get_ylabel()
    assert worlds.draw("majority_d8_loss").axes[0].get_yscale() == "log"


def test_a_random_direction_is_that_of_the_experiment_s_dimension():
    levels = {}
    for experiment in ("d8", "d3"):
        (axes,) = worlds.draw(f"majority_{experiment}_angle").axes
        (line,) = [line for line in axes.lines if line.get_linestyle() == ":"]
        levels[experiment] = line.get_ydata()[0]
    assert levels["d3"] == pytest.approx(57.296, abs=1e-3)  # one radian
    assert levels["d8"] == pytest.approx(72.6, abs=0.05)


def test_titles_are_those_of_the_settings():
    assert worlds.draw("majority_mine_loss").axes[0].get_title() == (
        "mine: d_model = 5\nuniform partitions, split by partitions"
    )
    assert "released data" in worlds.draw("majority_d8_loss").axes[0].get_title()


def test_the_legend_lists_what_is_drawn_in_the_order_of_the_variants():
    assert labels(worlds.draw("majority_d3_accuracy")) == [
        "LayerNorm, 6 seeds",
        "projection only, 1 seed",
        "scaling only, 2 seeds",
        "scaling only, as released (÷ d), 5 seeds",
        "tanh, 2 seeds",
        "single run, where fewer than 5 seeds",
    ]


def test_a_variant_of_one_s_own_has_a_spare_colour():
    (axes,) = worlds.draw("majority_mine_accuracy").axes
    assert curve(axes, worlds.OWN).get_color() in colours.SPARE_COLOURS
    assert not set(colours.SPARE_COLOURS) & set(colours.COLOURS.values())


def test_few_seeds_show_every_run_and_many_a_band():
    (axes,) = worlds.draw("majority_d8_accuracy").axes
    thin = [line for line in axes.lines if line.get_linewidth() < 1 and line.get_linestyle() == "-"]
    assert len(thin) == 2 + 1 + 2  # scale, projection, tanh
    assert len(axes.collections) == 2  # layernorm, scale_released


def test_bands_are_intervals_of_the_mean():
    (axes,) = worlds.draw("figure_3").axes
    metrics = worlds.majority_metrics()
    rows = metrics[(metrics.experiment == "d8") & (metrics.variant == "layernorm") & (metrics.step == 3600)]
    half = (
        2.5706 * rows.test_accuracy.std(ddof=1) / np.sqrt(6)
    )  # Student's 97.5 % quantile, 5 degrees of freedom
    vertices = axes.collections[0].get_paths()[0].vertices
    at = sorted(set(vertices[vertices[:, 0] == 3600][:, 1]))
    mean = rows.test_accuracy.mean()
    np.testing.assert_allclose(at, [mean - half, mean + half], rtol=1e-4)


def test_samplings_are_labelled_and_hold_the_steps_and_variants_of_both():
    figure = worlds.draw("majority_samplings")
    left, right, left_angle, right_angle = figure.axes
    assert left.get_title().startswith("d8: d_model = 8\nreleased data")
    assert right.get_title() == "d8_uniform: d_model = 8\nuniform partitions, split by partitions"
    for axes, experiment, column in (
        (left, "d8", "test_loss"),
        (right, "d8_uniform", "test_loss"),
        (left_angle, "d8", "query_angle_mean"),
        (right_angle, "d8_uniform", "query_angle_mean"),
    ):
        for variant in ("layernorm", "scale"):
            expected = means(experiment, variant, column)
            expected = expected[expected.index <= 4000]
            np.testing.assert_allclose(curve(axes, variant).get_ydata(), expected, rtol=1e-12)
    assert labels(figure) == [
        "LayerNorm, 6 and 2 seeds",
        "scaling only, 2 and 3 seeds",
        "single run, where fewer than 5 seeds",
        "random direction",
    ]


def test_attention_shows_the_spread_of_scores_and_the_share_of_the_classes():
    figure = worlds.draw("majority_d8_attention")
    left, right = figure.axes
    for axes, column in ((left, "score_std"), (right, "attention_share")):
        for variant in worlds.SEEDS:
            expected = means("d8", variant, column)
            np.testing.assert_allclose(curve(axes, variant).get_ydata(), expected, rtol=1e-12)
    assert "standard deviation" in left.get_ylabel() and "perplexity" in right.get_ylabel()
    assert left.get_ylim()[0] == 0
    assert labels(figure)[-1] == "equal attention"


def test_lines_that_may_coincide_have_different_strokes():
    strokes = [
        colours.STROKES.get(name) for name in ("layernorm", "projected_qk", "projected_v", "projection")
    ]
    assert len({str(stroke) for stroke in strokes}) == 4


def test_an_experiment_without_runs_is_named():
    metrics = worlds.majority_metrics({"d3": worlds.MAJORITY["d3"]})
    with pytest.raises(ValueError, match="d8"):
        worlds.draw("figure_2a", majority_metrics=metrics)


def triangles_and_dots(axes):
    """Points of each scatter, by face colour as a tuple or 'none'."""
    return [np.column_stack(scatter._offsets3d) for scatter in axes.collections[1:]]


def vectors(experiment, variant, kind, checkpoint="final"):
    table = worlds.majority_vectors()
    rows = table[(table.experiment == experiment) & (table.variant == variant) & (table.kind == kind)]
    return np.stack(rows.vector[rows.checkpoint == checkpoint].to_numpy())


@pytest.mark.parametrize(("name", "variant"), [("figure_1a", "scale_released"), ("figure_1b", "layernorm")])
def test_trained_keys_and_queries_are_drawn_as_they_are(name, variant):
    figure = worlds.draw(name)
    axes, _ = figure.axes
    keys, queries = triangles_and_dots(axes)
    np.testing.assert_allclose(keys, vectors("d3", variant, "key"))
    np.testing.assert_allclose(queries, vectors("d3", variant, "query"))
    assert labels(figure) == ["keys", "queries", "ones vector", "plane orthogonal to it"]
    assert [axes.get_xlabel(), axes.get_ylabel(), axes.get_zlabel()] == ["$x_1$", "$x_2$", "$x_3$"]


def test_runs_that_have_all_diverged_are_drawn_as_a_sentence():
    table = worlds.majority_vectors()
    figure = worlds.draw("figure_1b", majority_vectors=table[table.checkpoint == "initial"])
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.axes[0].texts] == [
        "Every run has diverged: there is no trained model to draw."
    ]


def test_the_strip_shows_every_length_on_a_logarithmic_axis():
    _, strip = worlds.draw("figure_1b").axes
    assert strip.get_xscale() == "log" and strip.get_xlabel() == "length"
    rows = [tick.get_text() for tick in strip.get_yticklabels()]
    assert rows == ["queries", "keys"]
    for points, kind in zip(strip.collections, ("query", "key"), strict=True):
        lengths = np.linalg.norm(vectors("d3", "layernorm", kind), axis=1)
        x, y = np.array(points.get_offsets()).T
        np.testing.assert_allclose(x, lengths)
        assert set(y) == {rows.index({"query": "queries", "key": "keys"}[kind])}


@pytest.mark.parametrize("spread", [5, 1000])
def test_the_strip_has_more_than_one_tick(spread):
    table = worlds.majority_vectors()
    table["vector"] = [
        vector * (0.04 if kind == "key" else 0.04 * spread) / np.linalg.norm(vector)
        for vector, kind in zip(table.vector, table.kind, strict=True)
    ]
    _, strip = worlds.draw("figure_1b", majority_vectors=table).axes
    low, high = strip.get_xlim()
    assert 1 < sum(low <= tick <= high for tick in strip.get_xticks()) < 8


def test_what_is_outside_the_box_is_counted_or_shortened():
    table = worlds.majority_vectors()
    chosen = (table.experiment == "d3") & (table.variant == "layernorm") & (table.checkpoint == "final")
    first = table.index[chosen & (table.token == 0)]
    key, query = (first[table.kind[first] == kind][0] for kind in ("key", "query"))
    table.at[key, "vector"] = np.array([0.0, 5.0, 0.0])
    table.at[query, "vector"] = np.array([0.0, 3.0, -6.0])
    figure = worlds.draw("figure_1b", majority_vectors=table)
    axes, strip = figure.axes
    keys, queries, shortened = triangles_and_dots(axes)
    assert "1 keys outside the box" in axes.get_title()
    assert len(keys) == 6 * 4 - 1 and len(queries) == 6 * 4 - 1
    np.testing.assert_allclose(shortened, [[0, 0.95, -1.9]])
    assert "queries, shortened" in labels(figure)
    assert max(strip.collections[0].get_offsets()[:, 0]) == pytest.approx(np.hypot(3, 6))


def test_every_variant_of_the_experiment_has_a_panel():
    figure = worlds.draw("majority_d3_vectors")
    names = [axes.get_title().split(" (")[0] for axes in figure.axes[::2]]
    assert names == ["LayerNorm", "projection only", "scaling only", "scaling only, as released", "tanh"]
