"""Convergence and geometry of runs at the edges that random tables lack."""

import numpy as np
import pandas as pd
import pytest
import worlds

from layernorm_roles.evidence.analysis import majority


def run(variant: str, *points: tuple[int, float], column: str = "test_loss") -> pd.DataFrame:
    """A run whose test loss, or another column, goes through the points (step, value)."""
    steps, values = zip(*points, strict=True)
    setting = {"experiment": "d8", "variant": variant, "seed": 0, "d_model": 8, "base_learning_rate": 0.001}
    return pd.DataFrame(setting | {"step": steps, column: values})


def test_a_run_that_is_there_from_the_start_or_falls_from_infinity_arrives_at_its_row():
    early = run("scale", (10, 0.4), (100, 0.2))
    fallen = run("none", (0, 2.0), (10, np.inf), (20, np.nan), (40, 0.3))
    at_the_end = run("layernorm", (0, 2.0), (10, 0.5))
    found = majority.steps_to_reach(pd.concat([early, fallen, at_the_end]), [0.5]).set_index("variant").steps
    assert found["scale"] == 10 == pytest.approx(found["layernorm"]) and found["none"] == pytest.approx(40)
    assert majority.early_and_last(at_the_end) == (10, 10), "before training nothing is early"


def test_attention_is_equal_from_the_last_time_that_it_comes_to_be_so():
    shares = {
        "from_the_start": ((0, 0.99), (100, 1.0)),
        "once": ((0, 0.8), (100, 0.8), (200, 1.0), (300, 1.0)),
        "in_between": ((0, 1.0), (100, 0.8), (200, 1.0)),
        "at_the_end": ((0, 0.8), (200, 0.9)),
        "not_at_the_end": ((0, 1.0), (100, 1.0), (200, 0.8)),
        "diverged": ((0, 0.8), (100, 1.0), (200, np.nan)),
    }
    runs = pd.concat(run(variant, *points, column="attention_share") for variant, points in shares.items())
    table = majority.arrivals(runs, ["variant"], "attention_share", 0.9, for_good=True).set_index("variant")
    halfway = (101 * 201) ** 0.5 - 1  # of the logarithms of one more step
    assert [*table.steps[[*shares]]] == pytest.approx([0, halfway, halfway, 200, np.nan, np.nan], nan_ok=True)
    assert table.last_step["not_at_the_end"] == 200


def test_fewer_keys_than_dimensions_lie_on_a_plane():
    vectors = worlds.vectors({"scale": False}, {"scale": False}, dim=8, classes=5, seeds=1)
    assert majority.geometry_of_runs(vectors.query("checkpoint == 'final'")).flatness[0] == 0


def test_a_run_that_is_as_long_as_its_experiment_is_not_lost_beside_a_longer_experiment():
    accuracies = {"scale": 0.9, "layernorm": 0.8}
    lengths = {"long": 2000, "short": 1000}
    runs = [worlds.metrics(accuracies=accuracies, experiment=name, last=n) for name, n in lengths.items()]
    bare = runs[0][runs[0].variant != "scale"].assign(experiment="nothing to compare with")
    costs = majority.costs(pd.concat([*runs, bare]))
    pd.testing.assert_frame_equal(costs, pd.concat(map(majority.costs, runs), ignore_index=True))
    assert costs.cost[costs.variant == "layernorm"].between(9, 11).all()


def test_a_rate_at_which_all_runs_break_off_has_none_that_ended():
    whole, broken = run("scale", (0, 2.0), (200, 0.5)), run("scale", (0, 2.0), (100, 0.1))
    runs = pd.concat([whole, broken.assign(base_learning_rate=0.01)]).assign(test_accuracy=0.9)
    last = majority.last_rows(runs).set_index("base_learning_rate")
    assert last.test_loss.to_dict() == {0.001: 0.5, 0.01: np.inf}
    assert last.test_accuracy.to_dict() == {0.001: 0.9, 0.01: 0.0}


def test_a_random_direction_is_further_from_a_fixed_one_in_more_dimensions():
    angles = [majority.random_angle(d) for d in (2, 3, 8)]
    assert angles == pytest.approx([45, np.degrees(1), 72.6], abs=0.05)


def of_kind(kind: str, *vectors: tuple[float, ...]) -> pd.DataFrame:
    run = {"variant": "scale", "seed": 0, "checkpoint": "final", "kind": kind}
    return pd.DataFrame([run | {"vector": np.array(vector, float)} for vector in vectors])


def test_queries_have_a_part_along_the_ones_vector_and_one_that_scores_see():
    vectors = pd.concat([of_kind("query", (3, 1), (1, -1)), of_kind("key", (9, 9))])
    (row,) = majority.query_parts(vectors)[["along", "visible"]].to_numpy()
    assert row == pytest.approx([2, 2**0.5])


def test_the_plane_of_centred_keys_need_not_contain_the_origin():
    keys = of_kind("key", (1, 0, 5), (-1, 0, 5), (0, 2, 5), (0, -2, 5))
    vectors = pd.concat([keys, of_kind("query", (0, 0, -3), (3**0.5, 0, 1))])
    (row,) = majority.geometry_of_runs(vectors, centred=True)[["flatness", "angle"]].to_numpy()
    assert row == pytest.approx([0, 30])
    (row,) = majority.geometry_of_runs(vectors)[["flatness", "angle"]].to_numpy()
    assert row == pytest.approx([2**0.5 / 10, 60])  # the first axis is the flattest
