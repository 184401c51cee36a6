"""What the figures of the majority task draw, under the names that their legends give it."""

import figure_worlds as worlds
import numpy as np
import pandas as pd
import pytest
from figure_worlds import curve, labels, name, named, shows
from matplotlib.colors import to_hex
from scipy import stats

from layernorm_roles.evidence.analysis.majority import steps_to_reach
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import style
from layernorm_roles.variants import BUILT_IN

COLUMNS = {"figure_2a": "train_loss", "figure_2b": "query_angle_mean", "figure_3": "test_accuracy"}


def metrics(experiment, **where):
    table, where = worlds.majority_metrics(), {"experiment": experiment, **where}
    return table[(table[[*where]] == pd.Series(where)).all(axis=1)]


def ends(experiment, **where):
    table = metrics(experiment, **where)
    return table[table.step == table.step.max()]


@pytest.mark.parametrize(("figure", "column"), COLUMNS.items())
def test_every_variant_s_line_is_its_mean_over_seeds(figure, column):
    (axes,) = worlds.draw(figure).axes
    for variant, seeds in worlds.SEEDS.items():
        runs, line = metrics("d8", variant=variant), curve(axes, name(variant))
        shows(line, runs[column], runs.step)
        np.testing.assert_array_equal(line.get_xdata(), sorted({*runs.step}))
        assert f"{name(variant)}{style.number_of([seeds], 'seed')}" in labels(axes.figure)
    thin = [line for line in axes.lines if line.get_linewidth() == style.SINGLE["lw"]]
    assert len(thin) == 2 + 1 + 2 and len(axes.collections) == 2, (
        "scale, projection, tanh; bands of the others"
    )


def test_bands_are_intervals_of_the_mean():
    (axes,) = worlds.draw("figure_3").axes
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
    for last, within in ((6000, (4000,)), (10_000, (4000, 8000))):
        (axes,) = worlds.draw("figure_2b", {"d8": worlds.MAJORITY["d8"] | {"steps": last}}).axes
        expected = [
            (BUILT_IN[v].colour, step, float(angle[step])) for v, angle in angles.items() for step in within
        ]
        assert diamonds(axes) == sorted(expected)
    smaller = {"d8": worlds.MAJORITY["d8"] | {"classes": 10}}
    assert not diamonds(worlds.draw("figure_2a", smaller).axes[0])


def test_the_grid_has_a_row_for_each_experiment_and_a_column_for_each_quantity():
    figure = worlds.draw("majority_curves")
    panels = np.array(figure.axes).reshape(5, 4)
    columns = ("test_loss", "test_accuracy", "query_angle_mean", "attention_share")
    for row, experiment in zip(panels, ("d8", "d3", "d8_uniform", "mine", "crossed"), strict=True):
        assert row[0].get_ylabel().startswith(f"{experiment}\n")
        for axes, column in zip(row, columns, strict=True):
            for variant, runs in metrics(experiment).groupby("variant"):
                values = 1 - runs[column] if column == "attention_share" else runs[column]
                shows(curve(axes, name(variant)), values, runs.step)
    angles = [named(axes, "random direction")[0].get_ydata()[0] for axes in panels[:2, 2]]
    assert angles == [pytest.approx(72.6, abs=0.05), pytest.approx(57.296, abs=1e-3)]  # one radian in three
    assert "LayerNorm, 2 to 6 seeds" in labels(figure)


# Keys and queries


def vectors(variant, kind):
    table = worlds.majority_vectors()
    rows = table[(table.experiment == "d3") & (table.variant == variant) & (table.kind == kind)]
    return np.stack(rows.vector[rows.checkpoint == "final"].to_numpy())


@pytest.mark.parametrize(("figure", "variant"), [("figure_1a", "scale_released"), ("figure_1b", "layernorm")])
def test_trained_keys_and_queries_and_their_lengths_are_drawn(figure, variant):
    drawn = worlds.draw(figure)
    axes, strip = drawn.axes
    points = [np.column_stack(scatter._offsets3d) for scatter in axes.collections[1:]]
    rows = [tick.get_text() for tick in strip.get_yticklabels()]
    for place, (kind, word) in enumerate({"key": "keys", "query": "queries"}.items()):
        np.testing.assert_allclose(points[place], vectors(variant, kind))
        (strip_points,) = [c for c in strip.collections if c.get_offsets()[0][1] == rows.index(word)]
        lengths = np.linalg.norm(vectors(variant, kind), axis=1)
        np.testing.assert_allclose(np.array(strip_points.get_offsets())[:, 0], lengths)
    other = worlds.draw("figure_1a").axes[1]
    assert strip.get_xlim() == other.get_xlim(), "both figures have one axis of length"
    low, high = strip.get_xlim()
    assert 1 < sum(low <= tick <= high for tick in strip.get_xticks()) < 8


