"""Numbers of the majority experiment, from the tables majority_metrics and majority_vectors.

The columns SETTING tell an experiment's widths and learning rates apart, the columns RUN its training runs.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import (
    Estimate,
    rates_chosen_by_others,
)

SETTING = ["experiment", "d_model", "base_learning_rate"]
RUN = [*SETTING, "variant", "seed"]

EARLY = 0.2
"""Share of a training at which it counts as early; there the variants differ most in how far they have come."""

THRESHOLDS = (1.0, 0.5, 0.35, 0.25)
"""Test losses, in nats per token, to which the table of convergence counts the steps."""


def random_angle(dim: int) -> float:
    """Mean angle in degrees, folded to 0..90, between a random direction in R^dim and a fixed one; 72.6 for dim 8."""
    from scipy.integrate import quad  # here, because most figures of these tables need no such angle

    whole = quad(lambda angle: np.sin(angle) ** (dim - 2), 0, np.pi / 2)[0]
    first = quad(lambda angle: angle * np.sin(angle) ** (dim - 2), 0, np.pi / 2)[0]
    return float(np.degrees(first / whole))


def of_single_points(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a table of majority runs on experiments that have one width and one learning rate."""
    points = table.groupby("experiment")[["d_model", "base_learning_rate"]].transform("nunique")
    return table[(points == 1).all(axis=1)]


# Steps


def early_and_last(metrics: pd.DataFrame) -> tuple[int, int]:
    """Return two optimiser steps from the table majority_metrics (`metrics`): an early one and the last.

    The early step is the one nearest to a fifth (EARLY) of the last step.
    """
    steps = np.sort(metrics.step[metrics.step > 0].unique())
    return int(steps[np.abs(steps - EARLY * steps[-1]).argmin()]), int(steps[-1])


def crossing(step: np.ndarray, value: np.ndarray, level: float, i: int) -> float:
    """Return the step at which `value` crosses `level` between its entries i - 1 and i; it is step[0] if i is 0.

    `value` at `step` is interpolated linearly in log(1 + step). If value[i - 1] is not finite, the result is step[i].
    """
    if i == 0:
        return float(step[0])
    share = (level - value[i - 1]) / (value[i] - value[i - 1]) if np.isfinite(value[i - 1]) else 1.0
    first, last = np.log1p(step[i - 1 : i + 1])
    return float(np.expm1(first + share * (last - first)))


def arrivals(
    metrics: pd.DataFrame, run: Sequence[str], column: str, level: float, for_good: bool = False
) -> pd.DataFrame:
    """Return after how many optimiser steps each run gets to `level` in `column`, interpolated between its rows.

    A column that falls, such as a loss, is there when it first is at most `level`. With `for_good`, for a column that
    rises, it is there from the step on after which it stays at or above `level`. The columns `run` identify a run.
    The result has these columns, steps (NaN if the level is never reached) and last_step (the last step of the run).
    """
    rows = []
    for key, part in metrics.groupby(list(run)):
        part = part.sort_values("step")
        step, value = part.step.to_numpy(float), part[column].to_numpy()
        if for_good:
            first = int(np.flatnonzero([True, *~(value >= level)])[-1])
        else:
            first = int(np.flatnonzero([*(value <= level), True])[0])
        rows.append((*key, crossing(step, value, level, first) if first < len(step) else np.nan, step[-1]))
    return pd.DataFrame(rows, columns=[*run, "steps", "last_step"])


def steps_to_reach(metrics: pd.DataFrame, thresholds: Sequence[float] = THRESHOLDS) -> pd.DataFrame:
    """Return the optimiser steps until each run's test loss first falls to each of `thresholds` (nats per token).

    `metrics` is the table majority_metrics. Columns: experiment, d_model, base_learning_rate, variant, seed, steps (NaN
    where the run does not get there), last_step (the run's last) and test_loss (the threshold).
    """
    steps = (arrivals(metrics, RUN, "test_loss", level).assign(test_loss=level) for level in thresholds)
    return pd.concat(steps, ignore_index=True)


# Learning rates


