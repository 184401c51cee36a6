"""What attention does while a GPT trains: what it is worth, how large its input is, how far its scores differ.

The *worth* of attention is the validation loss that the model has if in every layer attention adds the same everywhere,
the mean of what it adds to the tokens of the validation batches, minus its loss. To leave attention out instead would
take the bias of W_O out, too, which a model learns long before it attends. The worth of its scores is the loss with all
scores 0, so that every query attends equally to all keys that it sees, minus the loss.
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
"""Number of validation windows on which sizes and scores are measured, which differ little between windows."""


def diagnose(
    model: GPT, validation: list[Batch], loss_of: Callable[[nn.Module], float]
) -> list[dict[str, Any]]:
    """The rows of table language_model_attention at one step, without the columns that name the run and the step.

    `validation` are the task's validation batches, `loss_of` the loss of a model over them. The first row, without a
    layer, is about the whole model; then comes a row for each layer that has attention. The model stays as it is.
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
    """A module in the place of attention that adds one `vector` at every position."""

    def __init__(self, vector: Float[Tensor, " d"]):
        super().__init__()
        self.vector = vector

    def forward(self, x: Float[Tensor, "batch n d"], x_values: Float[Tensor, "batch n d"]) -> Tensor:
        """The vector that is added at every position of x."""
        return self.vector.expand_as(x)


@torch.no_grad()
def with_means(model: GPT, loss_of: Callable[[nn.Module], float]) -> tuple[float, GPT]:
    """The loss of `model`, and a copy in which attention is replaced by the mean of what it adds to all tokens."""
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
    """Append the sum of a batch's vectors `added` (batch, n, d) and their number; a forward hook of attention."""
    sums.append((added.double().sum(dim=(0, 1)), added[..., 0].numel()))


@torch.no_grad()
def with_zero_scores(model: GPT) -> GPT:
    """`model` with W_Q = 0 in every layer: all queries, and so all scores, are 0."""
    for layer in model.layers:
        if layer.attention is not None:
            width = layer.attention.qkv.in_features
            layer.attention.qkv.weight[:width] = 0
    return model


def score_deviation(layer: Layer) -> float:
    """The standard deviation of a query's scores over the keys that it sees, mean over queries and heads.

    The layer is causal. The variance of a query's scores is q' C q, with C the covariance of the keys up to its
    position, so that no matrix of all scores is needed.
    """
    queries, keys = layer.queries.astype(np.float64), layer.keys.astype(np.float64)
    keys = keys - keys.mean(axis=1, keepdims=True)  # changes no covariance, and loses fewer digits
    seen = np.arange(1, keys.shape[1] + 1)[:, None]
    means = keys.cumsum(axis=1) / seen
    products = (keys[..., :, None] * keys[..., None, :]).cumsum(axis=1) / seen[..., None]
    covariances = products - means[..., :, None] * means[..., None, :]
    variances = np.einsum("hni,hnij,hnj->hn", queries, covariances, queries)
    return float(np.sqrt(np.maximum(variances, 0)).mean() * layer.scaling)
