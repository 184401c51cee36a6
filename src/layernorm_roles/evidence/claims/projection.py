"""Claims about projection, and what it costs: quantities of the majority task, and two tests of geometry.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.
`projected_qk` projects for queries and keys only, `projected_v` for values only, both with the scaling everywhere.

All variants of an experiment share the data, and runs of equal seeds also their initialisation and batches, so
differences and ratios are over pairs of runs of one seed.
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
    Untestable,
    ask,
)
from layernorm_roles.evidence.claims.quantities import (
    BEFORE_TRAINING,
    Known,
    Measured,
    Quantity,
    refuse_rate_at_grid_end,
    steps_of,
)
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import PAPER_PROJECTION

METRICS, VECTORS = "majority_metrics", "majority_vectors"
COMPARED = (*PAPER_PROJECTION, "scale")
DEGREES, POINTS = "°", " points"


# Which runs are judged


def of_experiment(
    table: pd.DataFrame,
    experiment: str,
    *variants: str,
    single: Sequence[str] = ("d_model",),
    rate: float | None = None,
) -> pd.DataFrame:
    """Return the rows of an experiment, at one learning rate if `rate` is given.

    Untestable if the experiment, one of `variants` or the rate is missing, or if a column of `single` varies.
    """
    part = table[table.experiment == experiment]
    if part.empty:
        raise Untestable(f"The run has no experiment {experiment}.")
    if missing := [variant for variant in variants if variant not in set(part.variant)]:
        raise Untestable(f"The run has no {' and no '.join(missing)} in the experiment {experiment}.")
    for column in single:
        if part[column].nunique() > 1:
            several = {"d_model": "widths", "base_learning_rate": "learning rates"}[column]
            raise Untestable(f"The experiment {experiment} has several {several}; the claim is about one.")
    part = part if rate is None else part[part.base_learning_rate == rate]
    if part.empty:
        raise Untestable(f"The experiment {experiment} has no learning rate {rate:g}.")
    return part


of_setting = partial(of_experiment, single=("d_model", "base_learning_rate"))
of_rate = partial(of_experiment, rate=rules.ACCURATE_RATE)


def of_best_rates(by: majority.By, table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """Return the runs of `variants`, each at the learning rate that is best for the other half of its variant's seeds.

    `by` says by what a rate is best. Runs of layernorm_small are included where there are any. Untestable if a rate of
    `variants` is an end of the grid, since a better one may lie beyond.
    """
    part = of_experiment(table, experiment, *variants)
    part = part[part.variant.isin([*variants, "layernorm_small"])]
    best = majority.best_rates(part, by, rules.TEST_LOSS)
    for variant in variants:
        chosen = best[best.variant == variant]
        if chosen.empty:
            raise Untestable(
                f"The run has only 1 seed of {variant}: none other can choose its learning rate."
            )
        refuse_rate_at_grid_end(chosen.at_end, chosen.base_learning_rate, LEGENDS[variant])
    return part.merge(best[["variant", "seed", "base_learning_rate"]])


Select = Callable[..., pd.DataFrame]
"""Chooses the runs of an experiment that a test reads: `of_setting`, `of_rate`, or `of_best_rates` with its `by`."""

_arrivals = partial(majority.arrivals, run=majority.RUN)
to_test_loss = partial(_arrivals, column="test_loss", level=rules.TEST_LOSS)
to_equal_attention = partial(_arrivals, column="attention_share", level=rules.EQUAL, for_good=True)
"""Function that counts each run's steps until attention stays equal, by EQUAL; `to_test_loss`: until TEST_LOSS."""


# Quantities of the majority task


