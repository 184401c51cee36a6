"""What figures of the language models draw beside means: marks, reference lines, heads by width, and step size."""

import numpy as np
import pytest
import random_world as world
from matplotlib.legend import Legend
from reading import bars, curve, labels, name, named
from recomputed_tables import RECOMPUTED

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.figures.language_model import COMPARED, GAP
from layernorm_roles.evidence.legends import label
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.variants import BUILT_IN

FIGURE_4 = pytest.mark.parametrize(
    ("figure", "column"), [("figure_4a", "train_loss"), ("figure_4b", "valid_loss")]
)


def short(name, **changed):
    """Figure 4 where the paper's rate was not run."""
    table = changed.get("language_model_metrics", world.TABLES["language_model_metrics"])
    return world.draw(name, language_model_metrics=table[table.model != "gpt_paper_rate"])


@FIGURE_4
def test_figure_4_is_of_the_runs_nearest_the_paper_and_shows_its_gap_where_it_belongs(figure, column):
    ends = reported()["language_model"]
    gap = ends["projection"][column] - ends["layernorm"][column]
    losses, gaps = short(figure).axes
    (level,) = named(gaps, "paper’s difference")
    assert [*level.get_ydata()] == pytest.approx([gap] * 2) and GAP["label"] not in labels(gaps.figure)
    assert losses.get_title() == "GPT, d = 8, learning rate .01"
    assert {"LayerNorm, 3 seeds", "single run, where fewer than 5 seeds"} <= {*labels(losses.figure)}
    unigram = [line.get_ydata()[0] for line in losses.lines if len(set(line.get_ydata())) == 1]
    table = world.language_model_metrics().query("model == 'gpt' and step > 0")
    assert unigram == pytest.approx([table.unigram_loss.mean()] if column == "valid_loss" else [])
    table = world.language_model_metrics()
    table["step"] *= np.where(table.model == "gpt_paper_rate", 125, 1)  # 400 steps become 50,000
    gaps = world.draw(figure, language_model_metrics=table).axes[1]
    (diamond,) = named(gaps, "paper, projection only")
    np.testing.assert_allclose(diamond.get_xydata(), [[50_000, gap]])
    assert diamond.get_markeredgecolor() == BUILT_IN["projection"].colour
    assert not [text for text in labels(gaps.figure) if "QK" in text], "some variants alone"


def test_losses_of_bytes_are_in_nats_per_byte():
    axes = world.drawn("language_model_losses").axes
    assert [each.get_ylabel().split()[-1] for each in axes] == ["byte)", "byte)", "token)", "token)"]
    titles = [each.get_title() for each in axes[::2]]
    assert titles == ["byte-level GPT, d = 64, learning rate .01", "BERT, d = 8, learning rate .01"]
    assert not [line for line in axes[1].lines if line.get_marker() == "D"], "the paper has no such model"


@pytest.mark.parametrize("column", ["train_loss", "valid_loss"])
def test_at_the_paper_s_rate_differences_have_the_paper_s_and_their_intervals_beside_their_ends(column):
    panels = world.drawn("figure_4_paper_rate").axes
    axes, titles = panels[column == "valid_loss"], ["training", "validation", "effect", "spread"]
    assert [each.get_title().split()[0] for each in panels] == titles
    assert panels[0].get_ylim() == panels[1].get_ylim(), "one axis"
    ends, colour = reported()["language_model"], BUILT_IN["projection"].colour
    (diamond,) = named(axes, "paper, projection only")
    assert diamond.get_ydata()[0] == pytest.approx(ends["projection"][column] - ends["layernorm"][column])
    runs = world.language_model_metrics().query("model == 'gpt_paper_rate' and step == 400")
    runs = runs.pivot(index="seed", columns="variant", values=column)
    _, *interval = Estimate.of((runs.projection - runs.layernorm).dropna())
    np.testing.assert_allclose(bars(axes, colour), [interval])
    assert 400 < diamond.get_xdata()[0] < axes.get_xlim()[1]


def test_at_the_paper_s_rate_lines_are_named_in_their_colours_in_the_order_of_their_ends():
    axes = world.drawn("figure_4_paper_rate").axes[3]
    shown = "model == 'gpt_paper_rate' and step == 400 and layer > 0"
    ends = world.language_model_attention().query(shown).groupby("variant").score_deviation.mean()
    ends = ends[[name for name in ends.index if name in COMPARED]].sort_values()
    texts = sorted(axes.texts, key=lambda text: text.xy[1])
    assert [text.get_text().partition(",")[0] for text in texts] == [label(name) for name in ends.index]
    assert [text.get_color() for text in texts] == [BUILT_IN[name].colour for name in ends.index]


