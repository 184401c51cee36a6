"""What stands below a heading is the number that the heading names, where several columns hold alike numbers."""

import math
import re

import pytest
import worlds

from layernorm_roles.evidence.tables import registry

HEADINGS = {
    "baselines": {
        "validation loss": "valid_loss",
        "unigram": "unigram_loss",
        "no attention": "no_attention_loss",
        "below unigram by": "gain_over_unigram",
        "attention is worth": "worth_of_attention",
    },
    "pilot": {
        "LayerNorm": "valid_loss",
        "projection only": "projection_loss",
        "no attention": "no_attention_loss",
        "unigram": "unigram_loss",
        "attention is worth": "worth_of_attention",
        "CPU seconds a run": "cpu_seconds",
    },
    "ceilings_by_token": {
        "occurrences": "occurrences",
        "contexts": "contexts",
        "less than ½ (%)": "percent",
        "median ceiling": "ceiling",
        "most received": "received",
    },
}
"""For each table the column of its CSV file that stands below each heading of its first grid."""

WORLDS = {
    "language_model_metrics": lambda: worlds.losses(0.05, worth=0.4, seeds=3),
    "attention_ceilings": lambda: worlds.attention_ceilings({"as used": (0.1, 0.3), "without norm": 0.5}),
}


def shown(cell: str) -> tuple[float, float]:
    """The first number of a cell, and half a unit of its last digit; NaN for a dash."""
    if cell == "–":
        return math.nan, 0.0
    digits = re.match(r"−?[\d,.]+", cell)[0].replace("−", "-").replace(",", "")
    return float(digits), 0.5000001 * 10.0 ** -len(digits.partition(".")[2])


@pytest.mark.parametrize("name", HEADINGS)
def test_each_column_shows_the_numbers_that_its_heading_names(name):
    table = registry.TABLES[name]
    readable = registry.make(table, {each: WORLDS[each]() for each in table.inputs})
    grid = next(part for part in readable.parts if not isinstance(part, str))
    headings = [column.name for column in grid.columns]
    seen = set()
    for heading, column in HEADINGS[name].items():
        numbers = [shown(row[headings.index(heading)]) for row in grid.rows]
        for (number, half), known in zip(numbers, readable.frame[column].astype(float), strict=False):
            assert number == pytest.approx(known, abs=half, nan_ok=True), (heading, column)
        seen.add(tuple(number for number, _ in numbers))
    assert len(seen) == len(HEADINGS[name]), "no two columns of this world are equal"
