"""How much a token's output depends on the rest of the batch, with LayerNorm and with BatchNorm."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from layernorm_roles.evidence.figures import style

NORMS = {
    "layernorm": {"label": "LayerNorm", "color": "#0072B2", "marker": "o", "ms": 3},
    "batchnorm": {"label": "BatchNorm", "color": "#D55E00", "marker": "o", "ms": 3},
}
"""Look of each norm."""

EFFECTS = {
    "others": ("batch_size", "other sequences drawn anew", "sequences in the batch"),
    "mode": ("batch_size", "training against evaluation", "sequences in the batch"),
    "padding": ("padding", "padding after sequences", "share of padding"),
}
"""Column of the x axis, title and label of the x axis for each effect."""


def batch_dependence(table: pd.DataFrame) -> Figure:
    """Draw the change of a token's output by other sequences, by the mode and by padding, a panel each.

    table: batch_dependence.
    """
    figure, panels = plt.subplots(1, 3, figsize=(style.PAGE, 2.5))
    for axes, (effect, (x, title, label)) in zip(panels, EFFECTS.items(), strict=True):
        # Padding has one value a seed and share, the mean over batch sizes, which hardly matter there.
        part = table[table.effect == effect].groupby(["norm", x, "seed"], as_index=False).change.mean()
        style.lines(axes, part, "norm", NORMS, x, "change")
        axes.set(title=title, xlabel=label)
        if x == "batch_size":
            axes.set_xscale("log")
            style.ticks_at(axes, part.batch_size)
            axes.tick_params(axis="x", labelsize=6)
        else:
            axes.xaxis.set_major_formatter(PercentFormatter(1))
            axes.set_xticks(sorted(part.padding.unique()))
    panels[0].set_ylabel("change of a token's output\n(size of the output is 1)")
    style.legend_below(figure, style.marks(NORMS), columns=2, **style.seeds_title([table.seed.nunique()]))
    return figure
