"""The paper's claims about projection, and our questions about what it costs, from the majority experiment.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.
`projected_qk` projects for queries and keys only, `projected_v` for values only, both with the scaling everywhere.

Every test takes the name of an experiment and the tables. All variants of an experiment share the data, and runs of
equal seeds also their initialisation and batches, so differences and ratios are over pairs of runs of one seed.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.majority import (
    By,
    best_rates,
    early_and_last,
    geometry_of_runs,
    last_rows,
    log_ratio_of_steps,
    query_parts,
    random_angle,
    steps_to_equal_attention,
    steps_to_reach,
    two_by_two,
)
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOT_THERE,
    OPPOSITE,
    THERE,
    Finding,
    Outcome,
    Tables,
    Untestable,
    Verdict,
    above,
    all_of,
    direction,
    effect,
    inner,
    more_than_half,
    over_seeds,
    paired,
    paper_claim,
    statement,
    times,
    true,
    untrained_too,
)
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import PAPER_PROJECTION

METRICS, VECTORS = "majority_metrics", "majority_vectors"
COMPARED = (*PAPER_PROJECTION, "scale")


# Runs of an experiment


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


def of_best_rates(by: By, table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The runs of `variants` at the rate that the other half of the seeds chooses; Untestable if it ends the grid.

    `by` says by what a rate is the best one. If layernorm_small is there, it is among them, and no reason for
    Untestable.
    """
    part = of_experiment(table, experiment, *variants)
    if part.d_model.nunique() > 1:
        raise Untestable(f"The experiment {experiment} has several widths; the claim is about one.")
    part = part[part.variant.isin([*variants, "layernorm_small"])]
    best = best_rates(part, by, rules.TEST_LOSS)
    for variant in variants:
        chosen = best[best.variant == variant]
        if chosen.empty:
            raise Untestable(
                f"The run has only 1 seed of {variant}: none other can choose its learning rate."
            )
        inner(chosen.at_end, chosen.base_learning_rate, LEGENDS[variant])
    return part.merge(best[["variant", "seed", "base_learning_rate"]])


def rates(metrics: pd.DataFrame) -> str:
    """A sentence's beginning that names the learning rate of the runs in `metrics`, a part of majority_metrics.

    Where the variants were trained at different rates, it names the rate of each.
    """
    by_variant = {
        v: sorted(set(metrics.base_learning_rate[metrics.variant == v])) for v in metrics.variant.unique()
    }
    texts = {variant: " or ".join(f"{rate:g}" for rate in chosen) for variant, chosen in by_variant.items()}
    if len(set(texts.values())) == 1:
        return f"At a learning rate of {next(iter(texts.values()))}"
    each = ", ".join(f"{LEGENDS[variant]} {texts[variant]}" for variant in legend_order(texts))
    return f"At each norm's best learning rate ({each})"


def step_of_paper(metrics: pd.DataFrame, quantity: str) -> int:
    """The last step for which the paper gives `quantity` with and without projection and the runs have a row."""
    paper = [reported()["majority"][variant][quantity] for variant in COMPARED[:2]]
    steps = [step for step in sorted(set(paper[0]) & set(paper[1])) if (metrics.step == step).any()]
    if not steps:
        raise Untestable(
            f"The runs end at step {metrics.step.max():,} and have no row at the steps that the paper's figure gives: "
            f"{', '.join(f'{step:,}' for step in paper[0])}."
        )
    return steps[-1]


