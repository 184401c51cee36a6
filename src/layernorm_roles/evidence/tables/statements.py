"""What was found about the statements of other documents than the paper, and the worked numbers of one of them."""

import pandas as pd

from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.tables.structure import MISSING, Column, Readable, grid
from layernorm_roles.evidence.tables.typography import interval, typeset, with_unit

PAPER = "Brody, Alon and Yahav 2023"
"""How the sources of the paper's own claims begin."""


def statements(claims: pd.DataFrame) -> Readable:
    """The claims whose source is not the paper, from the table claims: what they state, and what was found."""
    units = {claim.name: claim.unit for claim in CLAIMS}
    others = claims[~claims.source.str.startswith(PAPER)]
    columns = {
        Column("source"): lambda row: typeset(row.source),
        Column("statement"): lambda row: typeset(row.statement),
        Column("verdict"): lambda row: row.verdict,
        Column("measured", right=True): lambda row: (
            with_unit(row.measured, units.get(row.claim, "")) or MISSING
        ),
        Column("95 % interval", right=True): lambda row: interval(row.ci_low, row.ci_high) or MISSING,
        Column("why"): lambda row: typeset(row.reason),
    }
    frame = others[["source", "statement", "verdict", "measured", "ci_low", "ci_high", "reason"]]
    return Readable(frame, [grid(others.itertuples(), columns)])


def worked_numbers(numbers: pd.DataFrame) -> Readable:
    """The numbers of the worked examples, as written and recomputed, from the table worked_numbers."""

    def four_digits(value: float) -> str:
        return MISSING if pd.isna(value) else typeset(f"{value:.4g}")

    frame = numbers.drop(columns="tolerance")
    columns = {
        Column("example"): lambda row: row.example,
        Column("line", right=True): lambda row: str(row.line),
        Column("quantity"): lambda row: row.quantity,
        Column("stated"): lambda row: row.stated,
        Column("recomputed", right=True): lambda row: four_digits(row.recomputed),
        Column("from what was stated before", right=True): lambda row: four_digits(row.from_stated),
        Column("verdict"): lambda row: row.verdict,
    }
    return Readable(frame, [grid(frame.itertuples(), columns)])
