"""What the figures of the language models draw: losses, differences, rates, lengths, and keys in heads."""

import figure_worlds as worlds
import numpy as np
import pandas as pd
import pytest
from figure_worlds import curve, labels, name, named, shows, shows_gaps

from layernorm_roles.evidence.analysis.language_model import losses_without_attention
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures.language_model import alike, by_rate
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.variants import BUILT_IN


def metrics(model="gpt"):
    table = worlds.language_model_metrics()
    return table[table.model == model]


def final(model="swept", steps=400):
    """Final validation losses, a row a variant and rate, a column a seed; the lost run has an infinite one."""
    table = metrics(model)
    ends = table[(table.steps == steps) & (table.step == steps)]
    return ends.pivot(index=["variant", "base_learning_rate"], columns="seed", values="valid_loss")


def best(model="swept", steps=400):
    """The final losses of each variant at the rate with the lowest mean, a row a variant."""
    losses = final(model, steps)
    means = losses.mean(axis=1)  # without the seeds that a variant lacks
    rates = means.groupby("variant").idxmin()
    return pd.DataFrame({variant: losses.loc[place] for variant, place in rates.items()}).T


@pytest.mark.parametrize(("figure", "column"), [("figure_4a", "train_loss"), ("figure_4b", "valid_loss")])
def test_figure_4_shows_losses_differences_of_equal_seeds_and_the_paper_s_gap(figure, column):
    losses, gaps = worlds.draw(figure).axes
    table = metrics()[metrics().step > 0]
    shows_gaps(gaps, table, column)
    for variant, own in table.groupby("variant"):
        shows(curve(losses, name(variant)), own[column], own.step)
    (diamond,) = [line for line in gaps.lines if line.get_marker() == "D"]
    ends = reported()["language_model"]
    assert diamond.get_ydata()[0] == pytest.approx(ends["projection"][column] - ends["layernorm"][column])
    assert diamond.get_markeredgecolor() == BUILT_IN["projection"].colour and diamond.get_xdata()[0] > 400
    assert {"LayerNorm, 3 seeds", "single run, where fewer than 5 seeds"} <= {*labels(losses.figure)}
    unigram = [line for line in losses.lines if len(set(line.get_ydata())) == 1]
    assert [line.get_ydata()[0] for line in unigram] == pytest.approx(
        [table.unigram_loss.mean()] if column == "valid_loss" else []
    )


def test_every_model_has_a_row_with_its_losses():
    figure = worlds.draw("language_model_losses")
    rows = dict(zip(("wide", "bert"), np.array(figure.axes).reshape(2, 2), strict=True))
    for model, (losses, _) in rows.items():
        assert losses.get_title() == f"{model}: validation loss"
        for variant in worlds.MODELS[model]["seeds"]:
            last = curve(losses, name(variant)).get_ydata()[-1]
            assert last == pytest.approx(best(model).loc[variant].mean())


def test_the_axis_of_differences_is_that_of_the_second_half_and_names_what_is_beyond():
    table = worlds.language_model_metrics()
    gpt = table.model == "gpt"
    wild = gpt & (table.step == 100) & (table.variant == "projection")
    table.loc[wild & (table.seed == 0), "valid_loss"] += 30
    table.loc[gpt & (table.variant == "no_attention") & (table.step > 100), "valid_loss"] += 100
    _, gaps = worlds.draw("figure_4b", language_model_metrics=table).axes
    low, high = gaps.get_ylim()
    assert -5 < low < 0 < high < 5
    (text,) = gaps.texts
    assert text.get_text().startswith("no attention +") and text.get_text().endswith("↑")
    assert 98 < float(text.get_text().split()[2]) < 102
    bare = table[(table.model != "bert") | (table.variant == "none")]
    assert not worlds.draw("language_model_losses", language_model_metrics=bare).axes[3].axison


def test_loss_by_rate_has_means_of_runs_that_trained_and_marks_those_that_did_not():
    (axes,) = worlds.draw("loss_by_rate").axes
    assert axes.get_title() == "swept, 400 steps" and axes.get_xscale() == "log"
    losses = final().replace(np.inf, np.nan)
    for variant in ("layernorm", "projection"):
        line = curve(axes, name(variant))
        np.testing.assert_allclose(line.get_ydata(), losses.loc[variant].mean(axis=1))
        dots = [dot for dot in axes.lines if dot.get_marker() == "." and dot.get_color() == line.get_color()]
        expected = sorted(losses.loc[variant].stack().dropna())
        np.testing.assert_allclose(sorted(np.concatenate([dot.get_ydata() for dot in dots])), expected)
    rates = {"layernorm": 0.1, "projection": 0.01}
    for ring in named(axes, "largest rate at which no run diverges"):
        (variant,) = [v for v in rates if BUILT_IN[v].colour == ring.get_markeredgecolor()]
        assert ring.get_xdata()[0] == pytest.approx(rates.pop(variant), rel=0.1)
    assert not rates
    (cross,) = named(axes, "diverged runs")
    assert cross.get_color() == BUILT_IN["projection"].colour
    assert cross.get_xdata()[0] == pytest.approx(0.1, rel=0.1)
    (reference,) = named(axes, BUILT_IN["no_attention"].label)
    bare = losses_without_attention(worlds.language_model_metrics(), "swept")
    assert len(bare) and reference.get_ydata()[0] == pytest.approx(bare.mean())
    complete = worlds.language_model_metrics().replace(np.inf, 7.0)
    assert "diverged runs" not in labels(worlds.draw("loss_by_rate", language_model_metrics=complete))