def by_variant(metrics: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """The values of `column` at one step: a row a seed, a column a variant."""
    return metrics[metrics.step == step].pivot(index="seed", columns="variant", values=column)


def final(metrics: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy at the last step in per cent: a row a seed, a column a variant."""
    return 100 * last_rows(metrics).pivot(index="seed", columns="variant", values="test_accuracy")


def n_pairs(wide: pd.DataFrame, *variants: str) -> int:
    """The number of seeds that have a value for all `variants`, columns of `wide`."""
    return len(wide[list(variants)].dropna())


# Figures 2a and 3: speed and accuracy

Select = Callable[..., pd.DataFrame]
"""Which runs of an experiment are judged: `of_setting` or `of_best_rates`."""


def steps_ratio(steps: pd.DataFrame, variant: str) -> Estimate:
    """Logarithm of the steps of `variant` over LayerNorm's with equal seeds; Untestable with fewer than two pairs.

    Untestable too if runs of one variant do not get there in some pairs and runs of the other in others, or none does
    in any pair, so that the ratio has no bound on either side.
    """
    slow, fast = (steps[steps.variant == name] for name in (variant, "layernorm"))
    over_seeds(pd.Series(sorted(set(slow.seed) & set(fast.seed)), dtype=float), variant)
    ratio = log_ratio_of_steps(slow, fast)
    if np.isnan(ratio.mean):
        raise Untestable(
            f"{slow.steps.isna().sum()} of {len(slow)} runs of {variant} and {fast.steps.isna().sum()} of {len(fast)} "
            f"of layernorm do not get there in {int(steps.last_step.max()):,} steps."
        )
    return ratio


def unreached(steps: pd.DataFrame) -> str:
    """A sentence about the runs that do not get there; empty if all do."""
    parts = []
    for variant in legend_order(steps.variant):
        own = steps[steps.variant == variant]
        if missing := int(own.steps.isna().sum()):
            parts.append(f"{missing} of {len(own)} runs of {LEGENDS[variant]}")
    if not parts:
        return ""
    return (
        f" {' and '.join(parts)} do not get there in {int(steps.last_step.max()):,} steps: their ratio is a bound, and "
        "a pair of runs neither of which gets there counts as equally fast."
    )


def faster(select: Select, experiment: str, tables: Tables) -> Outcome:
    """Figure 2a: how many times LayerNorm's steps the variants without projection need to TEST_LOSS."""
    metrics = select(tables[METRICS], experiment, *COMPARED)
    steps = steps_to_reach(metrics, [rules.TEST_LOSS])
    paper = np.log(reported()["majority"]["steps_ratio"])
    released, scale = steps_ratio(steps, "scale_released"), steps_ratio(steps, "scale")
    own, isolated = effect(released, paper), effect(scale, paper)
    reason = (
        f"{rates(metrics[metrics.variant.isin(COMPARED)])}, a run without projection as released needs "
        f"{times(released)} times LayerNorm's steps to a test loss of {rules.TEST_LOSS}; as the text defines it, "
        f"{times(scale)} times."
    )
    if (metrics.variant == "layernorm_small").any():
        small = steps_ratio(steps, "layernorm_small")
        reason += f" LayerNorm made as small as the released variant needs {times(small)} times"
        explains = effect(small, paper) == Finding.SEEN and rules.verdict(own, isolated) == Verdict.CONFOUNDED
        reason += (
            ": what slows the training is the size of the attention input, which the released variant "
            "divides by d."
            if explains
            else "."
        )
    reason += unreached(steps[steps.variant.isin(COMPARED)])
    wide = steps.assign(one=1).pivot(index="seed", columns="variant", values="one")
    n_seeds = n_pairs(wide, "layernorm", "scale_released")
    ratios = (estimate.map(np.exp) for estimate in (released, scale))
    measured, control = ratios
    return paper_claim(own, isolated, measured, n_seeds, reason, control, float(np.exp(paper)))


def accuracy_gap() -> float:
    """By how many percentage points the paper's accuracy is higher with projection, at ACCURACY_STEP."""
    with_projection, without = (
        reported()["majority"][variant]["test_accuracy"][rules.ACCURACY_STEP] for variant in COMPARED[:2]
    )
    return 100 * (with_projection - without)


def accurate(select: Select, experiment: str, tables: Tables) -> Outcome:
    """Figure 3: by how many percentage points LayerNorm's test accuracy is higher.

    At ACCURACY_STEP; where learning rates are selected, whose runs are shorter, at the last step.
    """
    metrics = select(tables[METRICS], experiment, *COMPARED)
    step = rules.ACCURACY_STEP if select is of_setting else int(metrics.step.max())
    accuracy = 100 * by_variant(metrics, "test_accuracy", step)
    if accuracy.empty:
        raise Untestable(f"The run has no metrics at step {step:,}, where the paper's accuracies were read.")
    gap = accuracy_gap()
    released = paired(accuracy.layernorm, accuracy.scale_released, "scale_released")
    scale = paired(accuracy.layernorm, accuracy.scale, "scale")
    own, isolated = effect(released, gap), effect(scale, gap)
    reason = (
        f"{rates(metrics[metrics.variant.isin(COMPARED)])} and at step {step:,}, LayerNorm's test accuracy is "
        f"{accuracy.layernorm.mean():.1f} %: {released:+.1f} percentage points relative to the variant without "
        f"projection as released, {scale:+.1f} relative to the one that the text defines."
    )
    if "layernorm_small" in accuracy:
        small = paired(accuracy.layernorm, accuracy.layernorm_small, "layernorm_small")
        reason += f" Relative to LayerNorm made as small as the released variant it is {small:+.1f}."
        if effect(small, gap) == Finding.SEEN and rules.verdict(own, isolated) == Verdict.CONFOUNDED:
            reason += " The size of the attention input makes the difference, not the projection."
    n_seeds = n_pairs(accuracy, "layernorm", "scale_released")
    return paper_claim(own, isolated, released, n_seeds, reason, scale, gap)


# Figures 1a, 1b and 2b: planes and angles


def parallel(experiment: str, tables: Tables) -> Outcome:
    """Figure 2b: the mean angle between queries and the ones vector, without projection minus with it.

    Keys that were projected have no part along the ones vector, and a score does not see that part of a query. So both
    parts of the query are judged beside the angle: turning would be a growth of the part along the ones vector.
    """
    metrics = of_setting(tables[METRICS], experiment, *COMPARED)
    parts = query_parts(of_setting(tables[VECTORS], experiment, "layernorm"))
    if not {"initial", "final"} <= set(parts.checkpoint):
        raise Untestable("The run has no queries from before and after training.")
    step = step_of_paper(metrics, "query_angle_mean")
    with_projection, without = (
        float(reported()["majority"][v]["query_angle_mean"][step]) for v in COMPARED[:2]
    )
    random, paper = random_angle(int(metrics.d_model.iloc[0])), without - with_projection

    def compare(angles: pd.DataFrame) -> tuple[Finding, Finding, Estimate, Estimate, Estimate]:
        layernorm = over_seeds(angles.layernorm.dropna(), "layernorm")
        released = paired(angles.scale_released, angles.layernorm, "scale_released")
        scale = paired(angles.scale, angles.layernorm, "scale")
        turned = effect(layernorm.below(random), random - with_projection)
        return all_of(turned, effect(released, paper)), effect(scale, paper), layernorm, released, scale

    angles = by_variant(metrics, "query_angle_mean", step)
    own, isolated, layernorm, released, scale = compare(angles)
    reason = (
        f"At step {step:,} the mean angle is {layernorm:.1f} degrees with LayerNorm, where the paper has "
        f"{with_projection:g} and a random direction {random:.1f}. Without projection it is {released:+.1f} degrees "
        f"larger as released (the paper: {paper:+g}) and {scale:+.1f} as the text defines it."
    )
    ends = parts[parts.variant == "layernorm"].pivot(
        index="seed", columns="checkpoint", values=["along", "visible"]
    )
    along, visible = (
        paired(np.log(ends[part].final), np.log(ends[part].initial), "layernorm")
        for part in ("along", "visible")
    )
    rest = [direction(along)]
    reason += (
        f" In training the part of LayerNorm's queries along the ones vector, which no score sees, goes from "
        f"{ends.along.initial.mean():.3f} to {ends.along.final.mean():.3f} ({times(along)} times), and the rest from "
        f"{ends.visible.initial.mean():.3f} to {ends.visible.final.mean():.3f} ({times(visible)} times)."
    )
    if direction(along) == direction(visible) == Finding.REVERSED:
        reason += (
            " The queries do not turn: the part that scores see shrinks, and the angle measures no attention."
        )
    if "layernorm_small" in angles:
        small = paired(angles.scale_released, angles.layernorm_small, "layernorm_small")
        rest.append(effect(small, paper))
        reason += (
            f" LayerNorm made as small as the released variant is at {angles.layernorm_small.mean():.1f} degrees, and "
            f"the released variant at {small:+.1f} relative to it: the angle needs the size as well."
            if rest[-1] in NOT_THERE
            else f" LayerNorm made as small as the released variant is {small:.1f} degrees below it."
        )
    passed = None
    if len(untrained := by_variant(metrics, "query_angle_mean", 0)):
        passed = untrained_too(compare(untrained)[0] in THERE)
    n_seeds = n_pairs(angles, "layernorm", "scale_released")
    return paper_claim(own, isolated, released, n_seeds, reason, scale, paper, passed, rest)


def on_a_plane(variant: str, experiment: str, tables: Tables) -> Outcome:
    """Figures 1a and 1b: whether the keys lie on a plane, and how far the queries are from its normal.

    With a bias the plane of LayerNorm's outputs need not contain the origin, so `layernorm_affine` is tested on
    centred keys.
    """
    vectors = of_setting(tables[VECTORS], experiment, variant, "scale")
    vectors = vectors[vectors.variant.isin([variant, "scale"])]
    centred, random = variant == "layernorm_affine", random_angle(int(vectors.d_model.iloc[0]))

    def measure(checkpoint: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        runs = geometry_of_runs(vectors[vectors.checkpoint == checkpoint], centred)
        flat, angle = (
            runs.pivot(index="seed", columns="variant", values=column) for column in ("flatness", "angle")
        )
        return flat, angle

    def of_paper(flat: pd.DataFrame, angle: pd.DataFrame) -> tuple[Finding, Finding, Estimate]:
        below = over_seeds(angle[variant].dropna(), variant).below(random)
        planar = true(flat[variant].max() <= rules.FLAT)
        return all_of(planar, effect(below, random)), planar, below

    flat, angle = measure("final")
    if lacking := [LEGENDS[name] for name in (variant, "scale") if name not in angle]:
        raise Untestable(f"Every run of {' and of '.join(lacking)} has diverged.")
    own, planar, below = of_paper(flat, angle)
    scale = paired(angle.scale, angle[variant], "scale")
    isolated = all_of(true(flat.scale.min() > rules.FLAT), effect(scale, random))
    name = LEGENDS[variant]
    reason = (
        f"With {name} the smallest singular value of the {'centred ' if centred else ''}keys is at most "
        f"{flat[variant].max():.0e} of the largest: they lie on {'a' if planar == Finding.SEEN else 'no'} plane, which "
        f"projection enforces before any training. The queries are {angle[variant].mean():.1f} degrees from its normal "
        f"on average; a random direction has {random:.1f}. With scaling only the singular value is "
        f"{flat.scale.mean():.2f} of the largest, and the queries are {scale:+.1f} degrees further from the normal of "
        "the best plane."
    )
    passed = None
    if (vectors.checkpoint == "initial").any():
        flat, start = measure("initial")
        passed = untrained_too(of_paper(flat, start)[0] in THERE)
        reason += f" Untrained, the queries of {name} are {start[variant].mean():.1f} degrees from it."
    return paper_claim(own, isolated, below, n_pairs(angle, variant), reason, scale, random, passed)


# What the projection costs


def final_accuracy(experiment: str, tables: Tables) -> Outcome:
    """Our question: LayerNorm's test accuracy at the last step, relative to both variants without projection."""
    metrics = of_setting(tables[METRICS], experiment, *COMPARED)
    last, accuracy = int(metrics.step.max()), final(metrics)
    scale = paired(accuracy.layernorm, accuracy.scale, "scale")
    released = paired(accuracy.layernorm, accuracy.scale_released, "scale_released")
    reason = (
        f"At the last step, {last:,}, the test accuracy is {accuracy.layernorm.mean():.1f} % with LayerNorm, "
        f"{accuracy.scale.mean():.1f} % with scaling only and {accuracy.scale_released.mean():.1f} % with scaling only "
        f"as released: with LayerNorm it is {scale:+.1f} and {released:+.1f} percentage points higher."
    )
    if "layernorm_affine" in accuracy:
        affine = paired(accuracy.layernorm_affine, accuracy.scale, "layernorm_affine")
        reason += (
            f" With a learnt gain and bias LayerNorm's is {affine:+.1f} points above that of scaling only."
        )
    n_seeds = n_pairs(accuracy, "layernorm", "scale")
    return statement([direction(scale)], scale, n_seeds, reason, released)


def cost(accuracy: pd.DataFrame, variant: str) -> Estimate:
    """Percentage points by which the accuracy of scaling only is above that of `variant`."""
    return paired(accuracy.scale, accuracy[variant], variant)


def costly(estimate: Estimate) -> Finding:
    """Whether a cost in accuracy is above half the paper's difference."""
    return more_than_half(estimate, accuracy_gap())


def project_values(experiment: str, tables: Tables) -> Outcome:
    """Our finding: the projection costs accuracy in the values, not in the queries and keys."""
    metrics = of_setting(tables[METRICS], experiment, "layernorm", "scale", "projected_qk", "projected_v")
    accuracy = final(metrics)
    values, keys, everywhere = (cost(accuracy, v) for v in ("projected_v", "projected_qk", "layernorm"))
    reason = (
        f"At step {metrics.step.max():,} scaling only has a test accuracy of {accuracy.scale.mean():.1f} %. Projecting "
        f"the values costs {values:.1f} percentage points of it, projecting queries and keys {keys:.1f}, projecting "
        f"all three, which is LayerNorm, {everywhere:.1f}."
    )
    parts = [costly(values), OPPOSITE[costly(keys)]]
    return statement(parts, values, n_pairs(accuracy, "scale", "projected_v"), reason, keys)


def widths(experiment: str, tables: Tables) -> Outcome:
    """Our finding: the projection's cost falls with the width; in queries and keys alone it is small throughout."""
    metrics = of_experiment(tables[METRICS], experiment, "layernorm", "scale", "projected_qk")
    if metrics.base_learning_rate.nunique() > 1:
        raise Untestable(f"The experiment {experiment} has several learning rates; the claim is about one.")
    if metrics.d_model.nunique() < 2:
        raise Untestable(f"The experiment {experiment} has a single width.")
    accuracies = {int(d): final(part) for d, part in metrics.groupby("d_model")}
    compared = {"layernorm", "scale", "projected_qk"}
    if lacking := [d for d, accuracy in accuracies.items() if not compared <= set(accuracy)]:
        raise Untestable(f"At the widths {lacking} the run lacks some of the norms that are compared.")
    everywhere, keys = (
        {d: cost(accuracy, variant) for d, accuracy in accuracies.items()}
        for variant in ("layernorm", "projected_qk")
    )
    narrow, wide = min(accuracies), max(accuracies)
    falls = paired(*(accuracies[d].scale - accuracies[d].layernorm for d in (narrow, wide)), "layernorm")
    # One value a seed: widths of one seed share their data.
    mean_keys = over_seeds(
        pd.concat([a.scale - a.projected_qk for a in accuracies.values()], axis=1).dropna().mean(axis=1),
        "projected_qk",
    )

    def listed(costs: dict[int, Estimate]) -> str:
        return ", ".join(f"{estimate.mean:.1f} (d = {d})" for d, estimate in costs.items())

    reason = (
        f"At step {metrics.step.max():,} projecting everywhere costs, in percentage points of test accuracy relative "
        f"to scaling only, {listed(everywhere)}; projecting queries and keys only costs {listed(keys)}, with a mean "
        f"over the widths of {mean_keys:.1f}. From d = {narrow} to d = {wide} the first falls by {falls:.1f}."
    )
    parts = [
        costly(everywhere[narrow]),
        direction(falls),
        *(OPPOSITE[costly(c)] for c in (keys[narrow], mean_keys)),
    ]
    n_seeds = n_pairs(accuracies[narrow], "scale", "layernorm")
    return statement(parts, everywhere[narrow], n_seeds, reason, keys[narrow])


# Size and projection


def size_or_projection(experiment: str, tables: Tables) -> Outcome:
    """Our question: whether the size of the attention input slows the released variant, or the missing projection."""
    cells = ("layernorm", "scale", "layernorm_small", "scale_released")
    metrics = of_setting(tables[METRICS], experiment, *cells)
    metrics = metrics[metrics.variant.isin(cells)]
    steps = steps_to_reach(metrics, [rules.TEST_LOSS])
    wide = np.log(steps.pivot(index="seed", columns="variant", values="steps"))
    ran = steps.assign(one=1.0).pivot(index="seed", columns="variant", values="one").dropna()
    if wide.loc[ran.index].isna().any(axis=None):
        raise Untestable(
            f"{unreached(steps).strip()} The effects of size and projection on the steps need all runs."
        )
    on_steps = two_by_two(-wide)
    size, projection, interaction = (over_seeds(e, "all four norms") for e in on_steps)
    paper = np.log(reported()["majority"]["steps_ratio"])
    reason = (
        f"Over {len(on_steps.size)} seeds with all four norms, an attention input d times smaller needs {times(size)} "
        f"times the steps to a test loss of {rules.TEST_LOSS}, one without projection {times(projection)} times. "
        f"Without projection relative to with it, the steps at LayerNorm's size are {times(interaction)} times those "
        "at the smaller size."
    )
    for step in dict.fromkeys(early_and_last(metrics)):
        accuracy = 100 * by_variant(metrics, "test_accuracy", step)
        on_accuracy = [over_seeds(e, "all four norms") for e in two_by_two(accuracy)]
        reason += (
            " At step {:,} the larger size is worth {:+.1f} percentage points of accuracy and the projection {:+.1f}; "
            "at LayerNorm's size the projection is worth {:+.1f} points more than at the smaller size."
        ).format(step, *on_accuracy)
    parts = [effect(size, paper), OPPOSITE[more_than_half(projection, paper)]]
    return statement(parts, size.map(np.exp), len(on_steps.size), reason, projection.map(np.exp))


# Equal attention


def equal_attention(experiment: str, tables: Tables) -> Outcome:
    """The slides' summary: how near to equal the attention scores are after training, and before it.

    `experiment` is the paper's. What isolates the projection, scaling only, is judged in the other experiments of the
    majority task at that width, too: it must be there in all that can tell.
    """
    metrics = of_setting(tables[METRICS], experiment, *COMPARED)
    last = int(metrics.step.max())
    start, end = (np.log(by_variant(metrics, "score_std", step)) for step in (0, last))
    if start.empty:
        raise Untestable("The run has no metrics at step 0, before training.")
    nearer = partial(effect, reported=np.log(rules.NEARER))

    def without(logarithms: pd.DataFrame) -> tuple[Estimate, Estimate]:
        return tuple(paired(logarithms[v], logarithms.layernorm, v) for v in COMPARED[1:])

    learnt = paired(start.layernorm, end.layernorm, "layernorm")
    (released, scale), untrained = without(end), without(start)
    own, isolated = all_of(nearer(learnt), nearer(released)), [nearer(scale)]
    reason = (
        f"At step {last:,} the standard deviation of the attention scores over the classes (0: attention is equal) is "
        f"{np.exp(end.layernorm).mean():.3f} with LayerNorm; before training it is {times(learnt)} times as large. "
        f"After training it is {times(released)} times as large with scaling only as released, and {times(scale)} "
        f"times with scaling only; before training {times(untrained[0])} and {times(untrained[1])} times."
    )
    if "layernorm_small" in end:
        small = paired(end.scale_released, end.layernorm_small, "layernorm_small")
        isolated.append(nearer(small))
        reason += (
            f" With scaling only as released it is {times(small)} times that of LayerNorm made as small."
        )
    others = {"on other data": (of_setting, f"{experiment}_uniform")}
    others["at the learning rates with the lowest final loss"] = partial(of_best_rates, "loss"), "rates"
    for words, (select, other) in others.items():
        try:
            runs = select(tables[METRICS], other, "layernorm", "scale")
            scores = np.log(by_variant(runs, "score_std", int(runs.step.max())))
            ratio = paired(scores.scale, scores.layernorm, "scale")
            isolated.append(nearer(ratio))
            reason += f" With scaling only it is {times(ratio)} times LayerNorm's {words}."
        except Untestable as lack:
            reason += f" Nothing can be said {words}: {lack}"
    passed = untrained_too(nearer(untrained[1]) in THERE and isolated[0] in THERE)
    measured, control = (estimate.map(np.exp) for estimate in (released, scale))
    n_seeds = n_pairs(end, *COMPARED[:2])
    return paper_claim(own, all_of(*isolated), measured, n_seeds, reason, control, None, passed)


def equal_attention_time(experiment: str, tables: Tables) -> Outcome:
    """Whether projection obviates the need to learn equal attention: is it there at once, and is it there sooner?"""
    metrics = of_setting(tables[METRICS], experiment, "layernorm", "scale")
    start = by_variant(metrics, "attention_share", 0)
    if start.empty:
        raise Untestable("The run has no metrics at step 0, before training.")
    steps = steps_to_equal_attention(metrics, rules.EQUAL)
    scale = steps_ratio(steps, "scale")
    untrained = over_seeds(start.layernorm.dropna(), "layernorm")
    median = steps.assign(steps=steps.steps.fillna(np.inf)).groupby("variant").steps.median()
    reason = (
        f"Attention counts as equal if its perplexity is at least {rules.EQUAL:.0%} of the number of classes. Before "
        f"training it is {untrained:.2f} with LayerNorm. It is equal for good from step {median.layernorm:,.0f} on "
        f"(median) with LayerNorm and from step {median.scale:,.0f} on with scaling only, which takes {times(scale)} "
        "times the steps."
    )
    reason += unreached(steps[steps.variant.isin(["layernorm", "scale"])])
    control = rules.NOTHING
    if (steps.variant == "scale_released").any():
        control = steps_ratio(steps, "scale_released").map(np.exp)
    n_seeds = n_pairs(start, "layernorm", "scale")
    both = all_of(
        above(untrained, rules.EQUAL), direction(scale)
    )  # one sentence: what refutes a half refutes it
    return statement([both], scale.map(np.exp), n_seeds, reason, control)


TESTS: dict[str, Callable[..., Outcome]] = {
    "faster": partial(faster, of_setting),
    "faster_best_rate": partial(faster, partial(of_best_rates, "speed")),
    "accurate": partial(accurate, of_setting),
    "accurate_best_rate": partial(accurate, partial(of_best_rates, "accuracy")),
    "parallel": parallel,
    "plane": partial(on_a_plane, "layernorm"),
    "plane_affine": partial(on_a_plane, "layernorm_affine"),
    "final_accuracy": final_accuracy,
    "project_values": project_values,
    "widths": widths,
    "size_or_projection": size_or_projection,
    "equal_attention": equal_attention,
    "equal_attention_time": equal_attention_time,
}
