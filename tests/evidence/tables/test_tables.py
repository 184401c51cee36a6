"""Readable tables of worlds whose numbers are known: every number of the CSV, and what readers see."""

import inspect
import itertools
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import worlds

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.tables import output, registry
from layernorm_roles.evidence.tables.language_model import _percent
from layernorm_roles.evidence.tables.structure import Column, Grid, Sentences, Span
from layernorm_roles.schemas import SCHEMAS

VARIANTS, SEEDS, LAYERS, CONTEXTS, HEADS = ("projection", "layernorm"), (0, 1), (1, 2), (0, 1), (0, 1, 2)
CHECKPOINTS = ("final", "initial")
N_KEYS = 100_000
STUDENT = math.tan(0.475 * math.pi)
"""The 97.5 % quantile of Student’s distribution with one degree of freedom (Cauchy’s), for means of two values."""


def made(name: str, **frames: pd.DataFrame):
    return registry.make(registry.TABLES[name], frames)


# Keys of language models


def world_of_keys(model: str = "gpt", texts: str = "long", variants=VARIANTS) -> pd.DataFrame:
    """Each run, context, layer, site and head has its own number of unselectable keys."""
    numbers = itertools.count(101, step=401)
    rows = []
    for variant, seed, checkpoint, context, layer in itertools.product(
        variants, SEEDS, CHECKPOINTS, CONTEXTS, LAYERS
    ):
        for site in ("before_norm", "after_norm", "after_norm_exact", "head"):
            for head in HEADS if site == "head" else (None,):
                number = next(numbers)
                rows.append(
                    (
                        model,
                        variant,
                        seed,
                        checkpoint,
                        texts,
                        context,
                        layer,
                        site,
                        head,
                        N_KEYS,
                        number,
                        layer,
                    )
                )
    frame = pd.DataFrame(rows, columns=[*SCHEMAS["key_selectability"].names[:9], *COUNTS])
    return frame.assign(head=frame["head"].astype("Int64"), causal=False, dimensions=2)


COUNTS = ("n_keys", "n_unselectable", "n_borderline")


def known_share(keys: pd.DataFrame, variant: str, site: str, checkpoint: str, layer: int) -> list[float]:
    """Per cent and interval, written out for two seeds and two contexts."""
    share = {
        (row.seed, row.context): 100 * row.n_unselectable / N_KEYS
        for row in keys.itertuples()
        if (row.variant, row.site, row.checkpoint, row.layer) == (variant, site, checkpoint, layer)
    }
    a, b, c, d = (share[key] for key in ((0, 0), (0, 1), (1, 0), (1, 1)))
    mean = (a + b + c + d) / 4
    # Half the width of Student's interval for two values is the quantile times half their difference.
    half = STUDENT * math.hypot((c + d) / 2 - (a + b) / 2, (b + d) / 2 - (a + c) / 2) / 2
    return [mean, mean - half, mean + half]


def cells(keys: pd.DataFrame, variant: str, site: str, checkpoint: str) -> list[str]:
    shown = []
    for layer in LAYERS:
        mean, low, high = known_share(keys, variant, site, checkpoint, layer)
        shown.append(f"{_percent(mean)} [{_percent(max(low, 0))}, {_percent(min(high, 100))}]")
    return shown


UNDECIDED = _percent(100 * np.mean(LAYERS) / N_KEYS)
"""What the last column of each row shows."""


@pytest.mark.parametrize(
    ("table", "model", "sites", "variants"),
    [
        ("table_1", "gpt", ["after_norm", "after_norm_exact"], ["layernorm", "projection"]),
        ("table_2", "gpt", ["before_norm", "after_norm"], ["layernorm"]),
        ("table_4", "bert", ["after_norm"], ["layernorm", "projection"]),
    ],
)
def test_every_share_is_the_mean_over_seeds_and_contexts_with_the_interval_over_both(
    table, model, sites, variants
):
    keys = world_of_keys(model)
    frame = made(table, key_selectability=keys).frame
    assert len(frame) == len(variants) * len(sites) * len(CHECKPOINTS) * len(LAYERS)
    assert list(dict.fromkeys(frame.variant)) == variants
    assert list(dict.fromkeys(frame.site)) == sites
    for row in frame.itertuples():
        known = known_share(keys, row.variant, row.site, row.checkpoint, row.layer)
        assert [row.percent, row.low, row.high] == pytest.approx(known, rel=1e-12)
        assert (row.seeds, row.contexts) == (2, 2)
        assert row.borderline_percent == pytest.approx(100 * row.layer / N_KEYS)
    assert frame.percent.nunique() == len(frame), "no two shares of this world are equal"


