"""Two reproductions side by side: their claims, joined by name."""

from pathlib import Path

import pandas as pd

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.tables.readable import Readable, grid, write
from layernorm_roles.evidence.tables.typography import MISSING, measured

COLUMNS = ["measured", "ci_low", "ci_high", "n_seeds", "verdict"]
"""Columns of table claims that are compared between two reproductions."""


def compare(folder: str | Path, other: str | Path, out_csv: str | Path, out_md: str | Path) -> list[str]:
    """Write a table of the claims of two reproductions side by side, as CSV and as Markdown.

    Returns a line for each claim whose verdicts differ, whose intervals do not overlap, or that only one reproduction
    has. Raises ValueError if one of the two folders has no table claims, or if the table is damaged or has other
    columns than this version of the package writes.
    """
    paths = [Path(each, "parquet/claims.parquet") for each in (folder, other)]
    if lacking := [each for each, path in zip((folder, other), paths, strict=True) if not path.is_file()]:
        raise ValueError(
            f"{lacking[0]} has no verdicts; run snakemake --cores all with its configuration first"
        )
    names = [Path(each).name for each in (folder, other)]
    if names[0] == names[1]:  # a column has the name of its reproduction
        names = [str(folder), str(other)]
    ours, theirs = (store.read(path, "claims").set_index("claim") for path in paths)
    joined = ours[COLUMNS].join(theirs[COLUMNS].add_suffix("_other"), how="outer")
    joined = joined.reindex(dict.fromkeys([*ours.index, *theirs.index])).rename_axis("claim").reset_index()
    joined["difference"] = [_difference(row) for row in joined.itertuples()]
    units = {claim.name: claim.unit for claim in CLAIMS}

    def side(row, end: str) -> str:
        *estimate, _, verdict = (getattr(row, f"{column}{end}") for column in COLUMNS)
        numbers = measured(*estimate, units.get(row.claim, ""))
        return ", ".join(filter(None, [numbers, MISSING if pd.isna(verdict) else verdict]))

    cells = {
        "claim": "{.claim}",
        names[0]: lambda row: side(row, ""),
        names[1]: lambda row: side(row, "_other"),
        "difference": "{.difference}",
    }
    write(Readable(joined, [grid(joined, cells, texts=4)]), out_csv, out_md)
    differing = joined[joined.difference != ""]
    return [
        f"{row.claim}: {row.difference}; {names[0]}: {side(row, '')}; {names[1]}: {side(row, '_other')}"
        for row in differing.itertuples()
    ]


def _difference(row) -> str:
    """Return how a claim differs between two reproductions, from its row with the columns of both; empty if not."""
    if pd.isna(row.verdict) or pd.isna(row.verdict_other):
        return "in one of them only"
    apart = max(row.ci_low, row.ci_low_other) > min(row.ci_high, row.ci_high_other)
    said = {"another verdict": row.verdict != row.verdict_other, "intervals apart": apart}
    return ", ".join(words for words, true in said.items() if true)
