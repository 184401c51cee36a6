"""Every readable table, computed a second time from the Parquet tables by a few lines that share no code.

`recomputed_tables` has the numbers and `printed_tables` what the Markdown shows of them. They are held against the
files of the kept reproduction, and against what the code makes of tables that are drawn at random.
"""

import ast
import re
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import plain
import pytest
import recomputed_tables
import worlds
from kept import KEPT, TABLES
from printed_tables import EXPECTED, Rounded, bullets, characters, grids, minutes, shows, wrong_cells
from recomputed_tables import RECOMPUTED, sentences

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.tables import output, registry


def test_every_table_is_recomputed():
    assert set(RECOMPUTED) == set(registry.TABLES)
    assert {*EXPECTED, "claims"} == {name for name, table in registry.TABLES.items() if "md" in table.kinds}


def test_the_second_computation_imports_nothing_of_the_first():
    for module in (recomputed_tables, plain):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("layernorm_roles") for name in names), module.__name__


def read_csv(name: str) -> pd.DataFrame:
    """A CSV file of the kept reproduction, in which an empty text is no missing number."""
    path, texts = KEPT / f"tables/{name}.csv", dict.fromkeys(("token", "stated"), str)
    if not path.exists():
        pytest.skip(f"The kept reproduction has no {path.name}")
    missing = {column: "" for column in pd.read_csv(path, nrows=0) if column not in texts}
    return pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=missing)


def read_markdown(name: str) -> str:
    return (KEPT / f"tables/{name}.md").read_text(encoding="utf-8")


def agree(csv: pd.DataFrame, found: pd.DataFrame) -> None:
    """The rows and columns are the recomputed ones, whatever their order."""
    keys = [*found.index.names]
    assert sorted(csv.columns) == sorted({*found.columns, *keys} - {"row"})
    one, other = (
        frame.fillna({"step": -1.0} if "step" in keys else {}).set_index(keys)
        for frame in (csv.reset_index(drop=True).rename_axis("row").reset_index(), found.reset_index())
    )
    assert one.index.is_unique and sorted(one.index) == sorted(other.index)
    one = one.loc[other.index]
    for column in other.columns:
        if pd.api.types.is_numeric_dtype(other[column]):
            values = (frame[column].to_numpy(float) for frame in (one, other))
            np.testing.assert_allclose(*values, rtol=1e-8, atol=1e-12, err_msg=column)
        else:
            assert one[column].fillna("").to_list() == other[column].fillna("").to_list(), column


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_the_published_numbers_are_found_again(name):
    agree(read_csv(name), RECOMPUTED[name](TABLES))


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_published_markdown_says_what_the_csv_file_says(name):
    assert wrong_cells(read_markdown(name), name, read_csv(name), TABLES) == []


def test_the_published_sentences_are_marked_where_their_tokens_are_unselectable():
    assert bullets(read_markdown("table_3")) == [*map(characters, sentences(TABLES))]


def letters(text: str) -> list[str]:
    """The words of a text; signs and spaces are set otherwise in Markdown."""
    return re.findall("[A-Za-z]+", text)


def check_claims(markdown: str, csv: pd.DataFrame) -> None:
    (rows,) = grids(markdown)
    for cells, row in zip(rows, csv.itertuples(), strict=True):
        name, statement, statistic, found, reported, control, runs, effect, verdict = cells
        assert name == row.claim
        assert letters(statement) == letters(row.statement) and letters(statistic) == letters(row.statistic)
        assert shows(found, Rounded(row.measured, row.ci_low, row.ci_high)), row.claim
        assert reported == "–" if pd.isna(row.paper_value) else letters(reported) == letters(row.paper_value)
        first = letters(row.control.partition(";")[0])
        assert letters(control)[-len(first) :] == first
        if pd.notna(row.control_measured):
            assert shows(control, Rounded(row.control_measured, row.control_low, row.control_high)), row.claim
        assert runs == (f"{row.n_seeds:,}" if row.n_seeds > 1 else "–")
        # A ratio, whose sign follows the number, has its logarithm as its effect.
        scale = np.log if re.match(r"[\d.,]+×", found) else np.asarray
        with np.errstate(divide="ignore"):
            numbers = scale(np.array([row.measured, row.ci_low, row.ci_high, row.reported], float))
        whole = numbers[:3] / numbers[3] if numbers[3] else np.full(3, np.nan)
        assert shows(effect, tuple(100 * whole)), row.claim
        assert verdict == row.verdict + (
            "" if pd.isna(row.also_passed_by) else f"; {row.also_passed_by} pass too"
        )


def test_the_published_claims_are_printed_with_their_numbers():
    check_claims(read_markdown("claims"), read_csv("claims"))


def test_the_published_durations_are_printed_and_add_up():
    """Their benchmark files are no part of the kept reproduction."""
    csv, (rows,) = read_csv("durations"), grids(read_markdown("durations"))
    everything = ("all", csv.jobs.sum(), csv.wall_minutes.sum(), np.nan)
    for cells, (rule, jobs, time, memory) in zip(
        rows, [*csv.itertuples(index=False), everything], strict=True
    ):
        shown, half = minutes(cells[2])
        assert (cells[0], cells[1]) == (rule, f"{jobs:,}") and abs(shown - time) <= half * (1 + 1e-9)
        assert shows(cells[3], Rounded(memory, np.nan, np.nan))