def test_table_1_has_the_weights_before_training_and_after_and_the_papers_by_layer():
    keys = world_of_keys()
    title, main, _, exact, _ = made("table_1", key_selectability=keys).parts
    assert title.startswith("gpt: ") and "Contexts of 100000 tokens." in title
    assert [column.name for column in main.columns] == [
        "norm",
        "weights",
        "seeds",
        *(f"layer {i}" for i in (1, 2, 3, 4)),
        "undecided",
    ]
    assert [column.right for column in main.columns] == [False, False, *[True] * 6]
    rest = ["–", "–", UNDECIDED]
    assert main.rows == [
        ["LayerNorm", "untrained", "2", *cells(keys, "layernorm", "after_norm", "initial"), *rest],
        ["LayerNorm", "trained", "2", *cells(keys, "layernorm", "after_norm", "final"), *rest],
        ["LayerNorm", "paper, trained", "–", "0", "0", "0", "0", "–"],
        ["projection only", "untrained", "2", *cells(keys, "projection", "after_norm", "initial"), *rest],
        ["projection only", "trained", "2", *cells(keys, "projection", "after_norm", "final"), *rest],
        ["projection only", "paper, trained", "–", "51.0", "32.2", "34.7", "36.8", "–"],
    ]
    assert exact.rows[1] == [
        "LayerNorm",
        "trained",
        "2",
        *cells(keys, "layernorm", "after_norm_exact", "final"),
        UNDECIDED,
    ]


def test_table_2_is_of_the_model_with_layernorm_before_it_and_after():
    keys = world_of_keys()
    _, grid, _ = made("table_2", key_selectability=keys).parts
    assert [row[:2] for row in grid.rows] == [
        [name, weights]
        for name in ("before LayerNorm", "after LayerNorm")
        for weights in ("untrained", "trained", "paper, trained")
    ]
    assert grid.rows[1][3:5] == cells(keys, "layernorm", "before_norm", "final")
    assert grid.rows[2][3:] == ["44.8", "28.5", "22.3", "26.1", "–"]


def test_the_paper_stands_beside_the_model_of_its_size_alone():
    """Two models of the same keys: the paper's numbers are of the first."""
    keys = pd.concat([world_of_keys(), world_of_keys().assign(model="gpt_bytes")])
    for table in ("table_1", "table_2"):
        grids = [part for part in made(table, key_selectability=keys).parts if hasattr(part, "rows")]
        rows = [[row[1] for row in grid.rows].count("paper, trained") for grid in grids]
        assert sum(rows) == rows[0] == 2


@pytest.mark.parametrize("table", ["table_1", "table_2"])
def test_every_gpt_has_a_grid_of_its_own_and_bert_none(table):
    gpt, wide = world_of_keys(), world_of_keys(model="gpt_bytes")
    wide["n_unselectable"] += 1000
    bert = world_of_keys(model="bert", texts="sentences")
    both = made(table, key_selectability=pd.concat([gpt, wide, bert])).parts
    alone = [made(table, key_selectability=keys).parts[:-1] for keys in (gpt, wide)]
    assert both[:-1] == [part for parts in alone for part in parts]
    assert alone[0] != alone[1]


def test_verdicts_among_the_keys_before_a_key_stay_out_of_the_tables():
    keys = world_of_keys()
    causal = keys[keys.site == "head"].assign(causal=True, n_unselectable=1)
    for table in ("table_1", "table_2"):
        one, two = (made(table, key_selectability=k) for k in (keys, pd.concat([keys, causal])))
        pd.testing.assert_frame_equal(one.frame, two.frame)


