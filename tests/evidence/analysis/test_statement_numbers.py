"""Final losses, probes of positions, and exponents."""

import numpy as np
import pandas as pd
import pytest
import worlds

from layernorm_roles.evidence.analysis import statements


@pytest.mark.parametrize(
    ("steps", "lost", "loss"), [(20, None, 18.5), (20, 17, 18.5), (20, 18, np.inf), (5, None, 4)]
)
def test_the_final_loss_is_the_mean_of_the_last_tenth_of_the_steps(steps, lost, loss):
    run = {"placement": "pre", "depth": 2, "learning_rate": 0.1, "seed": 0, "step": range(steps)}
    table = pd.DataFrame(run | {"train_loss": [np.nan if step == lost else step for step in range(steps)]})
    assert statements.final_losses(table).loss.tolist() == [loss]


def test_a_probe_s_accuracy_is_the_mean_over_the_runs_of_a_seed_that_did_not_diverge():
    shares = statements.position_accuracies(worlds.position_probe((0.8, 0.1), (0.9, 0.5), spread=0.0))
    last = shares[(shares.placement == "pre") & (shares.layer == 3)].set_index(["trained", "residual"])
    percents = {(True, True): 81, (True, False): 11, (False, True): 91, (False, False): 51}
    for place, percent in percents.items():
        diverged = place[0]  # at one of two rates, with the second seed
        assert last.percent[place].tolist() == pytest.approx([percent, percent + diverged, percent, percent])


def test_the_exponent_is_the_slope_of_logarithms():
    table = pd.DataFrame({"seed": 7, "x": [1.0, 2.0, 5.0, 9.0]}).eval("y = 3 * x**-0.5")
    assert statements.exponents(table, "x", "y").to_dict() == pytest.approx({7: -0.5})


def test_numbers_on_batches_and_scores_are_those_of_the_world():
    batches = worlds.batch_dependence(0.1, -0.5, spread=0.0)
    found = statements.batch_and_scores(batches, worlds.score_scale(spread=0.0)).set_index("quantity")
    # LayerNorm changes in one of three seeds; then exponents, and entropy and trace without and with division
    assert found["mean"].tolist() == pytest.approx([0.1 / 3, -0.5, 1.0, 0.5, 0.1, 0.1, 0.9, 0.9])
    assert found.seeds.tolist() == [3, 3, *[5] * 6] and (found.low <= found["mean"]).all()
