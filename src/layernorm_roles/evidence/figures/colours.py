"""Colour and name of each variant of the norm, for all figures and the report's page.

Nothing here imports matplotlib, so that a page or a table can use the same names without loading it.
"""

from collections.abc import Iterable
from typing import SupportsInt

from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT

# The colours are those of Okabe and Ito (2008) and, for the variants that split or extend LayerNorm, of Tol (2021);
# readers with any colour vision can tell apart those that meet in a figure. Black is kept for what the paper reports.
# LayerNorm and projection stand together in Figure 4, so they are not both blue.
COLOURS = {
    "layernorm": "#0072B2",
    "layernorm_affine": "#44AA99",
    "layernorm_gain": "#004A78",
    "layernorm_gain_small": "#B07050",
    "projected_qk": "#332288",
    "projected_v": "#882255",
    "projection": "#CC79A7",
    "projection_scalar": "#8F3D6F",
    "layernorm_shrunk": "#661100",
    "scale": "#E69F00",
    "scale_gain": "#A87400",
    "scale_released": "#D55E00",
    "layernorm_small": "#009E73",
    "none": "#7F7F7F",
    "none_scalar": "#B0B0B0",
    QUERY_KEY_VARIANT: "#56B4E9",
    NO_ATTENTION_VARIANT: "#404040",
}
SPARE_COLOURS = ("#B8A800", "#117733", "#AA4499", "#88CCEE", "#6699CC", "#999933")
"""Colours for variants that are not built in, in the alphabetical order of their names."""

STROKES = {
    "layernorm_affine": (0, (5, 1)),
    "layernorm_gain": (0, (5, 1)),
    "layernorm_gain_small": (0, (5, 1)),
    "scale_gain": (0, (5, 1)),
    "projection_scalar": (0, (1, 1)),
    "none_scalar": (0, (1, 1)),
    "projected_qk": (0, (3, 1)),
    "projected_v": (0, (1, 1)),
    "projection": "--",
    "none": (0, (6, 2)),
    "layernorm_shrunk": (0, (5, 1, 1, 1)),
    QUERY_KEY_VARIANT: ":",
    NO_ATTENTION_VARIANT: "-.",
}
"""Line styles of variants whose line would hide another one, or looks like one to a colour-blind reader; all others
are solid."""


def palette(variants: Iterable[str]) -> dict[str, str]:
    """Return the colour of every built-in variant and of every other one among `variants`.

    Variants that are not built in take `SPARE_COLOURS` in alphabetical order; from the seventh on colours repeat.
    """
    others = [name for name in legend_order(variants) if name not in COLOURS]
    return COLOURS | {name: SPARE_COLOURS[i % len(SPARE_COLOURS)] for i, name in enumerate(others)}


def stroke(variant: str) -> str | tuple:
    """Return the line style of a variant, as matplotlib takes it."""
    return STROKES.get(variant, "-")


def label(variant: str) -> str:
    """Return the text that legends and tables use for a variant; one that is not built in goes by its name."""
    return LEGENDS.get(variant, variant)


def counted(name: str, *seeds: SupportsInt) -> str:
    """Return the text of a legend with the number of seeds, or with those of several panels where they differ."""
    numbers = list(dict.fromkeys(map(int, seeds)))
    return f"{name}, {' and '.join(map(str, numbers))} seed{'' if numbers == [1] else 's'}"