def test_one_seed_has_an_interval_over_contexts_alone_and_no_key_none():
    keys = world_of_keys()
    keys = keys[keys.seed == 0]
    keys.loc[keys.layer == 2, "n_unselectable"] = 0
    frame = made("table_2", key_selectability=keys).frame
    row = frame[(frame.site == "after_norm") & (frame.checkpoint == "final") & (frame.layer == 1)].iloc[0]
    counts = keys[(keys.variant == "layernorm") & (keys.site == "after_norm") & (keys.checkpoint == "final")]
    first, second = 100 * counts[counts.layer == 1].n_unselectable / N_KEYS
    assert row.high - row.percent == pytest.approx(STUDENT * abs(second - first) / 2)
    grid = made("table_2", key_selectability=keys).parts[1]
    assert grid.rows[4][:3] == ["after LayerNorm", "trained", "1"]
    assert grid.rows[4][4] == "0"


@pytest.mark.parametrize("name", ["table_1", "table_2", "table_4", "heads"])
def test_a_reproduction_without_the_model_says_so(name):
    readable = made(name, key_selectability=world_of_keys().iloc[:0])
    assert readable.frame.empty and "This reproduction has no such model." in readable.parts


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.004, "0.004"), (0.05, "0.1"), (12.34, "12.3"), (100, "100.0")]
)
def test_only_a_share_of_zero_looks_like_none(value, shown):
    assert _percent(value) == shown


def test_heads_are_shown_among_all_keys_and_among_those_before_them():
    keys = world_of_keys()
    causal = keys[keys.site == "head"].assign(
        causal=True, n_unselectable=lambda table: table.n_unselectable // 2
    )
    bert = world_of_keys(model="bert", texts="sentences")
    readable = made("heads", key_selectability=pd.concat([keys, causal, bert]))
    whole, before = readable.parts[1], readable.parts[3]
    assert "gpt (d_head = 2)" in readable.parts[0] and "keys before them" in readable.parts[2]
    frame = readable.frame.set_index(["causal", "variant", "checkpoint", "layer"]).percent
    for among, part in ((False, keys), (True, causal)):
        chosen = part[(part.site == "head") & (part.variant == "layernorm") & (part.checkpoint == "final")]
        share = 100 * chosen[chosen.layer == 2].n_unselectable.mean() / N_KEYS
        assert frame[among, "layernorm", "final", 2] == pytest.approx(share)
    assert [row[:3] for row in whole.rows] == [row[:3] for row in before.rows]
    assert whole.rows[0][3] != before.rows[0][3] and len(whole.rows) == 4


# Losses beside baselines, and the pilot


def test_baselines_are_differences_of_equal_seeds():
    metrics = worlds.losses(0.05, worth=0.4, spread=0.0, seeds=2)
    metrics = metrics[(metrics.variant != "projection") | (metrics.seed == 0)]
    metrics = pd.concat([metrics, worlds.losses(0.0, model="gpt_bytes").query("variant == 'layernorm'")])
    metrics["train_loss"] -= 3.0
    frame = made("baselines", language_model_metrics=metrics).frame.set_index(["model", "variant"])
    row, losses = frame.loc["gpt", "layernorm"], metrics[(metrics.model == "gpt") & (metrics.step == 1000)]
    values = losses[losses.variant == "layernorm"].valid_loss.to_numpy()
    half = STUDENT * abs(values[0] - values[1]) / 2
    assert [row.valid_loss, row.valid_loss_low] == pytest.approx([values.mean(), values.mean() - half])
    gain = 9 - values.mean()
    assert [row.gain_over_unigram, row.gain_over_unigram_high] == pytest.approx([gain, gain + half])
    for end in ("", "_low", "_high"):  # equal seeds: the difference does not vary, though the losses do
        assert row["worth_of_attention" + end] == pytest.approx(0.4)
    assert row.no_attention_loss == pytest.approx(values.mean() + 0.4)
    one = frame.loc["gpt", "projection"]
    assert one.seeds == 1 and np.isnan(one.valid_loss_low) and one.worth_of_attention == pytest.approx(0.35)
    assert np.isnan(frame.loc["gpt_bytes", "layernorm"].worth_of_attention)
    assert np.isnan(frame.loc["gpt", "no_attention"].worth_of_attention)


