"""The readable table of the attention that keys in the heads of the language models can get, and its numbers."""

import numpy as np
import pandas as pd
import pytest

from layernorm_roles.evidence.analysis.heads import reach
from layernorm_roles.evidence.tables import registry
from layernorm_roles.schemas import SCHEMAS


def head(upper, queries="any", seed=0, received=0.001, checkpoint="final", variant="layernorm", gap=1e-9):
    upper = np.asarray(upper, dtype=float)
    rows = {
        "model": "gpt",
        "variant": variant,
        "seed": seed,
        "checkpoint": checkpoint,
        "context": 0,
        "layer": 1,
        "head": 0,
        "position": range(len(upper)),
        "token": "a",
        "queries": queries,
        "normalised": "as used",
        "n_keys": len(upper),
        "dimensions": 2,
        "lower": upper * (1 - gap),
        "upper": upper,
        "received_max": received,
        "received_mean": received,
    }
    return pd.DataFrame(rows)[SCHEMAS["language_model_ceilings"].names]


ANY = [1.0, 1.0, 0.2, 0.02, 0.004]
NORM = [0.6, 0.3, 0.05, 0.02, 0.004]
WORLD = pd.concat(
    [
        head(ANY),
        head(NORM, "norm"),
        head([1.0, 0.3, 0.2, 0.02, 0.004], seed=1),
        head(NORM, "norm", seed=1),
        head(ANY, checkpoint="initial"),
        head(ANY, variant="projection"),
    ]
)


def row(frame, queries, threshold, variant="layernorm", checkpoint="final"):
    at = (frame.queries == queries) & (frame.threshold == threshold) & (frame.variant == variant)
    (found,) = frame[at & (frame.checkpoint == checkpoint)].itertuples()
    return found


def test_shares_are_means_over_seeds_and_the_rest_is_of_keys_that_cannot_get_a_half():
    frame = reach(WORLD)
    half, tenth, hundredth = (row(frame, "any", threshold) for threshold in (0.5, 0.1, 0.01))
    assert (half.percent, half.seeds, half.rest_percent) == (pytest.approx(30), 2, 0)
    assert tenth.percent == pytest.approx(60) and tenth.rest_percent == pytest.approx(100 * 3 / 7)
    assert hundredth.percent == pytest.approx(80) and hundredth.rest_percent == pytest.approx(100 * 5 / 7)
    assert half.low < 30 < half.high and half.median == pytest.approx(0.2)
    assert row(frame, "norm", 0.5).percent == pytest.approx(20)
    assert row(frame, "own", 0.01).percent == 0 and row(frame, "own", 0.01).median == pytest.approx(0.001)
    assert "own" in set(frame[frame.variant == "projection"].queries)


def test_bounds_that_enclose_a_threshold_count_as_reaching_it_and_are_told():
    frame = reach(head([1.0, 0.505, 0.2, 0.02], gap=0.1))
    half = row(frame, "any", 0.5)
    assert half.percent == 50 and half.undecided_percent == 25


def test_keys_that_all_can_get_a_half_leave_no_rest():
    assert np.isnan(row(reach(head([1.0, 0.7])), "any", 0.1).rest_percent)


def test_the_table_has_a_row_for_each_set_of_queries():
    readable = registry.make(registry.TABLES["head_ceilings"], {"language_model_ceilings": WORLD})
    grid = readable.parts[0]
    assert {len(line) for line in grid.rows} == {len(grid.columns)}
    assert [column.name for column in grid.columns[4:]] == [
        "queries",
        "at least ½ (%)",
        "at least 1/10 (%)",
        "at least 1/100 (%)",
        "at least 1/10, of those under ½ (%)",
        "at least 1/100, of those under ½ (%)",
        "median ceiling",
    ]
    words = {(line[1], line[2], line[4]): line for line in grid.rows}
    trained = words["LayerNorm", "trained", "any query"]
    assert trained[0] == "gpt, d_head = 2, n = 5" and trained[3] == "2"
    assert trained[5].startswith("30.0 [") and trained[8:] == ["42.9", "71.4", "0.2"]
    assert words["LayerNorm", "trained", "any query behind the norm"][5] == "20.0 [20.0, 20.0]"
    assert ("projection only", "trained", "the text's own queries") in words and len(words) == 7


def test_a_reproduction_without_gpts_says_so():
    readable = registry.make(registry.TABLES["head_ceilings"], {"language_model_ceilings": WORLD.iloc[:0]})
    assert readable.parts[0] == "This reproduction has no such model."


def test_what_keys_get_is_the_most_that_a_query_of_the_context_gives():
    frame = reach(head([1.0, 0.7], received=[0.6, 0.2]).assign(received_mean=0.001))
    assert row(frame, "own", 0.5).percent == 50 and row(frame, "own", 0.1).percent == 100
