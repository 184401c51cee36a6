"""Operators on which a GPU's accuracy is checked before it trains a language model: attention, loss and LayerNorm."""

from functools import partial

import torch

from layernorm_roles import norms
from layernorm_roles.gpu.agreement import Operator
from layernorm_roles.language_model.attention import attention, causal_attention
from layernorm_roles.language_model.bert import EPS
from layernorm_roles.language_model.cross_entropy import linear_cross_entropy
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings

SEQUENCES = 2
"""Number of sequences on which an operator of the language models is checked: few, since float64 takes much memory."""


def operators(settings: GPTSettings | BERTSettings, vocabulary: int) -> list[Operator]:
    """Attention, loss and LayerNorm with input shapes like those in training, for `gpu.device.Device.check`."""
    d, n = settings.d_model, settings.context_length
    targets = torch.arange(SEQUENCES * n) * 7 % vocabulary
    if isinstance(settings, GPTSettings):
        attend = Operator(
            "attention", partial(causal_attention, heads=settings.heads), ((SEQUENCES, n, 3 * d),)
        )
        eps = settings.eps
    else:
        head = (SEQUENCES, settings.heads, n, d // settings.heads)
        attend, eps = Operator("attention", attention, (head,) * 3), EPS
    return [
        attend,
        Operator("the loss", linear_cross_entropy, ((SEQUENCES * n, d), (vocabulary, d)), (targets,)),
        Operator("LayerNorm", norms.build("layernorm", d, eps), ((SEQUENCES, n, d),)),
    ]
