"""The rows of a table that a figure draws."""

from collections.abc import Sequence

import pandas as pd


def runs_of(
    table: pd.DataFrame, name: str, column: str, value: str, variants: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the rows with `value` in `column`, an experiment or a model, of `variants` if any are given.

    `name` is that of the table. Raises ValueError, with it, if there are no such rows.
    """
    runs = table[table[column] == value]
    if variants:
        runs = runs[runs.variant.isin(variants)]
    if runs.empty:
        raise ValueError(f"{name}: no runs of {column} {value!r} to draw")
    return runs
