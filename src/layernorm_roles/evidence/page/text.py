"""Texts of the page: mathematics, data for its script, and the commands it prints."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup, escape

TEXTS = yaml.safe_load((Path(__file__).parent / "report.yaml").read_text(encoding="utf-8"))
"""The texts of report.yaml: units, terms, parts of the page, sources."""


def command(target: str, options: str) -> str:
    """The command that makes `target`; snakemake wants targets before the options that take several values.

    >>> command("majority", "--configfile mine.yaml")
    'snakemake --cores all majority --configfile mine.yaml'
    """
    return " ".join(word for word in ("snakemake --cores all", target, options.strip()) if word)


def mathematics(text: str) -> Markup:
    """The text escaped for HTML, with the subscripts of W_O and d_k and the like set as such."""
    return Markup(re.sub(r"\b([Wd])_(\w)\b", r"<i>\1</i><sub>\2</sub>", str(escape(text))))


def script_json(value: Any) -> Markup:
    """The value as JSON that may stand inside a script element, whatever names it holds."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def slug(words: str) -> str:
    """The words as a name for classes and places of the page.

    >>> slug("does not hold")
    'does-not-hold'
    """
    return words.replace(" ", "-")
