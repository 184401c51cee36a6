"""What figures of the language models draw beside means: marks, reference lines, heads by width, and doses."""

import numpy as np
import pytest
import random_world as world
from reading import bars, curve, labels, name, named
from recomputed_tables import RECOMPUTED

from layernorm_roles.evidence.analysis.attention_by_step import onsets
from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures.attention_by_step import DOSES
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.variants import BUILT_IN


@pytest.mark.parametrize(("figure", "column"), [("figure_4a", "train_loss"), ("figure_4b", "valid_loss")])
def test_figure_4_shows_the_paper_s_gap_and_the_loss_of_frequencies(figure, column):
    losses, gaps = world.drawn(figure).axes
    (diamond,) = [line for line in gaps.lines if line.get_marker() == "D"]
    ends = reported()["language_model"]
    assert diamond.get_ydata()[0] == pytest.approx(ends["projection"][column] - ends["layernorm"][column])
    assert diamond.get_markeredgecolor() == BUILT_IN["projection"].colour and diamond.get_xdata()[0] > 400
    wide = world.drawn("language_model_losses").axes[1]
    assert not any(line.get_marker() == "D" for line in wide.lines), "the paper has no such model"
    assert losses.get_title() == f"gpt: {'training' if figure == 'figure_4a' else 'validation'} loss"
    assert {"LayerNorm, 3 seeds", "single run, where fewer than 5 seeds"} <= {*labels(losses.figure)}
    unigram = [line.get_ydata()[0] for line in losses.lines if len(set(line.get_ydata())) == 1]
    table = world.language_model_metrics().query("model == 'gpt' and step > 0")
    assert unigram == pytest.approx([table.unigram_loss.mean()] if column == "valid_loss" else [])


@pytest.mark.parametrize("column", ["train_loss", "valid_loss"])
def test_at_the_paper_s_rate_differences_have_the_paper_s_and_their_intervals_beside_their_ends(column):
    panels = world.drawn("figure_4_paper_rate").axes
    axes, titles = panels[column == "valid_loss"], ["training", "validation", "loss", "deviation"]
    assert [each.get_title().split()[0] for each in panels] == titles
    ends, colour = reported()["language_model"], BUILT_IN["projection"].colour
    (diamond,) = named(axes, "paper, projection only")
    assert diamond.get_ydata()[0] == pytest.approx(ends["projection"][column] - ends["layernorm"][column])
    runs = world.language_model_metrics().query("model == 'gpt_paper_rate' and step == 400")
    runs = runs.pivot(index="seed", columns="variant", values=column)
    _, *interval = Estimate.of((runs.projection - runs.layernorm).dropna())
    np.testing.assert_allclose(bars(axes, colour), [interval])
    assert 400 < diamond.get_xdata()[0] < axes.get_xlim()[1]


@pytest.mark.parametrize(("away", "words"), [(100, "no attention +"), (-100, "no attention −")])
def test_the_axis_of_differences_is_that_of_the_second_half_and_names_what_is_beyond(away, words):
    table = world.language_model_metrics()
    gpt = table.model == "gpt"
    wild = gpt & (table.step == 100) & (table.variant == "projection")
    table.loc[wild & (table.seed == 0), "valid_loss"] += 30
    bare = gpt & (table.variant == "no_attention") & (table.step > 100)
    table.loc[bare, "valid_loss"] += away
    table.loc[gpt & (table.step == 200) & (table.variant == "projection"), "valid_loss"] += 3
    _, gaps = world.draw("figure_4b", language_model_metrics=table).axes
    low, high = gaps.get_ylim()
    gap = max(y for x, y in curve(gaps, name("projection")).get_xydata() if x == 200)
    assert -6 < low < 0 < gap < high < 6, "half of the training belongs to its second half"
    (text,) = gaps.texts
    assert text.get_text().startswith(words) and text.get_text().endswith("↑" if away > 0 else "↓")
    assert 98 < float(text.get_text().split()[2][1:]) < 102
    table.loc[bare, "valid_loss"] += 6 - away
    _, gaps = world.draw("figure_4b", language_model_metrics=table).axes
    assert gaps.get_ylim()[1] > 7 and not gaps.texts, "within two and a half times what the others need"
    bare = table[(table.model != "bert") | (table.variant == "none")]
    assert not world.draw("language_model_losses", language_model_metrics=bare).axes[3].axison
    alone = table[(table.model != "wide") | (table.variant == "layernorm")]
    first, _ = world.draw("language_model_losses", language_model_metrics=alone).axes
    assert first.get_title() == "bert: validation loss", "a model with LayerNorm alone has nothing beside it"