def test_baselines_show_what_is_missing_as_missing():
    metrics = worlds.losses(0.05).query("variant in ['layernorm', 'projection']").assign(unigram_loss=np.nan)
    readable = made("baselines", language_model_metrics=metrics)
    for row in readable.parts[0].rows:
        assert row[:2] in (["gpt", "LayerNorm"], ["gpt", "projection only"]) and row[4:] == ["–"] * 4


def test_the_pilot_has_a_row_for_each_setting_the_one_whose_attention_is_worth_most_first():
    readable = made("pilot")
    frame = readable.frame
    worth = frame.worth_of_attention.dropna()
    assert len(worth) and worth.is_monotonic_decreasing
    np.testing.assert_allclose(frame.worth_of_attention, frame.no_attention_loss - frame.valid_loss)
    assert not frame.duplicated([*frame.columns[: list(frame.columns).index("seeds")]]).any()
    assert len(readable.parts[0].rows) == len(frame)


# Sentences


def world_of_tokens() -> pd.DataFrame:
    """A long and a short sentence; " al" is unselectable more often than "al", "w" and the halves of a character."""
    sentences = {
        0: [("al", "x"), (" al", "u"), (" |", "s"), ("\ufffd", "s"), ("\ufffd", "u"), ("w", "b")]
        + 12 * [(" al", "u")],
        1: [("w", "s")] + 11 * [("al", "x")],
    }
    rows = []
    for variant, seed, checkpoint, layer in itertools.product(VARIANTS, SEEDS, CHECKPOINTS, LAYERS):
        for context, tokens in sentences.items():
            for position, (token, kind) in enumerate(tokens):
                # "u": unselectable after training; "x": in the second seed only.
                hit = checkpoint == "final" and (kind == "u" or (kind == "x" and seed == 1))
                verdict = "unselectable" if hit else "borderline" if kind == "b" else "selectable"
                rows.append(("gpt", variant, seed, checkpoint, context, layer, position, token, verdict))
    return pd.DataFrame(rows, columns=SCHEMAS["sentence_tokens"].names)


def test_table_3_counts_tokens_of_the_model_without_scaling_and_marks_them_in_sentences():
    keys = world_of_keys(texts="sentences")
    readable = made("table_3", key_selectability=keys, sentence_tokens=world_of_tokens())
    assert readable.frame.to_dict("list") == {
        "token": [" al", "al", "\ufffd", "w", " |"],
        "occurrences": [13 * 4, 12 * 4, 2 * 4, 2 * 4, 4],
        "initial_percent": [0.0, 0.0, 0.0, 0.0, 0.0],
        "final_percent": [100.0, 50.0, 50.0, 0.0, 0.0],
    }
    title, tokens, _, examples, _, shares, _ = readable.parts
    assert "□" in title and "␣" in title
    assert tokens.rows == [["␣al", "52", "0.0", "100.0"], ["al", "48", "0.0", "50.0"]], (
        "the others are too rare"
    )
    assert examples == Sentences(
        [
            [Span("al ", False), Span("al", True), Span(" |", False), Span("□", True), Span("w ", False)]
            + 11 * [Span("al", True), Span(" ", False)]
            + [Span("al", True)]
        ]
    )
    assert shares.rows[1] == [
        "gpt",
        "trained",
        "2",
        *cells(keys, "projection", "after_norm", "final"),
        UNDECIDED,
    ]
    text = output.markdown(readable.parts)
    assert text.count("\n- ") == 1 and "- al **al** \\|<b>□</b>w **al**" in text


def test_table_3_without_an_unselectable_token_and_without_the_model():
    tokens = world_of_tokens().assign(verdict="selectable")
    keys = world_of_keys(texts="sentences")
    parts = made("table_3", key_selectability=keys, sentence_tokens=tokens).parts
    assert any("no sentence has an unselectable token" in part for part in parts if isinstance(part, str))
    none = made("table_3", key_selectability=keys, sentence_tokens=tokens[tokens.variant == "layernorm"])
    assert none.frame.empty and none.parts == ["This reproduction has no such model."]


