"""What attention does in training, computed a second way: token by token, with all scores written down."""

import copy
import math

import numpy as np
import pytest
import torch
from hand_made import SMALL_GPT, changed, randomise, run_of, trained
from torch.nn import functional as F

from layernorm_roles import store
from layernorm_roles.language_model import diagnostics, tasks, train
from layernorm_roles.language_model.model import without_attention

VARIANTS = ("layernorm", "projection", "layernorm_qk", "projected_v", "projection_matched")


def diagnosed(run):
    """A model with random weights, its validation batches, their loss, and the rows of the table."""
    network, task = randomise(run.build_model()), tasks.build(run.settings, run.text, run.tokenizer, run.seed)

    def loss_of(model):
        return train.validation_loss(model, task, "cpu")

    rows = diagnostics.diagnose(network, task.validation, loss_of)
    return network.eval(), task, loss_of, rows


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_the_worth_of_attention_is_lost_where_it_adds_its_mean_to_every_token(text, variant):
    """The loss in float64, written down once with the attention's own results and once with their means."""
    network, task, _, (whole, *_) = diagnosed(run_of(text, variant=variant))
    exact = copy.deepcopy(network).double()
    windows = torch.from_numpy(np.concatenate([windows for (windows,) in task.validation])).long()

    def loss_with(added_by):
        x = exact.embed(windows[:, :-1])
        for number, layer in enumerate(exact.layers):
            x = x + added_by(number, layer, x)
            x = x + layer.feed_forward(layer.ln_2(x))
        logits = exact.ln_f(x) @ exact.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).item()

    means = {}

    def attended(number, layer, x):
        added = layer.attention(*layer.normed(x))
        means[number] = added.mean(dim=(0, 1))
        return added

    loss = loss_with(attended)
    worth = loss_with(lambda number, layer, x: means[number]) - loss
    assert whole["mean_kept_worth"] == pytest.approx(worth, abs=1e-5) and abs(worth) > 1e-3
    assert whole["layer"] is None


def test_a_bias_that_is_learnt_without_attending_is_worth_nothing(text):
    """Without queries, keys and values attention adds the bias of W_O alone, without which the loss is another one."""
    run = run_of(text)
    network, task = randomise(run.build_model()), tasks.build(run.settings, run.text, run.tokenizer, run.seed)
    with torch.no_grad():
        for layer in network.layers:
            layer.attention.qkv.weight.zero_()
            layer.attention.out.bias.mul_(10)

    def loss_of(model):
        return train.validation_loss(model, task, "cpu")

    loss, (whole, *_) = loss_of(network), diagnostics.diagnose(network, task.validation, loss_of)
    assert abs(whole["mean_kept_worth"]) < 1e-6 < 0.01 < abs(loss_of(without_attention(network)) - loss)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_with_zero_scores_every_query_gets_the_mean_of_the_values_that_it_sees(text, variant):
    network, task, loss_of, (whole, *_) = diagnosed(run_of(text, variant=variant))
    loss, losses = loss_of(network), []
    network.eval()
    for (windows,) in task.validation:
        tokens = torch.from_numpy(windows)
        x = network.embed(tokens[:, :-1])
        seen = torch.arange(1, x.shape[1] + 1)[:, None]
        for layer in network.layers:
            values = layer.normed(x)[1] @ layer.attention.qkv.weight[2 * x.shape[-1] :].T
            x = x + layer.attention.out(values.cumsum(dim=1) / seen)
            x = x + layer.feed_forward(layer.ln_2(x))
        logits = network.ln_f(x) @ network.tokens.weight.T
        losses.append(F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none"))
    worth = torch.cat(losses).mean().item() - loss
    assert whole["zero_scores_worth"] == pytest.approx(worth, abs=1e-5) and abs(worth) > 1e-3


@pytest.mark.parametrize("variant", VARIANTS)
def test_sizes_and_deviations_are_those_of_all_scores_written_down(text, variant):
    network, task, _, (_, *rows) = diagnosed(run_of(text, variant=variant))
    windows = np.concatenate([windows for (windows,) in task.validation])[:8]
    assert [row["layer"] for row in rows] == [1, 2]
    for row in rows:
        squares, deviations = [], []
        for window in windows:
            layer = network.record(window[:-1].tolist())[row["layer"] - 1]
            squares.append((layer.attention_input**2).mean())
            for queries, keys in zip(layer.queries, layer.keys, strict=True):
                scores = queries.astype(float) @ keys.T.astype(float) / math.sqrt(2)
                deviations += [scores[i, : i + 1].std() for i in range(len(scores))]
        assert row["input_rms"] == pytest.approx(np.mean(squares) ** 0.5, rel=1e-5)
        assert row["score_deviation"] == pytest.approx(np.mean(deviations), rel=1e-5)


def test_a_run_says_what_its_attention_does_and_learns_as_one_that_does_not(text, tmp_path):
    """With dropout in the settings, whose draws the looks must leave alone."""
    plain = changed(SMALL_GPT, steps=20, dropout=0.1, attention_dropout=0.1)
    runs = [run_of(text, changed(plain, diagnose_every=8), variant) for variant in ("scale", "no_attention")]
    out = trained(runs, tmp_path / "looked_at")
    other = trained([run_of(text, plain, run.variant) for run in runs], tmp_path / "plain")
    tables = [store.read(files["metrics"], "language_model_metrics") for files in (out, other)]
    assert tables[0].drop(columns="seconds").equals(tables[1].drop(columns="seconds"))
    assert not len(store.read(other["attention"], "language_model_attention"))
    found = store.read(out["attention"], "language_model_attention")
    assert set(found.base_learning_rate) == {plain.learning_rate} and set(found.steps) == {20}
    for variant, layers in (("scale", 2), ("no_attention", 0)):
        part = found[found.variant == variant]
        assert part.step.tolist() == [step for step in (0, 8, 16, 20) for _ in range(1 + layers)]
        whole, of_layers = part[part.layer.isna()], part[part.layer.notna()]
        assert whole[["mean_kept_worth", "zero_scores_worth"]].notna().all(axis=None)
        assert (whole.mean_kept_worth == 0).all() == (variant == "no_attention")
        assert of_layers.input_rms.tolist() == pytest.approx([1.0] * len(of_layers), abs=0.05)
