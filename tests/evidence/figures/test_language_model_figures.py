import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest

from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures import colours, registry
from layernorm_roles.gaussian_keys import expected_unselectable

PALETTE = colours.palette([worlds.OWN])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def line_of(axes, variant):
    (line,) = [
        line
        for line in axes.lines
        if line.get_color() == PALETTE[variant] and len(line.get_xdata()) > 2 and line.get_linewidth() > 1
    ]
    return line


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def paper_marks(axes):
    return {
        line.get_markeredgecolor(): line.get_xydata()[0] for line in axes.lines if line.get_marker() == "D"
    }


def metrics(model="gpt"):
    table = worlds.language_model_metrics()
    return table[table.model == model]


@pytest.mark.parametrize(("name", "column"), [("figure_4a", "train_loss"), ("figure_4b", "valid_loss")])
def test_figure_4_shows_means_without_the_untrained_models_and_the_paper_s_ends(name, column):
    figure = worlds.draw(name)
    (axes,) = figure.axes
    table = metrics()
    for variant in ("layernorm", "projection"):
        rows = table[(table.variant == variant) & (table.step > 0)]
        line = line_of(axes, variant)
        np.testing.assert_allclose(line.get_ydata(), rows.groupby("step")[column].mean())
        x, y = paper_marks(axes)[colours.COLOURS[variant]]
        assert y == reported()["language_model"][variant][column]
        assert 400 < x < axes.get_xlim()[1]
    assert labels(figure) == [
        "LayerNorm, 3 seeds",
        "projection only, 3 seeds",
        "single run, where fewer than 5 seeds",
        "paper at step 50,000",
    ]
    assert "nats per token" in axes.get_ylabel()
    word = {"train_loss": "training", "valid_loss": "validation"}[column]
    assert axes.get_ylabel().startswith(word)


def test_coinciding_lines_of_figure_4_differ_in_colour_and_stroke():
    (axes,) = worlds.draw("figure_4a").axes
    styles = {line_of(axes, variant).get_linestyle() for variant in ("layernorm", "projection")}
    assert styles == {"-", "--"}


@pytest.mark.parametrize("model", worlds.MODELS)
def test_all_variants_and_the_token_frequencies_are_in_a_model_s_losses(model):
    left, right = worlds.draw(f"language_model_{model}_loss").axes
    table = metrics(model)
    for variant in worlds.MODELS[model]["seeds"]:
        rows = table[(table.variant == variant) & (table.step > 0)]
        np.testing.assert_allclose(line_of(left, variant).get_ydata(), rows.groupby("step").valid_loss.mean())
    (unigram,) = [line for line in left.lines if len(set(line.get_ydata())) == 1]
    assert unigram.get_ydata()[0] == pytest.approx(table[table.step > 0].unigram_loss.mean())
    assert left.get_title() == model and right.get_title() == "at step 400"
    assert not paper_marks(left)


def test_the_legend_of_a_model_s_losses_is_in_the_order_of_the_variants():
    assert [label.split(",")[0] for label in labels(worlds.draw("language_model_gpt_loss"))] == [
        "LayerNorm",
        "projection only",
        "LayerNorm + QK-norm",
        "no attention",
        "tanh",
        "single run",
        "token frequencies (unigram)",
    ]


@pytest.mark.parametrize("model", worlds.MODELS)
def test_endings_are_paired_with_layernorm_of_equal_seed(model):
    _, right = worlds.draw(f"language_model_{model}_loss").axes
    rows = [tick.get_text() for tick in right.get_yticklabels()]
    last = metrics(model)
    last = last[last.step == 400].pivot(
        index="seed", columns="variant", values=["valid_loss", "unigram_loss"]
    )
    loss = last["valid_loss"]
    differences = {
        colours.label(variant): (loss[variant] - loss["layernorm"]).dropna()
        for variant in worlds.MODELS[model]["seeds"]
        if variant != "layernorm"
    }
    differences["token frequencies"] = (last["unigram_loss"]["layernorm"] - loss["layernorm"]).dropna()
    assert set(rows) == set(differences)
    drawn = {
        rows[int(line.get_ydata()[0])]: line.get_xdata()[0]
        for line in right.lines
        if line.get_marker() == "o"
    }
    beyond = {rows[int(text.xy[1])]: text.get_text() for text in right.texts}
    assert set(drawn) | set(beyond) == set(rows)
    for name, values in differences.items():
        if name in drawn:
            assert drawn[name] == pytest.approx(values.mean())
        else:
            assert beyond[name] == f"{values.mean():+.2f} →"
    assert "minus" in right.get_xlabel() or "−" in right.get_xlabel()


