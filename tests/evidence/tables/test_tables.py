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
from recomputed_tables import RECOMPUTED, agree, sentences

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


OPEN = "reproduced; untrained models pass too; p = 0.051 with Holm's correction"
CLAIMS = {
    "faster": ["partial", "3.00× [1.73, ∞]", "3 times", "1.00× [0.111, 9.00] (scale)", "8", "50 % [25, ∞]"],
    "accurate": ["not tested", "4.00 points [−8.00, 12.0]", "–", "scale", "–", "−50 % [100, −150]"],
    "table_1": [OPEN, "100 % [90.0, 110]", "–", "10.0 % [8.00, 12.0] (scale)", "6", "500 % [450, 550]"],
    "geometry": ["holds", "1.00 [0, 2.00]", "–", "scale", "7", "33 % [0, 67]"],
    "loss_gap": ["not run here", "–", "–", "scale", "–", "–"],
}


def test_claims_are_shown_with_units_controls_and_the_effect_over_the_reported_one():
    """The effect of a ratio is its logarithm: log 3 / log 9. Holm's correction opens the verdict on an effect alone."""
    table = RANDOM["claims"].assign(statement="It's W_O - 1", statistic="steps", control="scale; another")
    table["paper_value"] = table.claim.map({"faster": "3 times"})
    table["n_seeds"], table["p_holm"] = [8, 1, 6, 1, 7, 0], [0.5, 0.5, 0.051, 1, 0.049, 0.5]
    (shown,) = grids(made("claims", {"claims": table}))
    rows = [[cell.replace("\u00a0", " ") for cell in row] for row in shown.to_numpy().tolist()]
    assert {row[0]: row[3:] for row in rows} == CLAIMS
    assert {tuple(row[1:3]) for row in rows} == {("It’s W_O − 1", "steps")}


def test_files_hold_the_numbers_in_full_precision_and_the_table_to_read(tmp_path):
    path, names = tmp_path / "language_model_metrics.parquet", ("baselines", "losses_by_rate")
    store.write(RANDOM[path.stem], path.stem, path, {})
    outs = [tmp_path / file for name in names for file in shown.TABLES[name].files]
    draw_groups({"settings": {}, "groups": ["language_model"]}, [path], outs)
    for name in names:
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / f"tables/{name}.csv"), made(name).frame)
        text = (tmp_path / f"tables/{name}.md").read_text(encoding="utf-8")
        assert text == readable.markdown(made(name).parts)


def test_two_reproductions_are_compared_claim_by_claim(tmp_path):
    """A claim differs by its verdict, by intervals that have no number in common, or because one of them lacks it."""
    texts = dict.fromkeys("statement source setting statistic control reason role rule_fixed".split(), "")
    mine = RANDOM["claims"].assign(**texts, n_seeds=8)
    kept = mine[mine.claim != "geometry"].set_index("claim", drop=False)
    kept.loc["faster", ["measured", "ci_low", "ci_high", "verdict"]] = [1.5, 1.25, 1.625, "holds"]
    kept.loc["table_1", ["measured", "ci_low", "ci_high"]] = [109, 108, 120]
    for folder, frame in (("mine", mine), ("kept", kept)):
        store.write(frame, "claims", tmp_path / folder / "parquet/claims.parquet", {})
    outs = tmp_path / "c.csv", tmp_path / "c.md"
    assert compare(tmp_path / "mine", tmp_path / "kept", *outs) == [
        "faster: another verdict, intervals apart; mine: 3.00× [1.73, ∞], partial; kept: 1.50× [1.25, 1.62], holds",
        "geometry: in one of them only; mine: 1.00 [0, 2.00], holds; kept: –",
    ]
    written = pd.read_csv(outs[0]).set_index("claim").measured_other
    assert (written["faster"], written["table_1"]) == (1.5, 109) and np.isnan(written["geometry"])
    row = "| table_1 | 100 % [90.0, 110], reproduced | 109 % [108, 120], reproduced |"
    assert row in " ".join(outs[1].read_text(encoding="utf-8").split())
    with pytest.raises(ValueError, match="never has no verdicts; run snakemake"):
        compare(tmp_path / "never", tmp_path / "kept", *outs)
