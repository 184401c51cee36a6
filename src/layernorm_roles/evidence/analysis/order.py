"""The order in which variants of the norm appear in tables and legends."""

from collections.abc import Iterable

from layernorm_roles.evidence.legends import LEGENDS


def legend_order(variants: Iterable[str]) -> list[str]:
    """The different names among `variants`: built-in variants in the order of the legends, then others by name."""
    present = set(variants)
    return [name for name in LEGENDS if name in present] + sorted(present - set(LEGENDS))
