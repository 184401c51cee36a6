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

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import two_by_two
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import (
    ASKED,
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    over_seeds,
    paired,
    refuse_rate_at_grid_end,
)
from layernorm_roles.evidence.claims.pairs import BEFORE_TRAINING, Measured, Quantity, range_over, steps_of
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import PAPER_PROJECTION

METRICS, VECTORS = "majority_metrics", "majority_vectors"
COMPARED = (*PAPER_PROJECTION, "scale")
DEGREES, POINTS = "°", " points"


# Quantities of the majority task


def of_experiment(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The rows of an experiment; Untestable if there are none, or one of `variants` is missing."""
    part = table[table.experiment == experiment]
    if part.empty:
        raise Untestable(f"The run has no experiment {experiment}.")
    missing = [variant for variant in variants if variant not in set(part.variant)]
    if missing:
        raise Untestable(f"The run has no {' and no '.join(missing)} in the experiment {experiment}.")
    return part


def of_setting(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The rows of an experiment, as `of_experiment`; Untestable if it has several widths or learning rates."""
    part = of_experiment(table, experiment, *variants)
    for column, name in (("d_model", "widths"), ("base_learning_rate", "learning rates")):
        if part[column].nunique() > 1:
            raise Untestable(f"The experiment {experiment} has several {name}; the claim is about one.")
    return part


def of_best_rates(by: majority.By, table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The runs of `variants` at the rate that the other half of the seeds chooses; Untestable if it ends the grid.

    `by` says by what a rate is the best one. If layernorm_small is there, it is among them, and no reason for
    Untestable.
    """
    part = of_experiment(table, experiment, *variants)
    if part.d_model.nunique() > 1:
        raise Untestable(f"The experiment {experiment} has several widths; the claim is about one.")
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
"""Which runs of an experiment are judged: `of_setting`, or `of_best_rates` with what a rate is chosen by."""


def by_variant(metrics: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """The values of `column` of majority_metrics at one step: a row a seed, a column a variant."""
    return metrics[metrics.step == step].pivot(index="seed", columns="variant", values=column)


def final_accuracy(metrics: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy at the last step in per cent: a row a seed, a column a variant."""
    ends = majority.last_rows(metrics)
    return 100 * ends.pivot(index="seed", columns="variant", values="test_accuracy")


def steps(
    select: Select,
    count: Callable[[pd.DataFrame], pd.DataFrame],
    tables: Tables,
    of: str,
    variants: Sequence[str],
) -> Measured:
    """Steps of the runs to what `count` counts them to, see `analysis.majority`."""
    return steps_of(count(select(tables[METRICS], of, *variants)), variants)


def to_test_loss(metrics: pd.DataFrame) -> pd.DataFrame:
    """Steps of every run to the test loss TEST_LOSS."""
    return majority.steps_to_reach(metrics, [rules.TEST_LOSS])


def to_equal_attention(metrics: pd.DataFrame) -> pd.DataFrame:
    """Steps of every run from which on attention is equal over the classes, by EQUAL."""
    return majority.steps_to_equal_attention(metrics, rules.EQUAL)


def accuracy(select: Select, tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Test accuracy in per cent at ACCURACY_STEP; where rates are chosen, whose runs are shorter, at the last step."""
    metrics = select(tables[METRICS], experiment, *variants)
    step = rules.ACCURACY_STEP if select is of_setting else int(metrics.step.max())
    values = 100 * by_variant(metrics, "test_accuracy", step)
    if values.empty:
        raise Untestable(f"The run has no metrics at step {step:,}, where the paper's accuracies were read.")
    return Measured(values)


def of_rate(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The runs of an experiment at the learning rate ACCURATE_RATE; Untestable if it has none, or several widths."""
    part = of_experiment(table, experiment, *variants)
    part = part[part.base_learning_rate == rules.ACCURATE_RATE]
    if part.empty:
        raise Untestable(f"The experiment {experiment} has no learning rate {rules.ACCURATE_RATE:g}.")
    return of_setting(part, experiment, *variants)


def accuracy_at_the_end(select: Select, tables: Tables, experiment: str, variants: Sequence[str]) -> Measured:
    """Test accuracy in per cent at the last step; 0 for a run that was lost."""
    return Measured(final_accuracy(select(tables[METRICS], experiment, *variants)))


def first_and_last(
    select: Select, column: str, change: Callable, tables: Tables, experiment: str, variants: Sequence[str]
) -> Measured:
    """A column of majority_metrics, changed by a function, at the last step and before training."""
    metrics = select(tables[METRICS], experiment, *variants)
    first, last = (change(by_variant(metrics, column, step)) for step in (0, int(metrics.step.max())))
    if first.empty:
        raise Untestable("The run has no metrics at step 0, before training.")
    return Measured(last.join(first.add_prefix(BEFORE_TRAINING), how="outer"))


# Figures 1a, 1b and 2b: planes and angles


def step_of_paper(metrics: pd.DataFrame, quantity: str) -> int:
    """The last step for which the paper gives `quantity` with and without projection and the runs have a row."""
    paper = [reported()["majority"][variant][quantity] for variant in PAPER_PROJECTION]
    steps = [step for step in sorted(set(paper[0]) & set(paper[1])) if (metrics.step == step).any()]
    if not steps:
        raise Untestable(
            f"The runs end at step {metrics.step.max():,} and have no row at the steps that the paper's figure gives: "
            f"{', '.join(f'{step:,}' for step in paper[0])}."
        )
    return steps[-1]


def parallel(tables: Tables, experiment: str) -> Outcome:
    """Figure 2b: the mean angle between queries and the ones vector, without projection minus with it.

    Keys that were projected have no part along the ones vector, and a score does not see that part of a query. So both
    parts of the query are judged beside the angle: turning would be a growth of the part along the ones vector.
    """
    metrics = of_setting(tables[METRICS], experiment, *COMPARED)
    parts = majority.query_parts(of_setting(tables[VECTORS], experiment, "layernorm"))
    if not {"initial", "final"} <= set(parts.checkpoint):
        raise Untestable("The run has no queries from before and after training.")
    step = step_of_paper(metrics, "query_angle_mean")
    with_projection, without = (
        float(reported()["majority"][v]["query_angle_mean"][step]) for v in PAPER_PROJECTION
    )
    random, paper = majority.random_angle(int(metrics.d_model.iloc[0])), without - with_projection

    def compared(angles: pd.DataFrame) -> list[Comparison]:
        layernorm = over_seeds(angles.layernorm.dropna(), "layernorm")
        released = paired(angles.scale_released, angles.layernorm, "scale_released")
        below, n = layernorm.below(random), len(angles.layernorm.dropna())
        turned = ASKED["half_of"](random - with_projection)
        scale = paired(angles.scale, angles.layernorm, "scale")
        return [
            compare("scale_released minus layernorm", *released, ASKED["half_of"](paper), unit=DEGREES),
            compare("a random direction minus layernorm", below, n, turned, unit=DEGREES),
            compare("scale minus layernorm", *scale, ASKED["half_of"](paper), "control", DEGREES),
        ]

    angles = by_variant(metrics, "query_angle_mean", step)
    rows = compared(angles)
    ends = parts[parts.variant == "layernorm"].pivot(
        index="seed", columns="checkpoint", values=["along", "visible"]
    )
    for part, words, asked in (
        ("along", "along the ones vector", ASKED["positive"](0)),
        ("visible", "that scores see", None),
    ):
        change = paired(np.log(ends[part].final), np.log(ends[part].initial), "layernorm")
        shown, statistic = f"layernorm's queries {words}", "length of that part, after over before training"
        role, counts = ("effect", 1) if asked else ("context", None)
        rows.append(compare(shown, *change, asked, role, RATIO, statistic, counts))
    if "layernorm_small" in angles:
        small = paired(angles.scale_released, angles.layernorm_small, "layernorm_small")
        words = "scale_released minus layernorm_small"
        rows.append(compare(words, *small, ASKED["half_of"](paper), unit=DEGREES, part=2))
    passed = None
    if len(untrained := by_variant(metrics, "query_angle_mean", 0)):
        passed = UNTRAINED if all(row.there for row in compared(untrained)[:2]) else None
    return Outcome(tuple(rows), f"Angles are compared at step {step:,}.", paper, passed)


def on_a_plane(tables: Tables, experiment: str, variant: str, flat: float) -> Outcome:
    """Figures 1a and 1b: whether the keys lie on a plane, and how far the queries are from its normal.

    Keys lie on a plane if their smallest singular value is at most `flat` of the largest. With a bias the plane of
    LayerNorm's outputs need not contain the origin, so `layernorm_affine` is tested on centred keys.
    """
    vectors = of_setting(tables[VECTORS], experiment, variant, "scale")
    vectors = vectors[vectors.variant.isin([variant, "scale"])]
    centred, random = variant == "layernorm_affine", majority.random_angle(int(vectors.d_model.iloc[0]))
    flatness = {"statistic": "smallest singular value of the keys over the largest"}

    def compared(checkpoint: str) -> list[Comparison]:
        runs = majority.geometry_of_runs(vectors[vectors.checkpoint == checkpoint], centred)
        values, angle = (
            runs.pivot(index="seed", columns="variant", values=column) for column in ("flatness", "angle")
        )
        if lacking := [LEGENDS[name] for name in (variant, "scale") if name not in angle]:
            raise Untestable(f"Every run of {' and of '.join(lacking)} has diverged.", vectors.seed.nunique())
        own = angle[variant].dropna()
        n, m = len(own), len(values.scale.dropna())
        planar, off = ASKED["all_at_most"](flat), ASKED["all_more_than"](flat)
        below, asked = over_seeds(own, variant).below(random), ASKED["half_of"](random)
        further = paired(angle.scale, angle[variant], "scale")
        return [
            compare(f"a random direction minus {variant}", below, n, asked, unit=DEGREES),
            compare(variant, range_over(values[variant]), n, planar, **flatness),
            compare(f"scale minus {variant}", *further, asked, "control", DEGREES),
            compare("scale", range_over(values.scale), m, off, "control", **flatness),
        ]

    rows, passed = compared("final"), None
    if (vectors.checkpoint == "initial").any():
        passed = UNTRAINED if all(row.there for row in compared("initial")[:2]) else None
    return Outcome(tuple(rows), "", random, passed)


# What the projection costs, and what size does


def cost_by_width(tables: Tables, experiment: str, columns: Sequence[str]) -> Measured:
    """Percentage points by which scaling only is more accurate at the last step, at the ends of the widths."""
    compared = ("layernorm", "scale", "projected_qk")
    metrics = of_experiment(tables[METRICS], experiment, *compared)
    if metrics.base_learning_rate.nunique() > 1:
        raise Untestable(f"The experiment {experiment} has several learning rates; the claim is about one.")
    accuracies = {int(d): final_accuracy(part) for d, part in metrics.groupby("d_model")}
    if len(accuracies) < 2:
        raise Untestable(f"The experiment {experiment} has a single width.")
    if lacking := [d for d, accuracy in accuracies.items() if not {*compared} <= set(accuracy)]:
        raise Untestable(f"At the widths {lacking} the run lacks some of the norms that are compared.")
    found = {}
    for variant in ("layernorm", "projected_qk"):
        cost = pd.DataFrame({d: accuracy.scale - accuracy[variant] for d, accuracy in accuracies.items()})
        ends = cost[min(accuracies)], cost[max(accuracies)]
        shown = dict(
            zip(("narrowest", "widest", "narrowest minus widest"), (*ends, ends[0] - ends[1]), strict=True)
        )
        shown["mean over widths"] = cost.dropna().mean(axis=1)  # widths of one seed share their data
        found |= {f"{variant}, {where}": values for where, values in shown.items()}
    return Measured(pd.DataFrame(found))


def size_and_projection(tables: Tables, experiment: str, columns: Sequence[str]) -> Measured:
    """Logarithms of how many times the steps are that a d times smaller input needs, and one without projection."""
    cells = (*majority.SIZE_AND_PROJECTION[0], *majority.SIZE_AND_PROJECTION[1])
    metrics = of_setting(tables[METRICS], experiment, *cells)
    steps = to_test_loss(metrics[metrics.variant.isin(cells)])
    wide = np.log(steps.pivot(index="seed", columns="variant", values="steps"))
    ran = steps.assign(one=1.0).pivot(index="seed", columns="variant", values="one").dropna()
    if wide.loc[ran.index].isna().any(axis=None):
        raise Untestable(
            f"{steps_of(steps, cells).note} The effects of size and projection on the steps need all runs.",
            runs=len(ran),
        )
    effects = two_by_two(-wide, *majority.SIZE_AND_PROJECTION)
    return Measured(pd.DataFrame(dict(zip(("size", "projection", "interaction"), effects, strict=True))))


TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function for function in (parallel, on_a_plane)
}
"""The functions that entries of projection.yaml name under `test`."""

_STEPS, _ACCURACY = f"steps to test loss {rules.TEST_LOSS}", "test accuracy at the last step"
QUANTITIES = {
    "steps": Quantity(partial(steps, of_setting, to_test_loss), RATIO, _STEPS, thresholds=("TEST_LOSS",)),
    "steps_at_best_rates": Quantity(
        partial(steps, partial(of_best_rates, "speed"), to_test_loss),
        RATIO,
        f"{_STEPS}, each run at its best rate",
        thresholds=("TEST_LOSS",),
    ),
    "steps_to_equal_attention": Quantity(
        partial(steps, of_setting, to_equal_attention),
        RATIO,
        "steps until attention is equal for good",
        thresholds=("EQUAL",),
    ),
    "accuracy": Quantity(
        partial(accuracy, of_setting),
        POINTS,
        f"test accuracy at step {rules.ACCURACY_STEP:,}",
        thresholds=("ACCURACY_STEP",),
    ),
    "accuracy_at_best_rates": Quantity(
        partial(accuracy, partial(of_best_rates, "accuracy")),
        POINTS,
        f"{_ACCURACY}, each run at its best rate",
    ),
    "accuracy_at_the_end": Quantity(partial(accuracy_at_the_end, of_setting), POINTS, _ACCURACY),
    "accuracy_at_one_rate": Quantity(
        partial(accuracy_at_the_end, of_rate),
        POINTS,
        f"{_ACCURACY}, at a learning rate of {rules.ACCURATE_RATE:g}",
        thresholds=("ACCURATE_RATE",),
    ),
    "score_deviation": Quantity(
        partial(first_and_last, of_setting, "score_std", np.log),
        RATIO,
        "standard deviation of the attention scores",
    ),
    "score_deviation_at_best_rates": Quantity(
        partial(first_and_last, partial(of_best_rates, "loss"), "score_std", np.log),
        RATIO,
        "standard deviation of the attention scores, each run at its best rate",
    ),
    "attention_share": Quantity(
        partial(first_and_last, of_setting, "attention_share", np.positive),
        "",
        "perplexity of attention over the number of classes",
    ),
    "cost_by_width": Quantity(
        cost_by_width,
        POINTS,
        "accuracy of scaling only at the last step minus that of a variant",
        ("layernorm, *", "projected_qk, *"),
    ),
    "size_and_projection": Quantity(
        size_and_projection,
        RATIO,
        f"{_STEPS}, small over LayerNorm's size, without over with projection",
        ("size", "projection", "interaction"),
        ("TEST_LOSS",),
    ),
}
"""The quantities of the majority task that entries name."""
