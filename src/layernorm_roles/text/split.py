"""The split of a corpus into training, validation and held-out documents.

Documents are split, never windows of tokens: no sentence of a held-out context was trained on.
"""

import hashlib
import math

import numpy as np

from layernorm_roles.settings.text import Split

PARTS = ("training", "validation", "held_out")
"""The parts of a corpus, in the order in which they divide the interval from 0 to 1."""


def part_of(text: str, split: Split) -> str:
    """The part of the corpus, one of PARTS, that a document belongs to.

    A hash of the document's text decides, so that the order of the documents does not matter and a document that
    occurs twice stays in one part.
    """
    digest = hashlib.sha256(text.encode()).digest()
    position = int.from_bytes(digest[:8]) / 2**64
    bounds = np.cumsum([getattr(split, part) for part in PARTS[:-1]])
    return PARTS[int(np.searchsorted(bounds, position, side="right"))]


def documents_for(part: str, split: Split) -> int:
    """The documents that a corpus must have so that, in 99 cases of 100, one of them belongs to `part`."""
    share = getattr(split, part)
    return 1 if share == 1 else math.ceil(math.log(0.01) / math.log(1 - share))
