"""Where the time of a reproduction went."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from layernorm_roles.evidence.figures import colours, style


def draw(durations: pd.DataFrame, most: int = 14) -> Figure:
    """Draw the wall time of the `most` rules that took longest, with jobs and the largest memory beside each bar.

    durations: columns rule, jobs, wall_minutes and largest_memory_mb, the longest first. Rules without a time are left
    out.
    """
    top = durations.dropna(subset="wall_minutes").head(most).iloc[::-1]
    figure, axes = plt.subplots(figsize=(style.PAGE * 0.8, 0.5 + 0.24 * max(len(top), 3)))
    axes.barh(top.rule, top.wall_minutes, color=colours.COLOURS["layernorm"], height=0.62)
    for y, row in enumerate(top.itertuples()):
        text = f"{row.jobs} job{'s' if row.jobs > 1 else ''}"
        if pd.notna(row.largest_memory_mb):
            text += f", {row.largest_memory_mb:,.0f} MB"
        place = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(text, (row.wall_minutes, y), fontsize=6.5, color=style.GREY, **place)
    axes.set(
        xlabel="wall time (minutes), all jobs of a rule together",
        xlim=(0, 1.3 * max(top.wall_minutes, default=1)),
    )
    axes.tick_params(axis="y", length=0)
    return figure
