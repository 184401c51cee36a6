"""How much a token's output depends on the rest of the batch, with LayerNorm and with BatchNorm."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from layernorm_roles.evidence.figures import style

NORMS = {"layernorm": ("LayerNorm", "#0072B2"), "batchnorm": ("BatchNorm", "#D55E00")}
"""Label and colour of each norm."""

EFFECTS = {
    "others": ("batch_size", "other sequences drawn anew", "sequences in the batch"),
    "mode": ("batch_size", "training against evaluation", "sequences in the batch"),
    "padding": ("padding", "padding after sequences", "share of padding"),
}
"""Column of the x axis, title and label of the x axis for each effect."""


def batch_dependence(table: pd.DataFrame) -> Figure:
    """Draw the change of a token's output by other sequences, by the mode and by padding, a panel each."""
    figure, grid = plt.subplots(1, 3, figsize=(style.PAGE, 2.5))
    for axes, (effect, (x, title, label)) in zip(grid, EFFECTS.items(), strict=True):
        # Padding has one value a seed and share, the mean over batch sizes, which hardly matter there.
        part = table[table.effect == effect].groupby(["norm", x, "seed"], as_index=False).change.mean()
        for norm, (_, colour) in NORMS.items():
            style.mean_line(axes, part[part.norm == norm], x, "change", color=colour, marker="o", ms=3)
        axes.set(title=title, xlabel=label)
        if x == "batch_size":
            axes.set_xscale("log")
            style.ticks_at(axes, sorted(part.batch_size.unique()))
            axes.tick_params(axis="x", labelsize=6)
        else:
            axes.xaxis.set_major_formatter(PercentFormatter(1))
            axes.set_xticks(sorted(part.padding.unique()))
    grid[0].set_ylabel("change of a token's output\n(size of the output is 1)")
    handles = [style.mark(label, color=colour, marker="o", ms=3) for label, colour in NORMS.values()]
    style.legend_below(figure, handles, columns=2, **style.seeds_title([table.seed.nunique()]))
    return figure
