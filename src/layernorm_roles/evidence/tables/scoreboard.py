"""The scoreboard of the paper's exhibits as readers see it."""

import re
from typing import Any

import pandas as pd

from layernorm_roles.evidence.claims.scoreboard import MARKS, OTHER_TASK
from layernorm_roles.evidence.claims.scoreboard import scoreboard as rows_of_exhibits
from layernorm_roles.evidence.tables.readable import Readable, grid
from layernorm_roles.evidence.tables.typography import MISSING, measured, typeset


def texts(row: Any) -> dict[str, str]:
    """Return the cells of one exhibit as texts, by the heads of columns; `row` is one of the function scoreboard."""
    if row.outcome == OTHER_TASK:
        found = dict.fromkeys(("reported", "measured", "control", "size"), MISSING)
    else:
        reported = "" if pd.isna(row.reported) else f"{float(f'{row.reported:.3g}'):g}{row.unit}"
        here = measured(row.measured, row.ci_low, row.ci_high, row.unit)
        control = measured(row.control_measured, row.control_low, row.control_high, row.unit)
        found = {
            "reported": _joined(reported or row.paper_value, row.reported_detail),
            "measured": _joined(here, row.detail),
            "control": _joined(control, control and row.control, " "),
            "size": row.size_beside_paper.partition(". ")[0]
            .removesuffix(".")
            .replace(" of each variant", ""),
        }
    outcome = f"{MARKS[row.outcome]} {row.outcome}"
    cells = {"exhibit": row.exhibit, "quantity": row.shows} | {
        key: text or MISSING for key, text in found.items()
    }
    cells |= {"result": _joined(outcome, row.why, ": ")}
    return {key: re.sub(r"\[(\S+), (\S+)\]", "[\\1,\u00a0\\2]", typeset(text)) for key, text in cells.items()}


def _joined(first: str, second: Any, between: str = "; ") -> str:
    return between.join(text for text in (first, second) if isinstance(text, str) and text)


def scoreboard(claims: pd.DataFrame, comparisons: pd.DataFrame) -> Readable:
    """Return the readable scoreboard; its rows for programs are those of `claims.scoreboard.scoreboard`."""
    rows = rows_of_exhibits(claims, comparisons)
    heads = ("exhibit", "quantity", "reported", "measured", "control", "size", "result")
    made = [texts(row) for row in rows.itertuples()]
    cells = {head: (lambda row, head=head: row[head]) for head in heads}
    return Readable(rows, [grid(made, cells, texts=len(heads))])
