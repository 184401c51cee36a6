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


@pytest.mark.parametrize("variant", ["projection", "layernorm_qk", "projected_v", "projection_matched"])
@torch.no_grad()
def test_the_table_is_what_plain_formulas_give(text, variant):
    """Losses in float64: with attention's results, with their means, and with the means of the values that it sees.

    There are three batches of validation windows, of which the first eight windows are looked at.
    """
    run = run_of(text, changed(SMALL_GPT, validation_windows=12), variant)
    network, task = randomise(run.build_model()), tasks.build(run.settings, text, run.tokenizer, run.seed)
    windows = np.concatenate([batch for (batch,) in task.validation])

    def loss_of(model):
        return train.validation_loss(model, task, "cpu")

    whole, *rows = diagnostics.diagnose(network, task.validation, loss_of)
    exact, tokens = copy.deepcopy(network.eval()).double(), torch.from_numpy(windows).long()

    def loss_with(added_by):
        x = exact.embed(tokens[:, :-1])
        for number, layer in enumerate(exact.layers):
            x = x + added_by(number, layer, x)
            x = x + layer.feed_forward(layer.ln_2(x))
        logits = exact.ln_f(x) @ exact.tokens.weight.T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()

    means = {}

    def attended(number, layer, x):
        added = layer.attention(*layer.normed(x))
        means[number] = added.mean(dim=(0, 1))
        return added

    def equally(number, layer, x):
        values = layer.normed(x)[1] @ layer.attention.qkv.weight[2 * x.shape[-1] :].T
        return layer.attention.out(values.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1)[:, None])

    loss = loss_with(attended)
    worths = loss_with(lambda number, layer, x: means[number]) - loss, loss_with(equally) - loss
    assert [whole["mean_kept_worth"], whole["zero_scores_worth"]] == pytest.approx(worths, abs=1e-5)
    assert min(map(abs, worths)) > 1e-3 and whole["layer"] is None
    assert [row["layer"] for row in rows] == [1, 2]
    for row in rows:
        squares, deviations = [], []
        for window in windows[:8]:
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
    found, none = (store.read(files["attention"], "language_model_attention") for files in (out, other))
    assert not len(none)
    assert set(found.base_learning_rate) == {plain.learning_rate} and set(found.steps) == {20}
    for variant, layers in (("scale", 2), ("no_attention", 0)):
        part = found[found.variant == variant]
        assert part.step.tolist() == [step for step in (0, 8, 16, 20) for _ in range(1 + layers)]
        whole, of_layers = part[part.layer.isna()], part[part.layer.notna()]
        assert whole[["mean_kept_worth", "zero_scores_worth"]].notna().all(axis=None)
        assert (whole.mean_kept_worth == 0).all() == (variant == "no_attention")
        assert of_layers.input_rms.tolist() == pytest.approx([1.0] * len(of_layers), abs=0.05)
