import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from layernorm_roles.evidence.analysis.majority import steps_to_reach
from layernorm_roles.evidence.figures import colours

PALETTE = colours.palette([worlds.OWN])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def metrics(experiment, **where):
    table = worlds.majority_metrics()
    table = table[table.experiment == experiment]
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def ends(experiment, **where):
    table = metrics(experiment, **where)
    return table[table.step == table.step.max()]


def points(axes, variant, marker="o"):
    """Places and heights of a variant's points, of all its lines, without the ring around the best."""
    lines = [
        line
        for line in axes.lines
        if line.get_marker() == marker
        and (line.get_markerfacecolor() != "none")
        and PALETTE[variant] in (line.get_color(), line.get_markeredgecolor())
    ]
    return np.concatenate([line.get_xydata() for line in lines]) if lines else np.empty((0, 2))


def rings(axes, variant):
    return np.concatenate(
        [
            line.get_xydata()
            for line in axes.lines
            if line.get_markerfacecolor() == "none" and line.get_markeredgecolor() == PALETTE[variant]
        ]
        or [np.empty((0, 2))]
    )


def bars(axes, variant):
    """Lower and upper end of every vertical bar of a variant."""
    colour = plt.matplotlib.colors.to_rgb(PALETTE[variant])
    return [
        tuple(segment[:, 1])
        for lines in axes.collections
        if np.allclose(lines.get_edgecolor()[:1, :3], colour)
        for segment in lines.get_segments()
        if len(segment)
    ]


def nearest(values, choices):
    return [min(choices, key=lambda choice: abs(np.log(choice / value))) for value in values]


@pytest.mark.parametrize("variant", worlds.MAJORITY["rates"]["seeds"])
def test_accuracy_by_rate_is_the_mean_of_the_last_step(variant):
    left, _ = worlds.draw("majority_rates_by_rate").axes
    expected = ends("rates", variant=variant).groupby("base_learning_rate").test_accuracy
    x, y = points(left, variant).T
    assert nearest(x, worlds.RATES) == worlds.RATES
    np.testing.assert_allclose(y, expected.mean())
    seeds = worlds.MAJORITY["rates"]["seeds"][variant]
    if seeds < 3:
        assert not np.isfinite(bars(left, variant)).any()
    else:
        half = stats.t.ppf(0.975, seeds - 1) * expected.std() / np.sqrt(seeds)
        np.testing.assert_allclose(
            bars(left, variant), np.column_stack([expected.mean() - half, expected.mean() + half])
        )


@pytest.mark.parametrize("variant", worlds.MAJORITY["rates"]["seeds"])
def test_steps_are_geometric_means_and_open_triangles_where_a_run_ended_before(variant):
    _, right = worlds.draw("majority_rates_by_rate").axes
    runs = steps_to_reach(metrics("rates", variant=variant), [0.5])
    full, bounds = {}, {}
    for rate, part in runs.groupby("base_learning_rate"):
        reached = part.steps.notna()
        counted = part.steps.where(reached, 3000).clip(lower=1)
        (full if reached.all() else bounds)[rate] = np.exp(np.log(counted).mean())
    for found, expected in ((points(right, variant), full), (points(right, variant, "^"), bounds)):
        assert nearest(found[:, 0], worlds.RATES) == list(expected)
        np.testing.assert_allclose(found[:, 1], list(expected.values()))
    assert right.get_yscale() == "log"


def test_the_world_has_runs_that_reach_the_loss_and_runs_that_do_not():
    _, right = worlds.draw("majority_rates_by_rate").axes
    kinds = {line.get_marker() for line in right.lines}
    assert kinds == {"o", "^"}
    assert "lower bound" in labels(worlds.draw("majority_rates_by_rate"))


def best_of(variant):
    loss = ends("rates", variant=variant).groupby("base_learning_rate").test_loss.mean()
    return loss.idxmin()


@pytest.mark.parametrize("variant", worlds.MAJORITY["rates"]["seeds"])
def test_a_ring_marks_the_rate_with_the_lowest_final_loss(variant):
    left, _ = worlds.draw("majority_rates_by_rate").axes
    ((x, y),) = rings(left, variant)
    assert nearest([x], worlds.RATES) == [best_of(variant)]
    assert y == pytest.approx(
        ends("rates", variant=variant, base_learning_rate=best_of(variant)).test_accuracy.mean()
    )


