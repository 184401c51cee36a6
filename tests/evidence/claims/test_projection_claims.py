"""Verdicts on the claims about projection, on tables whose truth is known by construction."""

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import OURS, verdict_on
from pytest import approx

SIZE = {"layernorm": 1.0, "scale_released": 3.0, "scale": 0.95, "layernorm_small": 2.9}
PROJECTION = {"layernorm": 1.0, "scale_released": 3.0, "scale": 3.1, "layernorm_small": 1.02}
NOBODY = {"layernorm": 1.0, "scale_released": 1.0, "scale": 1.0}


def on(name, *arguments, **world):
    """The verdict on a claim on the runs of worlds.metrics, and its row."""
    return verdict_on(name, majority_metrics=worlds.metrics(*arguments, **world))


def three(layernorm, scale_released, scale, **others):
    """What the variants of the paper's comparison and of the isolating one have, and others."""
    return {"layernorm": layernorm, "scale_released": scale_released, "scale": scale} | others


FASTER = [
    (PROJECTION, "reproduced"),
    (SIZE, "confounded"),
    (SIZE | {"scale": 1.3}, "partial"),
    (PROJECTION | {"scale_released": 1.3}, "partial"),
    (SIZE | {"scale_released": 0.6}, "reversed"),
]


@pytest.mark.parametrize(("ratios", "expected"), FASTER)
@pytest.mark.parametrize(("experiment", "name"), [("d8", "faster"), ("d8_uniform", "faster_uniform")])
def test_steps(ratios, expected, experiment, name):
    """On other data the claim is our question, and has our words."""
    verdict, row = on(name, ratios, experiment=experiment)
    assert verdict == (OURS[expected] if name == "faster_uniform" and expected in OURS else expected)
    assert row.control_measured == approx(ratios["scale"], rel=0.05)
    assert row.control_low <= row.control_measured <= row.control_high
    assert row.reported == approx(3.0) and row.n_seeds == 10


def of_values(layernorm, projected_v, projected_qk):
    accuracies = {"layernorm": layernorm, "projected_v": projected_v, "projected_qk": projected_qk}
    return {"experiment": "d3", "seeds": 5, "accuracies": accuracies | {"scale": 0.91}}


def two(layernorm, scale):
    return {"scores": {"layernorm": layernorm, "scale": scale}}


BOTH_MATTER = {"layernorm": 1.0, "scale": 3.0, "layernorm_small": 3.0, "scale_released": 9.0}
LITTLE = {"layernorm": 1.0, "scale": 1.0, "layernorm_small": 1.3, "scale_released": 1.3}
FAR, NEAR = (0.46, 0.1), (0.46, 0.02)
AT_03 = {"experiment": "rates", "rate": 0.03}
TWO_SEEDS = AT_03 | {"seeds": 2}
KNOWN = [
    # the claim, the truth, the verdict, and the number of the control
    ("accurate", {"accuracies": three(0.93, 0.85, 0.86)}, "reproduced", approx(7, abs=0.5)),
    ("accurate", {"accuracies": three(0.93, 0.85, 0.94)}, "confounded", approx(-1, abs=0.5)),
    ("accurate", {"accuracies": three(0.93, 0.85, 0.91)}, "partial", approx(2, abs=0.5)),
    ("accurate", {"accuracies": three(0.68, 0.85, 0.88)}, "reversed", approx(-20, abs=0.5)),
    ("final_accuracy", AT_03 | {"accuracies": three(0.95, 0.93, 0.94)}, "holds", approx(2, abs=0.8)),
    ("final_accuracy", AT_03 | {"accuracies": three(0.94, 0.93, 0.952)}, "does not hold", approx(1, abs=0.8)),
    ("final_accuracy", TWO_SEEDS | {"accuracies": three(0.94, 0.93, 0.94)}, "not tested", approx(1, abs=0.8)),
    ("project_values", of_values(0.66, 0.67, 0.90), "holds", approx(1, abs=0.7)),
    ("project_values", of_values(0.66, 0.90, 0.67), "does not hold", approx(24, abs=0.7)),
    ("project_values", of_values(0.66, 0.67, 0.80), "partial", approx(11, abs=0.7)),
    ("project_values", of_values(0.91, 0.91, 0.91), "partial", approx(0, abs=0.7)),
    ("size_or_projection", {"ratios": SIZE, "last": 20_000}, "holds", approx(0.991, rel=0.05)),
    ("size_or_projection", {"ratios": PROJECTION, "last": 20_000}, "does not hold", approx(3.02, rel=0.05)),
    ("size_or_projection", {"ratios": BOTH_MATTER, "last": 20_000}, "partial", approx(3, rel=0.05)),
    ("size_or_projection", {"ratios": LITTLE, "last": 20_000}, "partial", approx(1, rel=0.05)),
    ("equal_attention_time", two((0.05, 0.02), FAR), "holds", None),
    ("equal_attention_time", two(NEAR, FAR), "does not hold", None),  # not at once
    ("equal_attention_time", two(FAR, NEAR), "does not hold", None),
    ("equal_attention_time", two(NEAR, (0.46, 0.3)), "does not hold", None),
    ("equal_attention_time", two((0.46, 0.3), (0.46, 0.3)), "not tested", None),
]


