"""The time and memory of each rule of a reproduction, from the benchmark files that Snakemake writes."""

import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

FOLDER = "benchmarks"
"""Folder of the benchmark files: <stage>.tsv, or <stage>/.../<job>.tsv where a stage has several jobs."""

RULES = {
    "majority": "majority_train",
    "random_keys": "random_keys_measure",
    "language_model": "language_model_train",
    "measure": "language_model_measure",
    "pretrained": "pretrained_measure",
}
"""The Snakemake rule of each stage whose rule is not called like it, by the stage's name in the benchmark files."""


def durations(files: Iterable[str | Path]) -> pd.DataFrame:
    """Return the time and memory that the jobs of each rule took, the longest rule first.

    Columns rule, jobs, wall_minutes (of all jobs together) and largest_memory_mb (of one job). `files` are benchmark
    files under a folder named `benchmarks`; ValueError if none is given, or one lies elsewhere. A file that is gone or
    damaged is no error: the rule then has no time. Their processor time is not used, because Snakemake looks at it
    every 30 s and misses what came after.
    """
    rows = []
    for file in sorted(map(Path, files)):
        if FOLDER not in file.parts[:-1]:
            raise ValueError(f"{file}: expected a benchmark file, in a folder named {FOLDER}")
        stage = file.parts[file.parts.index(FOLDER) + 1].removesuffix(".tsv")
        rows.append((RULES.get(stage, stage), *_measured(file)))
    if not rows:
        raise ValueError(
            "no benchmark files; expected those that Snakemake wrote for the jobs of a reproduction"
        )
    table = (
        pd.DataFrame(rows, columns=["rule", "wall", "memory"])
        .groupby("rule")
        .agg(
            jobs=("wall", "size"),
            wall_minutes=("wall", lambda seconds: seconds.sum(skipna=False) / 60),
            largest_memory_mb=("memory", "max"),
        )
    )
    return table.sort_values("wall_minutes", ascending=False).reset_index()


def _measured(file: Path) -> tuple[float, float]:
    """Return the seconds and the largest memory (MB) of the job of a benchmark file; NaN if it cannot be read."""
    try:
        jobs = pd.read_csv(file, sep="\t", na_values="-", usecols=["s", "max_rss"], dtype=float)
        return jobs.s.sum(min_count=1), jobs.max_rss.max()
    except (OSError, ValueError):
        return math.nan, math.nan
