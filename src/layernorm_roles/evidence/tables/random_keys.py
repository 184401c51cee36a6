"""The law of widths as a readable table: how many Gaussian keys it takes for a share of them to be unselectable."""

import pandas as pd

from layernorm_roles.evidence.tables.readable import Cell, Readable, grid
from layernorm_roles.evidence.tables.typography import MISSING

SHOWN = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
"""Dimensions of keys that readers see in the table of the law of widths; its CSV file has all."""


def gaussian_law(law: pd.DataFrame) -> Readable:
    """Return a readable table of how many Gaussian keys it takes until a given share of them is unselectable.

    `law` is the table gaussian_law. Rows are dimensions, columns shares, with all or only earlier keys as rivals.
    """
    thresholds = law.pivot(index="d", columns=["share", "causal"], values="n")
    cells: dict[str, Cell] = {"d": "{.name}"}
    for share, causal in sorted(thresholds.columns, key=lambda column: (column[1], column[0])):
        name = f"{100 * share:g} %" + (", causal" if causal else "")
        cells[name] = lambda row, of=(share, causal): MISSING if pd.isna(row[of]) else f"{row[of]:,.0f}"
    rows = [row for d, row in thresholds.iterrows() if d in SHOWN]
    note = (
        "The smallest number of standard Gaussian keys in d dimensions of which the share is expected to be "
        "unselectable, exactly; causal: with the keys before it as a key's only rivals. No number: more than "
        f"{law.n.max():,.0f} keys, the most that the table has."
    )
    return Readable(law, [grid(rows, cells, texts=0), note])