# The majority experiment


def world_of_losses(d_model: int = 8, rate: float = 0.001) -> pd.DataFrame:
    """Losses that fall in a straight line from 2, so that they reach 1 and 0.5 at half and three quarters of it.

    With LayerNorm they reach 0 at 1,000 and 2,000 steps. With scale seed 0 needs three times as long, and seed 1
    twice as long but stops at 0.8. A second experiment has one variant of its own alone. There is a row at every step,
    and the accuracy at the last is 1 - loss / 10.
    """
    runs = [
        ("e1", "scale", 0, 3000, 0.0),
        ("e1", "scale", 1, 2400, 0.8),
        ("e1", "layernorm", 0, 1000, 0.0),
        ("e1", "layernorm", 1, 2000, 0.0),
        ("e2", "own", 0, 400, 0.0),
    ]
    frames = [
        pd.DataFrame(
            {
                "experiment": experiment,
                "variant": variant,
                "seed": seed,
                "d_model": d_model,
                "base_learning_rate": rate,
                "step": np.arange(steps + 1),
                "test_loss": np.linspace(2, end, steps + 1),
            }
        )
        for experiment, variant, seed, steps, end in runs
    ]
    table = pd.concat(frames, ignore_index=True).assign(test_accuracy=lambda table: 1 - table.test_loss / 10)
    return table.reindex(columns=SCHEMAS["majority_metrics"].names, fill_value=0.0)


def test_convergence_counts_steps_and_pairs_runs_of_equal_seeds_in_every_experiment():
    readable = made("convergence", majority_metrics=world_of_losses())
    frame = readable.frame.set_index(["experiment", "variant", "test_loss"])
    assert [key[:2] for key in frame.index[::4]] == [("e1", "layernorm"), ("e1", "scale"), ("e2", "own")]
    assert list(frame.index.get_level_values("test_loss")[:4]) == [1.0, 0.5, 0.35, 0.25]

    one = frame.loc[("e1", "scale", 1.0)]
    assert one[["runs", "reached", "median_steps", "pairs"]].tolist() == pytest.approx([2, 2, 1750, 2])
    half_width = (
        STUDENT * np.log(3 / 2) / 2
    )  # of the logarithms of 3 and 2, whose standard error is half of this
    ends = [6**0.5, 6**0.5 * np.exp(-half_width), 6**0.5 * np.exp(half_width)]
    assert one[["ratio_to_layernorm", "ratio_low", "ratio_high"]].tolist() == pytest.approx(ends)
    half = frame.loc[
        ("e1", "scale", 0.5)
    ]  # seed 1 ends at step 2,400 without it, where LayerNorm needs 1,500
    bound = (2250 / 750 * 2400 / 1500) ** 0.5
    assert half[["reached", "median_steps", "pairs"]].tolist() == [1, np.inf, 2]
    assert half.ratio_to_layernorm == pytest.approx(bound) and half.ratio_high == np.inf
    own = frame.loc[("e2", "own", 1.0)]
    assert own[["reached", "median_steps", "pairs"]].tolist() == pytest.approx([1, 200, 0])
    assert np.isnan(own.ratio_to_layernorm)

    rows = readable.parts[0].rows
    shown = f"2.45 [{ends[1]:.2f}, {ends[2]:.2f}]"
    assert rows[4] == ["e1", "8", "0.001", "scaling only", "1", "2 of 2", "1,750", shown, "2"]
    assert rows[5] == ["e1", "8", "0.001", "scaling only", "0.5", "1 of 2", "–", f"≥ {bound:.2f}", "2"]
    assert rows[8] == ["e2", "8", "0.001", "own", "1", "1 of 1", "200", "–", "0"]