# Heads


def test_panels_of_heads_name_their_site_and_have_the_line_of_gaussian_keys():
    sites = {"attention input": (1, False), "heads, among all keys": (4, False)}
    sites["heads, among the keys before"] = (4, True)
    for d_model, row in zip((8, 64), np.array(world.drawn("figure_heads").axes).reshape(2, 3), strict=True):
        assert row[0].get_ylabel().startswith(f"{'gpt' if d_model == 8 else 'wide'}:")
        for axes, (title, (heads, causal)) in zip(row, sites.items(), strict=True):
            assert axes.get_title() == f"{title}\nd = {d_model // heads}, 900 to 910 keys"
            d = d_model // heads - (heads == 1)
            law = np.mean([100 * expected_unselectable(n, d, causal) / n for n in (900, 910)])
            (line,) = named(axes, "as many Gaussian keys")
            assert line.get_ydata()[0] == pytest.approx(law)
            model = "gpt" if d_model == 8 else "wide"
            table = RECOMPUTED["heads"](world.TABLES).loc[model, "projection", "head"]
            if heads > 1:
                ends = np.clip(table.xs(causal, level="causal")[["low", "high"]], 0, 100)
                drawn = bars(axes, BUILT_IN["projection"].colour)
                np.testing.assert_allclose(sorted(drawn.tolist()), sorted(ends.to_numpy().tolist()))
    assert not [text for text in labels(axes.figure) if text.startswith(name("no_attention"))]
    table = world.key_selectability()
    for variant, rows in {"layernorm": 1, "projection": 2, "no_attention": 2}.items():
        alone = table[((table.model == "gpt") | (table.variant == variant)) & ~table.causal]
        drawn = world.draw("figure_heads", key_selectability=alone).axes
        assert [len(axes.lines) > 1 for axes in drawn] == [True, True, False] * rows, "nothing to compare"


@pytest.mark.parametrize("causal", [False, True])
def test_by_width_points_are_layers_and_lines_gaussian_keys(causal):
    axes = world.drawn("heads_by_width").axes[int(causal)]
    assert axes.get_title().endswith("keys before them alone" if causal else "all keys of the context")
    (law,) = named(axes, "905 Gaussian keys")
    expected = [100 * expected_unselectable(905, int(d), causal) / 905 for d in law.get_xdata()]
    np.testing.assert_allclose(law.get_ydata(), expected)
    for word, checkpoint in (("untrained", "initial"), ("trained", "final")):
        points = [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in named(axes, word)]
        wide = sorted((x, y) for x, y in points if x > 8)
        assert all((x > 16) == (word == "trained") for x, _ in wide) and len(points) == 2 * 2
        ordered = [y for _, y in wide][:: 1 if word == "trained" else -1]
        known = RECOMPUTED["heads"](world.TABLES).percent["wide", "layernorm", "head", checkpoint, :, causal]
        np.testing.assert_allclose(ordered, known)
    (colour,) = {mark.get_color() for mark in named(axes, "trained")}
    known = RECOMPUTED["heads"](world.TABLES).percent[:, "layernorm", "head", :, :, causal]
    np.testing.assert_allclose(sorted(bars(axes, colour).mean(axis=1)), sorted(known))
    table = world.key_selectability()
    few = world.draw("heads_by_width", key_selectability=table[table.seed < 2]).axes[int(causal)]
    assert not few.collections, "two seeds have no interval"


