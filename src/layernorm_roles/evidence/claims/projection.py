"""The paper's claims about projection, from the majority experiment; each again on data of another sampling.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    Finding,
    Outcome,
    Untestable,
    Verdict,
    above,
    all_of,
    effect,
    over_seeds,
    paired,
)
from layernorm_roles.evidence.majority import random_angle, steps_to_reach
from layernorm_roles.evidence.paper import reported
from layernorm_roles.evidence.statement_findings import Estimate

PAPER = "Brody, Alon and Yahav 2023"
METRICS, VECTORS = "majority_metrics", "majority_vectors"
Tables = Mapping[str, pd.DataFrame]


def of_experiment(table: pd.DataFrame, experiment: str, *variants: str) -> pd.DataFrame:
    """The experiment's rows; Untestable if there are none, or a variant is missing."""
    part = table[table.experiment == experiment]
    if part.empty:
        raise Untestable(f"The run has no experiment {experiment}.")
    missing = [variant for variant in variants if variant not in set(part.variant)]
    if missing:
        raise Untestable(f"The run has no {' and no '.join(missing)} in the experiment {experiment}.")
    return part


def trained(tables: Tables, experiment: str) -> int:
    """The last step; Untestable if it comes before ANGLE_STEP."""
    last = int(of_experiment(tables[METRICS], experiment).step.max())
    if last < rules.ANGLE_STEP:
        raise Untestable(
            f"The runs end at step {last:,}; the paper's angles begin at step {rules.ANGLE_STEP:,}."
        )
    return last


def at(metrics: pd.DataFrame, column: str, step: int) -> pd.DataFrame:
    """One row a seed, one column a variant."""
    return metrics[metrics.step == step].pivot(index="seed", columns="variant", values=column)


# Figure 2a: faster


def faster(experiment: str, tables: Tables) -> Outcome:
    metrics = of_experiment(tables[METRICS], experiment, "layernorm", "scale_released", "scale")
    steps = steps_to_reach(metrics, [rules.TEST_LOSS]).pivot(index="seed", columns="variant", values="steps")
    last = metrics.step.max()
    ran = metrics.groupby(["seed", "variant"]).size().unstack().notna()
    slow = int(steps.layernorm[ran.layernorm].isna().sum())
    if slow:
        raise Untestable(
            f"{slow} of {ran.layernorm.sum()} LayerNorm runs do not reach a test loss of {rules.TEST_LOSS} in "
            f"{last:,} steps."
        )

    def ratio(variant: str) -> Estimate:
        """Steps relative to LayerNorm's, geometric mean; of runs that do not get there, only a lower bound."""
        both = ran[variant] & ran.layernorm
        theirs = steps[variant][both]
        estimate = over_seeds(np.log(theirs.fillna(last) / steps.layernorm[both]), variant).map(np.exp)
        return estimate._replace(high=np.inf) if theirs.isna().any() else estimate

    times = partial(effect, reported=np.log(3))
    released, fair = ratio("scale_released"), ratio("scale")
    own, isolated = times(released.map(np.log)), times(fair.map(np.log))
    reason = (
        f"Without projection as released a run needs {released:.2f} times LayerNorm's steps to a test loss "
        f"of {rules.TEST_LOSS}; as the text defines it, {fair:.2f} times."
    )
    if "layernorm_small" in steps:
        small = ratio("layernorm_small")
        reason += f" LayerNorm made as small as the released variant needs {small:.2f} times"
        explains = times(small.map(np.log)) == Finding.SEEN
        reason += (
            ": what slows the training is the size of the attention input, which the released variant "
            "divides by d."
            if explains and isolated == Finding.ABSENT
            else "."
        )
    elif isolated == Finding.ABSENT and own == Finding.SEEN:
        reason += " The released variant differs from LayerNorm in size too; projection alone does not do it."
    return Outcome(
        rules.verdict(own, isolated),
        released,
        int((ran.layernorm & ran.scale_released).sum()),
        reason + rules.undecided(own, isolated),
    )


# Figure 2b: the angle


