"""Claims about projection: the majority task, where attention has to weigh all keys alike.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.
`projected_qk` projects for queries and keys only, `projected_v` for values only, both with the scaling everywhere.

Runs of equal seeds share their data, initialisation and batches, so differences and ratios are of pairs of runs.
"""

from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import majority
from layernorm_roles.evidence.analysis.estimate import two_by_two
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules, sizes, testing
from layernorm_roles.evidence.claims.language_model import project_keys
from layernorm_roles.evidence.claims.rules import ACCURACY_GAP, EQUAL, FLAT, NEARER, STEPS_RATIO
from layernorm_roles.evidence.claims.testing import (
    BEFORE,
    RATIO,
    UNTRAINED,
    Measured,
    Number,
    Test,
    optional,
    range_over,
    require,
)
from layernorm_roles.evidence.legends import LEGENDS, label
from layernorm_roles.variants import PAPER_PROJECTION

claim = partial(testing.claim, part="projection", target="majority", of="d8", sizes=sizes.majority)
PAPER = "Brody, Alon and Yahav 2023, "
POINTS, DEGREES = " points", "°"
RANDOM, ANGLE = "a random direction", "mean angle between queries and the ones vector"
HALF_OF_STEPS_RATIO, HALF_OF_ACCURACY_GAP = STEPS_RATIO**0.5, ACCURACY_GAP / 2

# Which runs are judged


