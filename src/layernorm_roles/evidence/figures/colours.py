"""Colour and name of each variant of the norm, for all figures and the report's page.

Nothing here imports matplotlib, so that a page or a table can use the same names without loading it.
"""

from collections.abc import Iterable

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.legends import LEGENDS

# The colours are those of Okabe and Ito (2008), which readers with any colour vision can tell apart. Black is kept
# for what the paper reports. LayerNorm and projection stand together in Figure 4, so they are not both blue.
COLOURS = {
    "layernorm": "#0072B2",
    "projection": "#CC79A7",
    "scale": "#E69F00",
    "scale_released": "#D55E00",
    "layernorm_small": "#009E73",
    "none": "#7F7F7F",
    "layernorm_qk": "#56B4E9",
}
SPARE_COLOURS = ("#882255", "#B8A800", "#44AA99", "#332288", "#117733", "#999933")
"""Colours for variants that are not built in, in the alphabetical order of their names."""


def palette(variants: Iterable[str]) -> dict[str, str]:
    """Return the colour of every built-in variant and of every other one among `variants`.

    Variants that are not built in take `SPARE_COLOURS` in alphabetical order; from the seventh on colours repeat.
    """
    others = [name for name in legend_order(variants) if name not in COLOURS]
    return COLOURS | {name: SPARE_COLOURS[i % len(SPARE_COLOURS)] for i, name in enumerate(others)}


def label(variant: str) -> str:
    """Return the text that legends and tables use for a variant; one that is not built in goes by its name."""
    return LEGENDS.get(variant, variant)
