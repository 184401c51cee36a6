"""Claims about projection that compare more than pairs of variants: angles and planes, widths, size against projection.

`scale_released` is "without projection" as the released code computes it, x / (sqrt(d) |x|); `scale` as the text
defines it, sqrt(d) x / |x|. The first makes the attention input d times smaller as well, so a difference from
LayerNorm that the second does not show is not the projection's. `layernorm_small` is LayerNorm made d times smaller.
`projected_qk` projects for queries and keys only, `projected_v` for values only, both with the scaling everywhere.

The tests take the tables and the name of an experiment of the majority task.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.majority import (
    geometry_of_runs,
    query_parts,
    random_angle,
    steps_to_reach,
    two_by_two,
)
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import (
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    half_of,
    more_than,
    no_more_than,
    over_seeds,
    paired,
    positive,
    true,
)
from layernorm_roles.evidence.claims.quantities import (
    METRICS,
    by_variant,
    final_accuracy,
    of_experiment,
    of_setting,
    unreached,
)
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import PAPER_PROJECTION

VECTORS = "majority_vectors"
COMPARED = (*PAPER_PROJECTION, "scale")
DEGREES, POINTS = "°", " points"


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
    parts = query_parts(of_setting(tables[VECTORS], experiment, "layernorm"))
    if not {"initial", "final"} <= set(parts.checkpoint):
        raise Untestable("The run has no queries from before and after training.")
    step = step_of_paper(metrics, "query_angle_mean")
    with_projection, without = (
        float(reported()["majority"][v]["query_angle_mean"][step]) for v in PAPER_PROJECTION
    )
    random, paper = random_angle(int(metrics.d_model.iloc[0])), without - with_projection

    def compared(angles: pd.DataFrame) -> list[Comparison]:
        layernorm = over_seeds(angles.layernorm.dropna(), "layernorm")
        released = paired(angles.scale_released, angles.layernorm, "scale_released")
        below, n = layernorm.below(random), len(angles.layernorm.dropna())
        turned = half_of(random - with_projection)
        scale = paired(angles.scale, angles.layernorm, "scale")
        return [
            compare("scale_released minus layernorm", *released, half_of(paper), unit=DEGREES),
            compare("a random direction minus layernorm", below, n, turned, unit=DEGREES),
            compare("scale minus layernorm", *scale, half_of(paper), "control", DEGREES),
        ]

    angles = by_variant(metrics, "query_angle_mean", step)
    rows = compared(angles)
    ends = parts[parts.variant == "layernorm"].pivot(
        index="seed", columns="checkpoint", values=["along", "visible"]
    )
    for part, words, asked in (("along", "along the ones vector", positive()), ("visible", "that scores see", None)):
        change = paired(np.log(ends[part].final), np.log(ends[part].initial), "layernorm")
        statistic = f"length of the part of queries {words}, after over before training"
        role, counts = ("effect", 1) if asked else ("context", None)
        rows.append(compare("layernorm", *change, asked, role, RATIO, statistic, counts))
    if "layernorm_small" in angles:
        small = paired(angles.scale_released, angles.layernorm_small, "layernorm_small")
        words = "scale_released minus layernorm_small"
        rows.append(compare(words, *small, half_of(paper), unit=DEGREES, part=2))
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
    centred, random = variant == "layernorm_affine", random_angle(int(vectors.d_model.iloc[0]))
    flatness = {"statistic": "smallest singular value of the keys over the largest"}

    def compared(checkpoint: str) -> list[Comparison]:
        runs = geometry_of_runs(vectors[vectors.checkpoint == checkpoint], centred)
        values, angle = (
            runs.pivot(index="seed", columns="variant", values=column) for column in ("flatness", "angle")
        )
        if lacking := [LEGENDS[name] for name in (variant, "scale") if name not in angle]:
            raise Untestable(f"Every run of {' and of '.join(lacking)} has diverged.")
        own = angle[variant].dropna()
        most, least = (
            Estimate(each.mean(), each.min(), each.max()) for each in (values[variant], values.scale)
        )
        n, m = len(own), len(values.scale.dropna())
        planar = true(values[variant].max() <= flat, f"at most {flat:g} in every run")
        off = true(values.scale.min() > flat, f"more than {flat:g} in every run")
        below, asked = over_seeds(own, variant).below(random), half_of(random)
        further = paired(angle.scale, angle[variant], "scale")
        return [
            compare(f"a random direction minus {variant}", below, n, asked, unit=DEGREES),
            compare(variant, most, n, planar, **flatness),
            compare(f"scale minus {variant}", *further, asked, "control", DEGREES),
            compare("scale", least, m, off, "control", **flatness),
        ]

    rows, passed = compared("final"), None
    if (vectors.checkpoint == "initial").any():
        passed = UNTRAINED if all(row.there for row in compared("initial")[:2]) else None
    return Outcome(tuple(rows), "", random, passed)


# What the projection costs


def widths(tables: Tables, experiment: str, more_than_half_of: float) -> Outcome:
    """Our finding: the projection's cost falls with the width; in queries and keys alone it is small throughout."""
    compared = ("layernorm", "scale", "projected_qk")
    metrics = of_experiment(tables[METRICS], experiment, *compared)
    if metrics.base_learning_rate.nunique() > 1:
        raise Untestable(f"The experiment {experiment} has several learning rates; the claim is about one.")
    if metrics.d_model.nunique() < 2:
        raise Untestable(f"The experiment {experiment} has a single width.")
    accuracies = {int(d): final_accuracy(part) for d, part in metrics.groupby("d_model")}
    if lacking := [d for d, accuracy in accuracies.items() if not {*compared} <= set(accuracy)]:
        raise Untestable(f"At the widths {lacking} the run lacks some of the norms that are compared.")
    narrow, wide, large = min(accuracies), max(accuracies), more_than_half_of / 2
    everywhere, keys = (
        {d: accuracy.scale - accuracy[variant] for d, accuracy in accuracies.items()}
        for variant in ("layernorm", "projected_qk")
    )
    costs = {d: (over_seeds(cost.dropna(), "layernorm"), len(cost.dropna())) for d, cost in everywhere.items()}
    mean_keys = pd.concat(keys.values(), axis=1).dropna().mean(axis=1)  # widths of one seed share their data
    few, own = no_more_than(large), keys[narrow].dropna()
    words, of_keys = "scale minus layernorm", "scale minus projected_qk"
    falls = paired(everywhere[narrow], everywhere[wide], "layernorm")
    keys_cost, mean_cost = (over_seeds(cost, "projected_qk") for cost in (own, mean_keys))
    return Outcome(
        (
            compare(f"{words}, d = {narrow}", *costs[narrow], more_than(large), unit=POINTS),
            compare(f"{words}, d = {narrow} minus d = {wide}", *falls, positive(), unit=POINTS, part=1),
            compare(f"{of_keys}, d = {narrow}", keys_cost, len(own), few, "control", POINTS, part=2),
            compare(f"{of_keys}, mean over widths", mean_cost, len(mean_keys), few, "control", POINTS, part=3),
            *(
                compare(f"{words}, d = {d}", *cost, role="context", unit=POINTS)
                for d, cost in costs.items()
                if d != narrow
            ),
        )
    )


