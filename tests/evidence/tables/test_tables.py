"""Every readable table, computed a second time from the Parquet tables by a few lines that share no code.

`recomputed_tables` has the numbers, `printed_tables` what readers see of them, `random_tables` the reproduction that
both are tried on. The numbers are also compared on the tables of the kept reproduction.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import random_tables
from kept import KEPT, TABLES
from printed_tables import faults, shows
from recomputed_tables import RECOMPUTED, sentences

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.tables import output, registry
from layernorm_roles.evidence.tables.structure import Grid, Sentences
from layernorm_roles.schemas import SCHEMAS

random = cache(random_tables.tables)


def made(name: str, tables=None):
    return registry.make(registry.TABLES[name], random() if tables is None else tables)


def grids(readable) -> list[Grid]:
    return [part for part in readable.parts if isinstance(part, Grid)]


def agree(csv: pd.DataFrame, found: pd.DataFrame) -> None:
    """The rows and columns are the recomputed ones, whatever their order."""
    keys = [*found.index.names]
    if found.empty:
        assert csv.empty
        return
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


@pytest.mark.parametrize("name", sorted({*registry.TABLES} - {"claims"}))
def test_the_code_makes_of_random_tables_what_is_recomputed(name):
    readable = made(name)
    agree(readable.frame, RECOMPUTED[name](random()))
    if "md" in registry.TABLES[name].kinds:
        assert faults(grids(readable), name, readable.frame, random()) == []
    for grid in grids(readable):
        assert {len(row) for row in grid.rows} == {len(grid.columns)}


PAIRS_NEEDED = {"ceilings", "ceilings_by_token", "head_ceilings"}
"""Tables of ceilings, of which the kept reproduction has the counts without the pairs behind them."""


@pytest.mark.parametrize("name", sorted(registry.TABLES))
def test_the_code_makes_of_the_kept_tables_what_is_recomputed_and_what_readers_have(name):
    """If the text alone is another one, it is of older code: snakemake --cores all published_figures"""
    readable = made(name, TABLES)
    if readable.frame.empty:
        pytest.skip("The kept reproduction has no rows of it.")
    if "md" in registry.TABLES[name].kinds:
        assert output.markdown(readable.parts) == (KEPT / f"tables/{name}.md").read_text(encoding="utf-8")
    if name in {*RECOMPUTED} - PAIRS_NEEDED:
        agree(readable.frame, RECOMPUTED[name](TABLES))


@pytest.mark.parametrize("contexts", [12, 5])
def test_sentences_are_marked_where_their_tokens_are_unselectable(contexts):
    """Of twelve sentences with unselectable tokens eight are shown, of five all."""
    tokens = random()["sentence_tokens"]
    tokens = tokens.assign(verdict=tokens.verdict.where(tokens.context < contexts, "selectable"))
    tables = random() | {"sentence_tokens": tokens}
    (shown,) = [part for part in made("table_3", tables).parts if isinstance(part, Sentences)]
    for spans, tokens in zip(shown.sentences, sentences(tables), strict=True):
        whole = [(c, marked) for text, marked in tokens for c in text if not c.isspace() and c != "\ufffd"]
        assert [(c, s.marked) for s in spans for c in s.text if not c.isspace() and c != "□"] == whole


@pytest.mark.parametrize(("name", "column"), [("table_1", "variant"), ("table_2", "site")])
def test_the_paper_stands_below_the_model_of_its_size_alone(name, column):
    main, *others = grids(made(name))
    assert [column.name for column in main.columns[3:-1]] == [f"layer {number}" for number in (1, 2, 3, 4)]
    paper = [row for row in main.rows if row[1] == "paper, trained"]
    assert [row[3:] for row in paper] == {
        "table_1": [["0", "0", "0", "0", "–"], ["51.0", "32.2", "34.7", "36.8", "–"]],
        "table_2": [["44.8", "28.5", "22.3", "26.1", "–"], ["0", "0", "0", "0", "–"]],
    }[name]
    assert [main.rows[place + 1][0] for place in (1, 4)] == [row[0] for row in paper]
    assert others and not any(row[1] == "paper, trained" for grid in others for row in grid.rows)


def test_a_grid_stands_below_the_name_of_its_model():
    for name in ("table_1", "table_2", "heads", "ceilings", "ceilings_by_token", "cut_heads"):
        parts = made(name).parts
        titles = [parts[place - 1] for place, part in enumerate(parts) if isinstance(part, Grid)]
        models = [title.partition(":")[0].partition(" ")[0].rstrip(",") for title in titles if ":" in title]
        known = {"gpt", "gpt_bytes", "minilm", "gpt2"}
        assert len({*models} & known) == (1 if name in ("ceilings_by_token", "cut_heads") else 2), name


@pytest.mark.parametrize(
    "table",
    [t for t in registry.TABLES.values() if {*t.inputs} - {"majority_metrics"}],
    ids=lambda table: table.name,
)
def test_a_reproduction_without_the_rows_says_so(table):
    empty = {name: SCHEMAS[name].empty_table().to_pandas() for name in table.inputs}
    readable = registry.make(table, empty)
    assert readable.frame.empty and not any(grid.rows for grid in grids(readable))


def test_claims_are_shown_with_units_controls_and_the_effect_over_the_reported_one():
    rows = [
        {"claim": "faster", "statement": "It's faster", "statistic": "steps", "paper_value": "3 times"}
        | {"measured": 2.0, "ci_low": 1.0, "ci_high": 4.0, "reported": 4.0, "control": "scale; another"}
        | {"control_measured": 1.0, "control_low": 0.5, "control_high": 2.0, "n_seeds": 8, "verdict": "partial"},
        {"claim": "fusion_residual", "statement": "W_O - 1", "statistic": "share", "control": "nothing between"}
        | {"n_seeds": 1, "verdict": "not tested", "also_passed_by": "untrained models"},
    ]  # fmt: skip
    readable = made("claims", {"claims": pd.DataFrame(rows).reindex(columns=SCHEMAS["claims"].names)})
    # The effect of a ratio is its logarithm: log 2 / log 4.
    shown = [
        "2.00× [1.00, 4.00]",
        "3 times",
        "1.00× [0.500, 2.00] (scale)",
        "8",
        "50\u00a0% [0, 100]",
        "partial",
    ]
    others = "not tested; untrained models pass too"
    assert grids(readable)[0].rows == [
        ["faster", "It’s faster", "steps", *shown],
        ["fusion_residual", "W_O\u00a0−\u00a01", "share", *"––", "nothing between", *"––", others],
    ]
    assert readable.frame.claim.tolist() == ["faster", "fusion_residual"]


def test_files_hold_the_numbers_in_full_precision_and_the_table_to_read(tmp_path):
    store.write(random()["majority_metrics"], "majority_metrics", tmp_path / "m.parquet", {})
    names = [
        tmp_path / file
        for name in ("convergence", "widths")
        for file in registry.files(registry.TABLES[name])
    ]
    output.write_tables({"majority_metrics": tmp_path / "m.parquet"}, names)
    for name in ("convergence", "widths"):
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / f"{name}.csv"), made(name).frame)
        assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == output.markdown(made(name).parts)


def test_claims_show_tables_that_are_there_and_a_run_has_those_whose_parquet_it_has():
    assert {name for claim in CLAIMS for name in claim.shown} <= set(registry.TABLES)
    assert set(registry.made_from(["random_keys", "gaussian_law"])) == {"gaussian_law", "claims", "pilot"}


def test_steps_come_by_experiment_in_the_order_of_the_legends_and_of_falling_losses():
    frame = made("convergence").frame
    assert frame.experiment.is_monotonic_increasing
    first = frame[frame.experiment == "d8"]
    names = ["layernorm", "scale", "scale_released", "layernorm_small", "mine"]
    assert list(first.variant.unique()) == names and list(first.test_loss[:4]) == [1.0, 0.5, 0.35, 0.25]


def test_a_cell_shows_a_number_to_its_printed_digits():
    assert shows("1.25 [−0.5, 3.0]", (1.2549, -0.46, 2.95)) and shows("≥ 1,230", (1229.6, 3.0, np.inf))
    wrong = [
        ("1.25 [−0.5, 3.0]", (1.2551, -0.46, 2.95)),
        ("1.25 [−0.5, 3.0]", (1.25, 0.46, 2.95)),
        ("1.25", (1.25, 1.1, 1.4)),
        ("≤ 1,230", (1229.6, 3.0, np.inf)),
        ("2\u00a0×\u00a010⁻⁵", 2.6e-5),
        ("0", 1e-9),
        ("–", 1.0),
    ]
    assert not any(shows(cell, number) for cell, number in wrong)