def test_a_baseline_far_away_is_an_arrow_with_its_number():
    table = worlds.language_model_metrics()
    bare = (table.variant == "no_attention") & (table.step == 400)
    table.loc[bare, "valid_loss"] += 100
    _, right = worlds.draw("language_model_wide_loss", language_model_metrics=table).axes
    (far,) = [text for text in right.texts if text.get_text().startswith("+10") or "+99" in text.get_text()]
    assert far.get_text().endswith("→")
    assert right.get_xlim()[1] < 50


def test_a_model_without_layernorm_shows_its_losses():
    table = worlds.language_model_metrics()
    table = table[(table.model != "bert") | (table.variant == "none")]
    _, right = worlds.draw("language_model_bert_loss", language_model_metrics=table).axes
    last = table[(table.model == "bert") & (table.step == 400)]
    (mean, _) = [line.get_xdata()[0] for line in right.lines if line.get_marker() == "o"]
    assert mean == pytest.approx(last.valid_loss.mean())
    assert right.get_xlabel() == "validation loss (nats per token)"


def test_layernorm_alone_has_nothing_beside_it():
    table = worlds.language_model_metrics()
    table = table[(table.model != "wide") | (table.variant == "layernorm")]
    figure = worlds.draw("language_model_wide_loss", language_model_metrics=table)
    (axes,) = figure.axes
    assert axes.get_title() == "wide"
    assert labels(figure)[0] == "LayerNorm, 3 seeds"
    models = {"wide": worlds.MODELS["wide"] | {"seeds": {"layernorm": 3}}}
    caption = registry.figures({"language_model": models})["language_model_wide_loss"].caption
    assert "with LayerNorm, by the steps" in caption and "Right" not in caption


def test_labelled_sentences_have_no_token_frequencies():
    table = worlds.language_model_metrics()
    table.loc[table.model == "bert", "unigram_loss"] = np.nan
    figure = worlds.draw("language_model_bert_loss", language_model_metrics=table)
    assert "token frequencies (unigram)" not in labels(figure)
    assert [tick.get_text() for tick in figure.axes[1].get_yticklabels()] == ["no norm"]


@pytest.mark.parametrize(
    ("name", "model", "pairs"),
    [("figure_4_difference", "gpt", 3), ("language_model_wide_difference", "wide", 2)],
)
def test_the_difference_is_without_scaling_minus_with_it_over_all_pairs(name, model, pairs):
    figure = worlds.draw(name)
    for axes, column in zip(figure.axes, ("train_loss", "valid_loss"), strict=True):
        values = metrics(model).pivot(index=["step", "seed"], columns="variant", values=column)
        gap = (values["projection"] - values["layernorm"]).dropna().unstack("seed")
        thick = [line for line in axes.lines if len(line.get_xdata()) > 2 and line.get_linewidth() > 1]
        np.testing.assert_allclose(thick[0].get_ydata(), gap.mean(axis=1), atol=1e-12)
        thin = [line for line in axes.lines if len(line.get_xdata()) > 2 and line.get_linewidth() < 0.6]
        np.testing.assert_allclose([line.get_ydata() for line in thin], gap.T, atol=1e-12)
        ends = reported()["language_model"]
        marks = [mark[1] for mark in paper_marks(axes).values()]
        paper = [ends["projection"][column] - ends["layernorm"][column]] if model == "gpt" else []
        assert marks == pytest.approx(paper)
    assert [axes.get_title() for axes in figure.axes] == ["training loss", "validation loss"]
    assert labels(figure)[0] == f"mean of {pairs} pairs of equal seed"


def test_an_early_band_does_not_swallow_the_axis_of_the_difference():
    table = worlds.language_model_metrics()
    wild = (table.model == "gpt") & (table.step == 100) & (table.variant == "projection")
    table.loc[wild & (table.seed == 0), ["train_loss", "valid_loss"]] += 30
    table.loc[wild & (table.seed == 1), ["train_loss", "valid_loss"]] -= 30
    axes = worlds.draw("figure_4_difference", language_model_metrics=table).axes[0]
    low, high = axes.get_ylim()
    assert -15 < low < 0 < high < 15
    last = axes.collections[0].get_paths()[0].vertices
    last = last[last[:, 0] >= 200][:, 1]
    assert low <= last.min() and last.max() <= high


def long_keys(model="gpt"):
    keys = worlds.key_selectability()
    keys = keys[(keys.model == model) & (keys.texts == "long")]
    return keys.assign(share=100 * keys.n_unselectable / keys.n_keys)