@pytest.mark.parametrize("queries", ["any", "norm"])
def test_by_width_what_keys_can_get_is_drawn_for_each_threshold(queries):
    axes = world.drawn("heads_by_width").axes[2 + ["any", "norm"].index(queries)]
    assert ("behind the norm" in axes.get_title()) == (queries == "norm")
    table = world.language_model_pairs()
    table = table[(table.variant == "layernorm") & (table.queries == queries) & (table.checkpoint == "final")]
    for words, threshold in (("½", 0.5), ("1/10,", 0.1), ("1/100", 0.01)):
        shares = (100 * (table.upper >= threshold)).groupby([table.dimensions, table.model]).mean()
        (line,) = named(axes, f"at least {words}")
        drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        assert drawn[16] == pytest.approx(shares[16, "wide"]) and [*line.get_xdata()] == [2, 2, 16]
        middles = bars(axes, line.get_color()).mean(axis=1)
        np.testing.assert_allclose(sorted(middles), sorted(line.get_ydata()))
    few = world.language_model_ceilings().query("seed < 2")
    few["n_keys"] *= np.where(few.model == "wide", 2, 1)
    axes = world.draw("heads_by_width", language_model_ceilings=few).axes[2 + ["any", "norm"].index(queries)]
    assert not len(bars(axes, line.get_color())), "two seeds have no interval"
    assert [text for text in labels(axes.figure) if "likewise" in text] == ["likewise, of 60 keys"]


# When attention begins


def test_dose_and_response_has_a_mark_for_each_run_and_shows_those_that_do_not_get_there():
    sizes = {"d8": world.D8 | {"seeds": {"layernorm": 2, "scale_released": 2}}}
    sizes["sizes"] = world.D8 | {"seeds": {"quarter": 2, "scale_half": 1, "projection": 1}}
    metrics = world.majority_metrics(sizes)
    early = (metrics.step < 2400) | (metrics.variant == "quarter")
    figure = world.draw("dose_response", majority_metrics=metrics.assign(test_loss=np.where(early, 0.6, 0.4)))
    begins, majority = ([line for line in axes.lines if line.get_marker() != "None"] for axes in figure.axes)
    found = onsets(world.language_model_attention().query("model == 'gpt_paper_rate'"))
    families = {"layernorm": "layernorm layernorm_shrunk quarter", "shrunk_qk": "shrunk_qk"}
    families |= {"projection": "projection projection_grown"}
    for kind, variants in families.items():
        runs = found[found.variant.isin(variants.split())]
        there, never = (line for line in begins if line.get_label() == DOSES[kind]["label"])
        assert never.get_markerfacecolor() == "none" != there.get_markerfacecolor()
        points = runs.dropna()[["input_rms", "onset"]].to_numpy().tolist()
        assert sorted(there.get_xydata().tolist()) == sorted(points)
        assert sorted(never.get_xdata()) == sorted(runs.input_rms[runs.onset.isna()])
        assert all(400 < y < figure.axes[0].get_ylim()[1] for y in never.get_ydata())
    assert sum(len(line.get_xdata()) for line in begins) == len(found)
    heights = [{*line.get_ydata()} for line in majority if line.get_markerfacecolor() == "none"]
    assert sorted(map(len, heights)) == [0, 2], "two runs of one size"
    assert [text.get_text() for text in figure.axes[0].texts] == ["not by step 400"]
    assert figure.axes[0].get_xlabel().endswith("at step 40"), "a tenth of the training"
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"gpt_paper_rate, {len(found)} runs", "majority task, 7 runs"]
    other = metrics.assign(experiment="d3")
    assert len(world.draw("dose_response", majority_metrics=other).axes) == 1, "no sizes, no panel"
    points = [(line.get_label(), *point) for line in majority for point in line.get_xydata().tolist()]
    places = [(label, round(x, 2), y > 6000) for label, x, y in points]
    normed, scaled = (DOSES[kind]["label"] for kind in ("layernorm", "scale"))
    expected = [(normed, 0.95, False), (normed, 0.24, True)] * 2
    assert sorted(places) == sorted(expected + [(scaled, x, False) for x in (0.13, 0.13, 0.53)])