def last_rows(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of each training run in the table majority_metrics.

    A run that diverged, or ended before others of its experiment, gets an infinite test loss and an accuracy of 0.
    """
    last = metrics.sort_values("step").groupby(RUN).tail(1)
    lost = (last.step < last.groupby("experiment").step.transform("max")) | ~np.isfinite(last.test_loss)
    worst = {"test_loss": np.inf, "test_accuracy": 0.0}
    return last.assign(**{column: last[column].mask(lost, value) for column, value in worst.items()})


By = Literal["loss", "accuracy", "speed"]
"""What a learning rate is chosen by: test loss or accuracy at the last step, or the steps to a test loss."""


def best_rates(metrics: pd.DataFrame, by: By, loss: float | None = None) -> pd.DataFrame:
    """Return, for each variant and seed, the learning rate that is best in the half of the seeds without this seed.

    `metrics` is the table majority_metrics, for one experiment and width. `by` says what is best: the lowest test
    "loss" or the highest test "accuracy" at the last step, or for "speed" the fewest steps to the test loss `loss`
    (nats per token). Columns: variant, seed, base_learning_rate, at_end (whether the rate is the lowest or highest
    tried).
    """
    if by == "speed":
        runs = steps_to_reach(metrics, [loss])
        worse = np.log(runs.steps.clip(lower=1)).fillna(np.inf)
    else:
        runs = last_rows(metrics)
        worse = runs.test_loss if by == "loss" else -runs.test_accuracy
    return rates_chosen_by_others(runs.assign(worse=worse), "worse", inside=1)


# Widths


def costs(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return by how much the final test accuracy of each variant lies below that of the variant scale.

    `metrics` is the table majority_metrics. Columns: experiment, d_model, base_learning_rate, variant, pairs (of runs
    with equal seeds), test_accuracy (0..1), cost, cost_low and cost_high (percentage points, mean over pairs and 95 %
    interval). An experiment, width and learning rate without the variant scale has no rows.
    """
    rows = []
    for setting, runs in last_rows(metrics).groupby(SETTING):
        accuracy = runs.pivot(index="seed", columns="variant", values="test_accuracy")
        for variant in accuracy if "scale" in accuracy else []:
            pairs = 100 * (accuracy["scale"] - accuracy[variant]).dropna()
            rows.append((*setting, variant, len(pairs), accuracy[variant].mean(), *Estimate.of_any(pairs)))
    columns = [*SETTING, "variant", "pairs", "test_accuracy", "cost", "cost_low", "cost_high"]
    return pd.DataFrame(rows, columns=columns)


# Size and projection


SIZE_AND_PROJECTION = (("layernorm", "scale"), ("layernorm_small", "scale_released"))
"""Pairs of variants, with projection and without, at LayerNorm's size and at 1/d of that size."""


# Vectors


def query_parts(vectors: pd.DataFrame) -> pd.DataFrame:
    """Return the lengths of each run's queries along the ones vector and in the hyperplane orthogonal to it.

    `vectors` is the table majority_vectors, for one experiment, width and learning rate. Columns: variant, seed,
    checkpoint, along (the ones vector) and visible (in the hyperplane), both root mean squares over queries. Projected
    keys lie in the hyperplane, so only the visible part of a query changes their scores.
    """
    queries = vectors[vectors.kind == "query"]
    matrix = np.stack(queries.vector.to_numpy())
    along = matrix.sum(axis=1) ** 2 / matrix.shape[1]
    visible = np.maximum((matrix**2).sum(axis=1) - along, 0)
    squares = queries[["variant", "seed", "checkpoint"]].assign(along=along, visible=visible)
    return np.sqrt(squares.groupby(["variant", "seed", "checkpoint"]).mean()).reset_index()


def geometry_of_runs(vectors: pd.DataFrame, centred: bool = False) -> pd.DataFrame:
    """Return how nearly the keys of each run lie on a plane, and the angle of its queries to the plane's normal.

    `vectors` is the table majority_vectors, for one experiment, width, learning rate and checkpoint. Columns: variant,
    seed, flatness (smallest singular value of the keys over the largest; 0 on a plane through the origin) and angle
    (degrees, 0..90, mean over queries, to the normal of the plane that fits the keys best). With `centred` the mean of
    the keys is subtracted first, so that the plane need not contain the origin.
    """
    rows = []
    for (variant, seed), run in vectors.groupby(["variant", "seed"]):
        keys, queries = (np.stack(run.vector[run.kind == kind].to_numpy()) for kind in ("key", "query"))
        _, values, axes = np.linalg.svd(keys - centred * keys.mean(axis=0))
        cosine = np.abs(queries @ axes[-1]) / np.linalg.norm(queries, axis=1)
        angle = np.degrees(np.arccos(np.minimum(cosine, 1))).mean()
        # Fewer keys than dimensions always lie on a plane; numpy then returns fewer values.
        rows.append((variant, seed, values[-1] / values[0] if len(values) == keys.shape[1] else 0.0, angle))
    return pd.DataFrame(rows, columns=["variant", "seed", "flatness", "angle"])