@cache
def drawn() -> dict[str, pd.DataFrame]:
    """Tables with a number of its own in each row, runs that diverged, and single seeds."""
    rng = np.random.default_rng(0)
    short = [
        worlds.metrics({"layernorm": 1, "scale": 2}, experiment="short", last=900, seeds=2, d_model=d)
        for d in (3, 8)
    ]
    majority = pd.concat([worlds.majority_task()["majority_metrics"], *short], ignore_index=True)
    run = (
        majority.experiment
        + majority.variant
        + majority.seed.astype(str)
        + majority.base_learning_rate.astype(str)
    )
    majority.loc[(run == "ratesscale00.1") & (majority.step > 2000), "test_loss"] = np.inf
    lost = (run == "rateslayernorm_small10.1") & (majority.step > 3000)
    majority = majority[~lost & ~run.str.match("d3(projected_qk[12]|projected_v[02])")]

    places = product(("layernorm", "projection", "none"), ("initial", "final"), KEY_SITES)
    shares = dict.fromkeys(places, 0.0)
    of_models = (("gpt", "long"), ("gpt", "sentences"), ("gpt_bytes", "long"), ("bert", "sentences"))
    keys = pd.concat(
        [worlds.keys(shares, *names, seeds=1 + (names[0] != "gpt_bytes")) for names in of_models]
    )
    keys = pd.concat([keys, keys[keys.site == "head"].assign(causal=True)], ignore_index=True)
    keys = keys.assign(
        n_unselectable=rng.integers(0, 900, len(keys)), n_borderline=rng.integers(0, 90, len(keys))
    )

    runs = product(("projection", "layernorm"), (3, 5), ("initial", "final"), (1, 2), range(12), range(20))
    columns = ["variant", "seed", "checkpoint", "layer", "context", "position"]
    tokens = pd.DataFrame(runs, columns=columns).assign(model="gpt")
    text = rng.choice([" al", "b", "\ufffd", "w*", "|", " nan", "\n", "[x]"], (12, 20))
    tokens["token"] = text[tokens.context, tokens.position]
    tokens["verdict"] = rng.choice(
        ["selectable", "unselectable", "borderline"], len(tokens), p=[0.6, 0.3, 0.1]
    )

    losses = [worlds.losses(0.05, spread=0.02), worlds.losses(0.1, seeds=1, model="gpt_bytes")]
    losses = pd.concat(losses, ignore_index=True)
    losses = losses[(losses.model == "gpt") | (losses.variant != "no_attention")]
    losses = losses.assign(train_loss=losses.train_loss - 1, unigram_loss=9 + 0.1 * rng.random(len(losses)))

    ceilings = worlds.attention_ceilings({"as used": 0.5, "without norm": 0.5})
    upper = 10 ** (-3 * rng.random(len(ceilings)))
    ceilings = ceilings.assign(upper=upper, lower=upper * rng.choice([1.0, 0.5], len(ceilings)))
    ceilings["received_max"] *= rng.random(len(ceilings))
    of_models = ceilings[ceilings.normalised == "as used"].assign(
        model="gpt", variant="projection", checkpoint="final", seed=ceilings.context % 3
    )
    numbers = worlds.worked_numbers("right carried", "right rounding", "rounding hedged", "wrong right")
    stated = 10 ** rng.uniform(-6, 6, len(numbers))
    numbers = numbers.assign(
        recomputed=-stated, from_stated=np.where(numbers.verdict == "right", np.nan, stated)
    )
    tables = {
        "majority_metrics": majority,
        "key_selectability": keys,
        "sentence_tokens": tokens,
        "language_model_metrics": losses,
        "language_model_ceilings": of_models,
        "attention_ceilings": ceilings,
        "pretrained_keys": worlds.pretrained_keys(
            {("head", 8): (0.1, 0.3), ("head_cut", 2): 0.9}, undecided=0.1
        ),
        "gaussian_law": worlds.gaussian_law(),
        "worked_numbers": numbers,
    }
    judged = ("language_model_metrics", "worked_numbers")
    d8 = {"majority_metrics": majority[majority.experiment == "d8"]}
    return tables | {"claims": claims.judge({name: tables[name] for name in judged} | d8)}


KEY_SITES = ("before_norm", "after_norm", "after_norm_exact", "head", "head_exact")


@pytest.mark.parametrize("name", sorted(RECOMPUTED))
def test_the_code_makes_of_random_tables_what_is_recomputed(name):
    made = registry.make(registry.TABLES[name], drawn())
    agree(made.frame, RECOMPUTED[name](drawn()))
    if name in EXPECTED:
        assert wrong_cells(output.markdown(made.parts), name, made.frame, drawn()) == []
    if name == "table_3":
        assert bullets(output.markdown(made.parts)) == [*map(characters, sentences(drawn()))]
    if name == "claims":
        check_claims(output.markdown(made.parts), made.frame)


@pytest.mark.parametrize(
    ("cell", "expected", "right"),
    [
        ("1.25 [−0.5, 3.0]", (1.2549, -0.46, 2.95), True),
        ("1.25 [−0.5, 3.0]", (1.2551, -0.46, 2.95), False),
        ("1.25 [−0.5, 3.0]", (1.25, 0.46, 2.95), False),
        ("1.25", (1.25, 1.1, 1.4), False),
        ("1.25", (1.25, np.nan, np.nan), True),
        ("≥ 1,230", (1229.6, 3.0, np.inf), True),
        ("≤ 1,230", (1229.6, 3.0, np.inf), False),
        ("2\u00a0×\u00a010⁻⁵", 2.4e-5, True),
        ("2\u00a0×\u00a010⁻⁵", 2.6e-5, False),
        ("1,230", Rounded(1234.0, np.nan, np.nan), True),
        ("1,230", 1234.0, False),
        ("0", 1e-9, False),
        ("–", 1.0, False),
        ("–", np.nan, True),
    ],
)
def test_a_cell_shows_a_number_to_its_printed_digits(cell, expected, right):
    assert shows(cell, expected) == right
