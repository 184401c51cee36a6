"""What figures, tables and claims call the variants, and constants that several of them share."""

from collections.abc import Iterable, Mapping
from typing import Any

from layernorm_roles.variants import BUILT_IN, label_of

LEGENDS: dict[str, str] = {name: variant.label for name, variant in BUILT_IN.items()}
"""The text of each built-in variant in legends of figures and rows of tables, by its name, in the legends' order."""

_SCALED: dict[str, str] = {}


def name_scaled(norms: Mapping[str, Any]) -> None:
    """Make the function `label` return names such as "35 × projection only" for scaled built-in norms.

    `norms` is the section norms of the settings. Its other entries, classes of the user, keep their names.
    """
    _SCALED.update({name: label_of(**norm) for name, norm in norms.items() if isinstance(norm, Mapping)})


def label(variant: str) -> str:
    """Return the name of a variant that readers see in legends and tables, such as "LayerNorm" for layernorm.

    For a class of the user's own it is the name in the configuration.
    """
    return LEGENDS.get(variant) or _SCALED.get(variant, variant)


def legend_order(variants: Iterable[str]) -> list[str]:
    """Return the distinct names in `variants`: built-in variants in the order of legends, then others by alphabet."""
    present = set(variants)
    return [name for name in LEGENDS if name in present] + sorted(present - set(LEGENDS))


PRETRAINED = {"minilm": "all-MiniLM-L6-v2", "smollm2": "SmolLM2-135M-Instruct"}
"""The published names of the pretrained models of config.yaml and its presets."""


def in_words(model: str, settings: Mapping[str, Any]) -> str:
    """Return what titles call a language model, such as "byte-level GPT, d = 64, learning rate .002"."""
    own = settings["language_model"][model]
    rates = " or ".join(f"{rate:g}".replace("0.", ".", 1) for rate in own["learning_rate"])
    kind = "byte-level " if of_bytes(model, settings) else ""
    return f"{kind}{own['architecture'].upper()}, d = {own['d_model']}, learning rate {rates}"


def of_bytes(model: str, settings: Mapping[str, Any]) -> bool:
    """Whether a language model reads bytes, so that its losses are in nats per byte."""
    return settings["text"][settings["language_model"][model]["text"]]["vocabulary"] == 256


PAPER_MODEL = "gpt"
"""The language model of config.yaml that has the paper's sizes, whose numbers figures and tables show beside it."""

FRACTIONS = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
"""Shares of a query's attention, the largest first, and how they are written: whether keys reach them is tested."""

LEAST_FOR_INTERVAL = 3
"""Least number of values whose interval is shown: Student's of two is 25 standard errors long."""