def parallel(experiment: str, tables: Tables) -> Outcome:
    metrics = of_experiment(tables[METRICS], experiment, "layernorm", "scale_released", "scale")
    vectors = of_experiment(tables[VECTORS], experiment)
    last = trained(tables, experiment)
    paper = reported()["majority"]
    ends = {
        variant: list(paper[variant]["query_angle_mean"].values())[-1]
        for variant in ("layernorm", "scale_released")
    }
    random = random_angle(len(vectors.vector.iloc[0]))
    angles = at(metrics, "query_angle_mean", last)
    mine = over_seeds(angles.layernorm.dropna(), "layernorm")
    difference = ends["scale_released"] - ends["layernorm"]
    released = paired(angles.scale_released, angles.layernorm, "scale_released")
    fair = paired(angles.scale, angles.layernorm, "scale")
    turned = mine.map(lambda angle: random - angle)
    turned = turned._replace(low=turned.high, high=turned.low)
    own = all_of(effect(turned, random - ends["layernorm"]), effect(released, difference))
    isolated = effect(fair, difference)
    reason = (
        f"At step {last:,} the mean angle is {mine:.1f} degrees with LayerNorm; a random direction has "
        f"{random:.1f}. Without projection it is {released:+.1f} degrees larger as released and {fair:+.1f} "
        "as the text defines it."
    )
    if "layernorm_small" in angles:
        reason += (
            f" LayerNorm made as small as the released variant is at {angles.layernorm_small.mean():.1f}."
        )
    reason += (
        f" The spread over seeds is {angles.layernorm.min():.0f} to {angles.layernorm.max():.0f} degrees."
    )
    return Outcome(
        rules.verdict(own, isolated),
        mine,
        len(angles.layernorm.dropna()),
        reason + rules.undecided(own, isolated),
    )


# Figure 3: accuracy


def accurate(experiment: str, tables: Tables) -> Outcome:
    metrics = of_experiment(tables[METRICS], experiment, "layernorm", "scale_released", "scale")
    step = rules.ACCURACY_STEP
    accuracy = 100 * at(metrics, "test_accuracy", step)
    if accuracy.empty:
        raise Untestable(f"The run has no metrics at step {step:,}, where the paper's accuracies were read.")
    paper = {
        v: 100 * reported()["majority"][v]["test_accuracy"][step] for v in ("layernorm", "scale_released")
    }
    gap = paper["layernorm"] - paper["scale_released"]
    released = paired(accuracy.layernorm, accuracy.scale_released, "scale_released")
    fair = paired(accuracy.layernorm, accuracy.scale, "scale")
    own, isolated = effect(released, gap), effect(fair, gap)
    reason = (
        f"At step {step:,} LayerNorm's test accuracy is {accuracy.layernorm.mean():.1f} %, "
        f"{released:+.1f} percentage points above the variant without projection as released and "
        f"{fair:+.1f} above the one that the text defines."
    )
    if "layernorm_small" in accuracy:
        small = paired(accuracy.layernorm, accuracy.layernorm_small, "layernorm_small")
        reason += f" It is {small:+.1f} above LayerNorm made as small as the released variant."
        if effect(small, gap) == Finding.SEEN and rules.verdict(own, isolated) == Verdict.CONFOUNDED:
            reason += " The size of the attention input makes the difference, not the projection."
    return Outcome(
        rules.verdict(own, isolated),
        released,
        len(accuracy.layernorm.dropna()),
        reason + rules.undecided(own, isolated),
    )


# Figures 1a and 1b: the geometry


def geometry_of_runs(vectors: pd.DataFrame) -> pd.DataFrame:
    """variant, seed, flatness, angle: one row a run.

    `flatness` is the keys' smallest singular value over their largest (0: they lie on a plane through the origin);
    `angle` that between the queries and the normal of the keys' best plane, folded to 0..90 degrees, mean over
    classes.
    """
    rows = []
    for (variant, seed), run in vectors.groupby(["variant", "seed"]):
        keys, queries = (np.stack(run.vector[run.kind == kind].to_numpy()) for kind in ("key", "query"))
        _, values, axes = np.linalg.svd(keys)
        cosine = np.abs(queries @ axes[-1]) / np.linalg.norm(queries, axis=1)
        angle = np.degrees(np.arccos(np.minimum(cosine, 1))).mean()
        # Fewer keys than dimensions always lie on a plane; numpy then returns fewer values.
        rows.append((variant, seed, values[-1] / values[0] if len(values) == keys.shape[1] else 0.0, angle))
    return pd.DataFrame(rows, columns=["variant", "seed", "flatness", "angle"])


