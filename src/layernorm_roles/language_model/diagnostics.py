"""How much attention contributes to a GPT in training: its worth, the size of its input, the spread of its scores.

The *worth* of attention is by how much the validation loss rises if in every layer the output of attention is replaced
by a constant, its mean over all validation tokens. (To leave attention out would also remove the bias of W_O, which a
model learns long before it attends.) The worth of the scores is by how much the validation loss rises if all attention
scores are set to 0, so that a query attends equally to all keys up to its position.
"""

import copy
from collections.abc import Callable
from functools import partial
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
    """What attention contributes to `model`: rows of table language_model_attention, as dicts, without run and step.

    The first row, in which layer is None, has by how much the loss, in nats, rises if attention's outputs are replaced
    by their mean, and if all attention scores are 0. Then a row for each layer with attention has the root mean square
    of attention's input and the standard deviation of its scores. `loss_of` computes a model's mean loss over
    `validation`, the validation batches. The model is not changed.
    """
    recorder, zero_scores = copy.deepcopy(model), with_zero_scores(copy.deepcopy(model))
    loss, mean_kept = with_means(recorder, loss_of)
    worth = {"mean_kept_worth": loss_of(mean_kept) - loss, "zero_scores_worth": loss_of(zero_scores) - loss}
    recorder, found = recorder.cpu().eval(), {}
    for window in np.concatenate([windows for (windows,) in validation])[:WINDOWS]:
        for layer in recorder.record(window[:-1].tolist()):
            numbers = np.square(layer.attention_input, dtype=np.float64).mean(), score_deviation(layer)
            found.setdefault(layer.layer, []).append(numbers)
    of_layers = ((number, *np.mean(numbers, axis=0)) for number, numbers in found.items())
    return [
        {"layer": None, **worth, "input_rms": None, "score_deviation": None},
        *(
            {**dict.fromkeys(worth), "layer": number, "input_rms": square**0.5, "score_deviation": deviation}
            for number, square, deviation in of_layers
        ),
    ]


class Constant(nn.Module):
    """A module that replaces attention in a layer; its output at every position is the constant `vector`."""

    def __init__(self, vector: Float[Tensor, " d"]):
        super().__init__()
        self.vector = vector

    def forward(self, x: Float[Tensor, "batch n d"], x_values: Float[Tensor, "batch n d"]) -> Tensor:
        """The constant vector, repeated for every position of `x`; `x_values` is ignored."""
        return self.vector.expand_as(x)


@torch.no_grad()
def with_means(model: GPT, loss_of: Callable[[nn.Module], float]) -> tuple[float, GPT]:
    """The loss of `model`, and a copy of it in which each layer's attention is replaced by the mean of its outputs.

    `loss_of` computes a model's loss; the mean is over all tokens on which it runs the model.
    """
    sums, hooks = {}, []
    for layer in model.layers:
        if layer.attention is not None:
            sums[layer] = []
            hooks.append(layer.attention.register_forward_hook(partial(_keep_sum, sums[layer])))
    loss = loss_of(model)
    for hook in hooks:
        hook.remove()
    constant = copy.deepcopy(model)
    for layer, replaced in zip(model.layers, constant.layers, strict=True):
        if layer in sums:
            total, tokens = map(sum, zip(*sums[layer], strict=True))
            replaced.attention = Constant((total / tokens).to(model.tokens.weight.dtype))
    return loss, constant


def _keep_sum(sums: list[tuple[Tensor, int]], _module: nn.Module, _inputs: tuple, added: Tensor) -> None:
    """A forward hook of attention: append to `sums` the sum of its output vectors (batch, n, d) and their number."""
    sums.append((added.double().sum(dim=(0, 1)), added[..., 0].numel()))


@torch.no_grad()
def with_zero_scores(model: GPT) -> GPT:
    """Set W_Q of every layer of `model` to 0, in place, so that all attention scores are 0; return the model."""
    for layer in model.layers:
        if layer.attention is not None:
            width = layer.attention.qkv.in_features
            layer.attention.qkv.weight[:width] = 0
    return model


def score_deviation(layer: Layer) -> float:
    """Standard deviation of a causal layer's scores over the keys that a query sees, a mean over queries and heads."""
    queries, keys = layer.queries.astype(np.float64), layer.keys.astype(np.float64)
    keys = keys - keys.mean(axis=1, keepdims=True)  # changes no covariance, and loses fewer digits
    seen = np.arange(1, keys.shape[1] + 1)[:, None]
    means = keys.cumsum(axis=1) / seen
    products = (keys[..., :, None] * keys[..., None, :]).cumsum(axis=1) / seen[..., None]
    covariances = products - means[..., :, None] * means[..., None, :]
    variances = np.einsum("hni,hnij,hnj->hn", queries, covariances, queries)
    return float(np.sqrt(np.maximum(variances, 0)).mean() * layer.scaling)