@pytest.mark.parametrize(("name", "world", "expected", "control"), KNOWN)
def test_known_worlds(name, world, expected, control):
    verdict, row = on(name, **world)
    assert verdict == expected, row.reason
    assert control is None or row.control_measured == control


def test_equal_speed_is_not_reproduced():
    """Two seeds in each of which one variant is ahead, by as much: the mean is no effect."""
    even = worlds.metrics(NOBODY, seeds=10, spread=0.0)
    for seed in range(10):
        mine = (even.variant == "scale_released") & (even.seed == seed)
        even.loc[mine, "test_loss"] = 3 * (even.test_loss[mine] / 3) ** (1.1 if seed % 2 else 1 / 1.1)
    assert verdict_on("faster", majority_metrics=even)[0] == "not reproduced"


def test_runs_that_never_get_there_bound_the_ratio_from_below():
    """scale_released never reaches the loss: the ratio is at least what the last step says, with no upper end."""
    verdict, row = on("faster", PROJECTION | {"scale_released": 50.0}, last=6000)
    assert verdict == "reproduced"
    assert row.ci_high == np.inf and "their ratio is a bound" in row.reason


def test_a_layernorm_that_never_gets_there_reverses_the_claim():
    verdict, row = on("faster", NOBODY | {"scale_released": 2.0}, floors={"layernorm": 0.7})
    assert verdict == "reversed"
    assert row.ci_low == 0 and row.ci_high < 1
    assert "10 of 10 runs of LayerNorm" in row.reason


def test_a_pair_neither_of_which_gets_there_hides_no_reversal_and_makes_no_verdict():
    slow = {"layernorm": 50.0, "scale_released": 1.0, "scale": 1.0}
    table = worlds.metrics(slow, last=6000)
    lost = (table.variant == "scale_released") & (table.seed == 3)
    table.loc[lost, "test_loss"] = 0.7
    verdict, row = verdict_on("faster", majority_metrics=table)
    assert verdict == "reversed" and "neither of which gets there" in row.reason
    table.loc[(table.variant == "scale_released") & (table.seed > 0), "test_loss"] = 0.7
    assert verdict_on("faster", majority_metrics=table)[0] == "not tested"


