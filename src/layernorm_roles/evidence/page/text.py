"""Texts of the report: what report.yaml has, the commands that it prints, and mathematics set in HTML."""

import re
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup, escape

from layernorm_roles.evidence.tables.typography import typeset

TEXTS = yaml.safe_load((Path(__file__).parent / "report.yaml").read_text(encoding="utf-8"))
"""What report.yaml has: the report's units, terms, parts and sources."""

PAPER = "https://arxiv.org/abs/2305.02582"
RELEASED_CODE = "https://github.com/tech-srl/layer_norm_expressivity_role"

SOURCES = TEXTS["sources"]
"""The entries of report.yaml for the documents that claims come from."""


def source_of(named: str) -> dict[str, Any]:
    """Return the document that a claim names as its source: the first entry of SOURCES with such a beginning.

    >>> source_of("Brody, Alon and Yahav 2023, Figure 3; on other data")["name"]
    'paper'
    """
    return next(source for source in SOURCES if named.startswith(tuple(source["begins"])))


def command(target: str, options: str) -> str:
    """Return the command that makes `target`, which snakemake wants before options that take several values.

    >>> command("majority", "--configfile mine.yaml")
    'snakemake --cores all majority --configfile mine.yaml'
    """
    return " ".join(word for word in ("snakemake --cores all", target, options.strip()) if word)


def mathematics(text: str) -> Markup:
    """Return `text` typeset and as HTML, with intervals in one piece and subscripts in W_O and d_k."""
    text = re.sub(r"\[([^][ ]+), ([^][ ]+)\]", "[\\1,\u00a0\\2]", typeset(text))
    return Markup(re.sub(r"\b([Wd])_(\w)\b", r"<i>\1</i><sub>\2</sub>", str(escape(text))))
