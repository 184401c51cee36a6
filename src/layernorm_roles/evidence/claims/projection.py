"""Claims about projection, and what it costs: quantities of the majority task, and two tests of geometry.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.
`projected_qk` projects for queries and keys only, `projected_v` for values only, both with the scaling everywhere.

Runs of equal seeds share their data, initialisation and batches, so differences and ratios are of pairs of runs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import two_by_two
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.comparison import (
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Role,
    Tables,
    Value,
    ask,
    require,
)
from layernorm_roles.evidence.claims.quantities import (
    BEFORE_TRAINING,
    Measured,
    Quantity,
    refuse_rate_at_grid_end,
    steps_of,
)
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import PAPER_PROJECTION

METRICS, VECTORS = "majority_metrics", "majority_vectors"
POINTS = " points"

# Which runs are judged


def of_experiment(
    table: pd.DataFrame, experiment: str, *variants: str, varies: str = "", rate: float | None = None
) -> pd.DataFrame:
    """Return the rows of one experiment in a table of the majority task, with all its variants.

    With `rate`, only the rows at this learning rate are returned. Raises Untestable if the experiment, one of
    `variants` or the rate is missing, or if the rows have several values of d_model or base_learning_rate; only in the
    column that `varies` names are several allowed.
    """
    part = table[table.experiment == experiment]
    require(len(part), f"The run has no experiment {experiment}.")
    missing = [variant for variant in variants if variant not in set(part.variant)]
    require(not missing, f"The run has no {' and no '.join(missing)} in the experiment {experiment}.")
    if rate is not None:
        part = part[part.base_learning_rate == rate]
        require(len(part), f"The experiment {experiment} has no learning rate {rate:g}.")
    for column, several in {"d_model": "widths", "base_learning_rate": "learning rates"}.items():
        words = f"The experiment {experiment} has several {several}; the claim is about one."
        require(column == varies or part[column].nunique() < 2, words)
    return part


def of_best_rates(by: majority.By, table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """Return the runs of `variants` whose learning rate is best in the half of the seeds without the run's seed.

    `by` says whether a rate is best by test loss, accuracy or speed. Runs of layernorm_small, if there are any, are
    returned, too. Raises Untestable if a chosen rate is the lowest or highest tried, or if a variant has a single seed.
    """
    part = of_experiment(table, experiment, *variants, varies="base_learning_rate")
    part = part[part.variant.isin([*variants, "layernorm_small"])]
    best = majority.best_rates(part, by, rules.TEST_LOSS)
    for variant in variants:
        chosen = best[best.variant == variant]
        require(
            len(chosen), f"The run has only 1 seed of {variant}: none other can choose its learning rate."
        )
        refuse_rate_at_grid_end(chosen.at_end, chosen.base_learning_rate, LEGENDS[variant])
    return part.merge(best[["variant", "seed", "base_learning_rate"]])


# Quantities of runs: a row a seed, a column a variant


def by_variant(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the values in `column` of `rows` as a table with a row for each seed and a column for each variant.

    `rows` are rows of majority_metrics, with at most one for each seed and variant.
    """
    return rows.pivot(index="seed", columns="variant", values=column)


def at_the_end(runs: pd.DataFrame, _: Sequence[str] = ()) -> Measured:
    """Return the final test accuracy in per cent, by seed (rows) and variant (columns); 0 for a run that diverged."""
    return Measured(100 * by_variant(majority.last_rows(runs), "test_accuracy"))


def steps(
    runs: pd.DataFrame, variants: Sequence[str], column: str, level: float, for_good: bool = False
) -> Measured:
    """Return the optimiser steps until a column of majority_metrics first falls to `level`, by seed and variant.

    With `for_good` it is the step from which on the column stays at or above `level`. NaN stands for never.
    """
    return steps_of(majority.arrivals(runs, majority.RUN, column, level, for_good), variants)


