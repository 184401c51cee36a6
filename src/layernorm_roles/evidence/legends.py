"""How figures and tables name and draw what they show, and the constants that captions quote.

This module imports nothing heavy, so that captions can be written while the jobs are planned.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from layernorm_roles.variants import BUILT_IN, label_of

LEGENDS: dict[str, str] = {name: variant.label for name, variant in BUILT_IN.items()}
"""The text of each built-in variant in legends of figures and rows of tables, in the order of the legends."""

SPARE_COLOURS = ("#B8A800", "#117733", "#AA4499", "#88CCEE", "#6699CC", "#999933")
"""Colours of variants that are not built in, in the alphabetical order of their names; after the last the first."""

_SCALED: dict[str, str] = {}


def name_scaled(norms: Mapping[str, Any]) -> None:
    """Let `label` say "35 × projection only" of the built-in norms times a factor among `norms` of the settings."""
    _SCALED.update({name: label_of(**norm) for name, norm in norms.items() if isinstance(norm, Mapping)})


def label(variant: str) -> str:
    """The text of a variant in legends and tables; a class of a user's own goes by its name in the configuration."""
    return LEGENDS.get(variant) or _SCALED.get(variant, variant)


def legend_order(variants: Iterable[str]) -> list[str]:
    """The different names among `variants`: built-in variants in the order of the legends, then others by name."""
    present = set(variants)
    return [name for name in LEGENDS if name in present] + sorted(present - set(LEGENDS))


PAPER_RATE_MODEL = "gpt_paper_rate"
"""The language model of workflow/presets/published.yaml with the paper's sizes, learning rate and number of steps."""

PAPER_MODEL = "gpt"
"""The language model of config.yaml that has the paper's sizes, whose numbers figures and tables show beside it."""

FRACTIONS = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
"""The shares of a query's attention that a key may reach or not, the largest first, and how they are written."""

MODELS = {"gpt_rates": "model of words", "bytes_rates": "model of bytes"}
"""What figures call the models of config.yaml that are trained at several rates."""

LEAST_FOR_INTERVAL = 3
"""Least number of values whose interval is shown: Student's of two is 25 times as long as their standard error."""

LEAST_FOR_BAND = 5
"""Least number of seeds for which a curve has a band; the interval of fewer would hide the other curves."""
