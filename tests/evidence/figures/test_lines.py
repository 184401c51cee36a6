"""Lines and their intervals show the numbers of tables, computed again from the rows that a panel is to show."""

from collections import ChainMap

import numpy as np
import pytest
import random_world as world
from reading import bars, curve, name, stroked
from recomputed_tables import RECOMPUTED

from layernorm_roles.evidence.figures import pretrained, statements, style

MEANS = """
figure_2a | 0 | majority_metrics | experiment == 'd8' | train_loss | step | variant
figure_2b | 0 | majority_metrics | experiment == 'd8' | query_angle_mean | step | variant
figure_3 | 0 | majority_metrics | experiment == 'd8' | test_accuracy | step | variant
figure_4a | 0 | @losses | @rate | train_loss | step | variant
figure_4a | 1 | @losses | @rate | gap in train_loss | step | variant
figure_4b | 0 | @losses | @rate | valid_loss | step | variant
figure_4b | 1 | @losses | @rate | gap in valid_loss | step | variant
language_model_losses | 0 | @losses | model == 'wide' and step > 0 | valid_loss | step | variant
language_model_losses | 1 | @losses | model == 'wide' and step > 0 | gap in valid_loss | step | variant
language_model_losses | 2 | @losses | model == 'bert' and step > 0 | valid_loss | step | variant
language_model_losses | 3 | @losses | model == 'bert' and step > 0 | gap in valid_loss | step | variant
figure_4_paper_rate | 0 | @losses | @rate | gap in train_loss | step | variant
figure_4_paper_rate | 1 | @losses | @rate | gap in valid_loss | step | variant
figure_4_paper_rate | 2 | @looks | @rate and @attends | zero_scores_worth | step | variant
figure_4_paper_rate | 3 | @looks | @rate and @attends | score_deviation | step | variant
pretrained_projection | 0 | ones_share | @stream | log(32 * ones_share) | norm | checkpoint
pretrained_projection | 1 | projection_shift | model == 'minilm' | total_variation | layer | change
statement_geometry | difference from torch | geometry | @at_64 | value | input_norm / 8 | eps_placement, eps
statement_placement | 2 layers | placement | depth == 2 and @end | train_loss | learning_rate | placement
statement_placement | 6 layers | placement | depth == 6 and @end | train_loss | learning_rate | placement
statement_residual | LayerNorm | @gradients | @normed | log(gradient_norm) | depth | placement, residual
statement_residual | no LayerNorm | @gradients | @bare | log(gradient_norm) | depth | placement, residual
statement_residual | untrained | position_probe | @deep == 0 | 100 * @share | layer | placement, residual
statement_residual | trained | position_probe | @deep > 0 | 100 * @share | layer | placement, residual
"""
"""Figure, number or title of its axes, table, rows, values, place on the x axis, columns by which lines differ."""

READABLE = """
majority_by_width | 0 | widths | pairs > 0 | test_accuracy | d_model | variant
majority_by_width | 1 | widths | variant != 'scale' | -cost, -cost_high, -cost_low, pairs | d_model | variant
majority_by_rate | 0 | rates | runs > 0 | test_accuracy, @accuracy, runs | base_learning_rate | variant
majority_by_rate | 1 | rates | reached == runs | steps, steps_low, steps_high, runs | base_learning_rate | variant
figure_heads | 0 | table_1 | model == 'gpt' and @input | percent | layer | variant, checkpoint
figure_heads | 1 | heads | model == 'gpt' and @heads and not causal | percent | layer | variant, checkpoint
figure_heads | 2 | heads | model == 'gpt' and @heads and causal | percent | layer | variant, checkpoint
figure_heads | 3 | table_1 | model == 'wide' and @input | percent | layer | variant, checkpoint
figure_heads | 4 | heads | model == 'wide' and @heads and not causal | percent | layer | variant, checkpoint
figure_heads | 5 | heads | model == 'wide' and @heads and causal | percent | layer | variant, checkpoint
pretrained_ceilings | 0 | ceilings | @norm and threshold == 0.5 | @reached | layer | normalised
pretrained_ceilings | 1 | ceilings | @norm and threshold == 0.1 | @reached | layer | normalised
pretrained_ceilings | 2 | ceilings | @norm and threshold == 0.01 | @reached | layer | normalised
"""
"""Likewise, with a readable table, and after the values the ends of their intervals and the number behind them."""

