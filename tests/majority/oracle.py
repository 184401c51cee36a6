"""The released model on tokens, the oracle that the count-level model is held against."""

import torch
import torch.nn.functional as F
from torch import nn


class TokenTransformer(nn.Module):
    """One torch.nn.TransformerEncoderLayer on token embeddings, read out by the embedding's transpose.

    Takes over the modules of a MajorityTransformer, so both have the same parameters.
    """

    def __init__(self, model):
        super().__init__()
        self.embedding, self.layer = model.embedding, model.layer

    def forward(self, tokens):
        return self.layer(self.embedding(tokens)) @ self.embedding.weight.T


def tokens_of(counts: torch.Tensor) -> torch.Tensor:
    """(batch, classes) counts as (batch, length) tokens."""
    classes = torch.arange(counts.shape[1])
    return torch.stack([torch.repeat_interleave(classes, row) for row in counts.long()])


def loss_and_correct(model, counts, label):
    tokens = tokens_of(counts)
    logits = TokenTransformer(model)(tokens)
    target = label[:, None].expand_as(tokens)
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
    return loss, (logits.argmax(-1) == target).sum()
