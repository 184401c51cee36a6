"""What a single step, run, layer, size or column decides, where all others say something else."""

import pandas as pd
import pytest
import worlds
from judging import verdict_on


def test_accuracies_are_compared_at_the_step_of_the_paper():
    table = worlds.metrics(accuracies={"layernorm": 0.93, "scale_released": 0.85, "scale": 0.86})
    table.loc[table.step != 5000, "test_accuracy"] = 0.9
    assert verdict_on("accurate", majority_metrics=table)[0] == "reproduced"


@pytest.mark.parametrize(
    ("layernorm", "scale", "expected"), [(False, False, "not reproduced"), (True, True, "confounded")]
)
def test_keys_are_flat_or_leave_the_plane_only_if_those_of_all_runs_do(layernorm, scale, expected):
    turned = {"layernorm": True, "scale": False}
    table = worlds.vectors({"layernorm": True, "scale": False}, turned, seeds=20)
    assert verdict_on("plane", majority_vectors=table)[0] == "reproduced"
    other = worlds.vectors({"layernorm": layernorm, "scale": scale}, turned, seeds=20)
    mixed = pd.concat([table[table.seed != 3], other[other.seed == 3]], ignore_index=True)
    assert verdict_on("plane", majority_vectors=mixed)[0] == expected


def test_many_random_keys_are_those_of_the_largest_number():
    table = worlds.random_keys({"none": (1.0, 0.0)})
    few = (table.n == 10) & (table.d < 13)
    table.loc[few, ["any_unselectable", "mean_unselectable", "expected_unselectable"]] = 0.0
    assert verdict_on("random_keys", random_keys=table)[0] == "reproduced"


SHARES = {("projection", c, "after_norm"): 0.3 for c in ("initial", "final")}
SHARES |= {("layernorm", c, "after_norm"): 0.0 for c in ("initial", "final")}


@pytest.mark.parametrize(("worth", "expected"), [(0.5, "reproduced"), (0.03, "not tested")])
def test_both_models_have_to_use_their_attention(worth, expected):
    """Without scaling the loss is above that of the model without attention: its keys are those of no trained model."""
    tables = {"language_model_metrics": worlds.losses(0.05, worth=worth)}
    assert verdict_on("table_1", key_selectability=worlds.keys(SHARES), **tables)[0] == expected


def test_a_sentence_with_an_unselectable_key_in_one_layer_counts():
    shares = SHARES | {("projection", "final", "after_norm"): (0.0, 0.0, 0.2, 0.0)}
    tables = {"key_selectability": worlds.keys(shares, texts="sentences")}
    verdict, row = verdict_on("table_3", **tables, language_model_metrics=worlds.losses(0.05))
    assert verdict == "reproduced" and row.measured == 100


def test_one_changed_output_refutes_independence_of_the_batch():
    table = worlds.batch_dependence(0.0, -0.5)
    table.loc[table.index[table.norm == "layernorm"][3], "change"] = 0.1
    assert verdict_on("batch_dependence", batch_dependence=table)[0] == "partial"


def test_saturation_is_judged_at_the_largest_d_k():
    """Short vectors say the opposite of long ones."""
    table = worlds.score_scale(0.5)
    short = (table.d_k == 4) & (table.source == "normal")
    table.loc[short, ["entropy_share", "gradient"]] = 1 - table.loc[short, ["entropy_share", "gradient"]]
    assert verdict_on("score_saturation", score_scale=table)[0] == "holds"


def test_differences_are_of_equal_seeds():
    """The seeds' own accuracies differ by far more than the difference between the norms."""
    accuracies = {"layernorm": 0.9, "scale": 0.89, "scale_released": 0.88}
    table = worlds.metrics(accuracies=accuracies, spread=0.001, experiment="rates", rate=0.03)
    table["test_accuracy"] += (table.seed - 4.5) / 60
    verdict, row = verdict_on("final_accuracy", majority_metrics=table)
    assert verdict == "holds" and abs(row.measured - 1) < 0.1


def test_a_key_whose_bounds_enclose_a_half_is_not_known_to_be_able():
    """Those of the keys that get half of a query's attention are the ones whose lower bounds stay below it."""
    pairs = worlds.ceiling_pairs({"as used": 0.0, "without norm": 0.5}, received=0.05, unknown=0.05)
    tables = {"attention_ceilings": worlds.ceilings(pairs), "pairs": pairs}
    assert verdict_on("ceilings_not_used", **tables)[1].measured == 100
