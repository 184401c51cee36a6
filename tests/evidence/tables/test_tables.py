"""Readable tables of the kept reproduction, with their numbers computed again, and what readers see of them.

`recomputed_tables` has the numbers. Those of a random reproduction are compared in `analysis/test_random_numbers.py`.
"""

import json
import re
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from kept import KEPT, TABLES
from random_world import TABLES as RANDOM
from recomputed_tables import RECOMPUTED, agree, keys_at, sentences, shares

from layernorm_roles import shown, store
from layernorm_roles.evidence import legends
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.draw import draw_groups
from layernorm_roles.evidence.legends import label, legend_order
from layernorm_roles.evidence.tables import readable
from layernorm_roles.schemas import SCHEMAS


def made(name: str, tables=RANDOM):
    return readable.make(shown.TABLES[name], tables)


of_random = cache(made)
"""A readable table of the random reproduction, which many tests read and none changes."""


def grids(table) -> list[pd.DataFrame]:
    return [part for part in table.parts if isinstance(part, pd.DataFrame)]


@pytest.mark.parametrize("name", sorted(shown.TABLES))
def test_the_code_makes_of_the_kept_tables_what_is_recomputed_and_what_readers_have(name, monkeypatch):
    """If the text alone is another one, it is of older code: snakemake --cores all published_figures"""
    monkeypatch.setattr(legends, "_SCALED", {})
    legends.name_scaled(json.loads((KEPT / "settings.json").read_text(encoding="utf-8"))["norms"])
    table = made(name, TABLES)
    if table.frame.empty:
        pytest.skip("The kept reproduction has no rows of it.")
    assert readable.markdown(table.parts) == (KEPT / f"tables/{name}.md").read_text(encoding="utf-8")
    if name in RECOMPUTED:
        agree(table.frame, RECOMPUTED[name](TABLES))


@pytest.mark.parametrize("contexts", [12, 5, 0])
def test_sentences_are_marked_where_their_tokens_are_unselectable(contexts):
    """Of twelve sentences with unselectable tokens eight are shown, of five all."""
    tokens = RANDOM["sentence_tokens"]
    tokens = tokens.assign(verdict=tokens.verdict.where(tokens.context < contexts, "selectable"))
    tables = {"sentence_tokens": tokens, "key_selectability": RANDOM["key_selectability"]}
    parts = made("table_3", tables).parts
    assert any("no sentence has" in part for part in parts if isinstance(part, str)) == (not contexts)
    (listed,) = [part for part in parts if isinstance(part, list)] or [[]]
    for sentence, tokens in zip(listed, sentences(tables), strict=True):
        whole = [(c, marked) for text, marked in tokens for c in text if not c.isspace() and c != "\ufffd"]
        pieces = enumerate(re.split("[⟦⟧]", sentence))
        shown = [(c, number % 2 == 1) for number, piece in pieces for c in piece]
        assert [(c, marked) for c, marked in shown if not c.isspace() and c != "□"] == whole


@pytest.mark.parametrize(
    "table",
    [t for t in shown.TABLES.values() if {*t.inputs} - {"claims", "comparisons"}],
    ids=lambda table: table.name,
)
def test_a_reproduction_without_the_rows_says_so(table):
    empty = {name: SCHEMAS[name].empty_table().to_pandas() for name in table.inputs}
    made_of_nothing = readable.make(table, empty)
    assert made_of_nothing.frame.empty and not any(len(grid) for grid in grids(made_of_nothing))
    assert readable.markdown(made_of_nothing.parts)
    assert made_of_nothing.parts == [table.none] or not table.none


# What readers see

SEEN = """
table_3 | occurrences >= 10 * 2 * 2 | occurrences × layers × seeds | occurrences
table_3 | occurrences >= 10 * 2 * 2 | unselectable, untrained (%) | initial_percent
table_3 | occurrences >= 10 * 2 * 2 | unselectable, trained (%) | final_percent
"""
"""Table, rows of its CSV file, heading, and the column of the numbers below it."""


def reads(cell: str, *values: float) -> None:
    """A cell shows the numbers, to its last digit, and no unknown number."""
    texts = re.findall(r"\d+(?:\.\d+)?", cell.replace(",", ""))
    known = [value for value in values if np.isfinite(value)]
    assert len(texts) == len(known), cell
    for text, value in zip(texts, known, strict=True):
        assert float(text) == pytest.approx(value, abs=0.51 * 10.0 ** -len(text.partition(".")[2])), cell


@pytest.mark.parametrize("line", SEEN.strip().splitlines())
def test_cells_show_the_numbers_of_their_rows(line):
    """Readers see the first twenty tokens."""
    name, where, heading, value = line.split(" | ")
    rows = of_random(name).frame.query(where).head(20)
    (seen,) = [grid for grid in grids(of_random(name)) if heading in grid]
    assert [*seen["token"]] == [*rows["token"].map(readable.token_text)]
    for cell, number in zip(seen[heading], rows[value], strict=True):
        reads(cell, number)


LAYERED = """
table_1 | 0 | model == 'gpt' and site == 'after_norm' | variant
table_1 | 1 | model == 'gpt' and site == 'after_norm_exact' | variant
table_1 | 2 | model == 'wide' and site == 'after_norm' | variant
table_2 | 0 | model == 'gpt' | site
table_2 | 1 | model == 'wide' | site
table_3 | -1 | percent >= 0 | model
table_4 | 0 | model == 'bert' | variant
"""
"""Table, number of its grid, rows of its CSV file, and the column by which the grid's rows differ."""
SENTENCES = dict(texts="sentences", variant="projection", causal=False)


