"""The documents that the claims come from: author, title and address as far as they are known, or first words."""

from typing import NamedTuple

from layernorm_roles.evidence.page.text import TEXTS


class Source(NamedTuple):
    """One document."""

    name: str
    """Short name, for links inside the page."""
    begins: tuple[str, ...]
    """How the sources of its claims begin, as the claims name them."""
    short: str
    """What readers choose it by."""
    text: str
    """Author, title, date and kind; for a text without a title its first words."""
    address: str = ""
    """Where it is read; empty where the address is not known."""


PAPER = "https://arxiv.org/abs/2305.02582"
RELEASED_CODE = "https://github.com/tech-srl/layer_norm_expressivity_role"

SOURCES = tuple(Source(**entry | {"begins": tuple(entry["begins"])}) for entry in TEXTS["sources"])
"""All documents; where two fit a claim, the first does."""


def source_of(named: str) -> Source:
    """The document that a claim names as its source.

    Raises KeyError if there is none of that name.

    >>> source_of("Brody, Alon and Yahav 2023, Figure 3; on other data").name
    'paper'
    """
    for source in SOURCES:
        if named.startswith(source.begins):
            return source
    raise KeyError(f"no source begins like {named!r}")