@pytest.mark.parametrize(("away", "words"), [(100, "no attention +"), (-100, "no attention −")])
def test_the_axis_of_differences_is_that_of_the_second_half_and_names_what_is_beyond(away, words):
    table = world.language_model_metrics()
    gpt = table.model == "gpt"
    wild = gpt & (table.step == 100) & (table.variant == "projection")
    table.loc[wild & (table.seed == 0), "valid_loss"] += 30
    bare = gpt & (table.variant == "no_attention") & (table.step > 100)
    table.loc[bare, "valid_loss"] += away
    table.loc[gpt & (table.step == 200) & (table.variant == "projection"), "valid_loss"] += 3
    _, gaps = short("figure_4b", language_model_metrics=table).axes
    low, high = gaps.get_ylim()
    gap = max(y for x, y in curve(gaps, name("projection")).get_xydata() if x == 200)
    assert -6 < low < 0 < gap < high < 6, "half of the training belongs to its second half"
    (text,) = gaps.texts
    assert text.get_text().startswith(words) and text.get_text().endswith("↑" if away > 0 else "↓")
    assert 98 < float(text.get_text().split()[2][1:]) < 102
    table.loc[bare, "valid_loss"] += 6 - away
    _, gaps = short("figure_4b", language_model_metrics=table).axes
    assert gaps.get_ylim()[1] > 7 and not gaps.texts, "within two and a half times what the others need"
    bare = table[(table.model != "bert") | (table.variant == "none")]
    assert not world.draw("language_model_losses", language_model_metrics=bare).axes[3].axison
    alone = table[(table.model != "wide") | (table.variant == "layernorm")]
    first, _ = world.draw("language_model_losses", language_model_metrics=alone).axes
    assert first.get_title().startswith("BERT"), "a model with LayerNorm alone has nothing beside it"


# Heads


def test_panels_of_heads_name_their_site_and_have_the_line_of_gaussian_keys():
    sites = {"attention input": (1, False), "heads, among all keys": (4, False)}
    sites["heads, among earlier keys"] = (4, True)
    for d_model, row in zip((8, 64), np.array(world.drawn("figure_heads").axes).reshape(2, 3), strict=True):
        assert row[0].get_ylabel().startswith("GPT, d = 8" if d_model == 8 else "byte-level GPT, d = 64")
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


def test_a_model_with_hardly_an_unselectable_key_is_a_sentence():
    table = world.key_selectability()
    few = table.n_unselectable.mask(table.model == "wide", table.n_keys // 100)
    figure = world.draw("figure_heads", key_selectability=table.assign(n_unselectable=few))
    assert len(figure.axes) == 3
    (note,) = [legend.get_title().get_text() for legend in figure.findobj(Legend)]
    assert note == "not drawn, at most 1 % everywhere: byte-level GPT, d = 64, learning rate .01"
    both = world.draw("figure_heads", key_selectability=table.assign(n_unselectable=0))
    assert len(both.axes) == 6, "of nothing else, they are drawn"


@pytest.mark.parametrize("causal", [False, True])
def test_by_width_points_are_layers_and_lines_gaussian_keys(causal):
    axes = world.drawn("heads_by_width").axes[int(causal)]
    assert axes.get_title().endswith("earlier keys only" if causal else "all keys of the context")
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
    assert ("output of the norm" in axes.get_title()) == (queries == "norm")
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
    assert [text for text in labels(axes.figure) if "the same" in text] == ["the same of 60 keys"]


# Step size


def test_cells_are_at_their_sizes_and_products_with_their_losses():
    left, right = world.drawn("step_size").axes[:2]
    runs = world.language_model_metrics().query("model.str.startswith('step_size_bytes') and step == 400")
    sizes = runs.variant.map({"layernorm": 1.0, "qk_100": 0.1, "shrunk_qk": 1 / world.SMALL})
    cells = runs.groupby([sizes, runs.query_key_rate]).valid_loss
    for rate, words in ((world.SMALL, "30"), (10, "10"), (1, "1"), (1 / world.SMALL, "0.03")):
        own = cells.mean().xs(rate, level=1)
        (line,) = named(left, words)
        np.testing.assert_allclose(line.get_xydata(), np.c_[own.index, own])
        colour = line.get_color()
        (points,) = [line for line in right.lines if line.get_color() == colour]
        np.testing.assert_allclose(points.get_xdata(), own.index * rate, rtol=0.2)
        np.testing.assert_allclose(points.get_ydata(), own)
        assert points.get_linestyle() == "None"
    assert left.get_ylim() == right.get_ylim() and left.get_ylabel().endswith("(nats per byte)")
    middles = [
        np.mean(each.get_segments()[0][:, 1]) for each in left.collections if len(each.get_segments()) == 1
    ]
    assert set(np.round(middles, 9)) <= set(np.round(cells.mean(), 9))


@pytest.mark.parametrize(
    ("place", "start", "small"), [(2, "bytes", "shrunk_qk"), (3, "paper", "layernorm_shrunk")]
)
def test_arms_have_the_loss_increase_of_their_runs(place, start, small):
    axes = world.drawn("step_size").axes[place]
    arms = {"LayerNorm": ("layernorm", 1), "LayerNorm, rate": ("layernorm", 1 / world.SMALL)}
    arms |= {"LayerNorm × 0.028": (small, 1), "LayerNorm × 0.028, rate": (small, world.SMALL)}
    table = world.language_model_attention().query(
        f"model.str.startswith('step_size_{start}') and layer.isna()"
    )
    for words, (variant, rate) in arms.items():
        own = table[(table.variant == variant) & np.isclose(table.query_key_rate, rate)]
        means = own.groupby("step").zero_scores_worth.mean()
        (line,) = [line for line in named(axes, words) if line.get_linewidth() > 1]
        np.testing.assert_allclose(line.get_xydata(), np.c_[means.index, means])
    assert f"nats per {'byte' if start == 'bytes' else 'token'}" in axes.get_ylabel()


def test_without_attention_by_step_or_other_rates_there_are_cells_alone():
    table = world.language_model_attention()
    law = table[table.model == "step_size_bytes_law"]
    assert len(world.draw("step_size", language_model_attention=law).axes) == 2