def of_experiment(
    table: pd.DataFrame, experiment: str, *variants: str, varies: str = "", rate: float | None = None
) -> pd.DataFrame:
    """Return the rows of one experiment with all its variants; raises Missing if one of `variants` is not there.

    With `rate`, only the rows at this learning rate. Only in the column that `varies` names may a run have several
    values of d_model or base_learning_rate.
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
    returned, too. Raises Missing if a chosen rate is the lowest or highest tried, or if a variant has a single seed.
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


def refuse_rate_at_grid_end(at_end: pd.Series, rates: pd.Series, what: str) -> None:
    """Raise Missing if a best learning rate is the lowest or the highest of those that were tried."""
    best = f"{what} is best at a learning rate of {rates[at_end].min():g}, the first or last that was tried"
    require(not at_end.any(), f"{best}: a better one may lie beyond.", runs=len(rates))


# What is measured: a row a seed, a column a variant


def steps_to_loss(test: Test, runs: pd.DataFrame, *variants: str, where: str = "") -> Measured:
    """Return the optimiser steps until the test loss first falls to 0.5."""
    arrived = majority.arrivals(runs, majority.RUN, "test_loss", rules.TEST_LOSS)
    return test.steps(arrived, variants, f"steps to test loss {rules.TEST_LOSS}{where}")


def at_step(
    test: Test, runs: pd.DataFrame, column: str, unit: str, statistic: str, step: int | None = None
) -> Measured:
    """Return a column of majority_metrics at one step, by default the last, and before training."""
    step = int(runs.step.max()) if step is None else step
    then, first = (
        runs[runs.step == each].pivot(index="seed", columns="variant", values=column) for each in (step, 0)
    )
    require(len(then), f"The run has no metrics at step {step:,}.")
    frame = then.join(first.add_prefix(BEFORE), how="outer")
    frame = np.log(frame) if unit == RATIO else frame * (100 if unit == POINTS else 1)
    return test.measured(frame, unit, statistic)


def accuracy_at_end(test: Test, runs: pd.DataFrame, where: str = "") -> Measured:
    """Return the final test accuracy in per cent, 0 for a run that diverged."""
    last = majority.last_rows(runs).pivot(index="seed", columns="variant", values="test_accuracy")
    return test.measured(100 * last, POINTS, f"test accuracy at the last step{where}")


BEST = ", each run at its best rate"

# The claims


def faster_in(test: Test, experiment: str, select=of_experiment, where: str = "") -> None:
    """Compare the steps of an experiment."""
    variants = ("scale_released", "layernorm", "scale")
    runs = select(test.table("majority_metrics"), experiment, *variants)
    steps = steps_to_loss(test, runs, *variants, where=where)
    test.reported = STEPS_RATIO
    test.effect(steps.over("scale_released", "layernorm"), at_least=HALF_OF_STEPS_RATIO)
    test.control(steps.over("scale", "layernorm"), at_least=HALF_OF_STEPS_RATIO)
    with optional():
        test.show(steps.over("layernorm_small", "layernorm"), at_least=HALF_OF_STEPS_RATIO)


@claim(
    kind="paper",
    source=PAPER + "Figure 2a",
    primary=True,
    unit=RATIO,
    figures=["figure_2a", "majority_curves", "majority_by_rate"],
    exhibits=["convergence", "rates"],
)
def faster(test):
    """With projection the loss falls faster: without it training needs 3 times the steps.

    Reported: 3 times the steps
    Setting: Steps are counted on the test loss, where the paper draws the training loss. At best rates, the rate of
        each run is the one at which the other half of its norm's seeds is best in what is judged, on average.
    Statistic: steps to test loss {TEST_LOSS}, scale_released over layernorm of the same seed, geometric mean
    Control: scale over layernorm (without projection, of LayerNorm's size); layernorm_small (LayerNorm of the
        released variant's size)
    Rule: Holds if the ratio to LayerNorm is at least √3 (half of 3 on a logarithmic scale), with an interval above 1,
        both for scale_released and for scale. Partial if one is smaller, with an interval above 1. Confounded if for
        scale the interval does not lie above 1 and ends below √3. The rule is the same for other data and at best
        rates; a best rate that is the first or the last that was tried is inconclusive.
    """
    test.beside("faster_uniform", "On uniformly drawn partitions", faster_in, "d8_uniform", looks=2)
    best = partial(of_best_rates, "speed")
    test.beside(
        "faster_best_rate",
        "At the best learning rates",
        faster_in,
        "rates",
        best,
        BEST,
        primary=True,
        looks=2,
    )
    faster_in(test, "d8")


@claim(kind="paper", source=PAPER + "Figure 2b", primary=True, unit=DEGREES, figures=["figure_2b"])
def parallel(test):
    """With projection the queries turn parallel to the ones vector; without it they do not.

    Reported: 32 degrees with, 74 without (step 4,000); 15.5 with, 75 without (step 8,000); read off the figure
    Statistic: mean angle between queries and the ones vector, scale_released minus layernorm of the same seed, at the
        paper's last step within the run (8,000 or 4,000), degrees
    Control: scale minus layernorm; layernorm_small; both parts of the queries; a random direction; untrained models
    Rule: Holds if LayerNorm's angle is at least half as far below a random direction's as the paper's, and the angles
        of scale_released and of scale are larger than LayerNorm's by at least half the paper's difference, each with
        an interval above 0; and if in training the part of LayerNorm's queries along the ones vector grows, with an
        interval above a ratio of 1, and LayerNorm as small as the released variant ends below that variant's angle by
        half the paper's difference. Partial if one of the first three is smaller, with an interval above 0, or one of
        the last two is not so. Confounded if scale's difference has an interval that does not lie above 0.
    """
    metrics = of_experiment(test.table("majority_metrics"), "d8", *PAPER_PROJECTION, "scale")
    vectors = of_experiment(test.table("majority_vectors"), "d8", "layernorm")
    parts = majority.query_parts(vectors[vectors.variant == "layernorm"])
    both = {"initial", "final"} <= set(parts.checkpoint)
    require(both, "The run has no queries from before and after training.")
    paper = pd.DataFrame({v: reported()["majority"][v]["query_angle_mean"] for v in PAPER_PROJECTION})
    there = [int(step) for step in paper.index if (metrics.step == step).any()]
    given = ", ".join(f"{step:,}" for step in paper.index)
    end = f"The runs end at step {metrics.step.max():,}"
    require(there, f"{end} and have no row at the steps that the paper's figure gives: {given}.")
    random, (turned, straight) = majority.random_angle(int(metrics.d_model.iloc[0])), paper.loc[there[-1]]
    test.reported = gap = float(straight - turned)
    test.note(f"Angles are compared at step {there[-1]:,}.")

    def angles_at(step: int) -> Measured:
        angles = at_step(test, metrics, "query_angle_mean", DEGREES, ANGLE, step)
        return replace(angles, frame=angles.frame.assign(**{RANDOM: random}))

    def growth(column: str) -> Number:
        lengths = np.log(parts.pivot(index="seed", columns="checkpoint", values=column))
        return test.measured(lengths, RATIO, "length of that part, after over before training").over(
            "final", "initial"
        )

    angles = angles_at(there[-1])
    test.effect(angles.minus("scale_released", "layernorm"), at_least=gap / 2)
    test.effect(angles.minus(RANDOM, "layernorm"), at_least=float(random - turned) / 2)
    test.control(angles.minus("scale", "layernorm"), at_least=gap / 2)
    test.effect(growth("along"), part=1, words="LayerNorm's queries along the ones vector", more_than=1)
    test.show(growth("visible"), "LayerNorm's queries in the part that scores see")
    with optional():
        test.effect(angles.minus("scale_released", "layernorm_small"), part=2, at_least_or_none=gap / 2)
    with optional():
        first = angles_at(0)
        pairs = (("scale_released", "layernorm"), (RANDOM, "layernorm"))
        test.passed_alike(UNTRAINED, all(first.minus(*pair).estimate.low > 0 for pair in pairs))


def accurate_in(test: Test, measure, experiment: str, select=of_experiment) -> None:
    """Compare the accuracies of an experiment, as the function `measure` has them."""
    variants = ("layernorm", "scale_released", "scale")
    accuracy = measure(test, select(test.table("majority_metrics"), experiment, *variants))
    test.reported = ACCURACY_GAP
    test.effect(accuracy.minus("layernorm", "scale_released"), at_least=HALF_OF_ACCURACY_GAP)
    test.control(accuracy.minus("layernorm", "scale"), at_least=HALF_OF_ACCURACY_GAP)
    with optional():
        test.show(accuracy.minus("layernorm", "layernorm_small"), at_least=HALF_OF_ACCURACY_GAP)


def more_accurate_at_the_end(test: Test) -> None:
    """Compare final accuracies at one learning rate."""
    rate, variants = rules.ACCURATE_RATE, ("layernorm", "scale", "scale_released")
    runs = of_experiment(test.table("majority_metrics"), "rates", *variants, rate=rate)
    accuracy = accuracy_at_end(test, runs, f", at a learning rate of {rate:g}")
    test.effect(accuracy.minus("layernorm", "scale"), more_than=0)
    test.control(accuracy.minus("layernorm", "scale_released"))
    with optional():
        test.show(accuracy.minus("layernorm_affine", "scale"))


@claim(
    kind="paper",
    source=PAPER + "Figure 3",
    unit=POINTS,
    figures=["figure_3", "majority_by_rate"],
    exhibits=["rates"],
)
def accurate(test):
    """With projection the test accuracy is higher at the same step.

    Reported: 93 % with, 85 % without (step 5,000, read off the figure)
    Setting: At best rates and at the end the accuracies are those of the last step: at the paper's rate the runs of a
        norm end in two groups, of which no mean tells.
    Statistic: test accuracy at step {ACCURACY_STEP:,}, layernorm minus scale_released of the same seed, percentage
        points
    Control: layernorm minus scale; layernorm_small
    Rule: Holds if the difference is at least 4 points (half the paper's) with an interval above 0, both from
        scale_released and from scale. Partial if one is smaller, with an interval above 0. Confounded if from scale
        the interval does not lie above 0 and ends below 4. The rule is the same at best rates, where a rate that is
        the first or the last that was tried is inconclusive. That training ends at a higher accuracy with LayerNorm
        than with scaling only holds if the difference's interval at a rate of {ACCURATE_RATE:g} lies above 0.
    """
    step, words = rules.ACCURACY_STEP, "test accuracy at step {:,}"
    at_papers = partial(at_step, column="test_accuracy", unit=POINTS, statistic=words.format(step), step=step)
    at_last = partial(
        at_step, column="test_accuracy", unit=POINTS, statistic="test accuracy at the last step" + BEST
    )
    best = partial(of_best_rates, "accuracy")
    test.beside(
        "accurate_best_rate",
        "At the best learning rates",
        accurate_in,
        at_last,
        "rates",
        best,
        primary=True,
        looks=2,
    )
    end = "LayerNorm ends more accurate than scaling only"
    test.beside("final_accuracy", end, more_accurate_at_the_end, kind="ours", primary=True, looks=2)
    accurate_in(test, at_papers, "d8")


def on_a_plane(test: Test, variant: str) -> None:
    """Test whether keys lie on a plane, after subtraction of their mean if the norm has a bias."""
    vectors = of_experiment(test.table("majority_vectors"), "d3", variant, "scale")
    vectors = vectors[vectors.variant.isin([variant, "scale"])]
    test.reported = random = majority.random_angle(int(vectors.d_model.iloc[0]))

    def measured(checkpoint: str) -> tuple[Measured, dict[str, Number]]:
        here = vectors[vectors.checkpoint == checkpoint]
        runs = majority.geometry_of_runs(here, centred=variant == "layernorm_affine")
        lost = [LEGENDS[name] for name in (variant, "scale") if name not in set(runs.variant)]
        require(not lost, f"Every run of {' and of '.join(lost)} has diverged.", vectors.seed.nunique())
        wide = runs.pivot(index="seed", columns="variant", values=["flatness", "angle"])
        words = "smallest singular value of the keys over the largest"
        flat = {
            name: range_over(wide.flatness[name], label(name), int(wide.angle[name].count()), "", words)
            for name in (variant, "scale")
        }
        return test.measured(wide.angle.assign(**{RANDOM: random}), DEGREES, ANGLE), flat

    angle, flat = measured("final")
    test.effect(angle.minus(RANDOM, variant), at_least=random / 2)
    test.effect(flat[variant], all_at_most=FLAT)
    test.control(angle.minus("scale", variant), at_least=random / 2)
    test.control(flat["scale"], all_more_than=FLAT)
    if (vectors.checkpoint == "initial").any():
        angle, flat = measured("initial")
        turned = angle.minus(RANDOM, variant).estimate.low > 0
        test.passed_alike(UNTRAINED, turned and flat[variant].estimate.high <= FLAT)


@claim(
    kind="paper",
    source=PAPER + "Figures 1a, 1b",
    looks=2,
    of="d3",
    unit=DEGREES,
    figures=["figure_1a", "figure_1b"],
)
def plane(test):
    """With projection all keys lie on one plane through the origin and the queries are orthogonal to it.

    Reported: on a plane, orthogonal (drawn)
    Setting: The paper has no gain and no bias. Where they are learnt, from 1 and 0, the plane need not contain the
        origin.
    Statistic: mean angle between queries and the normal of the keys' plane, a random direction's minus layernorm's,
        degrees
    Control: scale minus layernorm; untrained models
    Rule: Holds if the keys' smallest singular value is at most {FLAT:g} of the largest, which is 0 to rounding, with
        LayerNorm in every run and with scaling only in none, and if LayerNorm's angle is at least half as far below a
        random direction's as 0 degrees is, and as much below scale's, with intervals above 0. Partial if one of these
        two differences is smaller, with an interval above 0. Confounded if the keys or the queries are no different
        with scaling only. With gain and bias the mean of a run's keys is subtracted from them first.
    """
    test.beside("plane_affine", "With gain and bias", on_a_plane, "layernorm_affine")
    on_a_plane(test, "layernorm")


@claim(
    kind="ours",
    source="our question, from the paper's released code",
    primary=True,
    unit=RATIO,
    figures=["majority_size_and_projection"],
    exhibits=["size_and_projection"],
)
def size_or_projection(test):
    """What makes the variant without projection slow is that the released code also makes the attention input d times
    smaller, not that the projection is missing.

    Setting: A question of ours.
    Statistic: steps to test loss {TEST_LOSS} with an input d times smaller over those with LayerNorm's size,
        geometric mean of with and without projection
    Control: steps without projection over those with it, geometric mean of both sizes
    Rule: The ratio of the sizes is at least √3, half of the paper's 3 on a logarithmic scale, with an interval above
        1, and the interval of the ratio of without and with projection ends below √3. Seeds that ran with all four
        norms. Partial if only one is so, or the first is smaller.
    """
    cells = [*chain(*majority.SIZE_AND_PROJECTION)]
    steps = steps_to_loss(test, of_experiment(test.table("majority_metrics"), "d8", *cells), *cells)
    values, ran = np.log(steps.frame[cells]), steps.last_steps[cells].dropna().index
    words = f"{' '.join(test.notes)} The effects of size and projection on the steps need all runs."
    require(values.loc[ran].notna().all(axis=None), words, runs=len(ran))
    effects = two_by_two(-values, *majority.SIZE_AND_PROJECTION, "projection")
    words = f"steps to test loss {rules.TEST_LOSS}, small over LayerNorm's size, without over with projection"
    effects = test.measured(effects, RATIO, words)
    test.effect(effects.one("size"), at_least=HALF_OF_STEPS_RATIO)
    test.control(effects.one("projection"), part=1, at_most=HALF_OF_STEPS_RATIO)
    test.show(effects.one("interaction"))


def less_costly_when_wide(test: Test) -> None:
    """Compare what the projection costs in the narrowest and in the widest model, in points of final accuracy."""
    compared = ("layernorm", "scale", "projected_qk")
    metrics = of_experiment(test.table("majority_metrics"), "widths", *compared, varies="d_model")
    accuracies = {int(d): accuracy_at_end(test, part).frame for d, part in metrics.groupby("d_model")}
    require(len(accuracies) > 1, "The experiment widths has a single width.")

    def costs(variant: str) -> Measured:
        cost = pd.DataFrame({d: accuracy.scale - accuracy[variant] for d, accuracy in accuracies.items()})
        least, most = cost[min(accuracies)], cost[max(accuracies)]
        ends = {"narrowest": least, "widest": most, "narrowest minus widest": least - most}
        ends["mean over widths"] = cost.mean(axis=1)  # of one seed they share their data
        words = "accuracy of scaling only at the last step minus that of a variant"
        return test.measured(pd.DataFrame(ends), POINTS, words, title=label(variant))

    whole, in_scores = costs("layernorm"), costs("projected_qk")
    test.effect(whole.one("narrowest"), above=HALF_OF_ACCURACY_GAP)
    test.effect(whole.one("narrowest minus widest"), part=1, more_than=0)
    test.control(in_scores.one("narrowest"), part=2, at_most=HALF_OF_ACCURACY_GAP)
    test.control(in_scores.one("mean over widths"), part=3, at_most=HALF_OF_ACCURACY_GAP)
    test.show(whole.one("widest"))


@claim(
    kind="ours",
    source="our finding",
    looks=2,
    primary=True,
    of="d3",
    unit=POINTS,
    figures=["majority_curves", "majority_by_width"],
    exhibits=["widths"],
)
def project_values(test):
    """In three dimensions the projection costs accuracy in the values, not in the queries and keys.

    Setting: The paper projects the input of attention as a whole and argues about the keys.
    Statistic: test accuracy at the last step, scale minus projected_v of the same seed, percentage points
    Control: scale minus projected_qk
    Rule: The interval of the cost in the values lies above 4 points, half of what the paper reports as gained by
        projection, and that of the cost in queries and keys below 4 points. Partial if only one is so. Where the
        width is small, the same interval lies above 4 points for LayerNorm as a whole and above its cost where the
        width is large, and that of queries and keys below 4 points, at the smallest width and for the mean over
        widths. In a language model LayerNorm's loss is above that of scale and of projected_qk by at least half the
        gap of Figure 4 (0.025 nats).
    """
    test.beside(
        "widths", "The cost is large where the width is small", less_costly_when_wide, primary=True, looks=1
    )
    test.beside("project_keys_bytes", "In a language model of bytes", project_keys, looks=1)
    runs = of_experiment(
        test.table("majority_metrics"), "d3", "scale", "projected_v", "projected_qk", "layernorm"
    )
    accuracy = accuracy_at_end(test, runs)
    test.effect(accuracy.minus("scale", "projected_v"), above=HALF_OF_ACCURACY_GAP)
    test.control(accuracy.minus("scale", "projected_qk"), part=1, at_most=HALF_OF_ACCURACY_GAP)
    test.show(accuracy.minus("scale", "layernorm"))
    with optional():
        test.show(accuracy.minus("scale", "projection"))


def equal_sooner(test: Test) -> None:
    """Compare the steps until attention is equal for good."""
    runs = of_experiment(test.table("majority_metrics"), "d8", "scale", "layernorm")
    arrived = majority.arrivals(runs, majority.RUN, "attention_share", EQUAL, for_good=True)
    words = "steps until attention is equal for good"
    steps = test.steps(arrived, ("scale", "layernorm"), words)
    share = at_step(test, runs, "attention_share", "", "perplexity of attention over the number of classes")
    test.effect(steps.over("scale", "layernorm"), more_than=1)
    test.effect(share.one(BEFORE + "layernorm"), above=EQUAL)
    with optional():
        test.control(steps.over("scale_released", "layernorm"))


@claim(kind="paper", source=PAPER + "slides, summary", looks=2, unit=RATIO, figures=["majority_curves"])
def equal_attention(test):
    """Projection helps the model to learn to attend equally to all keys.

    Setting: The slides give no number and no setting.
    Statistic: standard deviation of the attention scores over the classes after training, scale_released over
        layernorm of the same seed, geometric mean
    Control: scale over layernorm; layernorm_small; on other data; at the best learning rates; untrained models
    Rule: Half the standard deviation is taken as claimed: holds if LayerNorm's before training over after, and those
        of scale_released and of scale over LayerNorm's after training, are each at least √2 with intervals above 1,
        and if so is scale_released over LayerNorm as small, and scale over LayerNorm on other data and at each norm's
        best learning rate, as far as the run has them. Partial if one is smaller; confounded if one of those with
        scale, or of equal size, has an interval that does not lie above 1 and ends below √2. An essay on the paper
        (Wright 2023) says that with projection attention need not learn to be equal: its perplexity is at least
        {EQUAL:.0%} of the number of classes with LayerNorm before training, and comes to be so for good later with
        scaling only.
    """
    essay = "Attention begins equal with LayerNorm (essay on the paper, Wright 2023)"
    test.beside("equal_attention_time", essay, equal_sooner, kind="other document", looks=1)
    metrics, least = test.table("majority_metrics"), NEARER**0.5
    variants = ("scale_released", "layernorm", "scale")

    def deviations(experiment: str, *variants: str, select=of_experiment, where: str = "") -> Measured:
        runs = select(metrics, experiment, *variants)
        return at_step(test, runs, "score_std", RATIO, "standard deviation of the attention scores" + where)

    own = deviations("d8", *variants)
    test.effect(own.over("scale_released", "layernorm"), at_least=least)
    test.effect(own.over(BEFORE + "layernorm", "layernorm"), at_least=least)
    untrained = None
    with optional():
        untrained = own.over(BEFORE + "scale", BEFORE + "layernorm")
    test.control(own.over("scale", "layernorm"), at_least=least, alike={UNTRAINED: untrained})
    with optional():
        test.control(own.over("scale_released", "layernorm_small"), at_least=least)
    with optional():
        other = deviations("d8_uniform", "scale", "layernorm").over("scale", "layernorm")
        test.control(other, words=f"{other.words}, on uniformly drawn partitions", at_least=least)
    with optional():
        lowest = partial(of_best_rates, "loss")
        other = deviations("rates", "scale", "layernorm", select=lowest, where=BEST).over(
            "scale", "layernorm"
        )
        test.control(other, words=f"{other.words}, at the best learning rates", at_least=least)
