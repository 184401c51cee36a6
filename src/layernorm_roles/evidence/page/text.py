"""Texts of the page: what report.yaml has, mathematics, data for its script, and the commands it prints."""

import re
from pathlib import Path
from typing import NamedTuple

import yaml
from markupsafe import Markup, escape

from layernorm_roles.evidence.tables.typography import typeset

TEXTS = yaml.safe_load((Path(__file__).parent / "report.yaml").read_text(encoding="utf-8"))
"""The texts of report.yaml: units, terms, parts of the page, sources."""


class Source(NamedTuple):
    """A document that claims come from."""

    name: str
    """Short name, for links inside the page."""
    begins: tuple[str, ...]
    """How the sources of its claims begin, as the claims name them."""
    short: str
    """Short title of the document, by which readers choose it."""
    text: str
    """Author, title, date and kind; for a text without a title its first words."""
    address: str = ""
    """Address of the document; empty where it is not known."""


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


def command(target: str, options: str) -> str:
    """The command that makes `target`; snakemake wants targets before the options that take several values.

    >>> command("majority", "--configfile mine.yaml")
    'snakemake --cores all majority --configfile mine.yaml'
    """
    return " ".join(word for word in ("snakemake --cores all", target, options.strip()) if word)


def mathematics(text: str) -> Markup:
    """The text typeset and escaped for HTML, intervals in one piece, the subscripts of W_O and d_k set as such."""
    text = re.sub(r"\[([^][ ]+), ([^][ ]+)\]", "[\\1,\u00a0\\2]", typeset(text))
    return Markup(re.sub(r"\b([Wd])_(\w)\b", r"<i>\1</i><sub>\2</sub>", str(escape(text))))
