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


def batch_dependence(table: pd.DataFrame) -> Figure:
    """Draw the change of a token's output by other sequences, and by padding, a panel each.

    table: batch_dependence.
    """
    figure, panels = plt.subplots(1, 2, figsize=(style.PAGE, 2.4))
    for axes, effect, x in zip(panels, ("others", "padding"), ("batch_size", "padding"), strict=True):
        # Padding has one value a seed and share, the mean over batch sizes, which hardly matter there.
        part = table[table.effect == effect].groupby(["norm", x, "seed"], as_index=False).change.mean()
        style.lines(axes, part, "norm", NORMS, x, "change")
    others, padding = panels
    others.set(title="other sequences drawn anew", xlabel="sequences in the batch", xscale="log")
    others.set_ylabel("change of a token's output\n(size of the output is 1)")
    style.ticks_at(others, table.batch_size[table.effect == "others"])
    padding.set(title="padding after sequences", xlabel="share of padding")
    padding.set_xticks(sorted(table.padding[table.effect == "padding"].unique()))
    padding.xaxis.set_major_formatter(PercentFormatter(1))
    style.legend_below(figure, style.marks(NORMS), columns=2, **style.seeds_title([table.seed.nunique()]))
    return figure
