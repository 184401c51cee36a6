"""Readable tables of worlds whose numbers are known: every number of the CSV, and what readers see."""

import inspect
import itertools
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

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
    numbers = itertools.count(101, step=7)
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
    return frame.assign(head=frame["head"].astype("Int64"))


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
    for row in frame.itertuples():
        known = known_share(keys, row.variant, row.site, row.checkpoint, row.layer)
        assert [row.percent, row.low, row.high] == pytest.approx(known, rel=1e-12)
        assert (row.seeds, row.contexts) == (2, 2)
        assert row.borderline_percent == pytest.approx(100 * row.layer / N_KEYS)
    assert frame.percent.nunique() == len(frame), "no two shares of this world are equal"


def test_table_1_has_the_weights_before_training_and_after_and_the_papers_by_layer():
    keys = world_of_keys()
    title, main, _, exact, _ = made("table_1", key_selectability=keys).parts
    assert "100000 to 100000 tokens" in title
    assert [column.name for column in main.columns] == [
        "norm",
        "weights",
        "seeds",
        *(f"layer {i}" for i in (1, 2, 3, 4)),
    ]
    assert [column.right for column in main.columns] == [False, False, *[True] * 5]
    rest = ["–", "–"]
    assert main.rows == [
        ["LayerNorm", "initial", "2", *cells(keys, "layernorm", "after_norm", "initial"), *rest],
        ["LayerNorm", "final", "2", *cells(keys, "layernorm", "after_norm", "final"), *rest],
        ["LayerNorm", "paper, trained", "–", "0", "0", "0", "0"],
        ["projection only", "initial", "2", *cells(keys, "projection", "after_norm", "initial"), *rest],
        ["projection only", "final", "2", *cells(keys, "projection", "after_norm", "final"), *rest],
        ["projection only", "paper, trained", "–", "51.0", "32.2", "34.7", "36.8"],
    ]
    assert exact.rows[1] == [
        "LayerNorm",
        "final",
        "2",
        *cells(keys, "layernorm", "after_norm_exact", "final"),
    ]


def test_table_2_is_of_the_model_with_layernorm_before_it_and_after():
    keys = world_of_keys()
    _, grid, _ = made("table_2", key_selectability=keys).parts
    assert [row[:2] for row in grid.rows] == [
        [name, weights]
        for name in ("before LayerNorm", "after LayerNorm")
        for weights in ("initial", "final", "paper, trained")
    ]
    assert grid.rows[1][3:5] == cells(keys, "layernorm", "before_norm", "final")
    assert grid.rows[2][3:] == ["44.8", "28.5", "22.3", "26.1"]


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
    assert grid.rows[4][:3] == ["after LayerNorm", "final", "1"]
    assert grid.rows[4][4] == "0"


@pytest.mark.parametrize("name", ["table_1", "table_2", "table_4"])
def test_a_reproduction_without_the_model_says_so(name):
    readable = made(name, key_selectability=world_of_keys(model="other"))
    assert readable.frame.empty and "This reproduction has no such model." in readable.parts


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.004, "0.004"), (0.05, "0.1"), (12.34, "12.3"), (100, "100.0")]
)
def test_only_a_share_of_zero_looks_like_none(value, shown):
    assert _percent(value) == shown


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
        "projection only",
        "final",
        "2",
        *cells(keys, "projection", "after_norm", "final"),
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


def world_of_losses() -> pd.DataFrame:
    """Losses that fall in a straight line from 2, so that they reach 1 and 0.5 at half and three quarters of it.

    With LayerNorm they reach 0 at 1,000 and 2,000 steps. With scale seed 0 needs three times as long, and seed 1
    twice as long but stops at 0.8. A second experiment has one variant of its own alone.
    """
    runs = [
        ("e1", "scale", 0, [0, 3000], [2, 0]),
        ("e1", "scale", 1, [0, 2400], [2, 0.8]),
        ("e1", "layernorm", 0, [0, 1000], [2, 0]),
        ("e1", "layernorm", 1, [0, 2000], [2, 0]),
        ("e2", "own", 0, [0, 400], [2, 0]),
    ]
    rows = [
        (experiment, variant, seed, step, 0.0, loss, 0.0, 0.0, 0.0, 0.0)
        for experiment, variant, seed, steps, losses in runs
        for step, loss in zip(steps, losses, strict=True)
    ]
    return pd.DataFrame(rows, columns=SCHEMAS["majority_metrics"].names[:10])