def test_the_curves_at_the_best_rates_are_of_these_runs_alone():
    figure = worlds.draw("majority_rates_best_rates")
    (axes,) = figure.axes
    for variant in worlds.MAJORITY["rates"]["seeds"]:
        part = metrics("rates", variant=variant, base_learning_rate=best_of(variant))
        part = part[part.step > 0]
        thick = [
            line for line in axes.lines if line.get_color() == PALETTE[variant] and line.get_linewidth() > 1
        ]
        np.testing.assert_allclose(thick[0].get_ydata(), part.groupby("step").test_loss.mean())
        seeds = worlds.MAJORITY["rates"]["seeds"][variant]
        name = f"{colours.label(variant)} at rate {best_of(variant):g}, {seeds} seeds"
        assert name in labels(figure)
    assert labels(figure)[-1] == "single run, where fewer than 5 seeds"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert "nats" in axes.get_ylabel()


def test_each_width_has_a_row_where_rates_and_widths_vary():
    many = {"rates": worlds.MAJORITY["rates"] | {"d_model": [4, 8]}}
    titles = [axes.get_title() for axes in worlds.draw("majority_rates_by_rate", many).axes]
    assert titles == ["d_model = 4", "", "d_model = 8", ""]
    titles = [axes.get_title() for axes in worlds.draw("majority_rates_best_rates", many).axes]
    assert titles == ["d_model = 4", "d_model = 8"]
    titles = [axes.get_title() for axes in worlds.draw("majority_rates_by_width", many).axes]
    assert titles == [text for rate in worlds.RATES for text in (f"learning rate {rate:g}", "")]


@pytest.mark.parametrize("variant", worlds.MAJORITY["widths"]["seeds"])
def test_accuracy_by_width(variant):
    left, _ = worlds.draw("majority_widths_by_width").axes
    x, y = points(left, variant).T
    assert nearest(x, worlds.WIDTHS) == worlds.WIDTHS
    np.testing.assert_allclose(y, ends("widths", variant=variant).groupby("d_model").test_accuracy.mean())


@pytest.mark.parametrize("variant", ["layernorm", "projected_qk", "projected_v", "layernorm_affine"])
def test_what_projection_adds_is_paired_with_scaling_alone(variant):
    _, right = worlds.draw("majority_widths_by_width").axes
    accuracy = ends("widths").pivot(index=["d_model", "seed"], columns="variant", values="test_accuracy")
    gain = (100 * (accuracy[variant] - accuracy["scale"])).dropna()
    _, y = points(right, variant).T
    np.testing.assert_allclose(y, gain.groupby("d_model").mean())
    if variant == "projected_v":
        assert not np.isfinite(bars(right, variant)).any()  # two seeds
    else:
        half = stats.t.ppf(0.975, 2) * gain.groupby("d_model").std() / np.sqrt(3)
        drawn = np.array(bars(right, variant))
        np.testing.assert_allclose(drawn[:, 1] - drawn[:, 0], 2 * half)


def test_the_ladder_s_legend_says_where_projection_is():
    figure = worlds.draw("majority_widths_by_width")
    assert labels(figure) == [
        "projection in Q, K and V (LayerNorm), 3 seeds",
        "projection in Q, K and V, gain and bias, 3 seeds",
        "projection in Q and K, 3 seeds",
        "projection in V, 2 seeds",
        "no projection (scaling only), 4 seeds",
    ]
    assert "points" in figure.axes[1].get_ylabel()


@pytest.mark.parametrize("seeds", [{"layernorm": 3, worlds.OWN: 2}, {"scale": 3}])
def test_a_ladder_without_a_difference_from_scaling_alone_shows_accuracies(seeds):
    widths = {"widths": worlds.MAJORITY["widths"] | {"seeds": seeds}}
    (axes,) = worlds.draw("majority_widths_by_width", widths).axes
    table = worlds.majority_metrics(widths)
    for variant in seeds:
        at = table[(table.variant == variant) & (table.step == 2000)]
        np.testing.assert_allclose(points(axes, variant)[:, 1], at.groupby("d_model").test_accuracy.mean())
    assert "Right" not in worlds.figures(widths)["majority_widths_by_width"].caption


