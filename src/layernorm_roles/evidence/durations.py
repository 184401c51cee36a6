"""Where a run's time went, from the benchmark file that Snakemake writes for every job."""

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from layernorm_roles.evidence import style


def durations(folder: str | Path) -> pd.DataFrame:
    """Per rule: jobs, wall minutes of all its jobs together, and the largest memory of one (MB).

    `folder` is a run's benchmarks/: a file or folder a rule, named after it. Their processor time is not used:
    Snakemake looks every 30 s and misses what came after.
    """
    rows = []
    for file in sorted(Path(folder).rglob("*.tsv")):
        rule = file.relative_to(folder).parts[0].removesuffix(".tsv")
        jobs = pd.read_csv(file, sep="\t", na_values="-")
        rows.append({"rule": rule, "wall": jobs.s.sum(), "memory": jobs.max_rss.max()})
    if not rows:
        raise ValueError(f"{folder}: no benchmark files; expected those of a run")
    table = (
        pd.DataFrame(rows)
        .groupby("rule")
        .agg(
            jobs=("wall", "size"),
            wall_minutes=("wall", lambda seconds: seconds.sum() / 60),
            largest_memory_mb=("memory", "max"),
        )
    )
    return table.sort_values("wall_minutes", ascending=False).reset_index()


def draw(table: pd.DataFrame, most: int = 14) -> Figure:
    """Wall time of the rules that took longest, with jobs and the largest memory beside each bar."""
    top = table.head(most).iloc[::-1]
    figure, axes = plt.subplots(figsize=(style.PAGE * 0.8, 0.5 + 0.24 * len(top)))
    axes.barh(top.rule, top.wall_minutes, color=style.COLOURS["layernorm"], height=0.62)
    for y, row in enumerate(top.itertuples()):
        text = f"{row.jobs} job{'s' if row.jobs > 1 else ''}"
        if pd.notna(row.largest_memory_mb):
            text += f", {row.largest_memory_mb:,.0f} MB"
        axes.annotate(
            text,
            (row.wall_minutes, y),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color="#555555",
        )
    axes.set(xlabel="minutes, all jobs of a rule together", xlim=(0, 1.3 * top.wall_minutes.max()))
    axes.tick_params(axis="y", length=0)
    return figure
