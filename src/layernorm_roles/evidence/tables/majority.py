"""How fast the runs of the majority experiment learn."""

import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.evidence.tables.structure import MISSING, Column, Readable, grid


def convergence(metrics: pd.DataFrame) -> Readable:
    """Steps until the test loss reaches each threshold, for every experiment and variant, from majority_metrics."""
    frame = majority.convergence(majority.steps_to_reach(metrics))
    columns = {
        Column("experiment"): lambda row: row.experiment,
        Column("norm"): lambda row: LEGENDS.get(row.variant, row.variant),
        Column("test loss", right=True): lambda row: f"{row.test_loss:g}",
        Column("reached it", right=True): lambda row: f"{row.reached} of {row.runs}",
        Column("median steps", right=True): lambda row: (
            f"{row.median_steps:,.0f}" if row.reached else MISSING
        ),
        Column("ratio to LayerNorm", right=True): _ratio,
        Column("pairs", right=True): lambda row: str(row.pairs),
    }
    note = (
        "Optimiser steps until the test loss, in nats per token, is first reached: median over the runs that reach "
        "it. The ratio is the geometric mean over pairs of runs with equal seeds that both reach it, with the "
        "95 % bootstrap interval over the pairs."
    )
    return Readable(frame, [grid(frame.itertuples(), columns), note])


def convergence_runs(metrics: pd.DataFrame) -> Readable:
    """Steps until the test loss of every run reaches each threshold, for programs."""
    return Readable(majority.steps_to_reach(metrics), [])


def _ratio(row) -> str:
    if not row.pairs:
        return MISSING
    if row.pairs == 1:
        return f"{row.ratio_to_layernorm:.2f}"
    return f"{row.ratio_to_layernorm:.2f} [{row.ratio_low:.2f}, {row.ratio_high:.2f}]"
