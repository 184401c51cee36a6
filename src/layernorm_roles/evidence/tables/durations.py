"""Where the time of a reproduction went."""

import pandas as pd

from layernorm_roles.evidence.tables.structure import MISSING, Column, Grid, Readable
from layernorm_roles.evidence.tables.typography import duration, number

COLUMNS = (Column("rule"), *(Column(name, right=True) for name in ("jobs", "time", "memory (MB)")))


def durations(frame: pd.DataFrame) -> Readable:
    """Jobs, time and memory of each rule and of all together, from the result of analysis.durations."""
    rows = [
        [
            row.rule,
            f"{row.jobs:,}",
            duration(row.wall_minutes) or MISSING,
            number(row.largest_memory_mb) or MISSING,
        ]
        for row in frame.itertuples()
    ]
    rows.append(["all", f"{frame.jobs.sum():,}", duration(frame.wall_minutes.sum()), MISSING])
    note = "Time of all jobs of a rule together, which ran side by side; memory of the job that took most."
    if frame.wall_minutes.isna().any():
        note += f" {MISSING} where a benchmark file of the rule is gone; the time of all is that of the other rules."
    return Readable(frame, [Grid(COLUMNS, rows), note])
