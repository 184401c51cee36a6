"""The scoreboard: a row for each exhibit of the paper, whose outcome follows the verdict and what the tables show."""

import numpy as np
import pandas as pd
import pytest
from kept import TABLES

from layernorm_roles import shown
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.claims.scoreboard import EXHIBITS, MARKS, RESERVED, scoreboard
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.evidence.tables.scoreboard import texts

COMPARISONS = "claim number comparison statistic estimate ci_low ci_high unit n_runs asked met role".split()
RELEASED = f"{LEGENDS['scale_released']} minus {LEGENDS['layernorm_small']}"


def claims(**verdicts: str) -> pd.DataFrame:
    numbers = {"measured": 2.5, "ci_low": 2.0, "ci_high": 3.0, "reported": 3.0}
    numbers |= {"control_measured": 1.0, "control_low": 0.75, "control_high": 1.25, "n_seeds": 7}
    rows = [{"claim": claim, "verdict": verdict, **numbers} for claim, verdict in verdicts.items()]
    return pd.DataFrame(rows).assign(
        also_passed_by=None, paper_value="as drawn", setting="Seven runs. And more."
    )


def compared(*rows: tuple) -> pd.DataFrame:
    made = [
        (claim, n, words, "", mean, *[np.nan] * 2, "%", 7, asked, met, role)
        for n, (claim, words, mean, asked, met, role) in enumerate(rows)
    ]
    return pd.DataFrame(made, columns=COMPARISONS)


def row_of(claim: str, table: pd.DataFrame, comparisons: pd.DataFrame):
    (row,) = (row for row in scoreboard(table, comparisons).itertuples() if row.claim == claim)
    return row


def test_it_has_each_exhibit_of_the_paper_once_with_what_shows_it():
    titles = "Figures 1a, 1b; Figure 1c; Figure 1d; Figure 2a; Figure 2b; Figure 3; Figure 4; "
    assert [each.title for each in EXHIBITS] == (titles + "Table 1; Table 2; Table 3; Table 4").split("; ")
    assert {name for each in EXHIBITS for name in each.exhibits} <= {*shown.FIGURES, *shown.TABLES}
    by_name = {claim.name: claim for claim in CLAIMS}
    for each in EXHIBITS:
        assert each.claim is None or by_name[each.claim].kind == "paper"


@pytest.mark.parametrize(
    ("verdict", "outcome", "why"),
    [
        ("holds", "reproduced", ""),
        ("confounded", "confounded", "the released variant also divides by d"),
        ("partial", "partial", ""),
        ("does not hold", "not reproduced", ""),
        ("inconclusive", "inconclusive", ""),
        ("not run here", "not run here", ""),
    ],
)
def test_the_outcome_follows_the_verdict(verdict, outcome, why):
    row = row_of("faster", claims(faster=verdict), compared())
    assert (row.outcome, row.why) == (outcome, why) and verdict in {*Verdict} and outcome in MARKS
    assert texts(row)["result"] == f"{MARKS[outcome]} {outcome}{': ' * bool(why)}{why}"


def test_what_also_passes_and_what_a_comparison_shows_make_a_reservation():
    table = claims(faster="holds", parallel="holds")
    table.loc[table.claim == "faster", "also_passed_by"] = "untrained models"
    row = row_of("faster", table, compared())
    assert (row.outcome, row.why) == (RESERVED, "untrained models pass too")
    for met, outcome in ((False, RESERVED), (True, "reproduced"), (None, "reproduced")):
        comparisons = compared(("parallel", RELEASED, -1.0, "at least 30", met, "effect"))
        assert row_of("parallel", table, comparisons).outcome == outcome


def test_numbers_are_those_of_the_tables_and_of_the_paper():
    layers = [("table_1", f"keys, layer {n}", 10.0 * n, "at least 25", True, "effect") for n in (1, 2, 3, 4)]
    clean = [("table_1", f"LayerNorm, layer {n}", 0.0, "at most 1", True, "effect") for n in (1, 2, 3, 4)]
    second = [
        ("random_keys", words, mean, "more", True, "effect")
        for words, mean in (("most", 100), ("high", 0.07))
    ]
    table = claims(table_1="holds", random_keys="holds", faster="holds")
    comparisons = compared(*layers, *clean, *second)
    row = texts(row_of("table_1", table, comparisons))
    assert row["measured"].endswith("by layer 10, 20, 30, 40\u00a0%")
    assert row["reported"] == "3\u00a0%; by layer 51, 32, 35, 37\u00a0%"
    row = texts(row_of("random_keys", table, comparisons))
    assert (
        row["measured"].endswith("; 0.07\u00a0% from 13 dimensions on") and "; 0 from 13" in row["reported"]
    )
    row = texts(row_of("faster", table, comparisons))
    known = {"reported": "3×", "measured": "2.5× [2.0,\u00a03.0]", "size": "Seven runs"}
    assert row.items() >= known.items() and row["control"].startswith("1.00× [0.75,\u00a01.25] without")


def test_a_claim_that_is_missing_was_not_run_and_an_unreported_number_is_in_the_papers_words():
    frame = scoreboard(claims(faster="holds").assign(reported=np.nan), compared()).set_index("exhibit")
    assert (frame.outcome.drop(["Figure 2a", "Table 4"]) == "not run here").all() and len(frame) == 11
    (row,) = (
        row
        for row in scoreboard(claims(faster="holds").assign(reported=np.nan), compared()).itertuples()
        if row.claim == "faster"
    )
    assert texts(row)["reported"] == "as drawn"
    for row in scoreboard(claims(faster="holds"), compared()).itertuples():
        assert row.claim == "faster" or texts(row)["measured"] == "–"


def test_the_kept_scoreboard_has_the_numbers_of_the_kept_claims():
    kept, frame = TABLES["claims"].set_index("claim"), scoreboard(TABLES["claims"], TABLES["comparisons"])
    frame = frame[frame.claim != ""].set_index("claim")
    columns = ["measured", "ci_low", "ci_high", "control_measured", "reported"]
    pd.testing.assert_frame_equal(frame[columns].astype(float), kept.loc[frame.index, columns].astype(float))
