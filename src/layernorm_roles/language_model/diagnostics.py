"""How much attention contributes to a GPT in training: its worth, the size of its input, the spread of its scores.

The *worth* of attention is by how much the validation loss rises if in every layer the output of attention is replaced
by a constant, its mean over all validation tokens. (To leave attention out would also remove the bias of W_O, which a
model learns long before it attends.) The worth of the scores is by how much the validation loss rises if all attention
scores are set to 0, so that a query attends equally to all keys up to its position.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles.heads.layer import Layer
from layernorm_roles.language_model.model import GPT
from layernorm_roles.language_model.tasks import Batch

WINDOWS = 8
"""Number of validation windows on which the size of attention's input and the spread of its scores are measured."""


def diagnose(
    model: GPT, validation: list[Batch], loss_of: Callable[[nn.Module], float]
) -> list[dict[str, Any]]:
    """Measure what attention contributes to `model`, as rows (dicts) of the table language_model_attention.

    In the first row layer is None. It says by how much the loss rises, in nats per token, if each layer's attention
    output is replaced by its mean over all tokens (mean_kept_worth), or if all scores are set to 0 (zero_scores_worth).
    Each layer with attention then has a row with the root mean square of attention's input (input_rms) and the standard
    deviation of its scores (score_deviation). Rows lack the columns that name the run and the step. `loss_of` computes
    a model's mean loss over the batches in `validation`. The model is not changed.
    """
    recorder, probe, found = copy.deepcopy(model).cpu().eval(), copy.deepcopy(model), {}
    loss, loss_of_means = losses_with_means(probe, loss_of)
    worth = {
        "mean_kept_worth": loss_of_means - loss,
        "zero_scores_worth": loss_of(with_zero_scores(probe)) - loss,
    }
    for window in np.concatenate([windows for (windows,) in validation])[:WINDOWS]:
        for layer in recorder.record(window[:-1].tolist()):
            numbers = np.square(layer.attention_input, dtype=np.float64).mean(), score_deviation(layer)
            found.setdefault(layer.layer, []).append(numbers)
    rows = [{"layer": None, **worth, "input_rms": None, "score_deviation": None}]
    for layer, numbers in found.items():
        square, deviation = np.mean(numbers, axis=0)
        of_layer = {"layer": layer, "input_rms": square**0.5, "score_deviation": deviation}
        rows.append({**dict.fromkeys(worth), **of_layer})
    return rows


@torch.no_grad()
def losses_with_means(model: GPT, loss_of: Callable[[nn.Module], float]) -> tuple[float, float]:
    """The loss of `model`, and its loss if each layer's attention output is replaced by its mean over the tokens."""
    attentions = [layer.attention for layer in model.layers if layer.attention is not None]
    sums = {attention: [] for attention in attentions}

    def keep_sum(attention: nn.Module, _, added: Float[Tensor, "batch n d"]) -> None:
        sums[attention].append((added.double().sum(dim=(0, 1)), added[..., 0].numel()))

    def replace(attention: nn.Module, _, added: Float[Tensor, "batch n d"]) -> Float[Tensor, "batch n d"]:
        total, tokens = map(sum, zip(*sums[attention], strict=True))
        return (total / tokens).to(added.dtype).expand_as(added)

    losses = []
    for hook in (keep_sum, replace):
        handles = [attention.register_forward_hook(hook) for attention in attentions]
        losses.append(loss_of(model))
        for handle in handles:
            handle.remove()
    return tuple(losses)


@torch.no_grad()
def with_zero_scores(model: GPT) -> GPT:
    """Set W_Q of every layer to 0, in place, so that all attention scores are 0; return the model."""
    for layer in model.layers:
        if layer.attention is not None:
            layer.attention.qkv.weight[: layer.attention.qkv.in_features] = 0
    return model


def score_deviation(layer: Layer) -> float:
    """The standard deviation of a causal query's scores over its keys, averaged over queries and heads."""
    queries, keys = layer.queries.astype(np.float64), layer.keys.astype(np.float64)
    keys = keys - keys.mean(axis=1, keepdims=True)  # changes no covariance, and loses fewer digits
    seen = np.arange(1, keys.shape[1] + 1)[:, None]
    means = keys.cumsum(axis=1) / seen
    products = (keys[..., :, None] * keys[..., None, :]).cumsum(axis=1) / seen[..., None]
    covariances = products - means[..., :, None] * means[..., None, :]
    variances = np.einsum("hni,hnij,hnj->hn", queries, covariances, queries)
    return float(np.sqrt(np.maximum(variances, 0)).mean() * layer.scaling)