def test_convergence_shows_experiments_of_one_setting_and_has_the_numbers_of_all():
    several = world_of_losses(rate=0.01).query("experiment == 'e2'")
    readable = made("convergence", majority_metrics=pd.concat([world_of_losses(), several]))
    assert {row[0] for row in readable.parts[0].rows} == {"e1"}
    assert set(readable.frame.base_learning_rate[readable.frame.experiment == "e2"]) == {0.001, 0.01}


def test_the_steps_of_every_run_are_interpolated_or_missing():
    readable = made("convergence_runs", majority_metrics=world_of_losses())
    steps = readable.frame.set_index(["experiment", "variant", "seed", "test_loss"]).steps
    assert steps["e1", "scale", 0].tolist() == pytest.approx([1500, 2250, 2475, 2625])
    assert steps["e1", "scale", 1, 1.0] == pytest.approx(2000) and np.isnan(steps["e1", "scale", 1, 0.5])
    assert readable.parts == []


def world_of_settings(experiment: str, column: str, values: tuple[float, ...], accuracies) -> pd.DataFrame:
    """Two seeds of each variant at each value of a setting: 1 point of accuracy less and more than `accuracies`.

    The test loss falls from 2 to 10 (1 - accuracy), evaluated at steps 0 and 100.
    """
    rows = []
    for i, value in enumerate(values):
        for variant, seed, step in itertools.product(accuracies, SEEDS, (0, 100)):
            accuracy = accuracies[variant][i] + (seed - 0.5) / 50
            setting = {"d_model": 8, "base_learning_rate": 0.001} | {column: value}
            run = {"experiment": experiment, "variant": variant, "seed": seed, "step": step, **setting}
            rows.append(run | {"test_accuracy": accuracy, "test_loss": 10 * (1 - accuracy) if step else 2.0})
    table = pd.DataFrame(rows)
    return table.reindex(columns=SCHEMAS["majority_metrics"].names, fill_value=0.0)


def test_rates_have_accuracy_and_steps_of_every_rate_and_say_for_which_seeds_it_is_best():
    accuracies = {"scale": (0.90, 0.97, 0.96), "layernorm": (0.90, 0.98, 0.96)}
    swept = world_of_settings("rates", "base_learning_rate", (0.001, 0.01, 0.1), accuracies)
    readable = made("rates", majority_metrics=pd.concat([swept, world_of_losses()]))
    assert set(readable.frame.experiment) == {"rates"}
    rows = readable.parts[0].rows
    assert [row[2] for row in rows] == 3 * ["LayerNorm"] + 3 * ["scaling only"]
    assert [row[3] for row in rows[:3]] == ["0.001", "0.01", "0.1"]
    assert [row[4] for row in rows] == ["", "2 of 2", ""] * 2
    half_width = STUDENT * 1  # points: two seeds that are 2 points apart
    assert rows[1][5] == "98.0"  # an interval would take three runs
    second = readable.frame.iloc[1]
    assert 100 * np.array([second.accuracy_low, second.accuracy_high]) == pytest.approx(
        [98 - half_width, 98 + half_width]
    )
    assert [row[6] for row in rows[:3]] == ["1.000", "0.200", "0.400"]
    arrived = [
        101 ** (1.5 / (2 - loss)) - 1 for loss in (0.3, 0.1)
    ]  # straight over the logarithm of 1 + step
    assert rows[1][7].startswith(f"{np.prod(arrived) ** 0.5:.0f} [")
    assert rows[0][7] == "≥ 100"


def test_widths_have_the_cost_against_scaling_only():
    accuracies = {"scale": (0.90, 0.96), "layernorm": (0.70, 0.95), "projected_qk": (0.89, 0.96)}
    several = world_of_settings("widths", "d_model", (3, 16), accuracies)
    readable = made("widths", majority_metrics=pd.concat([several, world_of_losses()]))
    rows = [row[1:2] + row[3:] for row in readable.parts[0].rows]
    assert rows == [
        ["3", "LayerNorm", "70.0", "+20.0 [+20.0, +20.0]", "2"],
        ["3", "LayerNorm for QK, scaling for V", "89.0", "+1.0 [+1.0, +1.0]", "2"],
        ["3", "scaling only", "90.0", "–", "2"],
        ["16", "LayerNorm", "95.0", "+1.0 [+1.0, +1.0]", "2"],
        ["16", "LayerNorm for QK, scaling for V", "96.0", "+0.0 [+0.0, +0.0]", "2"],
        ["16", "scaling only", "96.0", "–", "2"],
    ]


