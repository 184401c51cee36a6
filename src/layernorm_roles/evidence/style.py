"""How every figure looks: theme, one colour and one name for each variant, and how figures are saved."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from layernorm_roles import store

# Okabe and Ito's palette, told apart with any colour vision. Black is kept for what the paper reports.
COLOURS = {
    "layernorm": "#0072B2",
    "projection": "#56B4E9",
    "scale": "#E69F00",
    "scale_released": "#D55E00",
    "layernorm_small": "#009E73",
    "none": "#7F7F7F",
    "layernorm_qk": "#CC79A7",
}
_SPARE = ["#B8A800", "#882255", "#44AA99", "#AA4499", "#117733", "#999933"]

LABELS = {
    "layernorm": "LayerNorm",
    "projection": "projection only",
    "scale": "scaling only",
    "scale_released": "scaling only, as released (÷ d)",
    "layernorm_small": "LayerNorm ÷ d",
    "none": "no norm",
    "layernorm_qk": "LayerNorm + QK-norm",
}

COLUMN, PAGE = 3.35, 6.9
"""Widths in inches of one column and of the page."""


def order(variants) -> list[str]:
    """The variants in the order of the legends: built-in ones first, then one's own by name."""
    present = set(variants)
    return [v for v in COLOURS if v in present] + sorted(present - set(COLOURS))


def palette(variants) -> dict[str, str]:
    """Colour of each variant; those of one's own take spare colours in alphabetical order."""
    own = sorted(set(variants) - set(COLOURS))
    return COLOURS | {name: _SPARE[i % len(_SPARE)] for i, name in enumerate(own)}


def label(variant: str) -> str:
    return LABELS.get(variant, variant)


def theme() -> None:
    """Set the theme for all figures drawn after."""
    sns.set_theme(
        context="paper",
        style="ticks",
        font="DejaVu Sans",
        rc={
            "font.size": 8,
            "axes.labelsize": 8,
            "axes.titlesize": 8.5,
            "xtick.labelsize": 7,
            "ytick.labelsize": 7,
            "legend.fontsize": 7,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.6,
            "xtick.major.width": 0.6,
            "ytick.major.width": 0.6,
            "lines.linewidth": 1.4,
            "figure.constrained_layout.use": True,
            "figure.dpi": 100,
            "savefig.dpi": 220,
            "pdf.fonttype": 42,
            "svg.hashsalt": "layernorm-roles",
        },
    )


def empty() -> Figure:
    """Stands for a figure whose variants the configuration leaves out."""
    figure = plt.figure(figsize=(COLUMN, 1.0))
    figure.text(
        0.5, 0.5, "left out of this run by its configuration", ha="center", va="center", color="#777777"
    )
    return figure


def save(figure: Figure, *paths: str | Path) -> None:
    """Save to each path (.png, .pdf), whole or not at all, with the same bytes each time; then close."""
    for path in map(Path, paths):
        # Neither a date nor a version of matplotlib: redrawing the same data gives the same file.
        blank = (
            {"CreationDate": None, "Producer": None, "Creator": None}
            if path.suffix == ".pdf"
            else {"Software": None}
        )
        with store.whole(path) as partial:
            figure.savefig(partial, metadata=blank)
    plt.close(figure)
