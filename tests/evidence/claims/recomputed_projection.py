"""The claims about projection, computed again from the tables by code that shares none with evidence."""

import numpy as np
import pandas as pd
from plain import arrivals, at_best_rates


def wide(values: pd.DataFrame, column: str) -> pd.DataFrame:
    """One row a seed, one column a variant."""
    return values.set_index(["seed", "variant"])[column].unstack()


def of(table: pd.DataFrame, **where) -> pd.DataFrame:
    """The rows that have these values in these columns."""
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def at(tables, experiment, step=None):
    """The rows of an experiment at a step, or at its last step."""
    m = of(tables["majority_metrics"], experiment=experiment)
    return m[m.step == (m.step.max() if step is None else step)]


def steps_of(t, experiment, *further: str) -> pd.DataFrame:
    """The step at which every run has a test loss of 0.5, or its last: columns seed, variant, `further` and steps.

    Column `worse` is infinite for a run that does not get there.
    """
    runs = of(t["majority_metrics"], experiment=experiment)
    runs = arrivals(runs, ["seed", "variant", *further], "test_loss", 0.5).reset_index()
    return runs.assign(worse=np.log(runs.steps).fillna(np.inf), steps=runs.steps.fillna(runs.last_step))


def ratio(frame: pd.DataFrame, over: str, under: str) -> float:
    """Geometric mean of the ratio of two columns, over the rows that have both."""
    return float(np.exp(np.log(frame[over] / frame[under]).mean()))


def difference(frame: pd.DataFrame, one: str, other: str) -> float:
    """Mean of the difference of two columns, over the rows that have both."""
    return float((frame[one] - frame[other]).mean())


def faster(experiment):
    return lambda t: ratio(wide(steps_of(t, experiment), "steps"), "scale_released", "layernorm")


def faster_best_rate(t):
    best = at_best_rates(steps_of(t, "rates", "base_learning_rate"), "worse")
    return ratio(wide(best, "steps"), "scale_released", "layernorm")


def accuracy(experiment, one, other, step=None, **where):
    def compute(t):
        then = of(at(t, experiment, step), **where)
        right = then.test_accuracy * np.isfinite(then.test_loss)  # 0 for a run that diverged
        return 100 * difference(wide(then.assign(right=right), "right"), one, other)

    return compute


def accurate_best_rate(t):
    ends = at(t, "rates")
    best = at_best_rates(ends.assign(worse=-ends.test_accuracy), "worse")
    return 100 * difference(wide(best, "test_accuracy"), "layernorm", "scale_released")


def parallel(experiment):
    def compute(t):
        steps = of(t["majority_metrics"], experiment=experiment).step
        step = max(s for s in (4000, 8000, 17000) if s in set(steps))
        return difference(wide(at(t, experiment, step), "query_angle_mean"), "scale_released", "layernorm")

    return compute


def plane(experiment, variant, centre):
    """A random direction's angle, one radian in three dimensions, minus the queries' to the keys' normal."""

    def compute(t):
        v = of(t["majority_vectors"], experiment=experiment, variant=variant, checkpoint="final")
        angles = []
        for _, run in v.groupby("seed"):
            keys = np.array(run[run.kind == "key"].vector.to_list())
            queries = np.array(run[run.kind == "query"].vector.to_list())
            keys = keys - keys.mean(axis=0) if centre else keys
            normal = np.linalg.eigh(keys.T @ keys)[1][:, 0]
            cosines = np.abs(queries @ normal) / np.linalg.norm(queries, axis=1)
            angles.append(np.degrees(np.arccos(np.clip(cosines, 0, 1))).mean())
        return np.degrees(1) - np.mean(angles)

    return compute


def size(t):
    s = np.log(wide(steps_of(t, "d8"), "steps"))
    s = s[["layernorm", "scale", "layernorm_small", "scale_released"]].dropna()
    return float(np.exp((s.layernorm_small + s.scale_released - s.layernorm - s.scale).mean() / 2))


def equal_attention(experiment):
    return lambda t: ratio(wide(at(t, experiment), "score_std"), "scale_released", "layernorm")


def equal_attention_time(t):
    times = {}
    for key, run in of(t["majority_metrics"], experiment="d8").groupby(["seed", "variant"]):
        run = run.sort_values("step").reset_index(drop=True)
        last_below = run.index[run.attention_share < 0.99].max()
        if np.isnan(last_below) or last_below == len(run) - 1:
            times[key] = 1.0 if np.isnan(last_below) else float(run.step.max())
            continue
        a, b = run.loc[last_below], run.loc[last_below + 1]
        share = (0.99 - a.attention_share) / (b.attention_share - a.attention_share)
        times[key] = max(1.0, (1 + a.step) ** (1 - share) * (1 + b.step) ** share - 1)
    return ratio(pd.Series(times).unstack(), "scale", "layernorm")


RECOMPUTED = {
    "faster": faster("d8"),
    "faster_uniform": faster("d8_uniform"),
    "faster_best_rate": faster_best_rate,
    "accurate": accuracy("d8", "layernorm", "scale_released", 5000),
    "accurate_best_rate": accurate_best_rate,
    "parallel": parallel("d8"),
    "plane": plane("d3", "layernorm", centre=False),
    "plane_affine": plane("d3", "layernorm_affine", centre=True),
    "size_or_projection": size,
    "final_accuracy": accuracy("rates", "layernorm", "scale", base_learning_rate=0.03),
    "project_values": accuracy("d3", "scale", "projected_v"),
    "widths": lambda t: accuracy("widths", "scale", "layernorm", d_model=at(t, "widths").d_model.min())(t),
    "equal_attention": equal_attention("d8"),
    "equal_attention_time": equal_attention_time,
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""
