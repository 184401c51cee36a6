"""A norm of one's own: Dynamic Tanh (Zhu et al. 2025, "Transformers without Normalization").

In a file given with --configfile:

    norms: {dynamic_tanh: "examples.dynamic_tanh:DynamicTanh"}
    majority: {d8: {seeds: {dynamic_tanh: 10}}}

It then appears beside the other variants of d8 in the figure majority_curves_d8.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class DynamicTanh(nn.Module):
    """tanh(alpha x) with one learnt alpha; without gain and bias, like most built-in variants.

    The constructor takes the dimension because that of every norm must; nothing here depends on it.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Squash every component of `x`."""
        return torch.tanh(self.alpha * x)
