"""What the runs of the majority experiment reach and how fast, by variant, learning rate and width."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.claims.rules import TEST_LOSS
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.evidence.tables.structure import Readable, grid, left, right
from layernorm_roles.evidence.tables.typography import MISSING, estimate

_EXPERIMENT = (left("experiment", "{.experiment}"), right("d", "{.d_model}"))
_RATE = right("learning rate", "{.base_learning_rate:g}")
_NORM = left("norm", lambda row: LEGENDS.get(row.variant, row.variant))


def convergence(metrics: pd.DataFrame) -> Readable:
    """Steps until the test loss reaches each threshold, for every setting and variant, from majority_metrics."""
    frame = majority.convergence(majority.steps_to_reach(metrics))
    columns = (
        *_EXPERIMENT,
        _RATE,
        _NORM,
        right("test loss", "{.test_loss:g}"),
        right("reached it", "{0.reached} of {0.runs}"),
        right(
            "median steps",
            lambda row: f"{row.median_steps:,.0f}" if np.isfinite(row.median_steps) else MISSING,
        ),
        right(
            "ratio to LayerNorm",
            lambda row: estimate(row.ratio_to_layernorm, row.ratio_low or -np.inf, row.ratio_high, ".2f"),
        ),
        right("pairs", "{.pairs}"),
    )
    note = (
        "Optimiser steps until the test loss, in nats per token, is first reached: median over the runs, where one "
        "that does not reach it counts as slower than all. The ratio is the geometric mean over pairs of runs with "
        "equal seeds, with Student's 95 % interval on its logarithm. A run that does not reach the loss counts with "
        "its last step, which makes the ratio a bound (≥ or ≤, without its interval), and a pair of which neither "
        f"reaches it counts as equally fast; {MISSING} stands where the interval has no end on either side. "
        "Experiments with several learning rates or widths have tables of their own."
    )
    settings = frame.groupby("experiment")[["d_model", "base_learning_rate"]].transform("nunique")
    single = frame[(settings == 1).all(axis=1)]
    return Readable(frame, [grid(single.itertuples(), *columns), note])


def convergence_runs(metrics: pd.DataFrame) -> Readable:
    """Steps until the test loss of every run reaches each threshold, for programs."""
    return Readable(majority.steps_to_reach(metrics), [])


def rates(metrics: pd.DataFrame) -> Readable:
    """What every variant reaches at each learning rate, for experiments that have several, from majority_metrics."""
    frame = _in_order(majority.sweep(metrics, TEST_LOSS), "base_learning_rate")
    if frame.empty:
        return Readable(frame, ["No experiment of this reproduction has several learning rates."])

    def accuracy(row) -> str:
        ends = (row.accuracy_low, row.accuracy_high) if row.runs > 2 else (np.nan, np.nan)
        return estimate(*(100 * value for value in (row.test_accuracy, *ends)), ".1f")

    columns = (
        *_EXPERIMENT,
        _NORM,
        _RATE,
        left("best for", lambda row: f"{row.chosen} of {row.runs}" if row.chosen else ""),
        right("test accuracy (%)", accuracy),
        right("test loss", lambda row: f"{row.test_loss:.3f}" if np.isfinite(row.test_loss) else "diverged"),
        right(
            f"steps to test loss {TEST_LOSS:g}",
            lambda row: estimate(row.steps, row.steps_low, row.steps_high, ",.0f"),
        ),
    )
    note = (
        "Accuracy and loss at the last step, means over the runs; steps are geometric means, where a run that does not "
        "reach the loss counts with its last step (≥). Where a run diverged, its accuracy counts as 0. Intervals are "
        "Student's, 95 %; those of accuracies want three runs. A rate is the best for a seed if the other seeds of the "
        "norm have the lowest mean test loss with it: the seed is judged at that rate."
    )
    return Readable(frame, [grid(frame.itertuples(), *columns), note])


def widths(metrics: pd.DataFrame) -> Readable:
    """What projection costs in accuracy at each width, for experiments that have several, from majority_metrics."""
    several = metrics.groupby("experiment").d_model.transform("nunique") > 1
    frame = _in_order(majority.costs(metrics[several]), "d_model")
    if frame.empty:
        return Readable(frame, ["No experiment of this reproduction has several widths."])

    def cost(row) -> str:
        return MISSING if row.variant == "scale" else estimate(row.cost, row.cost_low, row.cost_high, "+.1f")

    columns = (
        *_EXPERIMENT,
        _RATE,
        _NORM,
        right("test accuracy (%)", lambda row: f"{100 * row.test_accuracy:.1f}"),
        right("cost (points)", cost),
        right("pairs", "{.pairs}"),
    )
    note = (
        "Test accuracy at the last step, mean over the runs. The cost is by how many percentage points it lies below "
        "that of scaling only with equal seeds, with Student's 95 % interval."
    )
    frame = frame.sort_values(["experiment", "d_model"], kind="stable").reset_index(drop=True)
    return Readable(frame, [grid(frame.itertuples(), *columns), note])


def size_and_projection(metrics: pd.DataFrame) -> Readable:
    """Table of the main effects and the interaction of the size of the attention input and of the projection.

    `metrics` is the table majority_metrics; the effects are on the steps to TEST_LOSS and on the test accuracy.
    """
    frame = majority.effects_of_size_and_projection(metrics, TEST_LOSS)
    if frame.empty:
        return Readable(
            frame, ["No experiment of this reproduction has both norms at both sizes of the attention input."]
        )

    def effect(name: str) -> Callable[[pd.DataFrame], str]:
        def text(part: pd.DataFrame) -> str:
            row = part.set_index("effect").loc[name]
            return estimate(row["mean"], row.low, row.high, ".2f" if row.quantity == "steps" else "+.1f")

        return text

    def quantity(part: pd.DataFrame) -> str:
        first = part.iloc[0]
        if first.quantity == "steps":
            return f"steps to test loss {TEST_LOSS:g} (×)"
        return f"test accuracy at step {first.step:,.0f} (points)"

    columns = (
        left("experiment", lambda part: part.experiment.iloc[0]),
        right("learning rate", lambda part: f"{part.base_learning_rate.iloc[0]:g}"),
        left("of", quantity),
        *(right(name, effect(name)) for name in ("size", "projection", "interaction")),
        right("seeds", lambda part: str(part.pairs.iloc[0])),
    )
    note = (
        "LayerNorm and scaling only, both with the attention input as large as the text defines it and d times smaller "
        "as in the released code. Size: what the larger input gains, mean of with and without projection. Projection: "
        "what it gains, mean of both sizes. Interaction: what it gains with the larger input beyond what it gains with "
        "the smaller. Of the steps, the factor by which there are fewer. Over seeds with all four norms, with "
        "Student's 95 % intervals."
    )
    by = [*majority.SETTING, "quantity", "step"]
    parts = [part for _, part in frame.groupby(by, sort=False, dropna=False)]
    return Readable(frame, [grid(parts, *columns), note])


def _in_order(frame: pd.DataFrame, within: str) -> pd.DataFrame:
    """The rows by experiment, then by variant in the order of the legends, then by the column `within`."""
    rank = {variant: i for i, variant in enumerate(legend_order(frame.variant))}
    return frame.sort_values(
        ["experiment", "d_model", "variant", within],
        key=lambda column: column.map(rank) if column.name == "variant" else column,
        ignore_index=True,
    )
