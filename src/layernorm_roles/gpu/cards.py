"""Which of a machine's GPUs a job takes, so that the jobs spread evenly over all of them."""

import fcntl
import os
import tempfile
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import TextIO

from layernorm_roles.gpu.driver import Card

_held: list[TextIO] = []
"""Open lock files of this process; the system lets go of a lock when the process ends, however it ends."""


def take(cards: Iterable[Card], folder: Path | None = None) -> Card:
    """One of `cards` that no more jobs have taken than any other, which counts as this process' until it ends.

    Every card has numbered places, each a file in `folder` that its holder locks. The first free place is taken in the
    order of the numbers, so that a second job takes the second card and a third job the first card's second place.
    """
    cards = list(cards)
    folder = folder or Path(tempfile.gettempdir()) / f"layernorm_roles_gpus_of_{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in count():
        for card in cards:
            file = (folder / f"{card.identity}.{place}").open("a", encoding="utf-8")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                continue
            _held.append(file)
            return card
