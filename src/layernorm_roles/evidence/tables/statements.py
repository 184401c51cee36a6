"""Readable table of the numbers in the worked examples of the lecture notes on transformers, with their verdicts."""

import pandas as pd

from layernorm_roles.evidence.analysis.statements import example_verdicts
from layernorm_roles.evidence.tables.structure import MISSING, Readable, grid, left, right
from layernorm_roles.evidence.tables.typography import typeset

VERDICTS = ("right", "rounding", "hedged", "carried", "wrong")
"""The verdicts on a worked number, from the best to the worst."""


def worked_numbers(numbers: pd.DataFrame) -> Readable:
    """The worked examples with the verdict on each, then all their numbers, from the table worked_numbers."""

    def four_digits(value: float) -> str:
        return MISSING if pd.isna(value) else typeset(f"{value:.4g}")

    by_example = numbers.groupby("example", sort=False).verdict
    counts = by_example.value_counts().unstack(fill_value=0).reindex(columns=VERDICTS, fill_value=0)
    examples = counts.assign(
        example_verdict=example_verdicts(numbers), line=numbers.groupby("example").line.min()
    )
    example_columns = (
        left("example", "{.Index}"),
        right("line", "{.line}"),
        *(right(name, f"{{.{name}}}") for name in VERDICTS),
        left("verdict on the example", "{.example_verdict}"),
    )
    frame = numbers.drop(columns="tolerance").assign(
        example_verdict=numbers.example.map(example_verdicts(numbers))
    )
    columns = (
        left("example", "{.example}"),
        right("line", "{.line}"),
        left("quantity", "{.quantity}"),
        left("stated", "{.stated}"),
        right("recomputed", lambda row: four_digits(row.recomputed)),
        right("from what was stated before", lambda row: four_digits(row.from_stated)),
        left("verdict", "{.verdict}"),
    )
    by_example = grid(examples.sort_values("line").itertuples(), *example_columns)
    return Readable(frame, [by_example, grid(frame, *columns)])