def by_variant(metrics: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """Return a column of majority_metrics at one step as a table with a row a seed and a column a variant."""
    return metrics[metrics.step == step].pivot(index="seed", columns="variant", values=column)


def final_accuracy(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the final test accuracy in per cent, 0 for a run that diverged: a row a seed, a column a variant."""
    return 100 * majority.last_rows(metrics).pivot(index="seed", columns="variant", values="test_accuracy")


def steps(select: Select, count: Callable, tables: Tables, of: str, variants: Sequence[str]) -> Measured:
    """Return, by seed and variant, the steps to a goal of the chosen runs of experiment `of`, as `count` counts."""
    return steps_of(count(select(tables[METRICS], of, *variants)), variants)


def accuracy(select: Select, tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Return the test accuracy in per cent at ACCURACY_STEP, or at the end where rates are chosen (shorter runs)."""
    metrics = select(tables[METRICS], experiment, *variants)
    step = rules.ACCURACY_STEP if select is of_setting else int(metrics.step.max())
    values = 100 * by_variant(metrics, "test_accuracy", step)
    if values.empty:
        raise Untestable(f"The run has no metrics at step {step:,}, where the paper's accuracies were read.")
    return Measured(values)


def accuracy_at_the_end(select: Select, tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Return the final test accuracy in per cent of the runs that `select` chooses; 0 for a run that diverged."""
    return Measured(final_accuracy(select(tables[METRICS], experiment, *variants)))


def first_and_last(
    select: Select, column: str, change: Callable, tables: Tables, experiment: str, variants: Sequence[str]
) -> Measured:
    """Return a column of majority_metrics, put through `change`, at the last step and before training, by seed."""
    metrics = select(tables[METRICS], experiment, *variants)
    first, last = (change(by_variant(metrics, column, step)) for step in (0, int(metrics.step.max())))
    if first.empty:
        raise Untestable("The run has no metrics at step 0, before training.")
    return Measured(last.join(first.add_prefix(BEFORE_TRAINING), how="outer"))


# Figures 1a, 1b and 2b: planes and angles

RANDOM = "a random direction"


def minus(values: pd.DataFrame, high: str, low: str, **fields: Any) -> Comparison:
    """Return the comparison `high` minus `low` of two columns, a row a seed; in degrees, unless `fields` say else."""
    estimate, n, _ = Measured(values).estimate(high, low)
    return Comparison(
        **{"words": f"{high} minus {low}", "unit": DEGREES} | fields, estimate=estimate, n_runs=n
    )


def step_of_paper(metrics: pd.DataFrame, quantity: str) -> int:
    """Return the last step for which the paper gives `quantity` with and without projection and the runs have rows."""
    paper = [reported()["majority"][variant][quantity] for variant in PAPER_PROJECTION]
    steps = [step for step in sorted(set(paper[0]) & set(paper[1])) if (metrics.step == step).any()]
    if not steps:
        raise Untestable(
            f"The runs end at step {metrics.step.max():,} and have no row at the steps that the paper's figure gives: "
            f"{', '.join(f'{step:,}' for step in paper[0])}."
        )
    return steps[-1]


def parallel(tables: Tables, experiment: str) -> Outcome:
    """Test Figure 2b: compare the mean angle between queries and the ones vector without projection and with it.

    Keys that were projected have no part along the ones vector, and a score does not see that part of a query. So both
    parts of the query are measured beside the angle: turning would be a growth of the part along the ones vector.
    """
    metrics = of_setting(tables[METRICS], experiment, *COMPARED)
    parts = majority.query_parts(of_setting(tables[VECTORS], experiment, "layernorm"))
    if not {"initial", "final"} <= set(parts.checkpoint):
        raise Untestable("The run has no queries from before and after training.")
    step = step_of_paper(metrics, "query_angle_mean")
    turned, straight = (float(reported()["majority"][v]["query_angle_mean"][step]) for v in PAPER_PROJECTION)
    random, paper = majority.random_angle(int(metrics.d_model.iloc[0])), straight - turned
    as_in_paper = ask("half_of", paper)

    def compared(step: int) -> list[Comparison]:
        angles = by_variant(metrics, "query_angle_mean", step).assign(**{RANDOM: random})
        rows = [
            minus(angles, "scale_released", "layernorm", question=as_in_paper),
            minus(angles, RANDOM, "layernorm", question=ask("half_of", random - turned)),
            minus(angles, "scale", "layernorm", question=as_in_paper, role="control"),
        ]
        if "layernorm_small" in angles:
            half = ask("half_of_or_none", paper)
            rows.append(minus(angles, "scale_released", "layernorm_small", question=half, part=2))
        return rows

    first, at_random, control, *small = compared(step)
    lengths = parts[parts.variant == "layernorm"].pivot(index="seed", columns="checkpoint")
    lengths = np.log(lengths[["along", "visible"]])
    shown = {"unit": RATIO, "statistic": "length of that part, after over before training"}
    grows = minus(
        lengths.along,
        "final",
        "initial",
        words="layernorm's queries along the ones vector",
        question=ask("positive", unit=RATIO),
        part=1,
        **shown,
    )
    words = "layernorm's queries that scores see"
    seen = minus(lengths.visible, "final", "initial", words=words, role="context", **shown)
    untrained = (metrics.step == 0).any() and all(row.there for row in compared(0)[:2])
    return Outcome(
        (first, at_random, control, grows, seen, *small),
        f"Angles are compared at step {step:,}.",
        paper,
        UNTRAINED if untrained else None,
    )


def on_a_plane(tables: Tables, experiment: str, variant: str, flat: float) -> Outcome:
    """Test Figures 1a and 1b: whether the keys lie on a plane, and how far the queries are from its normal.

    Keys lie on a plane if their smallest singular value is at most `flat` of the largest. With a bias the plane of
    LayerNorm's outputs need not contain the origin, so `layernorm_affine` is tested on centred keys.
    """
    vectors = of_setting(tables[VECTORS], experiment, variant, "scale")
    vectors = vectors[vectors.variant.isin([variant, "scale"])]
    centred, random = variant == "layernorm_affine", majority.random_angle(int(vectors.d_model.iloc[0]))

    def compared(checkpoint: str) -> list[Comparison]:
        runs = majority.geometry_of_runs(vectors[vectors.checkpoint == checkpoint], centred)
        flatness, angle = (
            runs.pivot(index="seed", columns="variant", values=column) for column in ("flatness", "angle")
        )
        if lacking := [LEGENDS[name] for name in (variant, "scale") if name not in angle]:
            raise Untestable(f"Every run of {' and of '.join(lacking)} has diverged.", vectors.seed.nunique())

        def keys(name: str, kind: str, role: Role) -> Comparison:
            values, n, _ = Known.range_over(flatness[name], int(angle[name].count()))
            words = "smallest singular value of the keys over the largest"
            return Comparison(name, values, n, ask(kind, flat), role, statistic=words)

        angle, far = angle.assign(**{RANDOM: random}), ask("half_of", random)
        return [
            minus(angle, RANDOM, variant, question=far),
            keys(variant, "all_at_most", "effect"),
            minus(angle, "scale", variant, question=far, role="control"),
            keys("scale", "all_more_than", "control"),
        ]

    rows, untrained = compared("final"), (vectors.checkpoint == "initial").any()
    untrained = untrained and all(row.there for row in compared("initial")[:2])
    return Outcome(tuple(rows), "", random, UNTRAINED if untrained else None)


# What the projection costs, and what size does


def cost_by_width(tables: Tables, experiment: str, columns: Sequence[str]) -> Measured:
    """Return, by seed, scaling's final accuracy minus LayerNorm's and projected_qk's, in points, by width."""
    compared = ("layernorm", "scale", "projected_qk")
    metrics = of_experiment(tables[METRICS], experiment, *compared, single=["base_learning_rate"])
    accuracies = {int(d): final_accuracy(part) for d, part in metrics.groupby("d_model")}
    if len(accuracies) < 2:
        raise Untestable(f"The experiment {experiment} has a single width.")
    if lacking := [d for d, accuracy in accuracies.items() if not {*compared} <= set(accuracy)]:
        raise Untestable(f"At the widths {lacking} the run lacks some of the norms that are compared.")
    costs = {}
    for variant in ("layernorm", "projected_qk"):
        cost = pd.DataFrame({d: accuracy.scale - accuracy[variant] for d, accuracy in accuracies.items()})
        least, most = cost[min(accuracies)], cost[max(accuracies)]
        mean = cost.dropna().mean(axis=1)  # widths of one seed share their data
        for where, values in zip(WHERE, (least, most, least - most, mean), strict=True):
            costs[f"{variant}, {where}"] = values
    return Measured(pd.DataFrame(costs))


WHERE = ("narrowest", "widest", "narrowest minus widest", "mean over widths")


def size_and_projection(tables: Tables, experiment: str, columns: Sequence[str]) -> Measured:
    """Return, for each seed, the logarithms of the ratios of steps with a d times smaller attention input over those
    without, and without projection over those with it, and their interaction.
    """
    cells = [*chain(*majority.SIZE_AND_PROJECTION)]
    metrics = of_setting(tables[METRICS], experiment, *cells)
    measured = steps_of(to_test_loss(metrics[metrics.variant.isin(cells)]), cells)
    values, ran = np.log(measured.frame), measured.last_steps.dropna().index
    if values.loc[ran].isna().any(axis=None):
        words = f"{measured.note} The effects of size and projection on the steps need all runs."
        raise Untestable(words, runs=len(ran))
    return Measured(two_by_two(-values, *majority.SIZE_AND_PROJECTION, "projection"))


TESTS = {"parallel": parallel, "on_a_plane": on_a_plane}
"""Functions that test claims about the majority task, by the name under `test` in projection.yaml."""

_STEPS, _ACCURACY = f"steps to test loss {rules.TEST_LOSS}", "test accuracy at the last step"
_EQUAL, _DEVIATION = "steps until attention is equal for good", "standard deviation of the attention scores"
_BEST, _SHARE = ", each run at its best rate", "perplexity of attention over the number of classes"
_AT_ONE = f"{_ACCURACY}, at a learning rate of {rules.ACCURATE_RATE:g}"
_COST = "accuracy of scaling only at the last step minus that of a variant"
_CELLS = f"{_STEPS}, small over LayerNorm's size, without over with projection"
_fastest, _most_accurate, _lowest = (partial(of_best_rates, by) for by in ("speed", "accuracy", "loss"))
_share = partial(first_and_last, of_setting, "attention_share", np.positive)
_deviation, _at_lowest = (partial(first_and_last, of, "score_std", np.log) for of in (of_setting, _lowest))
QUANTITIES = {
    "steps": Quantity(partial(steps, of_setting, to_test_loss), RATIO, _STEPS, (), ("TEST_LOSS",)),
    "steps_at_best_rates": Quantity(
        partial(steps, _fastest, to_test_loss), RATIO, _STEPS + _BEST, (), ("TEST_LOSS",)
    ),
    "steps_to_equal_attention": Quantity(
        partial(steps, of_setting, to_equal_attention), RATIO, _EQUAL, (), ("EQUAL",)
    ),
    "accuracy": Quantity(
        partial(accuracy, of_setting),
        POINTS,
        f"test accuracy at step {rules.ACCURACY_STEP:,}",
        (),
        ("ACCURACY_STEP",),
    ),
    "accuracy_at_best_rates": Quantity(partial(accuracy, _most_accurate), POINTS, _ACCURACY + _BEST),
    "accuracy_at_the_end": Quantity(partial(accuracy_at_the_end, of_setting), POINTS, _ACCURACY),
    "accuracy_at_one_rate": Quantity(
        partial(accuracy_at_the_end, of_rate), POINTS, _AT_ONE, (), ("ACCURATE_RATE",)
    ),
    "score_deviation": Quantity(_deviation, RATIO, _DEVIATION),
    "score_deviation_at_best_rates": Quantity(_at_lowest, RATIO, _DEVIATION + _BEST),
    "attention_share": Quantity(_share, "", _SHARE),
    "cost_by_width": Quantity(cost_by_width, POINTS, _COST, ("layernorm, *", "projected_qk, *")),
    "size_and_projection": Quantity(
        size_and_projection, RATIO, _CELLS, ("size", "projection", "interaction"), ("TEST_LOSS",)
    ),
}
"""Quantities of the majority task that claims can compare, by the names that YAML entries use."""