NO_RATIO = {"ratios": {"layernorm": 1.0, "scale_released": 3.0}}
NO_SMALL = {"ratios": {"layernorm": 1.0, "scale": 1.0, "scale_released": 3.0}}
STUCK = {"ratios": SIZE, "floors": {"layernorm_small": 0.6}}
NO_VALUES = {"experiment": "d3", "accuracies": {"layernorm": 0.66, "projected_qk": 0.90, "scale": 0.91}}
LACKING = [
    ("faster", {"ratios": PROJECTION, "seeds": 1}, "only 1 seed"),
    ("faster", {"ratios": PROJECTION, "last": 300}, "10 of 10 of layernorm do not get there"),
    ("faster", NO_RATIO, "The run has no scale in the experiment d8."),
    ("faster", {"ratios": {"scale_released": 3.0, "scale": 1.0}}, "no layernorm"),
    ("faster_uniform", {"ratios": PROJECTION}, "The run has no experiment d8_uniform."),
    ("size_or_projection", NO_SMALL, "no layernorm_small"),
    ("size_or_projection", STUCK, "10 of 10 runs of LayerNorm ÷ d do not get there"),
    ("project_values", NO_VALUES, "no projected_v"),
]


@pytest.mark.parametrize(("name", "world", "words"), LACKING)
def test_runs_that_lack_something_say_so(name, world, words):
    verdict, row = on(name, **world)
    assert verdict == "not tested" and words in row.reason and np.isnan(row.measured)


def test_an_experiment_of_several_rates_is_no_setting():
    table = pd.concat([worlds.metrics(PROJECTION, rate=rate) for rate in (0.001, 0.01)])
    verdict, row = verdict_on("faster", majority_metrics=table)
    assert verdict == "not tested" and "several learning rates" in row.reason


# Best learning rates

RATES = (0.001, 0.01, 0.1, 0.3)


def sweep(at: dict[str, tuple[float, ...]], accuracies: dict[str, tuple[float, ...]] | None = None, **sizes):
    """Runs of variants at the four RATES, each with its ratio of steps, and its accuracy, at each of them."""
    tables = []
    for i, rate in enumerate(RATES):
        ratios, right = (
            {name: values[i] for name, values in each.items()} for each in (at, accuracies or {})
        )
        table = worlds.metrics(ratios, accuracies=right, experiment="rates", last=4000, rate=rate, **sizes)
        tables.append(table)
    return pd.concat(tables)


LAYERNORM = (1.0, 0.4, 0.6, 0.8)
SLOW = (3.0, 1.9, 1.2, 1.4)
BEST = [
    (three(LAYERNORM, SLOW, (3.0, 1.3, 1.5, 2.0)), "holds"),
    (three(LAYERNORM, SLOW, (1.0, 0.36, 0.6, 1.0)), "confounded"),
    (three(LAYERNORM, (3.0, 0.9, 0.3, 0.5), (1.0, 0.3, 0.6, 1.0)), "does not hold"),
    # the best rate of one is the last, or the first: a better one may lie beyond
    (three(LAYERNORM, (3.0, 1.9, 1.2, 1.1), (3.0, 1.3, 1.5, 2.0)), "not tested"),
    (three((0.4, 0.5, 0.6, 0.8), LAYERNORM, LAYERNORM), "not tested"),
]


@pytest.mark.parametrize(("at", "expected"), BEST)
def test_steps_at_the_rates_where_they_are_fewest(at, expected):
    """The released rate, the first, would say 3 times the steps in every world; the final loss says nothing else."""
    accuracies = {variant: (0.5, 0.5, 0.5, 0.9) for variant in at}
    verdict, row = verdict_on("faster_best_rate", majority_metrics=sweep(at, accuracies, seeds=5))
    assert verdict == expected
    if expected == "not tested":
        assert "first or last that was tried" in row.reason
    else:
        assert row.control_measured == approx(min(at["scale"]) / min(at["layernorm"]), rel=0.05)


def test_a_rate_at_which_a_run_never_arrives_is_not_the_fastest_one():
    """At 0.01 half of scale's runs are eight times as fast as at 0.1, and the others have not come to the end."""
    at = {"layernorm": LAYERNORM, "scale_released": SLOW, "scale": (1.0, 0.05, 0.8, 1.0)}
    table = sweep(at, seeds=4, spread=0.0)
    lost = (table.variant == "scale") & (table.base_learning_rate == 0.01) & table.seed.isin([0, 1])
    table.loc[lost, "test_loss"] = 3.0
    _, row = verdict_on("faster_best_rate", majority_metrics=table)
    assert row.control_measured == approx(2.0, rel=1e-2)


