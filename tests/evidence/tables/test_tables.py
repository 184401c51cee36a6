"""Every readable table, computed a second time from the Parquet tables by a few lines that share no code.

`recomputed_tables` has the numbers, `random_world` a reproduction on which they are tried. The numbers are also
compared on the tables of the kept reproduction, and there what readers see, with the kept texts.
"""

import re

import numpy as np
import pandas as pd
import pytest
from kept import KEPT, TABLES
from random_world import TABLES as RANDOM
from recomputed_tables import RECOMPUTED, sentences

from layernorm_roles import shown, store
from layernorm_roles.evidence.draw import draw_groups
from layernorm_roles.evidence.tables import readable
from layernorm_roles.evidence.tables.compare import compare
from layernorm_roles.schemas import SCHEMAS


def made(name: str, tables=RANDOM):
    return readable.make(shown.TABLES[name], tables)


def grids(table) -> list[pd.DataFrame]:
    return [part for part in table.parts if isinstance(part, pd.DataFrame)]


ELSEWHERE = {"claims", "durations"}
"""Tables whose numbers are tested below, and with the times of jobs."""


def agree(csv: pd.DataFrame, recomputed: pd.DataFrame) -> None:
    """The rows and columns are the recomputed ones, whatever their order."""
    keys = [*recomputed.index.names]
    frames = (
        frame.fillna({"step": -1.0}).set_index(keys).sort_index() for frame in (csv, recomputed.reset_index())
    )
    same = {"check_like": True, "check_dtype": False, "check_index_type": False}
    pd.testing.assert_frame_equal(*frames, **same, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", sorted({*shown.TABLES} - ELSEWHERE))
def test_the_code_makes_of_random_tables_what_is_recomputed(name):
    agree(made(name).frame, RECOMPUTED[name](RANDOM))


PAIRS_NEEDED = {"ceilings", "ceilings_by_token"}
"""Tables of ceilings, of which the kept reproduction has the counts without the pairs behind them."""


@pytest.mark.parametrize("name", sorted({*shown.TABLES} - ELSEWHERE | {"claims"}))
def test_the_code_makes_of_the_kept_tables_what_is_recomputed_and_what_readers_have(name):
    """If the text alone is another one, it is of older code: snakemake --cores all published_figures"""
    table = made(name, TABLES)
    if table.frame.empty:
        pytest.skip("The kept reproduction has no rows of it.")
    assert readable.markdown(table.parts) == (KEPT / f"tables/{name}.md").read_text(encoding="utf-8")
    if name in {*RECOMPUTED} - PAIRS_NEEDED:
        agree(table.frame, RECOMPUTED[name](TABLES))


@pytest.mark.parametrize("contexts", [12, 5])
def test_sentences_are_marked_where_their_tokens_are_unselectable(contexts):
    """Of twelve sentences with unselectable tokens eight are shown, of five all."""
    tokens = RANDOM["sentence_tokens"]
    tokens = tokens.assign(verdict=tokens.verdict.where(tokens.context < contexts, "selectable"))
    tables = {"sentence_tokens": tokens, "key_selectability": RANDOM["key_selectability"]}
    (listed,) = [part for part in made("table_3", tables).parts if isinstance(part, list)]
    for sentence, tokens in zip(listed, sentences(tables), strict=True):
        whole = [(c, marked) for text, marked in tokens for c in text if not c.isspace() and c != "\ufffd"]
        pieces = enumerate(re.split("[⟦⟧]", sentence))
        shown = [(c, number % 2 == 1) for number, piece in pieces for c in piece]
        assert [(c, marked) for c, marked in shown if not c.isspace() and c != "□"] == whole


ZEROS = ["0", "0", "0", "0", "–"]
PAPER = {
    "table_1": [ZEROS, ["51.0", "32.2", "34.7", "36.8", "–"]],
    "table_2": [["44.8", "28.5", "22.3", "26.1", "–"], ZEROS],
}


@pytest.mark.parametrize("name", PAPER)
def test_the_paper_stands_below_the_trained_model_of_its_size_alone(name):
    main, *others = grids(made(name))
    assert [*main.columns[3:-1]] == [f"layer {number}" for number in (1, 2, 3, 4)]
    rows = main.to_numpy().tolist()
    paper = {number: row for number, row in enumerate(rows) if row[1] == "paper, trained"}
    assert [row[3:] for row in paper.values()] == PAPER[name]
    assert all(rows[number - 1][:2] == [row[0], "trained"] for number, row in paper.items())
    assert others and not any("paper, trained" in grid.to_numpy() for grid in others)


@pytest.mark.parametrize(
    "table",
    [t for t in shown.TABLES.values() if {*t.inputs} - {"majority_metrics"} and t.name not in ELSEWHERE],
    ids=lambda table: table.name,
)
def test_a_reproduction_without_the_rows_says_so(table):
    empty = {name: SCHEMAS[name].empty_table().to_pandas() for name in table.inputs}
    made_of_nothing = readable.make(table, empty)
    assert made_of_nothing.frame.empty and not any(len(grid) for grid in grids(made_of_nothing))
    assert readable.markdown(made_of_nothing.parts)
    assert made_of_nothing.parts == [table.none] or not table.none


def test_claims_are_shown_with_units_controls_and_the_effect_over_the_reported_one():
    """The effect of a ratio is its logarithm: log 2 / log 4. Holm's correction opens the verdict on an effect alone."""
    none = {"statement": "", "statistic": "", "control": "", "n_seeds": 1}
    rows = [
        {"claim": "faster", "statement": "It's faster", "statistic": "steps", "paper_value": "3 times"}
        | {"measured": 2.0, "ci_low": 1.0, "ci_high": 4.0, "reported": 4.0, "control": "scale; another"}
        | {"control_measured": 1.0, "control_low": 0.5, "control_high": 2.0, "n_seeds": 8, "verdict": "partial"},
        {"claim": "fusion_residual", "statement": "W_O - 1", "statistic": "share", "control": "nothing between"}
        | {"n_seeds": 1, "verdict": "reproduced", "also_passed_by": "untrained models", "p_holm": 0.051},
        *(none | {"claim": name, "verdict": verdict, "p_holm": p} for name, verdict, p in (
            ("parallel", "holds", 0.049), ("plane", "holds", 0.1), ("loss_gap", "does not hold", 0.5))),
    ]  # fmt: skip
    table = made("claims", {"claims": pd.DataFrame(rows).reindex(columns=SCHEMAS["claims"].names)})
    shown = {row[0]: row[1:] for row in grids(table)[0].to_numpy().tolist()}
    numbers = ["2.00× [1.00, 4.00]", "3 times", "1.00× [0.500, 2.00] (scale)", "8", "50\u00a0% [0, 100]"]
    assert shown["faster"] == ["It’s faster", "steps", "partial", *numbers]
    others = "reproduced; untrained models pass too; p = 0.051 with Holm's correction"
    expected = ["W_O\u00a0−\u00a01", "share", others, *"––", "nothing between", *"––"]
    assert shown["fusion_residual"] == expected
    verdicts = [shown[name][2] for name in ("parallel", "plane", "loss_gap")]
    assert verdicts == ["holds", "holds; p = 0.1 with Holm's correction", "does not hold"]
    assert {*table.frame.claim} == {*shown}


def test_files_hold_the_numbers_in_full_precision_and_the_table_to_read(tmp_path):
    path, names = tmp_path / "majority_metrics.parquet", ("convergence", "widths")
    store.write(RANDOM[path.stem], path.stem, path, {})
    outs = [tmp_path / file for name in names for file in shown.TABLES[name].files]
    draw_groups({"settings": {}, "groups": ["majority"]}, [path], outs)
    for name in names:
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / f"tables/{name}.csv"), made(name).frame)
        text = (tmp_path / f"tables/{name}.md").read_text(encoding="utf-8")
        assert text == readable.markdown(made(name).parts)