SHORT = {
    "@losses": "language_model_metrics",
    "@looks": "language_model_attention",
    "@share": "position_accuracy",
    "@gradients": "untrained_gradients",
    "@stream": "model == 'minilm' and dimensions == 32",
    "@rate": "model == 'gpt_paper_rate' and step > 0 and "
    "variant in ('layernorm', 'projection', 'layernorm_shrunk', 'projection_grown', 'no_attention')",
    "@attends": "variant != 'no_attention'",
    "@at_64": "n == 64 and quantity == 'difference_from_torch'",
    "@end": "step >= 36 and train_loss < 9",  # a tenth of 40 steps
    "@normed": "placement != 'none' and 0 < gradient_norm < 1e9",
    "@bare": "placement == 'none' and gradient_norm > 0",
    "@deep": "depth == 3 and step",
    "@input": "site == 'after_norm' and @three",
    "@heads": "site == 'head' and @three",
    "@three": "variant in ('layernorm', 'projection', 'tanh')",
    "@accuracy": "accuracy_low, accuracy_high",
    "@norm ": "model == 'minilm' and queries == 'norm' ",
    "@reached": "100 - percent, 100 - high, 100 - low, contexts",
}
GRID = [
    f"majority_curves_{name} | {place} | majority_metrics | experiment == '{name}' | {values} | step | variant"
    for name in ("d8", "d3", "d8_uniform", "mine", "crossed")
    for place, values in enumerate(("test_loss", "test_accuracy", "query_angle_mean", "1 - attention_share"))
]
LOOKS = {
    "variant": style.each(style.looks_of(["layernorm", "projection", world.OWN]), ls=""),
    "checkpoint": {"initial": {"mfc": "white"}, "final": {}}
    | {"pretrained": pretrained.TRAINED[True], "random": pretrained.TRAINED[False]},
    "change": {"left out": pretrained.TRAINED[True]},
    "normalised": pretrained.LOOKS,
    "placement": statements.PLACES,
    "residual": statements.RESIDUAL,
    "eps_placement": {place: {"color": colour} for place, colour in statements.PLACEMENTS.items()},
    "eps": {1e-5: {"ls": "-"}, 1e-12: {"ls": "--"}},
}
"""What tells the lines for the values of a column apart, but for variants, which the legend names."""
PROJECTED = {
    "layernorm": "projection in Q, K and V (",
    "layernorm_affine": "projection in Q, K and V, gain",
    "projected_qk": "projection in Q and K",
    "projected_v": "projection in V",
    "scale": "no projection",
}


def parts(panel):
    """The axes of a panel, its fields, and the fields by which lines differ."""
    for short, words in SHORT.items():
        panel = panel.replace(short, words)
    figure, place, *fields, hues = panel.split(" | ")
    axes = world.drawn(figure).axes
    axes = axes[int(place)] if place.isdigit() else next(each for each in axes if each.get_title() == place)
    return axes, fields, hues.split(", ")


def line_of(axes, hues, key):
    """The line for a key, which has a value for each of the columns `hues`."""
    if hues == ["variant"]:
        return curve(axes, PROJECTED[key[0]] if "width d" in axes.get_xlabel() else name(*key))
    return stroked(axes, **ChainMap(*(LOOKS[hue][value] for hue, value in zip(hues, key, strict=True))))


@pytest.mark.parametrize("panel", MEANS.strip().splitlines() + GRID, ids=lambda panel: panel[:40])
def test_lines_show_the_means_of_their_rows(panel):
    axes, (table, where, values, by), hues = parts(panel)
    rows = world.TABLES[table].query(where)
    if gap := values.startswith("gap in "):
        values = values.removeprefix("gap in ")
        wide = rows.pivot(index=["step", "seed"], columns="variant", values=values)
        gaps = wide.drop(columns="layernorm").sub(wide.layernorm, axis=0)
        rows = gaps.melt(ignore_index=False, value_name=values).dropna().reset_index()
    for key, part in rows.assign(value=rows.eval(values), x=rows.eval(by)).groupby(hues):
        x, y = line_of(axes, hues, key).get_data()
        assert gap or (max(y) <= axes.get_ylim()[1] and min(y) >= axes.get_ylim()[0]), "cut off"
        # Of several settings of a seed the mean comes first, and a seed without any is left out.
        of_seeds = part.groupby(["x", *{"seed"}.intersection(part)], dropna=False).value.mean().dropna()
        means = of_seeds.groupby("x").mean()
        np.testing.assert_allclose(x, means.index)
        np.testing.assert_allclose(np.log(y) if "log(" in values else y, means, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("panel", READABLE.strip().splitlines(), ids=lambda panel: panel[:40])
def test_lines_show_the_numbers_of_readable_tables_and_intervals_of_at_least_three(panel):
    axes, (table, where, values, by), hues = parts(panel)
    rows = RECOMPUTED[table](world.TABLES).reset_index().query(where)
    for key, part in rows.sort_values(by).groupby(hues):
        line, (value, *ends) = line_of(axes, hues, key), values.split(", ")
        nearest = [min(part[by], key=lambda place: abs(place - x)) for x in line.get_xdata()]
        assert nearest == [*part[by]]  # lines stand beside each other
        np.testing.assert_allclose(line.get_ydata(), part.eval(value))
        if ends:
            low, high, number = (part.eval(end) for end in ends)
            shown = np.column_stack([low, high])[number >= 3]
            np.testing.assert_allclose(bars(axes, line.get_color()), shown.reshape(-1, 2))


def test_bands_of_a_range_reach_from_the_least_value_to_the_largest():
    (axes,) = [axes for axes in world.drawn("statement_placement").axes if axes.get_title() == "2 layers"]
    runs = world.placement().query("placement == 'pre' and depth == 2 and step >= 36")
    band = axes.collections[0].get_paths()[0].vertices
    for rate, losses in runs.groupby(["learning_rate", "seed"]).train_loss.mean().groupby("learning_rate"):
        heights = band[np.isclose(band[:, 0], rate), 1]
        assert [heights.min(), heights.max()] == pytest.approx([losses.min(), losses.max()])
