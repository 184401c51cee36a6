"""The paper's claims about projection, from the majority experiment; each again on data of another sampling.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.

Every test takes the name of an experiment and the tables.
"""

from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.majority import (
    attention_of_runs,
    geometry_of_runs,
    random_angle,
    steps_to_reach,
)
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    OPPOSITE,
    Finding,
    Outcome,
    Tables,
    Untestable,
    Verdict,
    above,
    all_of,
    effect,
    if_any,
    over_seeds,
    paired,
    paper_claim,
    true,
)

METRICS, VECTORS = "majority_metrics", "majority_vectors"
COMPARED = ("layernorm", "scale_released", "scale")


def of_experiment(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The rows of an experiment; Untestable if there are none, or one of `variants` is missing."""
    part = table[table.experiment == experiment]
    if part.empty:
        raise Untestable(f"The run has no experiment {experiment}.")
    missing = [variant for variant in variants if variant not in set(part.variant)]
    if missing:
        raise Untestable(f"The run has no {' and no '.join(missing)} in the experiment {experiment}.")
    return part


def last_step(tables: Tables, experiment: str) -> int:
    """The last step of an experiment; Untestable if it comes before ANGLE_STEP."""
    last = int(of_experiment(tables[METRICS], experiment).step.max())
    if last < rules.ANGLE_STEP:
        raise Untestable(
            f"The runs end at step {last:,}; the paper's angles begin at step {rules.ANGLE_STEP:,}."
        )
    return last


def by_variant(metrics: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """The values of `column` at one step: a row a seed, a column a variant."""
    return metrics[metrics.step == step].pivot(index="seed", columns="variant", values=column)


def steps_ratio(variant: str, metrics: pd.DataFrame) -> Estimate:
    """Steps of `variant` to TEST_LOSS over those of LayerNorm with the same seed, geometric mean.

    Every LayerNorm run reaches the loss. For runs of `variant` that do not, the last step is a lower bound, and the
    upper end of the interval is infinite.
    """
    steps = steps_to_reach(metrics, [rules.TEST_LOSS]).pivot(index="seed", columns="variant", values="steps")
    ran = metrics.groupby(["seed", "variant"]).size().unstack().notna()
    both = ran[variant] & ran.layernorm
    reached = steps[variant][both]
    bounded = reached.fillna(metrics.step.max())
    ratio = over_seeds(np.log(bounded / steps.layernorm[both]), variant).map(np.exp)
    return ratio._replace(high=np.inf) if reached.isna().any() else ratio


def faster(experiment: str, tables: Tables) -> Outcome:
    """Figure 2a: how many times LayerNorm's steps the variants without projection need to TEST_LOSS."""
    metrics = of_experiment(tables[METRICS], experiment, *COMPARED)
    steps = steps_to_reach(metrics[metrics.variant == "layernorm"], [rules.TEST_LOSS]).steps
    if slow := int(steps.isna().sum()):
        raise Untestable(
            f"{slow} of {len(steps)} LayerNorm runs do not reach a test loss of {rules.TEST_LOSS} in "
            f"{metrics.step.max():,} steps."
        )
    threefold = partial(effect, reported=np.log(3))
    released, scale = steps_ratio("scale_released", metrics), steps_ratio("scale", metrics)
    own, isolated = threefold(released.map(np.log)), threefold(scale.map(np.log))
    reason = (
        f"Without projection as released a run needs {released:.2f} times LayerNorm's steps to a test loss "
        f"of {rules.TEST_LOSS}; as the text defines it, {scale:.2f} times."
    )
    if (metrics.variant == "layernorm_small").any():
        small = steps_ratio("layernorm_small", metrics)
        reason += f" LayerNorm made as small as the released variant needs {small:.2f} times"
        explains = threefold(small.map(np.log)) == Finding.SEEN
        reason += (
            ": what slows the training is the size of the attention input, which the released variant "
            "divides by d."
            if explains and isolated == Finding.ABSENT
            else "."
        )
    elif isolated == Finding.ABSENT and own == Finding.SEEN:
        reason += " The released variant differs from LayerNorm in size too; projection alone does not do it."
    seeds = metrics.groupby("variant").seed.agg(set)
    n_seeds = len(seeds.layernorm & seeds.scale_released)
    return paper_claim(own, isolated, released, n_seeds, reason, scale)


def parallel(experiment: str, tables: Tables) -> Outcome:
    """Figure 2b: the mean angle between queries and the ones vector at the last step."""
    metrics = of_experiment(tables[METRICS], experiment, *COMPARED)
    vectors = of_experiment(tables[VECTORS], experiment)
    last = last_step(tables, experiment)
    paper = {v: list(reported()["majority"][v]["query_angle_mean"].values())[-1] for v in COMPARED[:2]}
    difference = paper["scale_released"] - paper["layernorm"]
    random = random_angle(len(vectors.vector.iloc[0]))
    angles = by_variant(metrics, "query_angle_mean", last)
    layernorm = over_seeds(angles.layernorm.dropna(), "layernorm")
    released = paired(angles.scale_released, angles.layernorm, "scale_released")
    scale = paired(angles.scale, angles.layernorm, "scale")
    own = all_of(effect(layernorm.below(random), random - paper["layernorm"]), effect(released, difference))
    reason = (
        f"At step {last:,} the mean angle is {layernorm:.1f} degrees with LayerNorm; a random direction has "
        f"{random:.1f}. Without projection it is {released:+.1f} degrees larger as released and {scale:+.1f} "
        "as the text defines it."
    )
    if "layernorm_small" in angles:
        reason += (
            f" LayerNorm made as small as the released variant is at {angles.layernorm_small.mean():.1f}."
        )
    reason += (
        f" The spread over seeds is {angles.layernorm.min():.0f} to {angles.layernorm.max():.0f} degrees."
    )
    isolated, n_seeds = effect(scale, difference), len(angles.layernorm.dropna())
    return paper_claim(own, isolated, layernorm, n_seeds, reason, if_any(angles.scale.dropna()))


def accurate(experiment: str, tables: Tables) -> Outcome:
    """Figure 3: by how many percentage points LayerNorm's test accuracy at ACCURACY_STEP is higher."""
    metrics = of_experiment(tables[METRICS], experiment, *COMPARED)
    step = rules.ACCURACY_STEP
    accuracy = 100 * by_variant(metrics, "test_accuracy", step)
    if accuracy.empty:
        raise Untestable(f"The run has no metrics at step {step:,}, where the paper's accuracies were read.")
    paper = {v: 100 * reported()["majority"][v]["test_accuracy"][step] for v in COMPARED[:2]}
    gap = paper["layernorm"] - paper["scale_released"]
    released = paired(accuracy.layernorm, accuracy.scale_released, "scale_released")
    scale = paired(accuracy.layernorm, accuracy.scale, "scale")
    own, isolated = effect(released, gap), effect(scale, gap)
    reason = (
        f"At step {step:,} LayerNorm's test accuracy is {accuracy.layernorm.mean():.1f} %, "
        f"{released:+.1f} percentage points above the variant without projection as released and "
        f"{scale:+.1f} above the one that the text defines."
    )
    if "layernorm_small" in accuracy:
        small = paired(accuracy.layernorm, accuracy.layernorm_small, "layernorm_small")
        reason += f" It is {small:+.1f} above LayerNorm made as small as the released variant."
        if effect(small, gap) == Finding.SEEN and rules.verdict(own, isolated) == Verdict.CONFOUNDED:
            reason += " The size of the attention input makes the difference, not the projection."
    return paper_claim(own, isolated, released, len(accuracy.layernorm.dropna()), reason, scale)


def on_a_plane(experiment: str, tables: Tables) -> Outcome:
    """Figures 1a and 1b: whether the keys lie on a plane, and how far the queries are from its normal."""
    vectors = of_experiment(tables[VECTORS], experiment, "layernorm", "scale")
    last_step(tables, experiment)
    random = random_angle(len(vectors.vector.iloc[0]))
    runs = geometry_of_runs(vectors)
    flat, angle = (
        runs.pivot(index="seed", columns="variant", values=column) for column in ("flatness", "angle")
    )
    layernorm = over_seeds(angle.layernorm.dropna(), "layernorm")
    scale = paired(angle.scale, angle.layernorm, "scale")
    planar, bent = true(flat.layernorm.max() <= rules.FLAT), true(flat.scale.min() > rules.FLAT)
    own = all_of(planar, effect(layernorm.below(random), random))
    isolated = all_of(bent, effect(scale, random))
    reason = (
        f"With LayerNorm the keys' smallest singular value is at most {flat.layernorm.max():.0e} of the "
        f"largest: they lie on {'a' if planar == Finding.SEEN else 'no'} plane, which projection enforces "
        f"before any training. The queries are {layernorm:.1f} degrees from its normal on average; a random "
        f"direction has {random:.1f}. With scaling only the singular value is {flat.scale.mean():.2f} of "
        f"the largest, and the queries are {scale:+.1f} degrees further from the normal of the best plane."
    )
    n_seeds = len(angle.layernorm.dropna())
    return paper_claim(own, isolated, layernorm, n_seeds, reason, if_any(angle.scale.dropna()))


def equal_attention(experiment: str, tables: Tables) -> Outcome:
    """The slides' summary: how near to equal the attention over the keys is after training."""
    vectors = of_experiment(tables[VECTORS], experiment, "layernorm", "scale")
    last_step(tables, experiment)
    share = attention_of_runs(vectors).pivot(index="seed", columns="variant", values="share")
    layernorm = over_seeds(share.layernorm.dropna(), "layernorm")
    scale = over_seeds(share.scale.dropna(), "scale")
    own, isolated = above(layernorm, rules.EQUAL), OPPOSITE[above(scale, rules.EQUAL)]
    reason = (
        f"After training the perplexity of attention over the classes is {layernorm:.2f} of their number with "
        f"LayerNorm (1: all keys equally) and {scale:.2f} with scaling only."
    )
    if "scale_released" in share:
        reason += (
            f" It is {share.scale_released.mean():.2f} for scaling as released, where it begins near 1 "
            "whatever the queries do, because the keys are small."
        )
    if (own, isolated) == (Finding.SEEN, Finding.ABSENT):
        reason += " Equal attention is learnt without projection too."
    return paper_claim(own, isolated, layernorm, len(share.layernorm.dropna()), reason, scale)


TESTS = {
    "faster": faster,
    "parallel": parallel,
    "accurate": accurate,
    "plane": on_a_plane,
    "equal_attention": equal_attention,
}