@pytest.mark.parametrize(
    ("scale", "released", "expected"),
    [
        (0.86, 0.86, "holds"),
        (0.95, 0.86, "confounded"),
        (0.96, 0.96, "does not hold"),
        (0.92, 0.86, "partial"),
    ],
)
def test_accuracy_at_the_rates_where_it_is_highest(scale, released, expected):
    at = three(SLOW, LAYERNORM, (3.0, 1.3, 1.5, 1.2))
    accuracies = three((0.9, 0.94, 0.8, 0.8), (0.5, 0.6, released, 0.5), (0.5, scale, 0.5, 0.5))
    verdict, row = verdict_on("accurate_best_rate", majority_metrics=sweep(at, accuracies, seeds=10))
    assert verdict == expected and row.reported == approx(8)


def test_a_single_seed_cannot_choose_its_own_rate():
    table = sweep({v: LAYERNORM for v in NOBODY}, seeds=1)
    verdict, row = verdict_on("accurate_best_rate", majority_metrics=table)
    assert verdict == "not tested" and "only 1 seed of layernorm: none other can choose" in row.reason


# Accuracy


def test_final_accuracy_is_that_of_the_last_step_at_one_learning_rate():
    """At other rates, and before the end, it is another one."""
    tables = [worlds.metrics(accuracies=three(0.95, 0.9, 0.9), experiment="rates", rate=0.01)]
    table = worlds.metrics(accuracies=dict.fromkeys(NOBODY, 0.9), **AT_03)
    late = (table.variant == "layernorm") & (table.step == table.step.max())
    table.loc[late, "test_accuracy"] = 0.7
    verdict, row = verdict_on("final_accuracy", majority_metrics=pd.concat([*tables, table]))
    assert verdict == "does not hold" and row.measured < -19
    verdict, row = verdict_on("final_accuracy", majority_metrics=tables[0])
    assert verdict == "not tested" and "no learning rate 0.03" in row.reason


WIDTHS = [
    # LayerNorm's accuracy, and that with projected queries and keys, at three widths; scaling only has 0.9
    ((0.66, 0.80, 0.89), (0.89, 0.90, 0.90), "holds"),
    ((0.66, 0.80, 0.89), (0.70, 0.90, 0.90), "partial"),
    ((0.66, 0.80, 0.89), (0.81, 0.90, 0.90), "partial"),  # little on average, much at the narrowest
    ((0.89, 0.89, 0.66), (0.70, 0.70, 0.70), "does not hold"),
    ((0.66, 0.66, 0.60), (0.89, 0.90, 0.90), "partial"),
]


@pytest.mark.parametrize(("everywhere", "keys", "expected"), WIDTHS)
def test_widths(everywhere, keys, expected):
    runs = {"experiment": "widths", "seeds": 3, "spread": 0.01}
    accuracies = (
        {"layernorm": v, "scale": 0.9, "projected_qk": qk} for v, qk in zip(everywhere, keys, strict=True)
    )
    tables = [
        worlds.metrics(accuracies=a, d_model=d, **runs) for a, d in zip(accuracies, (3, 6, 16), strict=True)
    ]
    table = pd.concat(tables)
    verdict, row = verdict_on("widths", majority_metrics=table)
    assert verdict == expected
    assert row.control_measured == approx(90 - 100 * keys[0], abs=0.5)
    assert verdict_on("widths", majority_metrics=table[table.d_model == 3])[0] == "not tested"


# Planes and angles

BOTH, ONLY_LAYERNORM = {"layernorm": True, "scale": True}, {"layernorm": True, "scale": False}


