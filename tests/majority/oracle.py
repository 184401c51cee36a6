"""The released model on tokens, the oracle that the count-level model is held against, and a norm with a state."""

import torch
import torch.nn.functional as F
from torch import nn


class TokenTransformer(nn.Module):
    """torch's encoder layer with the modules of a MajorityTransformer, read out by the embedding's transpose."""

    def __init__(self, model):
        super().__init__()
        self.embedding, self.layer, self.norm_values = model.embedding, model.layer, model.norm_values

    def forward(self, tokens):
        x = self.embedding(tokens)
        return (self.layer(x) if self.norm_values is None else self.split(x)) @ self.embedding.weight.T

    def split(self, x):
        normed, layer = self.layer.norm1(x), self.layer
        y = x + layer.self_attn(normed, normed, self.norm_values(x), need_weights=False)[0]
        return y + layer.linear2(torch.relu(layer.linear1(layer.norm2(y))))


def tokens_of(counts: torch.Tensor) -> torch.Tensor:
    classes = torch.arange(counts.shape[1])
    return torch.stack([torch.repeat_interleave(classes, row) for row in counts.long()])


def loss_and_correct(model, counts, label):
    tokens = tokens_of(counts)
    logits = TokenTransformer(model)(tokens)
    target = label[:, None].expand_as(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    return loss, (logits.argmax(-1) == target).sum()


class Stateful(nn.Module):
    """A norm with a buffer: what a checkpoint keeps besides parameters."""

    def __init__(self, dim: int):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return self.gain * x + 1e-4 * self.calls