def test_size_and_projection_have_main_effects_and_interaction():
    accuracies = {
        "layernorm": (0.97,),
        "scale": (0.96,),
        "layernorm_small": (0.80,),
        "scale_released": (0.70,),
    }
    readable = made(
        "size_and_projection", majority_metrics=world_of_settings("d8", "d_model", (8,), accuracies)
    )
    steps, accuracy = readable.parts[0].rows
    assert accuracy[:3] == ["d8", "0.001", "test accuracy at step 100 (points)"]
    assert [cell.split()[0] for cell in accuracy[3:]] == ["+21.5", "+5.5", "−9.0", "2"]
    assert steps[2:] == ["steps to test loss 0.5 (×)", "–", "–", "–", "0"]  # the smaller ones do not arrive


@pytest.mark.parametrize("name", ["rates", "widths", "size_and_projection"])
def test_a_reproduction_without_such_an_experiment_says_so(name):
    readable = made(name, majority_metrics=world_of_losses())
    assert readable.frame.empty and readable.parts[0].startswith("No experiment of this reproduction has")


# Statements, worked numbers, durations


def test_claims_are_shown_with_units_controls_and_the_effect_over_the_reported_one():
    names = [field.name for field in SCHEMAS["claims"]]
    rows = [
        {
            "claim": "faster",
            "statement": "It's faster",
            "statistic": "steps",
            "paper_value": "3 times",
            "measured": 2.0,
        }
        | {
            "ci_low": 1.0,
            "ci_high": 4.0,
            "reported": 4.0,
            "control": "scale; another",
            "control_measured": 1.0,
        }
        | {"control_low": 0.5, "control_high": 2.0, "n_seeds": 8, "verdict": "partial"},
        {
            "claim": "fusion_residual",
            "statement": "W_O - 1",
            "statistic": "share",
            "control": "nothing between",
        }
        | {"n_seeds": 1, "verdict": "not tested", "also_passed_by": "untrained models"},
    ]
    readable = made("claims", claims=pd.DataFrame(rows).reindex(columns=names))
    assert readable.parts[0].rows == [
        [
            "faster",
            "It’s faster",
            "steps",
            "2.00× [1.00, 4.00]",
            "3 times",
            "1.00× [0.500, 2.00] (scale)",
            "8",
            "50\u00a0% [0, 100]",  # log 2 / log 4
            "partial",
        ],
        [
            "fusion_residual",
            "W_O\u00a0−\u00a01",
            "share",
            "–",
            "–",
            "nothing between",
            "–",
            "–",
            "not tested; untrained models pass too",
        ],
    ]
    assert readable.frame.claim.tolist() == ["faster", "fusion_residual"]


def test_worked_numbers_are_shown_by_example_and_as_stated_and_recomputed():
    rows = [
        ("sum", 9, "all", "-1", -1.0, 2.0, 0.5, False, "right"),
        ("sum", 10, "part", "3", 5.0, np.nan, 0.5, False, "wrong"),
        ("softmax", 7, "weight", "0.25", 0.123456, np.nan, 0.005, True, "hedged"),
    ]
    readable = made(
        "worked_numbers", worked_numbers=pd.DataFrame(rows, columns=SCHEMAS["worked_numbers"].names)
    )
    assert "tolerance" not in readable.frame and readable.frame.recomputed.tolist() == [-1.0, 5.0, 0.123456]
    assert readable.frame.example_verdict.tolist() == ["wrong", "wrong", "hedged"]
    examples, numbers, _ = readable.parts
    assert [column.name for column in examples.columns[2:]] == [
        "right", "rounding", "hedged", "carried", "wrong", "verdict on the example"
    ]  # fmt: skip
    assert examples.rows == [
        ["softmax", "7", "0", "0", "1", "0", "0", "hedged"],
        ["sum", "9", "1", "0", "0", "0", "1", "wrong"],
    ]
    assert numbers.rows == [
        ["sum", "9", "all", "-1", "−1", "2", "right"],
        ["sum", "10", "part", "3", "5", "–", "wrong"],
        ["softmax", "7", "weight", "0.25", "0.1235", "–", "hedged"],
    ]


