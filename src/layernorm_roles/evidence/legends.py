"""How figures and tables name and draw variants of the norm before attention, and the constants that captions quote.

This module imports nothing heavy, so that captions can be written while the jobs are planned.
"""

from typing import NamedTuple

from layernorm_roles.variants import NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT


class Look(NamedTuple):
    """How a variant of the norm is named and drawn."""

    label: str
    """The text in legends of figures and rows of tables."""
    colour: str
    stroke: str | tuple = "-"
    """Line style; not solid where a line would hide another one or looks like one to a colour-blind reader."""


# The colours are those of Okabe and Ito (2008) and, for the variants that split or extend LayerNorm, of Tol (2021);
# readers with any colour vision can tell apart those that meet in a figure. Black is kept for what the paper reports.
# LayerNorm and projection stand together in Figure 4, so they are not both blue.
LOOKS = {
    "layernorm": Look("LayerNorm", "#0072B2"),
    "layernorm_affine": Look("LayerNorm with gain and bias", "#44AA99", (0, (5, 1))),
    "layernorm_gain": Look("LayerNorm with gain", "#004A78", (0, (5, 1))),
    "layernorm_gain_small": Look("LayerNorm with gain from 0.028", "#B07050", (0, (5, 1))),
    "projected_qk": Look("LayerNorm for QK, scaling for V", "#332288", (0, (3, 1))),
    "projected_v": Look("scaling for QK, LayerNorm for V", "#882255", (0, (1, 1))),
    "projection": Look("projection only", "#CC79A7", "--"),
    "projection_scalar": Look("projection × learnt scalar", "#8F3D6F", (0, (1, 1))),
    "layernorm_shrunk": Look("LayerNorm × 0.028", "#661100", (0, (5, 1, 1, 1))),
    "scale": Look("scaling only", "#E69F00"),
    "scale_gain": Look("scaling with gain", "#A87400", (0, (5, 1))),
    "scale_released": Look("scaling only, as released (÷ d)", "#D55E00"),
    "layernorm_small": Look("LayerNorm ÷ d", "#009E73"),
    "none": Look("no norm", "#7F7F7F", (0, (6, 2))),
    "none_scalar": Look("no norm × learnt scalar", "#B0B0B0", (0, (1, 1))),
    QUERY_KEY_VARIANT: Look("LayerNorm + QK-norm", "#56B4E9", ":"),
    NO_ATTENTION_VARIANT: Look("no attention", "#404040", "-."),
}
"""The look of each built-in variant, in the order of the legends."""

SPARE_COLOURS = ("#B8A800", "#117733", "#AA4499", "#88CCEE", "#6699CC", "#999933")
"""Colours for variants that are not built in, in the alphabetical order of their names; the seventh has the first."""

LEGENDS: dict[str, str] = {variant: look.label for variant, look in LOOKS.items()}
"""The text of each variant in the legends of figures and the rows of tables, in the order of the legends."""


def label(variant: str) -> str:
    """The text of a variant in legends and tables; one that is not built in goes by its name."""
    return LEGENDS.get(variant, variant)


PAPER_MODEL = "gpt"
"""The language model of config.yaml that has the paper's sizes, and its numbers beside its own."""

FRACTIONS = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
"""The shares of a query's attention that a key may reach or not, the largest first, and how they are written."""

MODELS = dict.fromkeys(("gpt_rates", "gpt_lengths"), "model of words") | dict.fromkeys(
    ("bytes_rates", "bytes_lengths"), "model of bytes"
)
"""What the main figures call the models of config.yaml that are trained at several rates and lengths."""

TEST_LOSS = 0.5
"""Nats per token. Steps are counted to this test loss: the paper's slow variant ends near it, 0.42 at step 5,000."""

ENOUGH_SEEDS = 5
"""Seeds from which on curves have a band for the interval of their mean; that of fewer would hide the rest."""

FEWEST = 3
"""Values behind a vertical bar, at least: Student's interval of two is 25 times as long as their standard error."""
