"""What attention does in training, computed a second way: token by token, or by a model built without it."""

import math

import numpy as np
import pytest
import torch
from hand_made import SMALL_GPT, changed, randomise, run_of, trained
from torch.nn import functional as F

from layernorm_roles import store
from layernorm_roles.language_model import diagnostics, tasks, train

VARIANTS = ("layernorm", "projection", "layernorm_qk", "projected_v")


def diagnosed(run):
    """A model with random weights, its validation batches, their loss, and the rows of the table."""
    network, task = randomise(run.build_model()), tasks.build(run.settings, run.text, run.tokenizer, run.seed)

    def loss_of(model):
        return train.validation_loss(model, task, "cpu")

    rows = diagnostics.diagnose(network, task.validation, loss_of)
    return network.eval(), task, loss_of, rows


@pytest.mark.parametrize("variant", VARIANTS)
def test_attention_left_out_is_the_loss_of_a_model_built_without_it(text, variant):
    network, _, loss_of, (whole, *_) = diagnosed(run_of(text, variant=variant))
    bare = run_of(text, variant="no_attention").build_model()
    bare.load_state_dict({name: network.state_dict()[name] for name in bare.state_dict()})
    assert whole["left_out_worth"] == pytest.approx(loss_of(bare) - loss_of(network), rel=1e-12)
    assert abs(whole["left_out_worth"]) > 0.01 and whole["layer"] is None


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
    windows = np.concatenate([windows for (windows,) in task.validation])
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
        assert whole[["left_out_worth", "zero_scores_worth"]].notna().all(axis=None)
        assert (whole.left_out_worth == 0).all() == (variant == "no_attention")
        assert of_layers.input_rms.tolist() == pytest.approx([1.0] * len(of_layers), abs=0.05)
