"""The table of architectures: each is measured as eager attention computes it, or refused in one line."""

from collections import Counter
from pathlib import Path

import pytest
from architectures import table

DOCUMENT = Path(__file__).parents[2] / "docs/architectures.md"


@pytest.mark.long
def test_every_architecture_is_measured_as_eager_attention_computes_it_or_refused_in_one_line():
    """Other errors than ValueError, of one line, are raised here. The document is what this version gives."""
    text, found = table()
    counted = Counter(kind for kind, _ in found.values())
    assert counted["measured"] + counted["heads alone"] >= 100, counted
    assert text == DOCUMENT.read_text(encoding="utf-8")
