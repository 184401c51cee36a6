"""The claims with their measured numbers, comparisons and verdicts as readers see them."""

from typing import NamedTuple

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import LEVEL
from layernorm_roles.evidence.claims import CLAIMS, on_common_scale
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.evidence.claims.testing import Claim
from layernorm_roles.evidence.tables.readable import Readable, grid
from layernorm_roles.evidence.tables.scoreboard import scoreboard
from layernorm_roles.evidence.tables.typography import MISSING, measured, typeset

__all__ = ["Judged", "claims", "judged", "scoreboard"]  # tables of the group verdicts are found here

SEEN = (Verdict.CONFOUNDED, Verdict.HOLDS)
"""Verdicts by which an effect is there, beside which readers see if Holm's correction leaves it open."""


class Judged(NamedTuple):
    """A claim with its row of the table claims, and its numbers and verdict as texts for readers.

    The row also has the effect, its control and their intervals in units of the effect that the source reports.
    """

    claim: Claim
    row: pd.Series

    @property
    def measured(self) -> str:
        """The claim's measured number with its unit and 95 % interval, as text; empty if nothing was measured."""
        return measured(*self.row[["measured", "ci_low", "ci_high"]], self.claim.unit)

    @property
    def control(self) -> str:
        """The number of the claim's control with its unit and 95 % interval, as text; empty if there is none."""
        return measured(*self.row[["control_measured", "control_low", "control_high"]], self.claim.unit)

    @property
    def size(self) -> str:
        """The claim's effect in per cent of the reported effect, with its interval, as text.

        It is empty if the source reports no effect, or if none was measured.
        """
        if pd.isna(self.row.effect):
            return ""
        mean, low, high = (whole(100 * value) for value in self.row[["effect", "low", "high"]])
        return f"{mean}\u00a0% [{low}, {high}]"

    @property
    def verdict(self) -> str:
        """The claim's verdict and its qualifications, as texts separated by semicolons.

        They are models that pass the test, too, and a corrected p above 0.05.
        """
        said = [str(self.row.verdict)]
        if pd.notna(self.row.also_passed_by):
            said.append(f"{self.row.also_passed_by} pass too")
        if self.row.verdict in SEEN and self.row.p_holm > 1 - LEVEL:
            said.append(f"p = {self.row.p_holm:.2g} with Holm's correction")
        return "; ".join(said)


def judged(claims: pd.DataFrame) -> dict[str, Judged]:
    """Return the claims in the table `claims`, with their numbers as texts, by name and in the order of the report."""
    rows = on_common_scale(claims).set_index("claim")
    return {claim.name: Judged(claim, rows.loc[claim.name]) for claim in CLAIMS if claim.name in rows.index}


def whole(value: float) -> str:
    """Return a number as text without decimals: with a true minus sign, ∞ for infinity, and a dash for NaN."""
    if pd.isna(value):
        return MISSING
    return f"{value:,.0f}".replace("-0", "0").replace("-", "−").replace("inf", "∞")


def claims(table: pd.DataFrame) -> Readable:
    """Return a readable table of all claims: what is measured, found and reported, the control, and the verdict.

    `table` is the Parquet table claims, as a data frame.
    """

    def control(judged: Judged) -> str:
        """The number of the isolating comparison if it has one, and what it is: the first of the claim's controls."""
        first, _, _ = judged.row.control.partition(";")
        return typeset(f"{judged.control} ({first})" if judged.control else first)

    cells = {
        "Name": "{.claim.name}",
        "Claim": lambda judged: typeset(judged.row.statement),
        "What is measured": lambda judged: typeset(judged.row.statistic),
        "Verdict": "{.verdict}",
        "Found, 95 % interval": lambda judged: judged.measured or MISSING,
        "Reported": lambda judged: typeset(judged.row.paper_value) or MISSING,
        "Control": control,
        "Runs": lambda judged: f"{judged.row.n_seeds:,}" if judged.row.n_seeds > 1 else MISSING,
        "Effect over the reported one": lambda judged: judged.size or MISSING,
    }
    return Readable(table.drop(columns="setting"), [grid(judged(table).values(), cells, texts=7)])
