"""Best learning rates and baselines of language models."""

import pandas as pd
import pytest
import worlds

from layernorm_roles.evidence.analysis import language_model


@pytest.mark.parametrize(("rates", "at_end"), [((0.1,), False), ((0.1, 0.2), False), ((0.1, 0.2, 0.3), True)])
def test_the_first_of_three_rates_is_an_end_and_shorter_runs_do_not_count(rates, at_end):
    runs = [
        worlds.losses(0.05, rate=rate).eval("valid_loss = valid_loss + base_learning_rate") for rate in rates
    ]
    short = runs[-1].assign(step=runs[-1].step // 2, steps=500, valid_loss=0.0)
    table = pd.concat([*runs, short])
    best = language_model.runs_at_best_rate(table, "gpt")
    assert set(best.base_learning_rate) == {0.1} and set(best.steps) == {1000}
    assert (best.at_end == at_end).all() and language_model.of_single_points(table).empty
    broken = language_model.ends(table[table.step == 0], "gpt")
    assert {*broken.train_loss, *broken.valid_loss} == {float("inf")}


@pytest.mark.parametrize(
    ("model", "base"),
    [("gpt_rates", "gpt"), ("bytes_rates", "gpt_bytes"), ("bytes_rates_small", "gpt_bytes")],
)
def test_models_that_attention_was_not_taken_from_have_the_mean_loss_of_those_it_was(model, base):
    own, bare = worlds.losses(0.05, model=model), worlds.losses(0.0, model=base, seeds=2, worth=0.7)
    both = pd.concat([own[own.variant != "no_attention"], bare])
    losses = own[(own.variant == "projection") & (own.step == own.steps)].valid_loss
    bare = bare[(bare.variant == "no_attention") & (bare.step == bare.steps)].valid_loss
    worth = language_model.worth_of_attention(both, model, "projection")
    assert worth.tolist() == pytest.approx((bare.mean() - losses).tolist())
    assert language_model.worth_of_attention(both, "other", "projection").empty
