"""How figures and tables name and draw variants of the norm before attention, and the constants that captions quote.

This module imports nothing heavy, so that captions can be written while the jobs are planned.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from layernorm_roles.variants import BUILT_IN, label_of


class Look(NamedTuple):
    """How a variant of the norm is named and drawn."""

    label: str
    """The text in legends of figures and rows of tables."""
    colour: str
    stroke: str | tuple = "-"
    """Line style; not solid where a line would hide another one or looks like one to a colour-blind reader."""


LOOKS = {name: Look(each.label, each.colour, each.stroke) for name, each in BUILT_IN.items()}
"""How each built-in variant is named and drawn, in the order of the legends."""

SPARE_COLOURS = ("#B8A800", "#117733", "#AA4499", "#88CCEE", "#6699CC", "#999933")
"""Colours of variants that are not built in, in the alphabetical order of their names; after the last the first."""

LEGENDS: dict[str, str] = {variant: look.label for variant, look in LOOKS.items()}
"""The text of each variant in the legends of figures and the rows of tables, in the order of the legends."""


_SCALED: dict[str, str] = {}


def name_scaled(norms: Mapping[str, Any]) -> None:
    """Let `label` say "35 × projection only" of the built-in norms times a factor among `norms` of the settings."""
    _SCALED.update({name: label_of(**norm) for name, norm in norms.items() if isinstance(norm, Mapping)})


def label(variant: str) -> str:
    """The text of a variant in legends and tables; a class of a user's own goes by its name in the configuration."""
    return LEGENDS.get(variant) or _SCALED.get(variant, variant)


PAPER_RATE_MODEL = "gpt_paper_rate"
"""The language model of workflow/presets/published.yaml with the paper's sizes, learning rate and number of steps."""

PAPER_MODEL = "gpt"
"""The language model of config.yaml that has the paper's sizes, whose numbers figures and tables show beside it."""

FRACTIONS = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
"""The shares of a query's attention that a key may reach or not, the largest first, and how they are written."""

MODELS = {"gpt_rates": "model of words", "bytes_rates": "model of bytes"}
"""What figures call the models of config.yaml that are trained at several rates."""

ENOUGH_SEEDS = 5
"""Number of seeds from which on a curve has a band for the interval of its mean; with fewer it would hide the rest."""

FEWEST = 3
"""Least number of values behind a bar: Student's interval of two is 25 times as long as their standard error."""