def queries(along: tuple[float, float], visible: tuple[float, float], seeds: int = 10) -> pd.DataFrame:
    """Queries of LayerNorm: the length along the ones vector, and of the rest, before training and after."""
    rows, ones = [], np.ones(8) / np.sqrt(8)
    setting = {"experiment": "d8", "variant": "layernorm", "d_model": 8, "base_learning_rate": 0.001}
    for i, checkpoint in enumerate(("initial", "final")):
        for seed, token in np.ndindex(seeds, 5):
            rest = worlds.noise(5, i, seed, token).standard_normal(8)
            rest -= rest @ ones * ones
            vector = along[i] * (1 + 0.02 * seed) * ones + visible[i] * rest / np.linalg.norm(rest)
            row = {"checkpoint": checkpoint, "seed": seed, "token": token, "kind": "query", "vector": vector}
            rows.append(setting | row)
    return pd.DataFrame(rows)


TURNING, SHRINKING = queries((0.1, 0.5), (0.4, 0.3)), queries((0.14, 0.1), (0.5, 0.05))


AS_PAPER = three(17, 80, 75)
ANGLES = [
    (AS_PAPER, TURNING, "reproduced"),
    (three(17, 80, 16), TURNING, "confounded"),
    (three(17, 80, 40), TURNING, "partial"),
    (three(65, 80, 75), TURNING, "partial"),
    (three(80, 30, 75), TURNING, "reversed"),
    (three(17, 15, 75), TURNING, "not reproduced"),
    # queries turn only if their part along the ones vector grows, and if they do at a small size too
    (AS_PAPER | {"layernorm_small": 18}, TURNING, "reproduced"),
    (AS_PAPER | {"layernorm_small": 18}, SHRINKING, "partial"),
    (AS_PAPER | {"layernorm_small": 80}, TURNING, "partial"),
    (AS_PAPER | {"layernorm_small": 80}, SHRINKING, "partial"),
]


@pytest.mark.parametrize(("angles", "vectors", "expected"), ANGLES)
def test_angles(angles, vectors, expected):
    table = worlds.metrics(angles=angles)
    verdict, row = verdict_on("parallel", majority_metrics=table, majority_vectors=vectors)
    assert verdict == expected and row.also_passed_by is None
    assert row.control_measured == approx(angles["scale"] - angles["layernorm"], abs=1)
    assert row.reported == 75 - 15.5
    parts = [each for each in row.rows.values() if each.statistic.startswith("length of that part")]
    grows = [5, 0.3 / 0.4] if vectors is TURNING else [0.1 / 0.14, 0.1]
    assert [each.estimate for each in parts] == approx(grows) and parts[0].met == (vectors is TURNING)
    assert [each.asked for each in parts] == ["more than 1", ""]
    first = vectors[vectors.checkpoint == "initial"]
    verdict, row = verdict_on("parallel", majority_metrics=table, majority_vectors=first)
    assert verdict == "not tested" and "before and after training" in row.reason


def test_angles_are_compared_at_the_papers_last_step_of_the_run():
    table = worlds.metrics(angles=AS_PAPER, last=5000)
    _, row = verdict_on("parallel", majority_metrics=table, majority_vectors=TURNING)
    assert row.reported == 74 - 32 and row.reason == "Angles are compared at step 4,000."
    early = table[table.step < 4000]
    verdict, row = verdict_on("parallel", majority_metrics=early, majority_vectors=TURNING)
    assert verdict == "not tested" and "4,000, 8,000, 17,000" in row.reason


def test_angles_that_are_there_before_training_pass_untrained():
    table = worlds.metrics(angles=AS_PAPER)
    start = table.step == 0
    table.loc[start, "query_angle_mean"] = table.variant[start].map(AS_PAPER) + table.seed[start] / 10
    _, row = verdict_on("parallel", majority_metrics=table, majority_vectors=TURNING)
    assert row.also_passed_by == "untrained models"


PLANES = [
    (ONLY_LAYERNORM, ONLY_LAYERNORM, "reproduced"),
    (ONLY_LAYERNORM, {"layernorm": False, "scale": False}, "not reproduced"),
    ({"layernorm": False, "scale": False}, ONLY_LAYERNORM, "not reproduced"),
    (BOTH, BOTH, "confounded"),
]


