import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest

from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import colours


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def line_of(axes, variant):
    colour = colours.palette([worlds.OWN])[variant]
    (line,) = [line for line in axes.lines if line.get_color() == colour and len(line.get_xdata()) > 1]
    return line


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def paper_marks(axes):
    return {
        line.get_markeredgecolor(): line.get_xydata()[0] for line in axes.lines if line.get_marker() == "D"
    }


@pytest.mark.parametrize(("name", "column"), [("figure_4a", "train_loss"), ("figure_4b", "valid_loss")])
def test_figure_4_shows_means_without_the_untrained_models_and_the_paper_s_ends(name, column):
    figure = worlds.draw(name)
    (axes,) = figure.axes
    metrics = worlds.language_model_metrics()
    for variant in ("layernorm", "projection"):
        rows = metrics[(metrics.variant == variant) & (metrics.step > 0)]
        line = line_of(axes, variant)
        np.testing.assert_allclose(line.get_ydata(), rows.groupby("step")[column].mean())
        x, y = paper_marks(axes)[colours.COLOURS[variant]]
        assert y == reported()["language_model"][variant][column]
        assert 400 < x < axes.get_xlim()[1]
    assert labels(figure) == [
        "LayerNorm, 3 seeds",
        "projection only, 3 seeds",
        "paper at step 50,000",
    ]
    assert "nats per token" in axes.get_ylabel()
    word = {"train_loss": "training", "valid_loss": "validation"}[column]
    assert axes.get_ylabel().startswith(word)


def test_coinciding_lines_of_figure_4_differ_in_colour_and_stroke():
    (axes,) = worlds.draw("figure_4a").axes
    styles = {line_of(axes, variant).get_linestyle() for variant in ("layernorm", "projection")}
    assert styles == {"-", "--"}


def test_all_variants_are_in_the_figure_of_all_losses():
    figure = worlds.draw("language_model_loss")
    assert [label.split(",")[0] for label in labels(figure)] == [
        "LayerNorm",
        "projection only",
        "LayerNorm + QK-norm",
        "tanh",
    ]
    assert not paper_marks(figure.axes[0])


def test_the_difference_is_without_scaling_minus_with_it_over_all_pairs():
    figure = worlds.draw("figure_4_difference")
    metrics = worlds.language_model_metrics()
    for axes, column in zip(figure.axes, ("train_loss", "valid_loss"), strict=True):
        mean = metrics.groupby(["variant", "step"])[column].mean()
        expected = mean["projection"] - mean["layernorm"]
        (line,) = [line for line in axes.lines if len(line.get_xdata()) == len(expected)]
        np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-12)
        ends = reported()["language_model"]
        (mark,) = paper_marks(axes).values()
        assert mark[1] == pytest.approx(ends["projection"][column] - ends["layernorm"][column])
    assert [axes.get_title() for axes in figure.axes] == ["training loss", "validation loss"]
    assert labels(figure)[0] == "mean of 3 pairs of equal seed"


def test_an_early_band_does_not_swallow_the_axis_of_the_difference():
    metrics = worlds.language_model_metrics()
    wild = (metrics.step == 100) & (metrics.variant == "projection")
    metrics.loc[wild & (metrics.seed == 0), ["train_loss", "valid_loss"]] += 30
    metrics.loc[wild & (metrics.seed == 1), ["train_loss", "valid_loss"]] -= 30
    axes = worlds.draw("figure_4_difference", language_model_metrics=metrics).axes[0]
    low, high = axes.get_ylim()
    assert -15 < low < 0 < high < 15
    last = axes.collections[0].get_paths()[0].vertices
    last = last[last[:, 0] >= 200][:, 1]
    assert low <= last.min() and last.max() <= high


def test_heads_and_inputs_are_where_their_layer_and_variant_are():
    figure = worlds.draw("figure_heads")
    keys = worlds.key_selectability()
    keys = keys[(keys.model == "gpt") & (keys.texts == "long")]
    keys = keys.assign(share=100 * keys.n_unselectable / keys.n_keys)
    for axes, checkpoint in zip(figure.axes, ("initial", "final"), strict=True):
        assert axes.get_title() == f"{checkpoint} weights"
        for variant in worlds.MODELS["gpt"]["seeds"]:
            part = keys[(keys.checkpoint == checkpoint) & (keys.variant == variant)]
            colour = np.array(plt.matplotlib.colors.to_rgba(colours.palette([worlds.OWN])[variant]))
            bars, points = [], []
            for item in axes.collections:
                if not np.allclose(item.get_edgecolor()[:1], colour):
                    continue
                if hasattr(item, "get_segments"):
                    bars += [segment[0, 1] for segment in item.get_segments()]
                elif np.allclose(item.get_facecolor()[:1], colour):
                    points += [tuple(point) for point in item.get_offsets()]
            expected = part[part.site == "after_norm"].groupby("layer").share.mean()
            np.testing.assert_allclose(bars, expected)
            expected = part[part.site == "head"].groupby(["layer", "head"]).share.mean()
            np.testing.assert_allclose([y for _, y in points], expected)
            assert [round(x) for x, _ in points] == [layer for layer, _ in expected.index]


def test_the_heads_figure_says_the_dimension_and_the_number_of_keys():
    figure = worlds.draw("figure_heads")
    assert figure.get_suptitle() == "d_head = 2, 900 to 910 keys a context"
    assert "in a head, QK-norm with eps = 0" in labels(figure)
    keys = worlds.key_selectability()
    figure = worlds.draw("figure_heads", key_selectability=keys[keys.site != "head_exact"])
    assert "in a head, QK-norm with eps = 0" not in labels(figure)


def test_bert_is_drawn_from_bert_s_table():
    figure = worlds.draw("figure_bert_loss")
    table = worlds.tables()["bert_metrics"]
    rows = table[(table.variant == "none") & (table.step > 0)]
    np.testing.assert_allclose(
        line_of(figure.axes[0], "none").get_ydata(), rows.groupby("step").valid_loss.mean()
    )
    assert labels(figure) == ["LayerNorm, 2 seeds", "no norm, 2 seeds"]