def at_step(
    runs: pd.DataFrame, _: Sequence[str], column: str, change: Callable, step: int | None = None
) -> Measured:
    """Return a column of majority_metrics at one step and before training, by seed (rows) and variant (columns).

    The function `change` is applied to the values. `step` is the last by default; raises Untestable if it has no rows.
    """
    step = int(runs.step.max()) if step is None else step
    then, first = (change(by_variant(runs[runs.step == each], column)) for each in (step, 0))
    require(len(then), f"The run has no metrics at step {step:,}.")
    return Measured(then.join(first.add_prefix(BEFORE_TRAINING), how="outer"))


# Figures 1a, 1b and 2b: planes and angles

RANDOM = "a random direction"


_ANGLE = "mean angle between queries and the ones vector"


def minus(values: pd.DataFrame, high: str, low: str, **fields: Any) -> Comparison:
    """Return the `Comparison` of the column `high` minus the column `low` of `values`, which has a row for each seed.

    `fields` are further fields of the `Comparison`. The unit is degrees unless `fields` has another.
    """
    fields = {"words": f"{high} minus {low}", "unit": "°", "statistic": _ANGLE} | fields
    return Comparison(value=Measured(values).value(high, low), **fields)


def parallel(tables: Tables, experiment: str) -> Outcome:
    """Test the paper's Figure 2b: training with projection turns queries towards the ones vector.

    Mean angles between queries and the ones vector, in degrees, are compared without and with projection, at the last
    step that both the paper's figure and the table majority_metrics have. It is also tested that, with LayerNorm, the
    part of queries along the ones vector grows in training. Raises Untestable if data are missing.
    """
    metrics = of_experiment(tables[METRICS], experiment, *PAPER_PROJECTION, "scale")
    vectors = of_experiment(tables[VECTORS], experiment, "layernorm")
    parts = majority.query_parts(vectors[vectors.variant == "layernorm"])
    both = {"initial", "final"} <= set(parts.checkpoint)
    require(both, "The run has no queries from before and after training.")
    angles = pd.DataFrame({v: reported()["majority"][v]["query_angle_mean"] for v in PAPER_PROJECTION})
    there = [int(step) for step in angles.index if (metrics.step == step).any()]
    given = ", ".join(f"{step:,}" for step in angles.index)
    end = f"The runs end at step {metrics.step.max():,}"
    require(there, f"{end} and have no row at the steps that the paper's figure gives: {given}.")
    turned, straight = (float(angles[v][there[-1]]) for v in PAPER_PROJECTION)
    random, paper = majority.random_angle(int(metrics.d_model.iloc[0])), straight - turned
    as_in_paper = ask("half_of", paper)

    def compared(step: int) -> list[Comparison]:
        angles = by_variant(metrics[metrics.step == step], "query_angle_mean").assign(**{RANDOM: random})
        rows = [
            minus(angles, "scale_released", "layernorm", question=as_in_paper),
            minus(angles, RANDOM, "layernorm", question=ask("half_of", random - turned)),
            minus(angles, "scale", "layernorm", question=as_in_paper, role="control"),
        ]
        if "layernorm_small" in angles:
            half = ask("half_of_or_none", paper)
            rows.append(minus(angles, "scale_released", "layernorm_small", question=half, part=2))
        return rows

    def grows(column: str, words: str, **fields: Any) -> Comparison:
        lengths = np.log(parts.pivot(index="seed", columns="checkpoint", values=column))
        fields |= {"unit": RATIO, "statistic": "length of that part, after over before training"}
        return minus(lengths, "final", "initial", words=f"layernorm's queries {words}", **fields)

    along = grows("along", "along the ones vector", question=ask("positive", unit=RATIO), part=1)
    first, at_random, control, *small = compared(there[-1])
    rows = (first, at_random, control, along, grows("visible", "that scores see", role="context"), *small)
    untrained = (metrics.step == 0).any() and all(row.there for row in compared(0)[:2])
    reason = f"Angles are compared at step {there[-1]:,}."
    return Outcome(rows, reason, paper, UNTRAINED if untrained else None)