# Size and projection


def size_or_projection(tables: Tables, experiment: str, half_of_ratio: float) -> Outcome:
    """Our question: whether the size of the attention input slows the released variant, or the missing projection."""
    cells = ("layernorm", "scale", "layernorm_small", "scale_released")
    metrics = of_setting(tables[METRICS], experiment, *cells)
    steps = steps_to_reach(metrics[metrics.variant.isin(cells)], [rules.TEST_LOSS])
    wide = np.log(steps.pivot(index="seed", columns="variant", values="steps"))
    ran = steps.assign(one=1.0).pivot(index="seed", columns="variant", values="one").dropna()
    if wide.loc[ran.index].isna().any(axis=None):
        raise Untestable(f"{unreached(steps)} The effects of size and projection on the steps need all runs.")
    effects = two_by_two(-wide)
    size, projection, interaction = (over_seeds(effect, "all four norms") for effect in effects)
    paper, n = np.log(half_of_ratio), len(effects.size)
    return Outcome(
        (
            compare("an input d times smaller over one of LayerNorm's size", size, n, half_of(paper), unit=RATIO),
            compare(
                "without projection over with it", projection, n, no_more_than(paper / 2), "control", RATIO, part=1
            ),
            compare(
                "without projection over with it, at LayerNorm's size over at the smaller",
                interaction,
                n,
                role="context",
                unit=RATIO,
            ),
        )
    )


TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function for function in (parallel, on_a_plane, widths, size_or_projection)
}
"""The functions that entries of projection.yaml name under `test`."""
