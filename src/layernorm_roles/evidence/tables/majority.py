"""What the runs of the majority task reach and how fast, by variant, learning rate and width, from majority_metrics."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.claims.rules import TEST_LOSS
from layernorm_roles.evidence.tables.readable import NORM, Readable, grid, ordered
from layernorm_roles.evidence.tables.typography import MISSING, estimate

_SETTING = {
    "experiment": "{.experiment}",
    **NORM,
    "d": "{.d_model}",
    "learning rate": "{.base_learning_rate:g}",
}


def convergence(metrics: pd.DataFrame) -> Readable:
    """Return a readable table of the steps until the test loss reaches each of several thresholds, by variant.

    `metrics` is the table majority_metrics. Only the result's `frame` has experiments with several widths or rates.
    """

    def ratio(row) -> str:
        return estimate(row.ratio_to_layernorm, row.ratio_low or -np.inf, row.ratio_high, ".2f")

    cells = {
        **_SETTING,
        "test loss": "{.test_loss:g}",
        "reached it": "{0.reached} of {0.runs}",
        "median steps": lambda row: f"{row.median_steps:,.0f}" if np.isfinite(row.median_steps) else MISSING,
        "ratio to LayerNorm": ratio,
        "pairs": "{.pairs}",
    }
    frame = majority.convergence(majority.steps_to_reach(metrics))
    return Readable(frame, [grid(majority.of_single_points(frame), cells, texts=2)])


def rates(metrics: pd.DataFrame) -> Readable:
    """Return a readable table of final test accuracy, final test loss and steps to test loss 0.5, by learning rate.

    A row is a variant of an experiment at one width (d_model) and one learning rate. Experiments with a single learning
    rate are left out. `metrics` is the table majority_metrics.
    """

    def accuracy(row) -> str:
        ends = (row.accuracy_low, row.accuracy_high) if row.runs > 2 else (np.nan, np.nan)
        return estimate(*(100 * value for value in (row.test_accuracy, *ends)), ".1f")

    cells = {
        **_SETTING,
        "best for": lambda row: f"{row.chosen} of {row.runs}" if row.chosen else "",
        "test accuracy (%)": accuracy,
        "test loss": lambda row: f"{row.test_loss:.3f}" if np.isfinite(row.test_loss) else "diverged",
        f"steps to test loss {TEST_LOSS:g}": lambda row: estimate(
            row.steps, row.steps_low, row.steps_high, ",.0f"
        ),
    }
    frame = majority.sweep(metrics, TEST_LOSS)
    frame = ordered(frame, "experiment", "d_model", "variant", "base_learning_rate")
    return Readable(frame, [grid(frame, cells, texts=2)])


def widths(metrics: pd.DataFrame) -> Readable:
    """Return a readable table of what projection costs in final test accuracy (points), by variant and width.

    Experiments with several widths are shown, relative to scale. `metrics` is the table majority_metrics.
    """

    def cost(row) -> str:
        return MISSING if row.variant == "scale" else estimate(row.cost, row.cost_low, row.cost_high, "+.1f")

    cells = {
        **_SETTING,
        "test accuracy (%)": lambda row: f"{100 * row.test_accuracy:.1f}",
        "cost (points)": cost,
        "pairs": "{.pairs}",
    }
    several = metrics.groupby("experiment").d_model.transform("nunique") > 1
    frame = ordered(majority.costs(metrics[several]), "experiment", "d_model", "variant")
    return Readable(frame, [grid(frame, cells, texts=2)])


def size_and_projection(metrics: pd.DataFrame) -> Readable:
    """Return a readable table of the effects of the size of attention's input, of projection, and their interaction.

    They are effects on test accuracy and on the steps to test loss 0.5. `metrics` is the table majority_metrics.
    """

    def effect(part: pd.DataFrame, name: str) -> str:
        row = part.loc[name]
        return estimate(row["mean"], row.low, row.high, ".2f" if row.quantity == "steps" else "+.1f")

    def quantity(part: pd.DataFrame) -> str:
        first = part.iloc[0]
        if first.quantity == "steps":
            return f"steps to test loss {TEST_LOSS:g} (×)"
        return f"test accuracy at step {first.step:,.0f} (points)"

    cells = {
        "experiment": lambda part: part.experiment.iloc[0],
        "of": quantity,
        "learning rate": lambda part: f"{part.base_learning_rate.iloc[0]:g}",
        **{each: lambda part, of=each: effect(part, of) for each in ("size", "projection", "interaction")},
        "seeds": lambda part: str(part.pairs.iloc[0]),
    }
    frame = majority.effects_of_size_and_projection(metrics, TEST_LOSS)
    by = [*majority.SETTING, "quantity", "step"]
    parts = [part.set_index("effect") for _, part in frame.groupby(by, sort=False, dropna=False)]
    return Readable(frame, [grid(parts, cells, texts=2)])
