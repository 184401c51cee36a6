"""Tables as CSV for programs and Markdown for readers."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from layernorm_roles import store


def save(
    frame: pd.DataFrame,
    csv: str | Path,
    md: str | Path,
    formats: Mapping[str, Callable[[object], str]] | None = None,
    note: str = "",
) -> None:
    """Write `frame` to `csv` with full precision and to `md` with a format for each column that has one."""
    with store.whole(csv) as partial:
        frame.to_csv(partial, index=False)
    with store.whole(md) as partial:
        partial.write_text(markdown(frame, formats) + (f"\n{note}\n" if note else ""))


def markdown(frame: pd.DataFrame, formats: Mapping[str, Callable[[object], str]] | None = None) -> str:
    """`frame` as a Markdown table; missing values are dashes, numbers are right-aligned."""
    formats = formats or {}
    shown = pd.DataFrame(
        {
            name: ["–" if pd.isna(value) else formats.get(name, str)(value) for value in column]
            for name, column in frame.items()
        }
    )
    rule = ["---:" if pd.api.types.is_numeric_dtype(column) else "---" for _, column in frame.items()]
    rows = [list(map(str, frame.columns)), rule, *shown.values.tolist()]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)