def on_a_plane(tables: Tables, experiment: str, variant: str, flat: float) -> Outcome:
    """Test the paper's Figures 1a and 1b: keys of `variant` lie on a plane, and queries point along its normal.

    The keys of a run lie on a plane if their smallest singular value is at most `flat` times the largest. The mean of
    the keys of layernorm_affine is subtracted first, since its bias moves the plane away from the origin.
    """
    vectors = of_experiment(tables[VECTORS], experiment, variant, "scale")
    vectors = vectors[vectors.variant.isin([variant, "scale"])]
    random = majority.random_angle(int(vectors.d_model.iloc[0]))
    far = ask("half_of", random)

    def compared(checkpoint: str) -> list[Comparison]:
        here = vectors[vectors.checkpoint == checkpoint]
        runs = majority.geometry_of_runs(here, centred=variant == "layernorm_affine")
        lost = [LEGENDS[name] for name in (variant, "scale") if name not in set(runs.variant)]
        require(not lost, f"Every run of {' and of '.join(lost)} has diverged.", vectors.seed.nunique())
        runs = runs.pivot(index="seed", columns="variant", values=["flatness", "angle"])
        angle = runs.angle.assign(**{RANDOM: random})

        def keys(name: str, kind: str, role: Role) -> Comparison:
            value = Value.range_over(runs.flatness[name], int(angle[name].count()))
            words = "smallest singular value of the keys over the largest"
            return Comparison(name, value, ask(kind, flat), role, statistic=words)

        return [
            minus(angle, RANDOM, variant, question=far),
            keys(variant, "all_at_most", "effect"),
            minus(angle, "scale", variant, question=far, role="control"),
            keys("scale", "all_more_than", "control"),
        ]

    rows, untrained = compared("final"), (vectors.checkpoint == "initial").any()
    untrained = untrained and all(row.there for row in compared("initial")[:2])
    return Outcome(tuple(rows), "", random, UNTRAINED if untrained else None)


TESTS = {"parallel": parallel, "on_a_plane": on_a_plane}
"""Functions that test claims about the majority task, by the name under `test` in projection.yaml."""


# What the projection costs, and what size does


def cost_by_width(tables: Tables, experiment: str, columns: Sequence[str]) -> Measured:
    """Return by how many points the final accuracy (%) of the variants layernorm and projected_qk is below scale's.

    Each row is a seed. Both have columns for the narrowest width, the widest, their difference, and the mean of all.
    """
    compared = ("layernorm", "scale", "projected_qk")
    metrics = of_experiment(tables[METRICS], experiment, *compared, varies="d_model")
    accuracies = {int(d): at_the_end(part).frame for d, part in metrics.groupby("d_model")}
    require(len(accuracies) > 1, f"The experiment {experiment} has a single width.")
    costs = {}
    for variant in ("layernorm", "projected_qk"):
        cost = pd.DataFrame({d: accuracy.scale - accuracy[variant] for d, accuracy in accuracies.items()})
        least, most = cost[min(accuracies)], cost[max(accuracies)]
        own = {"narrowest": least, "widest": most, "narrowest minus widest": least - most}
        own["mean over widths"] = cost.mean(axis=1)  # of one seed they share their data
        costs |= {f"{variant}, {name}": values for name, values in own.items()}
    return Measured(pd.DataFrame(costs))


def size_and_projection(tables: Tables, experiment: str, columns: Sequence[str]) -> Measured:
    """Return the effects of size and projection, and their interaction, on log steps to a test loss of 0.5.

    Each row is a seed. Values are natural logarithms of ratios of steps, above 0 if training needs fewer steps with
    projection, or with an attention input of LayerNorm's size instead of 1/d of it. Raises Untestable if a seed with
    runs of all four variants has one that does not reach the loss.
    """
    cells = [*chain(*majority.SIZE_AND_PROJECTION)]
    measured = _to_loss(of_experiment(tables[METRICS], experiment, *cells), cells)
    values, ran = np.log(measured.frame[cells]), measured.last_steps[cells].dropna().index
    words = f"{measured.note} The effects of size and projection on the steps need all runs."
    require(values.loc[ran].notna().all(axis=None), words, runs=len(ran))
    return Measured(two_by_two(-values, *majority.SIZE_AND_PROJECTION, "projection"))