def on_a_plane(experiment: str, tables: Tables) -> Outcome:
    vectors = of_experiment(tables[VECTORS], experiment, "layernorm", "scale")
    trained(tables, experiment)
    random = random_angle(len(vectors.vector.iloc[0]))
    runs = geometry_of_runs(vectors)
    flat, angle = (
        runs.pivot(index="seed", columns="variant", values=column) for column in ("flatness", "angle")
    )
    mine = over_seeds(angle.layernorm.dropna(), "layernorm")
    fair = paired(angle.scale, angle.layernorm, "scale")
    turned = Estimate(random - mine.mean, random - mine.high, random - mine.low)
    planar = Finding.SEEN if flat.layernorm.max() <= rules.FLAT else Finding.ABSENT
    bent = Finding.SEEN if flat.scale.min() > rules.FLAT else Finding.ABSENT
    own = all_of(planar, effect(turned, random))
    isolated = all_of(bent, effect(fair, random))
    reason = (
        f"With LayerNorm the keys' smallest singular value is at most {flat.layernorm.max():.0e} of the "
        f"largest: they lie on {'a' if planar == Finding.SEEN else 'no'} plane, which projection enforces "
        f"before any training. The queries are {mine:.1f} degrees from its normal on average; a random "
        f"direction has {random:.1f}. With scaling only the singular value is {flat.scale.mean():.2f} of "
        f"the largest, and the queries are {fair:+.1f} degrees further from the normal of the best plane."
    )
    return Outcome(
        rules.verdict(own, isolated),
        mine,
        len(angle.layernorm.dropna()),
        reason + rules.undecided(own, isolated),
    )


def attention_of_runs(vectors: pd.DataFrame) -> pd.DataFrame:
    """variant, seed, share: one row a run.

    `share` is the perplexity of attention over all classes relative to their number, mean over queries.
    """
    rows = []
    for (variant, seed), run in vectors.groupby(["variant", "seed"]):
        keys, queries = (np.stack(run.vector[run.kind == kind].to_numpy()) for kind in ("key", "query"))
        scores = queries @ keys.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1)
        rows.append((variant, seed, np.exp(entropy).mean() / len(keys)))
    return pd.DataFrame(rows, columns=["variant", "seed", "share"])


def equal_attention(experiment: str, tables: Tables) -> Outcome:
    vectors = of_experiment(tables[VECTORS], experiment, "layernorm", "scale")
    trained(tables, experiment)
    share = attention_of_runs(vectors).pivot(index="seed", columns="variant", values="share")
    mine = over_seeds(share.layernorm.dropna(), "layernorm")
    fair = over_seeds(share.scale.dropna(), "scale")
    own = above(mine, rules.EQUAL)
    isolated = rules.OPPOSITE[above(fair, rules.EQUAL)]
    reason = (
        f"After training the perplexity of attention over the classes is {mine:.2f} of their number with "
        f"LayerNorm (1: all keys equally) and {fair:.2f} with scaling only."
    )
    if "scale_released" in share:
        reason += (
            f" It is {share.scale_released.mean():.2f} for scaling as released, where it begins near 1 "
            "whatever the queries do, because the keys are small."
        )
    if (own, isolated) == (Finding.SEEN, Finding.ABSENT):
        reason += " Equal attention is learnt without projection too."
    return Outcome(
        rules.verdict(own, isolated),
        mine,
        len(share.layernorm.dropna()),
        reason + rules.undecided(own, isolated),
    )


TESTS = {
    "faster": faster,
    "parallel": parallel,
    "accurate": accurate,
    "plane": on_a_plane,
    "equal_attention": equal_attention,
}
"""By the claim's name; the first argument is the experiment."""