def test_convergence_counts_steps_and_pairs_runs_of_equal_seeds_in_every_experiment():
    readable = made("convergence", majority_metrics=world_of_losses())
    frame = readable.frame.set_index(["experiment", "variant", "test_loss"])
    assert [key[:2] for key in frame.index[::4]] == [("e1", "layernorm"), ("e1", "scale"), ("e2", "own")]
    assert list(frame.index.get_level_values("test_loss")[:4]) == [1.0, 0.5, 0.35, 0.25]

    one = frame.loc[("e1", "scale", 1.0)]
    assert one[["runs", "reached", "median_steps", "pairs"]].tolist() == [2, 2, (1500 + 2000) / 2, 2]
    assert one[["ratio_to_layernorm", "ratio_low", "ratio_high"]].tolist() == pytest.approx([6**0.5, 2, 3])
    half = frame.loc[("e1", "scale", 0.5)]
    assert half[["reached", "median_steps", "pairs", "ratio_to_layernorm"]].tolist() == pytest.approx(
        [1, 2250, 1, 3]
    )
    assert np.isnan(half.ratio_low) and np.isnan(half.ratio_high)
    own = frame.loc[("e2", "own", 1.0)]
    assert own[["reached", "median_steps", "pairs"]].tolist() == [1, 200, 0] and np.isnan(
        own.ratio_to_layernorm
    )

    rows = readable.parts[0].rows
    assert rows[4] == ["e1", "scaling only", "1", "2 of 2", "1,750", "2.45 [2.00, 3.00]", "2"]
    assert rows[5] == ["e1", "scaling only", "0.5", "1 of 2", "2,250", "3.00", "1"]
    assert rows[8] == ["e2", "own", "1", "1 of 1", "200", "–", "0"]


def test_the_steps_of_every_run_are_interpolated_or_missing():
    readable = made("convergence_runs", majority_metrics=world_of_losses())
    steps = readable.frame.set_index(["experiment", "variant", "seed", "test_loss"]).steps
    assert steps["e1", "scale", 0].tolist() == pytest.approx([1500, 2250, 2475, 2625])
    assert steps["e1", "scale", 1, 1.0] == pytest.approx(2000) and np.isnan(steps["e1", "scale", 1, 0.5])
    assert readable.parts == []


# Statements, worked numbers, durations


def test_statements_are_the_claims_of_other_sources_with_units():
    unit = next(claim.unit for claim in CLAIMS if claim.name == "fusion_residual")
    rows = [
        ("faster", "Brody, Alon and Yahav 2023, Figure 2a", "theirs", 1.0, 0.5, 1.5, "reproduced", "-"),
        ("fusion_residual", "question on W_O", "W_O isn't needed", 0.5, 0.25, 0.75, "holds", "because - 1"),
        ("placement", "notes", "a | b", np.nan, np.nan, np.nan, "not tested", "no runs"),
    ]
    names = ["claim", "source", "statement", "measured", "ci_low", "ci_high", "verdict", "reason"]
    claims = pd.DataFrame(rows, columns=names)
    readable = made("statements", claims=claims)
    assert readable.frame.statement.tolist() == ["W_O isn't needed", "a | b"]
    assert readable.frame.ci_high.tolist()[:1] == [0.75]
    assert readable.parts[0].rows == [
        [
            "question on W_O",
            "W_O isn’t needed",
            "holds",
            f"0.500{unit}".replace(" %", "\u00a0%"),
            "[0.250, 0.750]",
            "because\u00a0−\u00a01",
        ],
        ["notes", "a | b", "not tested", "–", "–", "no runs"],
    ]


def test_worked_numbers_are_shown_as_stated_and_as_recomputed():
    rows = [
        ("softmax", 7, "weight", "0.25", 0.123456, np.nan, 0.005, "right"),
        ("sum", 9, "all", "-1", -1.0, 2.0, 0.5, "follows"),
    ]
    readable = made(
        "worked_numbers", worked_numbers=pd.DataFrame(rows, columns=SCHEMAS["worked_numbers"].names)
    )
    assert "tolerance" not in readable.frame and readable.frame.recomputed.tolist() == [0.123456, -1.0]
    assert readable.parts[0].rows == [
        ["softmax", "7", "weight", "0.25", "0.1235", "–", "right"],
        ["sum", "9", "all", "-1", "−1", "2", "follows"],
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
        metrics.reindex(columns=SCHEMAS["majority_metrics"].names, fill_value=0.0),
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
        (tmp_path / "tables/convergence.md").read_text(encoding="utf-8").startswith("| experiment | norm |")
    )


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
        made(
            "table_3", key_selectability=world_of_keys(texts="sentences"), sentence_tokens=world_of_tokens()
        ),
    )
    for part in (part for table in tables for part in table.parts if isinstance(part, Grid)):
        assert all(isinstance(column, Column) for column in part.columns)
        assert {len(row) for row in part.rows} == {len(part.columns)}