def marks(axes, variant):
    """What is drawn of a variant: heights of bars, and the places of marks by the number of corners of their form."""
    colour, bars, points = np.array(plt.matplotlib.colors.to_rgba(PALETTE[variant])), [], {}
    for item in axes.collections:
        if not np.allclose(item.get_edgecolor()[:1], colour):
            continue
        if hasattr(item, "get_segments"):
            bars += [segment[0, 1] for segment in item.get_segments()]
        elif np.allclose(item.get_facecolor()[:1], colour):
            form = "triangle" if len(item.get_paths()[0].vertices) == 4 else "circle"
            points.setdefault(form, []).extend(tuple(point) for point in item.get_offsets())
    return bars, points


@pytest.mark.parametrize(("name", "model"), [("figure_heads", "gpt"), ("language_model_wide_heads", "wide")])
def test_heads_and_inputs_are_where_their_layer_and_variant_are(name, model):
    figure = worlds.draw(name)
    keys = long_keys(model)
    for axes, checkpoint in zip(figure.axes, ("initial", "final"), strict=True):
        assert axes.get_title() == f"{checkpoint} weights"
        for variant in set(worlds.MODELS[model]["seeds"]) - {"no_attention"}:
            part = keys[(keys.checkpoint == checkpoint) & (keys.variant == variant)]
            bars, points = marks(axes, variant)
            expected = part[part.site == "after_norm"].groupby("layer").share.mean()
            np.testing.assert_allclose(bars, expected)
            heads = part[part.site == "head"].groupby(["causal", "layer", "head"]).share.mean()
            for form, causal in (("circle", False), ("triangle", True)):
                np.testing.assert_allclose([y for _, y in points[form]], heads[causal])
                assert [round(x) for x, _ in points[form]] == [layer for layer, _ in heads[causal].index]
            apart = np.subtract(points["triangle"], points["circle"])[:, 0]
            assert (apart > 0).all(), "the two shares of a head stand side by side"


def test_the_heads_figure_says_dimensions_and_the_number_of_keys():
    figure = worlds.draw("figure_heads")
    assert figure.get_suptitle() == "gpt: d_model = 8, d_head = 2, n = 900 to 910 keys in a context"
    assert "in a head, QK-norm with eps = 0" in labels(figure)
    assert labels(figure)[:2] == ["LayerNorm, 3 seeds", "projection only, 3 seeds"]
    keys = worlds.key_selectability()
    figure = worlds.draw("figure_heads", key_selectability=keys[keys.site != "head_exact"])
    assert "in a head, QK-norm with eps = 0" not in labels(figure)


@pytest.mark.parametrize(
    ("name", "d_head", "d_model"), [("figure_heads", 2, 8), ("language_model_wide_heads", 16, 64)]
)
def test_heads_are_compared_with_gaussian_keys_of_their_dimension(name, d_head, d_model):
    figure = worlds.draw(name)
    before = f"Gaussian, among those before, d_head = {d_head}"
    expected = {
        f"Gaussian keys, d_head = {d_head}": 100 * expected_unselectable(905, d_head) / 905,
        before: 100 * expected_unselectable(905, d_head, causal=True) / 905,
        f"Gaussian keys, d_model − 1 = {d_model - 1}": 100 * expected_unselectable(905, d_model - 1) / 905,
    }
    assert labels(figure)[-3:] == list(expected)
    for axes in figure.axes:
        levels = [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1]
        np.testing.assert_allclose(levels, list(expected.values()))


def test_without_causal_shares_the_heads_figure_has_no_marks_for_them():
    keys = worlds.key_selectability()
    figure = worlds.draw("figure_heads", key_selectability=keys[~keys.causal])
    assert not [label for label in labels(figure) if "before" in label]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]


def test_small_shares_are_not_drawn_at_the_foot_of_an_empty_panel():
    keys = worlds.key_selectability()
    keys["n_unselectable"] = keys.n_unselectable // 100
    axes = worlds.draw("figure_heads", key_selectability=keys).axes[0]
    assert axes.get_ylim()[1] < 12


def test_a_reference_that_is_not_far_above_the_points_is_within_the_axes():
    keys = worlds.key_selectability()
    expected = 100 * expected_unselectable(905, 11) / 905
    keys["n_unselectable"] = (keys.n_keys * 0.007 * expected).astype(int)
    assert expected < 40, "the axes do not reach 100 %"
    axes = worlds.draw("language_model_wide_heads", key_selectability=keys.assign(dimensions=12)).axes[0]
    assert expected < axes.get_ylim()[1] < 1.1 * expected