def test_durations_end_with_the_time_of_all_rules():
    frame = pd.DataFrame(
        {
            "rule": ["train", "claims"],
            "jobs": [1200, 1],
            "wall_minutes": [150.2, 0.5],
            "largest_memory_mb": [512.3, np.nan],
        }
    )
    readable = registry.make(registry.DURATIONS, {"durations": frame})
    assert readable.frame is frame
    assert readable.parts[0].rows == [
        ["train", "1,200", "2 h 30 min", "512"],
        ["claims", "1", "30.0 s", "–"],
        ["all", "1,201", "2 h 31 min", "–"],
    ]


# Files and registry


def test_files_hold_the_numbers_in_full_precision_and_the_table_to_read(tmp_path):
    metrics = world_of_losses()
    store.write(
        metrics,
        "majority_metrics",
        tmp_path / "m.parquet",
        {},
    )
    tables = [registry.TABLES[name] for name in ("convergence", "convergence_runs")]
    names = [tmp_path / "tables" / file for table in tables for file in registry.files(table)]
    output.write_tables({"majority_metrics": tmp_path / "m.parquet"}, names)
    assert {path.name for path in (tmp_path / "tables").glob("*.*")} >= {
        "convergence.csv",
        "convergence.md",
        "convergence_runs.csv",
    }
    frame = made("convergence", majority_metrics=metrics).frame
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "tables/convergence.csv"), frame)
    assert (
        (tmp_path / "tables/convergence.md")
        .read_text(encoding="utf-8")
        .startswith("| experiment | d | learning rate | norm |")
    )


def test_each_file_holds_the_table_of_its_name(tmp_path):
    keys = world_of_keys().assign(min_margin=1e-3, max_residual=1e-12)
    store.write(keys, "key_selectability", tmp_path / "keys.parquet", {})
    names = ("table_1", "table_2")
    output.write_tables(
        {"key_selectability": tmp_path / "keys.parquet"}, [tmp_path / f"{n}.csv" for n in names]
    )
    for name in names:
        frame = made(name, key_selectability=keys).frame
        assert (tmp_path / f"{name}.csv").read_text(encoding="utf-8") == frame.to_csv(index=False)
    assert (tmp_path / "table_1.csv").read_bytes() != (tmp_path / "table_2.csv").read_bytes()


def test_planning_the_tables_imports_neither_pandas_nor_pyarrow():
    command = (
        "import sys; import layernorm_roles.evidence.tables.registry; "
        "print({'pandas', 'pyarrow', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "table", [*registry.TABLES.values(), registry.DURATIONS], ids=lambda table: table.name
)
def test_every_table_names_its_function_and_tables_of_the_schemas(table):
    module = __import__(f"layernorm_roles.evidence.tables.{table.module}", fromlist=[table.name])
    assert len(inspect.signature(getattr(module, table.name)).parameters) == len(table.inputs)
    assert table is registry.DURATIONS or set(table.inputs) <= set(SCHEMAS)


def test_every_table_that_a_claim_shows_is_in_the_registry():
    assert {name for claim in CLAIMS for name in claim.shown} <= set(registry.TABLES)


def test_grids_are_rectangular():
    tables = (
        made("convergence", majority_metrics=world_of_losses()),
        made("table_1", key_selectability=world_of_keys()),
        made("baselines", language_model_metrics=worlds.losses(0.05)),
        made("pilot"),
        made(
            "table_3", key_selectability=world_of_keys(texts="sentences"), sentence_tokens=world_of_tokens()
        ),
    )
    for part in (part for table in tables for part in table.parts if isinstance(part, Grid)):
        assert all(isinstance(column, Column) for column in part.columns)
        assert {len(row) for row in part.rows} == {len(part.columns)}