def test_the_loss_without_attention_is_that_of_the_model_whose_runs_stand_for_it():
    table = worlds.language_model_metrics().replace({"model": {"swept": "gpt_rates"}})
    table = table[(table.model != "gpt_rates") | (table.variant != "no_attention")]
    figure = by_rate(table, {"gpt_rates": worlds.MODELS["swept"]})
    (reference,) = named(figure.axes[0], BUILT_IN["no_attention"].label)
    (bare,) = final("gpt").loc["no_attention"].mean(axis=1)
    assert reference.get_ydata()[0] == pytest.approx(bare)


def test_models_that_differ_in_their_rates_alone_share_a_panel():
    swept = worlds.MODELS["swept"]
    again = swept | {"learning_rate": [1.0, 2.0], "seeds": {"none": 1}}
    models = {"swept": swept, "again": again, "other": again | {"heads": 2}}
    assert alike(models, [*models]) == {"swept": ["swept", "again"], "other": ["other"]}


# Heads


def keys(model, site, causal, checkpoint="final"):
    """Per cent of the artificial keys by variant and layer, of the long contexts."""
    k = worlds.key_selectability().query("model == @model and site == @site and texts == 'long'")
    k = k[(k.causal == causal) & (k.checkpoint == checkpoint)]
    return (100 * k.n_unselectable / k.n_keys).groupby([k.variant, k.layer]).mean()


def test_heads_and_inputs_have_their_shares_before_and_after_training():
    figure = worlds.draw("figure_heads")
    sites = {"attention input": ("after_norm", False), "heads, among all keys": ("head", False)}
    sites["heads, among the keys before"] = ("head", True)
    for model, row in zip(("gpt", "wide"), np.array(figure.axes).reshape(2, 3), strict=True):
        assert row[0].get_ylabel().startswith(f"{model}:")
        d_model, heads = (worlds.MODELS[model][key] for key in ("d_model", "heads"))
        for axes, (title, (site, causal)) in zip(row, sites.items(), strict=True):
            d = d_model if site == "after_norm" else d_model // heads
            assert axes.get_title() == f"{title}\nd = {d}, 900 to 910 keys"
            for variant in {"layernorm", "projection", worlds.OWN} & {*worlds.MODELS[model]["seeds"]}:
                drawn = [line for line in axes.lines if line.get_marker() == "o"]
                drawn = [line for line in drawn if line.get_color() == named_colour(axes, name(variant))]
                for checkpoint, line in zip(("initial", "final"), drawn, strict=True):
                    expected = keys(model, site, causal, checkpoint)[variant]
                    np.testing.assert_allclose(line.get_ydata(), expected)
                    assert (line.get_markerfacecolor() == "white") == (checkpoint == "initial")
                    assert [round(x) for x in line.get_xdata()] == [1, 2]
            fewer = d - (site == "after_norm")
            law = np.mean([100 * expected_unselectable(n, fewer, causal) / n for n in (900, 910)])
            (line,) = named(axes, "as many Gaussian keys")
            assert line.get_ydata()[0] == pytest.approx(law)


def named_colour(axes, label):
    return next(h.get_color() for text, h in worlds.handles(axes.figure).items() if text.startswith(label))


@pytest.mark.parametrize("causal", [False, True])
def test_by_width_points_are_layers_and_lines_gaussian_keys(causal):
    axes = worlds.draw("heads_by_width").axes[int(causal)]
    (law,) = named(axes, "905 Gaussian keys")
    expected = [100 * expected_unselectable(905, int(d), causal) / 905 for d in law.get_xdata()]
    np.testing.assert_allclose(law.get_ydata(), expected)
    for word, checkpoint in (("untrained", "initial"), ("trained", "final")):
        points = [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in named(axes, word)]
        wide = sorted((x, y) for x, y in points if x > 8)
        assert all((x > 16) == (word == "trained") for x, _ in wide) and len(points) == 2 * 2
        ordered = [y for _, y in wide][:: 1 if word == "trained" else -1]
        np.testing.assert_allclose(ordered, keys("wide", "head", causal, checkpoint)["layernorm"])
    table = worlds.key_selectability()
    few = worlds.draw("heads_by_width", key_selectability=table[table.seed < 2]).axes[int(causal)]
    assert not few.collections, "two seeds have no interval"


@pytest.mark.parametrize("queries", ["any", "norm"])
def test_by_width_what_keys_can_get_is_drawn_for_each_threshold(queries):
    axes = worlds.draw("heads_by_width").axes[2 + ["any", "norm"].index(queries)]
    table = worlds.language_model_ceilings(summed=False)
    table = table[(table.variant == "layernorm") & (table.queries == queries) & (table.checkpoint == "final")]
    for words, threshold in (("½", 0.5), ("1/10,", 0.1), ("1/100", 0.01)):
        shares = (100 * (table.upper >= threshold)).groupby([table.dimensions, table.model]).mean()
        (line,) = named(axes, f"at least {words}")
        drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert drawn[16] == pytest.approx(shares[16, "wide"]) and len(line.get_xdata()) == 3