@pytest.mark.parametrize("line", LAYERED.strip().splitlines())
def test_shares_of_keys_have_a_column_for_each_layer_and_those_of_the_paper_beside_its_model(line):
    name, number, where, column = line.split(" | ")
    of_sentences = {"table_3": lambda tables: shares(keys_at(tables, "after_norm", **SENTENCES))}
    rows = (RECOMPUTED | of_sentences)[name](RANDOM).reset_index().query(where)
    parts, sites = of_random(name).parts, {"before_norm": "before LayerNorm"}
    title, grid = [pair for pair in pairwise(parts) if isinstance(pair[1], pd.DataFrame)][int(number)]
    assert rows.model.iloc[0] in title.lower() or column == "model"
    tokens = {"table_3": "Sentences of 950 to 960", "table_4": "Sentences of 957 to 967"}
    tokens = tokens.get(name, "Contexts of 900 to 910") + " tokens"
    assert tokens in (parts[0] if name == "table_3" else title) or "after_norm_exact" in where
    assert ("eps = 0" in title) == ("exact" in where)
    names = {"variant": label, "site": lambda site: sites.get(site, "after LayerNorm"), "model": str}[column]
    cells = grid.set_index([grid.columns[0], "weights"])
    for (value, checkpoint), part in rows.groupby([column, "checkpoint"]):
        seen = cells.loc[names(value), {"initial": "untrained", "final": "trained"}[checkpoint]]
        assert seen.seeds == str(part.seeds.iloc[0])
        reads(seen.undecided, part.borderline_percent.mean())
        for row in part.itertuples():
            reads(seen[f"layer {row.layer}"], row.percent, max(row.low, 0), min(row.high, 100))
    paper = reported()["language_model"].get(name, {}) if "gpt" in where and number == "0" else {}
    assert len(cells) == rows.groupby([column, "checkpoint"]).ngroups + len(paper)
    for value, percent in paper.items():
        for layer, share in enumerate(percent, start=1):
            reads(cells.loc[(names(value), "paper, trained"), f"layer {layer}"], share)
    if column == "variant":
        assert [*dict.fromkeys(grid[grid.columns[0]])] == [label(name) for name in legend_order(rows.variant)]


def test_no_unselectable_key_is_a_zero_without_an_interval_and_no_key_at_all_a_dash():
    keys = RANDOM["key_selectability"].query("checkpoint == 'final'").assign(n_unselectable=0)
    (grid, *_) = grids(made("table_1", {"key_selectability": keys}))
    cells = grid.set_index("weights")[["layer 1", "layer 2"]]
    shown = [{*cells.loc[weights].to_numpy().ravel()} for weights in ("trained", "untrained")]
    assert shown == [{"0"}, {"–"}]


OPEN = "holds; untrained models pass too; p = 0.051 with Holm's correction"
CLAIMS = {
    "faster": ["partial", "3.00× [1.73, ∞]", "3 times", "1× [0, 9] (scale)", "8", "50 % [25, ∞]"],
    "accurate": ["inconclusive", "4 points [−8, 12]", "–", "scale", "–", "−50 % [100, −150]"],
    "table_1": [OPEN, "100 % [90, 110]", "–", "10.0 % [8.0, 12.0] (scale)", "1,300", "500 % [450, 550]"],
    "geometry": ["holds", "1.0 [0.0, 2.0]", "–", "scale", "7", "33 % [0, 67]"],
    "loss_gap": ["not run here", "–", "–", "scale", "–", "–"],
}


def test_claims_are_shown_with_units_controls_and_the_effect_over_the_reported_one():
    """The effect of a ratio is its logarithm: log 3 / log 9. Holm's correction opens the verdict on an effect alone."""
    table = RANDOM["claims"].assign(statement="It's W_O - 1", statistic="steps", control="scale; another")
    table["paper_value"] = table.claim.map({"faster": "3 times"})
    table["n_seeds"], table["p_holm"] = [8, 1, 1300, 1, 7, 0], [0.5, 0.5, 0.051, 1, 0.049, 0.5]
    (shown,) = grids(made("claims", {"claims": table}))
    rows = [[cell.replace("\u00a0", " ") for cell in row] for row in shown.to_numpy().tolist()]
    assert {row[0]: row[3:] for row in rows} == CLAIMS
    assert {tuple(row[1:3]) for row in rows} == {("It’s W_O − 1", "steps")}


def test_files_hold_the_numbers_in_full_precision_and_the_table_to_read(tmp_path, monkeypatch):
    """Norms of the settings are called by what they compute."""
    monkeypatch.setattr(legends, "_SCALED", {})
    path, (csv, md) = tmp_path / "key_selectability.parquet", shown.TABLES["table_1"].files
    tables = {path.stem: RANDOM[path.stem].replace({"variant": {"layernorm_qk": "mine"}})}
    store.write(tables[path.stem], path.stem, path, {})
    norms = {"mine": {"like": "projection", "factor": 35.0, "part": "both"}}
    plan = {"settings": {"norms": norms}, "groups": ["language_model"]}
    draw_groups(plan, [path], [tmp_path / csv, tmp_path / md])
    again = made("table_1", tables)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / csv), again.frame)
    text = (tmp_path / md).read_text(encoding="utf-8")
    assert text == readable.markdown(again.parts) and "mine" not in text and "35 × projection only" in text