def cells(step):
    at = metrics("crossed", step=step).pivot(index="seed", columns="variant", values="test_accuracy")
    return at.dropna()


def test_the_cross_shows_the_seeds_of_all_four_cells_early_and_late():
    figure = worlds.draw("majority_crossed_size_and_projection")
    assert labels(figure)[:2] == ["with projection, 3 seeds", "without projection, 3 seeds"]
    early, late, _ = figure.axes
    for axes, step in ((early, 1200), (late, 6000)):
        assert axes.get_title() == f"step {step:,}"
        assert len(cells(step)) == 3  # layernorm has four
        for small, large in (("layernorm_small", "layernorm"), ("scale_released", "scale")):
            np.testing.assert_allclose(points(axes, large)[:, 1], cells(step)[[small, large]].mean())


def test_main_effects_and_interaction():
    *_, right = worlds.draw("majority_crossed_size_and_projection").axes
    rows = [tick.get_text() for tick in right.get_yticklabels()]
    for step, face in ((1200, "white"), (6000, "black")):
        c = 100 * cells(step)
        with_large, with_small = c.layernorm - c.scale, c.layernorm_small - c.scale_released
        expected = {
            "projection": (with_large + with_small) / 2,
            "size": (c.layernorm - c.layernorm_small + c.scale - c.scale_released) / 2,
            "interaction": with_large - with_small,
        }
        marks = [
            line
            for line in right.lines
            if line.get_marker() == "o" and line.get_markerfacecolor() == face and len(line.get_xdata()) == 1
        ]
        drawn = {rows[round(float(line.get_ydata()[0]))]: float(line.get_xdata()[0]) for line in marks}
        assert drawn == pytest.approx({name: values.mean() for name, values in expected.items()})


def test_a_diverged_run_counts_as_no_accuracy_and_hides_no_other():
    table = worlds.majority_metrics()
    lost = (table.experiment == "rates") & (table.base_learning_rate == 0.1) & (table.step > 0)
    table.loc[lost, ["train_loss", "test_loss", "test_accuracy"]] = [np.inf, np.inf, 0.0]
    figure = worlds.draw("majority_rates_by_rate", majority_metrics=table)
    left, right = figure.axes
    crosses = points(left, "layernorm", "X")
    assert nearest(crosses[:, 0], worlds.RATES) == [0.1] and crosses[0, 1] == 0.0
    assert "mean with diverged runs, each 0" in labels(figure)
    assert "mean with diverged runs, each 0" not in labels(worlds.draw("majority_rates_by_rate"))
    assert np.isfinite([*left.get_ylim(), *right.get_ylim()]).all()
    for variant in worlds.MAJORITY["rates"]["seeds"]:
        assert nearest(rings(left, variant)[:, 0], worlds.RATES) != [0.1]
    (axes,) = worlds.draw("majority_rates_best_rates", majority_metrics=table).axes
    assert np.isfinite(axes.get_ylim()).all()


@pytest.mark.parametrize(
    "name", ["majority_rates_by_rate", "majority_rates_best_rates", "majority_widths_by_width"]
)
def test_runs_of_a_few_steps_and_one_seed_are_drawn(name):
    tiny = {
        experiment: worlds.MAJORITY[experiment]
        | {"steps": 5, "seeds": dict.fromkeys(worlds.MAJORITY[experiment]["seeds"], 1)}
        for experiment in ("rates", "widths")
    }
    table = worlds.majority_metrics(tiny)
    table["test_loss"] += 1  # nobody reaches 0.5
    table["test_accuracy"] = 0.25
    figure = worlds.draw(name, tiny, majority_metrics=table)
    figure.draw_without_rendering()
    assert all(np.isfinite(axes.get_ylim()).all() for axes in figure.axes)


def test_each_row_of_widths_shows_the_runs_of_its_learning_rate():
    many = {"rates": worlds.MAJORITY["rates"] | {"d_model": [4, 8]}}
    drawn = worlds.draw("majority_rates_by_width", many).axes
    table = worlds.majority_metrics(many)
    for axes, rate in zip(drawn[::2], worlds.RATES, strict=True):
        at = table[(table.variant == "scale") & (table.base_learning_rate == rate) & (table.step == 3000)]
        np.testing.assert_allclose(points(axes, "scale")[:, 1], at.groupby("d_model").test_accuracy.mean())