def test_what_is_outside_the_box_is_counted_or_shortened_and_diverged_runs_are_a_sentence():
    table = worlds.majority_vectors()
    chosen = (table.experiment == "d3") & (table.variant == "layernorm") & (table.checkpoint == "final")
    first = table.index[chosen & (table.token == 0)]
    key, query = (first[table.kind[first] == kind][0] for kind in ("key", "query"))
    table.at[key, "vector"] = np.array([0.0, 5.0, 0.0])
    table.at[query, "vector"] = np.array([0.0, 3.0, -6.0])
    figure = worlds.draw("figure_1b", majority_vectors=table)
    keys, queries, shortened = [np.column_stack(s._offsets3d) for s in figure.axes[0].collections[1:]]
    assert "1 of 24 keys outside the box" in figure.axes[0].get_title()
    assert len(keys) == len(queries) == 6 * 4 - 1 and "queries, shortened" in labels(figure)
    np.testing.assert_allclose(shortened, [[0, 0.95, -1.9]])
    figure = worlds.draw("figure_1b", majority_vectors=table[table.checkpoint == "initial"])
    assert figure.texts[0].get_text().startswith("Every run has diverged")


# Size and projection


def cells(step):
    at = metrics("crossed", step=step).pivot(index="seed", columns="variant", values="test_accuracy")
    return at.dropna()


def test_the_cross_shows_its_cells_main_effects_and_interaction():
    """Of the 6,000 steps 1,200 are a fifth."""
    figure = worlds.draw("majority_size_and_projection")
    *moments, right = figure.axes
    for axes, (title, step) in zip(moments, {"step 1,200": 1200, "step 6,000": 6000}.items(), strict=True):
        assert axes.get_title() == title and len(cells(step)) == 3  # layernorm has four
        places = dict(zip((t.get_text() for t in axes.get_xticklabels()), axes.get_xticks(), strict=True))
        with_, without = ("layernorm_small", "layernorm"), ("scale_released", "scale")
        for label, pair in (("with projection", with_), ("without projection", without)):
            x, y = curve(axes, label).get_data()
            assert [round(place) for place in x] == [places["1/√d (small)"], places["√d (large)"]]
            np.testing.assert_allclose(y, cells(step)[[*pair]].mean())
        c = 100 * cells(step)
        large, small = c.layernorm - c.scale, c.layernorm_small - c.scale_released
        size = (c.layernorm - c.layernorm_small + c.scale - c.scale_released) / 2
        rows = [tick.get_text() for tick in right.get_yticklabels()]
        marks = [mark for mark in named(right, f"effect at {title}") if len(mark.get_xdata()) == 1]
        drawn = {rows[round(float(mark.get_ydata()[0]))]: float(mark.get_xdata()[0]) for mark in marks}
        effects = {"projection": (large + small) / 2, "size": size, "interaction": large - small}
        assert drawn == pytest.approx({effect: values.mean() for effect, values in effects.items()})


# Widths and learning rates


def nearest(values, choices):
    return [min(choices, key=lambda choice: abs(np.log(choice / value))) for value in values]


def bars(axes, label):
    """Lower and upper end of every vertical bar in the colour of an entry of the legend."""
    colour = to_hex(curve(axes, label).get_color())
    same = [c for c in axes.collections if [*map(to_hex, c.get_edgecolor()[:1])] == [colour]]
    return np.array([segment[:, 1] for lines in same for segment in lines.get_segments()])


def check(axes, label, samples, places):
    """The line of a legend's entry has the means of the samples, with Student's interval of at least three values."""
    x, y = curve(axes, label).get_data()
    assert nearest(x, places) == places
    np.testing.assert_allclose(y, samples.mean())
    n = samples.size().iloc[0]
    half = stats.t.ppf(0.975, n - 1) * samples.std() / np.sqrt(n)
    expected = np.column_stack([samples.mean() - half, samples.mean() + half]) if n > 2 else np.empty((0, 2))
    np.testing.assert_allclose(bars(axes, label).reshape(-1, 2), expected)