def test_two_reproductions_are_compared_claim_by_claim(tmp_path):
    """A claim differs by its verdict, by intervals that have no number in common, or because one of them lacks it."""
    columns = ["claim", "measured", "ci_low", "ci_high", "n_seeds", "verdict"]
    mine = [
        ("faster", 2, 1.5, 2.5, 8, "holds"),
        ("parallel", 50, 40, 60, 8, "partial"),
        ("plane", 1, 1, 1, 1, "holds"),
    ]
    kept = [("faster", 3, 2.6, 3.4, 8, "partial"), ("parallel", 55, 45, 65, 8, "partial")]
    texts = dict.fromkeys("statement source setting statistic control reason role rule_fixed".split(), "")
    for folder, rows in (("mine", mine), ("kept", kept)):
        frame = pd.DataFrame(rows, columns=columns).reindex(columns=SCHEMAS["claims"].names).assign(**texts)
        store.write(frame, "claims", tmp_path / folder / "parquet/claims.parquet", {})
    outs = tmp_path / "c.csv", tmp_path / "c.md"
    assert compare(tmp_path / "mine", tmp_path / "kept", *outs) == [
        "faster: another verdict, intervals apart; mine: 2.00× [1.50, 2.50], holds; kept: 3.00× [2.60, 3.40], partial",
        "plane: in one of them only; mine: 1.00° [1.00, 1.00], holds; kept: –",
    ]
    written = pd.read_csv(outs[0]).set_index("claim").measured_other
    assert written.to_dict() == pytest.approx({"faster": 3, "parallel": 55, "plane": np.nan}, nan_ok=True)
    row = "| parallel | 50.0° [40.0, 60.0], partial | 55.0° [45.0, 65.0], partial |"
    assert row in " ".join(outs[1].read_text(encoding="utf-8").split())
    with pytest.raises(ValueError, match="never has no verdicts; run snakemake"):
        compare(tmp_path / "never", tmp_path / "kept", *outs)
