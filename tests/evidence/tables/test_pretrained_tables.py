"""Readable tables of pretrained models and of the law of widths."""

import pandas as pd
import pytest
import worlds

from layernorm_roles.evidence.tables import registry
from layernorm_roles.evidence.tables.structure import Grid

BELOW = {"as used": (0.1, 0.3), "without norm": 0.5}


def made(name: str, **frames: pd.DataFrame):
    return registry.make(registry.TABLES[name], frames)


def grids(readable):
    found = [part for part in readable.parts if isinstance(part, Grid)]
    for part in found:
        assert {len(row) for row in part.rows} == {len(part.columns)}
    return found


def test_ceilings_have_a_row_for_each_threshold_and_set_of_queries():
    readable = made("ceilings", attention_ceilings=worlds.attention_ceilings(BELOW))
    shares, tails = grids(readable)
    assert [column.name for column in shares.columns[-2:]] == ["layer 1", "layer 2"]
    rows = {tuple(row[:3]): row[3:] for row in shares.rows}
    assert len(rows) == 3 * 5
    assert rows["½", "any query", "as used"] == ["0", "0"]
    assert rows["½", "any query behind the norm", "without the norm"][0].startswith("53.0 [")
    assert rows["1/10", "any query behind the norm", "as used"] == ["0", "0"]
    assert ["1 %", "any query behind the norm", "as used", "0.25", "0.25"] in tails.rows
    assert not any(row[1] == "any query" for row in tails.rows)
    assert readable.parts[0].startswith("minilm: 4 contexts of 200 keys, heads of 32 dimensions.")


def test_tokens_are_listed_from_both_ends():
    readable = made("ceilings_by_token", attention_ceilings=worlds.attention_ceilings(BELOW))
    assert [row[0] for row in grids(readable)[0].rows] == ["the", "of", "norm"]
    assert "layer 2" in readable.parts[0]
    many = worlds.attention_ceilings(BELOW).assign(
        token=lambda table: "t" + (table.position // 5).astype(str)
    )
    least, most = grids(made("ceilings_by_token", attention_ceilings=many))
    assert len(least.rows) == len(most.rows) == 10
    assert least.rows[0][3] == "100.0" and most.rows[-1][3] == "0"


def test_tokens_in_few_contexts_are_not_listed():
    table = worlds.attention_ceilings(BELOW)
    table.loc[(table.context < 2) & (table.position < 10), "token"] = "rare"
    readable = made("ceilings_by_token", attention_ceilings=table)
    assert "rare" not in [row[0] for row in grids(readable)[0].rows]
    assert "rare" in set(readable.frame.token)


def test_cut_heads_have_the_gaussian_keys_in_the_last_column():
    keys = worlds.pretrained_keys({("head", 32): 0.0, ("head_cut", 2): (0.8, 0.9)})
    (grid,) = grids(made("cut_heads", pretrained_keys=keys))
    assert [column.name for column in grid.columns] == [
        "dimensions",
        "layer 1",
        "layer 2",
        "undecided",
        "Gaussian keys",
    ]
    two, whole = grid.rows
    assert two[0] == "2" and two[1].startswith("82.4 [") and two[-1] == "95.1"
    assert whole[:4] == ["32", "0", "0", "0"]


def test_the_law_has_a_column_for_each_share_alone_and_causal():
    readable = made("gaussian_law", gaussian_law=worlds.gaussian_law())
    (grid,) = grids(readable)
    names = ["d", "1 %", "10 %", "50 %", "1 %, causal", "10 %, causal", "50 %, causal"]
    assert [column.name for column in grid.columns] == names
    assert [row[0] for row in grid.rows] == ["2", "8", "32", "64"]
    assert grid.rows[2][1] == "8,856" and set(grid.rows[3][1:]) == {"–"}


@pytest.mark.parametrize("name", ["ceilings", "ceilings_by_token", "cut_heads"])
def test_a_reproduction_without_a_pretrained_model_says_so(name):
    (table,) = registry.TABLES[name].inputs
    empty = {
        "attention_ceilings": worlds.attention_ceilings(BELOW),
        "pretrained_keys": worlds.pretrained_keys({("head", 32): 0.0}),
    }[table].iloc[:0]
    assert made(name, **{table: empty}).parts[0] == "This reproduction has no pretrained model."


def test_tables_are_made_of_what_a_reproduction_has():
    names = set(registry.made_from(["random_keys", "gaussian_law"]))
    assert names == {"gaussian_law", "claims", "pilot"}
    assert {"ceilings", "ceilings_by_token"} <= set(registry.made_from(["attention_ceilings"]))


def test_tokens_in_three_contexts_are_listed():
    table = worlds.attention_ceilings(BELOW)
    table.loc[(table.context < 3) & (table.position < 10), "token"] = "thrice"
    readable = made("ceilings_by_token", attention_ceilings=table)
    assert "thrice" in [row[0] for row in grids(readable)[0].rows]


def test_the_tokens_that_get_most_are_the_last():
    many = worlds.attention_ceilings(BELOW)
    many["token"] = "t" + (many.position // 5).astype(str)
    _, most = grids(made("ceilings_by_token", attention_ceilings=many))
    frame = made("ceilings_by_token", attention_ceilings=many).frame
    assert [row[0] for row in most.rows] == frame.token.iloc[-10:].tolist()


def test_any_query_on_keys_without_the_norm_has_a_row_of_its_own():
    table = worlds.attention_ceilings(BELOW)
    without = (table.queries == "any") & (table.normalised == "without norm")
    table.loc[without, ["lower", "upper"]] = 0.3
    shares, _ = grids(made("ceilings", attention_ceilings=table))
    rows = {tuple(row[:3]): row[3:] for row in shares.rows}
    assert rows["½", "any query", "as used"] == ["0", "0"]
    assert rows["½", "any query", "without the norm"] == ["100.0", "100.0"]