@pytest.mark.parametrize("variant", worlds.MAJORITY["widths"]["seeds"])
def test_accuracy_by_width_and_what_projection_costs(variant):
    left, right = worlds.draw("majority_by_width").axes
    words = {
        "layernorm": "projection in Q, K and V (",
        "layernorm_affine": "projection in Q, K and V, gain",
        "projected_qk": "projection in Q and K",
        "projected_v": "projection in V",
        "scale": "no projection",
    }
    samples = ends("widths", variant=variant).groupby("d_model").test_accuracy
    check(left, words[variant], samples, worlds.WIDTHS)
    if variant != "scale":
        wide = ends("widths").pivot(index=["d_model", "seed"], columns="variant", values="test_accuracy")
        gain = (100 * (wide[variant] - wide["scale"])).dropna()
        check(right, words[variant], gain.groupby("d_model"), worlds.WIDTHS)


def test_each_width_and_rate_has_a_row_with_its_runs():
    many = {"rates": worlds.MAJORITY["rates"] | {"d_model": [4, 8]}}
    titles = [axes.get_title() for axes in worlds.draw("majority_by_rate", many).axes]
    assert titles == ["rates, d_model = 4", "", "rates, d_model = 8", ""]
    drawn, table = worlds.draw("majority_by_width", many).axes, worlds.majority_metrics(many)
    for axes, rate in zip(drawn[::2], worlds.RATES, strict=True):
        assert axes.get_title() == f"rates, learning rate {rate:g}"
        at = table[(table.variant == "scale") & (table.base_learning_rate == rate) & (table.step == 3000)]
        check(axes, "no projection", at.groupby("d_model").test_accuracy, [4, 8])
    alone = {"widths": worlds.MAJORITY["widths"] | {"seeds": {"scale": 3}}}
    assert len(worlds.draw("majority_by_width", alone).axes) == 1


@pytest.mark.parametrize("variant", worlds.MAJORITY["rates"]["seeds"])
def test_accuracy_and_steps_by_rate(variant):
    left, right = worlds.draw("majority_by_rate").axes
    last = ends("rates", variant=variant).groupby("base_learning_rate")
    check(left, name(variant), last.test_accuracy, worlds.RATES)
    colour = style.looks_of([variant])[variant]["color"]
    arrived = steps_to_reach(metrics("rates", variant=variant), [0.5])
    full, bounds = {}, {}
    for rate, part in arrived.groupby("base_learning_rate"):
        steps = np.exp(np.log(part.steps.fillna(3000).clip(lower=1)).mean())
        (full if part.steps.notna().all() else bounds)[rate] = steps
    open_ = [line for line in named(right, "lower bound") if line.get_markeredgecolor() == colour]
    for lines, expected in ((named(right, name(variant)), full), (open_, bounds)):
        points = np.concatenate([*(line.get_xydata() for line in lines), np.empty((0, 2))])
        assert nearest(points[:, 0], worlds.RATES) == list(expected)
        np.testing.assert_allclose(points[:, 1], list(expected.values()))
    for axes in (left, right):
        (ring,) = [r for r in named(axes, "lowest final") if r.get_markeredgecolor() == colour]
        assert nearest(ring.get_xdata(), worlds.RATES) == [last.test_loss.mean().idxmin()]


def test_a_diverged_run_counts_as_no_accuracy_and_hides_no_other():
    table = worlds.majority_metrics()
    lost = (table.experiment == "rates") & (table.base_learning_rate == 0.1) & (table.step > 0)
    table.loc[lost, ["train_loss", "test_loss", "test_accuracy"]] = [np.inf, np.inf, 0.0]
    figure = worlds.draw("majority_by_rate", majority_metrics=table)
    left, right = figure.axes
    crosses = named(left, "mean with diverged runs")
    assert len(crosses) == 4 and {float(cross.get_ydata()[0]) for cross in crosses} == {0.0}
    assert np.isfinite([*left.get_ylim(), *right.get_ylim()]).all()
    assert 0.1 not in [nearest(ring.get_xdata(), worlds.RATES)[0] for ring in named(left, "lowest final")]
    assert not any("diverged" in label for label in labels(worlds.draw("majority_by_rate")))
