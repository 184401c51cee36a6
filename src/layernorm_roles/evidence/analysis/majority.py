"""Numbers of the majority experiment, from the tables majority_metrics and majority_vectors."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.integrate import quad

from layernorm_roles.evidence.analysis.estimate import bootstrap_interval
from layernorm_roles.evidence.analysis.order import legend_order

THRESHOLDS = (1.0, 0.5, 0.35, 0.25)
"""Test losses, in nats per token, to which the table of convergence counts the steps."""


def random_angle(dim: int) -> float:
    """Mean angle, folded to 0..90 degrees, between a uniformly random direction and a fixed one; 72.6 for dim 8.

    The angle's density on the sphere is proportional to sin(angle) ** (dim - 2).
    """
    whole = quad(lambda angle: np.sin(angle) ** (dim - 2), 0, np.pi / 2)[0]
    first = quad(lambda angle: angle * np.sin(angle) ** (dim - 2), 0, np.pi / 2)[0]
    return float(np.degrees(first / whole))


def steps_to_reach(metrics: pd.DataFrame, thresholds: Sequence[float] = THRESHOLDS) -> pd.DataFrame:
    """Optimiser steps until the test loss first falls to each threshold, for every experiment, variant and seed.

    Columns experiment, variant, seed, test_loss (the threshold), steps. Between two rows of the metrics the loss is
    interpolated linearly; `steps` is NaN where the threshold is never reached.
    """
    rows = []
    for (experiment, variant, seed), run in metrics.groupby(["experiment", "variant", "seed"]):
        run = run.sort_values("step")
        step, loss = run.step.to_numpy(float), run.test_loss.to_numpy()
        for threshold in thresholds:
            reached = np.flatnonzero(loss <= threshold)
            steps = np.nan
            if len(reached):
                i = reached[0]
                steps = np.interp(-threshold, -loss[i - 1 : i + 1], step[i - 1 : i + 1]) if i else step[0]
            rows.append((experiment, variant, seed, threshold, steps))
    return pd.DataFrame(rows, columns=["experiment", "variant", "seed", "test_loss", "steps"])


def convergence(runs: pd.DataFrame) -> pd.DataFrame:
    """For each experiment, variant and threshold: how many runs reached it, and how fast relative to layernorm.

    `runs` is the result of `steps_to_reach`. Columns experiment, variant, test_loss, runs, reached, median_steps,
    pairs, ratio_to_layernorm, ratio_low, ratio_high. The ratio of steps is the geometric mean over the seeds that
    reached the threshold with both variants (`pairs`); its 95 % interval is a percentile bootstrap over them.
    """
    steps = runs.pivot(index=["experiment", "test_loss", "seed"], columns="variant", values="steps")
    rows = []
    for (experiment, variant, threshold), part in runs.groupby(["experiment", "variant", "test_loss"]):
        logarithms = np.array([])
        if "layernorm" in steps:
            pair = steps.loc[(experiment, threshold)]
            logarithms = np.log(pair[variant] / pair["layernorm"]).dropna().to_numpy()
        low, high = np.exp(bootstrap_interval(logarithms))
        rows.append(
            {
                "experiment": experiment,
                "variant": variant,
                "test_loss": threshold,
                "runs": len(part),
                "reached": int(part.steps.notna().sum()),
                "median_steps": part.steps.median(),
                "pairs": len(logarithms),
                "ratio_to_layernorm": np.exp(logarithms.mean()) if len(logarithms) else np.nan,
                "ratio_low": low,
                "ratio_high": high,
            }
        )
    table = pd.DataFrame(rows)
    rank = {variant: i for i, variant in enumerate(legend_order(table.variant))}
    by = [table.experiment, table.variant.map(rank), -table.test_loss]
    return table.iloc[np.lexsort(by[::-1])].reset_index(drop=True)


def geometry_of_runs(vectors: pd.DataFrame) -> pd.DataFrame:
    """How flat the keys of each run lie, and how far its queries are from the normal of their plane.

    Columns variant, seed, flatness, angle; a row a run. `flatness` is the keys' smallest singular value over their
    largest (0: they lie on a plane through the origin). `angle` is the one between a query and the normal of the
    keys' best plane, folded to 0..90 degrees, mean over the queries.
    """
    rows = []
    for (variant, seed), run in vectors.groupby(["variant", "seed"]):
        keys, queries = _keys_and_queries(run)
        _, values, axes = np.linalg.svd(keys)
        cosine = np.abs(queries @ axes[-1]) / np.linalg.norm(queries, axis=1)
        angle = np.degrees(np.arccos(np.minimum(cosine, 1))).mean()
        # Fewer keys than dimensions always lie on a plane; numpy then returns fewer values.
        rows.append((variant, seed, values[-1] / values[0] if len(values) == keys.shape[1] else 0.0, angle))
    return pd.DataFrame(rows, columns=["variant", "seed", "flatness", "angle"])


def attention_of_runs(vectors: pd.DataFrame) -> pd.DataFrame:
    """How equally the queries of each run attend to the keys of all classes.

    Columns variant, seed, share; a row a run. `share` is the perplexity of the attention weights over the number of
    keys (1: all keys equally), mean over the queries.
    """
    rows = []
    for (variant, seed), run in vectors.groupby(["variant", "seed"]):
        keys, queries = _keys_and_queries(run)
        scores = queries @ keys.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1)
        rows.append((variant, seed, np.exp(entropy).mean() / len(keys)))
    return pd.DataFrame(rows, columns=["variant", "seed", "share"])


def _keys_and_queries(run: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    keys, queries = (np.stack(run.vector[run.kind == kind].to_numpy()) for kind in ("key", "query"))
    return keys, queries
