"""The readable table of the time and memory of a reproduction."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.tables.readable import Readable, grid
from layernorm_roles.evidence.tables.typography import MISSING, duration, number


def durations(frame: pd.DataFrame) -> Readable:
    """Return number, time and memory of each rule's jobs, and of all jobs, from the result of `analysis.durations`."""
    total = {"rule": "all", "largest_memory_mb": np.nan} | frame[["jobs", "wall_minutes"]].sum().to_dict()
    rows = grid(
        pd.concat([frame, pd.DataFrame([total])]),
        {
            "rule": "{.rule}",
            "jobs": "{.jobs:,.0f}",
            "time": lambda row: duration(row.wall_minutes) or MISSING,
            "memory (MB)": lambda row: number(row.largest_memory_mb) or MISSING,
        },
    )
    note = "Time of all jobs of a rule together, which ran side by side; memory of the job that took most."
    if frame.wall_minutes.isna().any():
        note += f" {MISSING} where a benchmark file of the rule is gone; the time of all is that of the other rules."
    return Readable(frame, [rows, note])
