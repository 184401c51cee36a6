"""The time and memory of each rule of a reproduction, from the benchmark files that Snakemake writes."""

import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

FOLDER = "benchmarks"
"""Name of the folder of Snakemake's benchmark files: <rule>.tsv or, for one of several jobs, <rule>/.../<job>.tsv."""


def durations(files: Iterable[str | Path]) -> pd.DataFrame:
    """Return the time and memory that the jobs of each Snakemake rule took, the rule with the longest time first.

    `files` are Snakemake's benchmark files, one for each job. Columns: rule, jobs (their number), wall_minutes (the sum
    over jobs, NaN if a file is missing or damaged) and largest_memory_mb (the most that one job took). Processor time
    is left out, because Snakemake samples it every 30 s and misses what a job uses after the last sample.
    """
    rows = []
    for file in sorted(map(Path, files)):
        rows.append((file.parts[file.parts.index(FOLDER) + 1].removesuffix(".tsv"), *_measured(file)))
    jobs = pd.DataFrame(rows, columns=["rule", "wall", "memory"]).groupby("rule")
    table = jobs.agg(
        jobs=("wall", "size"),
        wall_minutes=("wall", lambda seconds: seconds.sum(skipna=False) / 60),
        largest_memory_mb=("memory", "max"),
    )
    return table.sort_values("wall_minutes", ascending=False).reset_index()


def _measured(file: Path) -> tuple[float, float]:
    """Return the seconds and the largest memory (MB) in a job's benchmark file; NaN if it cannot be read."""
    try:
        jobs = pd.read_csv(file, sep="\t", na_values="-", usecols=["s", "max_rss"], dtype=float)
        return jobs.s.sum(min_count=1), jobs.max_rss.max()
    except (OSError, ValueError):
        return math.nan, math.nan