@pytest.mark.parametrize(("flat", "turned", "expected"), PLANES)
def test_plane(flat, turned, expected):
    keys = worlds.vectors(flat, turned, seeds=20)
    verdict, row = verdict_on("plane", majority_vectors=keys)
    assert verdict == expected and row.also_passed_by is None
    assert row.reported == approx(np.degrees(1))  # of a random direction in three dimensions


@pytest.mark.parametrize("diverged", [{"layernorm"}, {"scale"}, {"layernorm", "scale"}])
def test_a_plane_that_is_there_before_training_passes_untrained_and_is_not_tested_if_all_runs_diverge(
    diverged,
):
    keys = worlds.vectors(ONLY_LAYERNORM, ONLY_LAYERNORM, turned_at_first=ONLY_LAYERNORM)
    assert verdict_on("plane", majority_vectors=keys)[1].also_passed_by == "untrained models"
    keys = keys[(keys.checkpoint == "initial") | ~keys.variant.isin(diverged)]
    verdict, row = verdict_on("plane", majority_vectors=keys)
    assert verdict == "not tested" and "diverged" in row.reason


@pytest.mark.parametrize(
    ("flat", "turned", "expected"),
    [(True, True, "holds"), (False, True, "does not hold"), (True, False, "does not hold")],
)
def test_plane_with_gain_and_bias_need_not_contain_the_origin(flat, turned, expected):
    flat, turned = ({"layernorm_affine": value, "scale": False} for value in (flat, turned))
    keys = worlds.vectors(flat, turned, offset=2.0, seeds=20)
    assert verdict_on("plane_affine", majority_vectors=keys)[0] == expected
    moved = keys.assign(variant=keys.variant.replace("layernorm_affine", "layernorm"))
    assert verdict_on("plane", majority_vectors=moved)[0] == "not reproduced"


# Equal attention

GEOMETRIC, HARMFUL = three((0.1, 0.02), FAR, (0.5, 0.1)), three((0.01, 0.02), FAR, FAR)
EQUAL = [
    (three(NEAR, FAR, FAR), "reproduced", None),
    (three(NEAR, FAR, (0.46, 0.019)), "confounded", None),
    (three(NEAR, FAR, (0.46, 0.025)), "partial", None),
    (three(FAR, NEAR, FAR), "not reproduced", None),
    (GEOMETRIC, "reproduced", "untrained models"),  # all of it is there before training
    (HARMFUL, "not reproduced", "untrained models"),  # training makes it less equal
]


@pytest.mark.parametrize(("scores", "expected", "passed"), EQUAL)
def test_equal_attention(scores, expected, passed):
    verdict, row = on("equal_attention", scores=scores)
    assert verdict == expected and row.also_passed_by == passed
    assert row.control_measured == approx(scores["scale"][1] / scores["layernorm"][1], rel=0.05)


@pytest.mark.parametrize(
    ("variant", "experiment", "rates", "expected"),
    [
        ("scale", "d8_uniform", (0.001,), "confounded"),  # on other data
        ("scale", "rates", (0.001, 0.01, 0.1), "confounded"),  # at best rates
        ("layernorm_small", "d8", (0.001,), "confounded"),  # at a size that is equal
        ("none", "d8", (0.001,), "reproduced"),  # a variant that is no control
    ],
)
def test_one_control_that_shows_no_more_equal_attention_makes_the_claim_confounded(
    variant, experiment, rates, expected
):
    scores = three(NEAR, FAR, FAR)
    own = worlds.metrics(scores=scores)
    other = scores | {variant: FAR if variant == "layernorm_small" else NEAR}
    tables = [own[own.variant != variant]] if experiment == "d8" else [own]
    for i, rate in enumerate(rates):
        ratios = {name: 1 + abs(i - len(rates) // 2) for name in other}
        floors = {name: 0.1 * ratio for name, ratio in ratios.items()}
        table = worlds.metrics(ratios, scores=other, experiment=experiment, rate=rate, floors=floors)
        tables.append(table[table.variant == variant] if experiment == "d8" else table)
    verdict, row = verdict_on("equal_attention", majority_metrics=pd.concat(tables))
    assert verdict == expected, row.reason