def of_runs(measure: Callable[..., Measured], select: Callable = of_experiment) -> Callable[..., Measured]:
    """Return a function of tables, experiment and variants that measures a quantity of the majority task.

    It calls `measure` with two arguments: the runs that `select` takes from majority_metrics, and the variants' names.
    """
    return lambda tables, of, variants: measure(select(tables[METRICS], of, *variants), variants)


_STEPS, _DEVIATION = f"steps to test loss {rules.TEST_LOSS}", "standard deviation of the attention scores"
_ACCURACY, _BEST = "test accuracy at the last step", ", each run at its best rate"
_AT_PAPERS = f"test accuracy at step {rules.ACCURACY_STEP:,}"
_AT_ONE = f"{_ACCURACY}, at a learning rate of {rules.ACCURATE_RATE:g}"
_COST = "accuracy of scaling only at the last step minus that of a variant"
_CELLS = f"{_STEPS}, small over LayerNorm's size, without over with projection"
_EQUAL = "steps until attention is equal for good"
_SHARE = "perplexity of attention over the number of classes"
_LOSS, _EFFECTS = ("TEST_LOSS",), ("size", "projection", "interaction")
_fastest, _most_accurate, _lowest = (partial(of_best_rates, by) for by in ("speed", "accuracy", "loss"))
_of_rate = partial(of_experiment, rate=rules.ACCURATE_RATE)
_to_loss = partial(steps, column="test_loss", level=rules.TEST_LOSS)
_to_equal = partial(steps, column="attention_share", level=rules.EQUAL, for_good=True)
_share = partial(at_step, column="attention_share", change=np.positive)
_deviation = partial(at_step, column="score_std", change=np.log)
_accuracy = partial(at_step, column="test_accuracy", change=partial(np.multiply, 100))
_at_papers_step = partial(_accuracy, step=rules.ACCURACY_STEP)
QUANTITIES = {
    "steps": Quantity(of_runs(_to_loss), RATIO, _STEPS, thresholds=_LOSS),
    "steps_at_best_rates": Quantity(of_runs(_to_loss, _fastest), RATIO, _STEPS + _BEST, thresholds=_LOSS),
    "steps_to_equal_attention": Quantity(of_runs(_to_equal), RATIO, _EQUAL, thresholds=("EQUAL",)),
    "accuracy": Quantity(of_runs(_at_papers_step), POINTS, _AT_PAPERS, thresholds=("ACCURACY_STEP",)),
    "accuracy_at_best_rates": Quantity(of_runs(_accuracy, _most_accurate), POINTS, _ACCURACY + _BEST),
    "accuracy_at_the_end": Quantity(of_runs(at_the_end), POINTS, _ACCURACY),
    "accuracy_at_one_rate": Quantity(
        of_runs(at_the_end, _of_rate), POINTS, _AT_ONE, thresholds=("ACCURATE_RATE",)
    ),
    "score_deviation": Quantity(of_runs(_deviation), RATIO, _DEVIATION),
    "score_deviation_at_best_rates": Quantity(of_runs(_deviation, _lowest), RATIO, _DEVIATION + _BEST),
    "attention_share": Quantity(of_runs(_share), "", _SHARE),
    "cost_by_width": Quantity(cost_by_width, POINTS, _COST, ("layernorm, *", "projected_qk, *")),
    "size_and_projection": Quantity(size_and_projection, RATIO, _CELLS, _EFFECTS, _LOSS),
}
"""Quantities of the majority task that claims can compare, by the names that YAML entries use."""
