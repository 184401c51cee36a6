"""A normalisation of one's own: Dynamic Tanh (Zhu et al. 2025, "Transformers without Normalization").

In config.yaml, or in a file given with --configfile:

    norms: {dynamic_tanh: "examples.dynamic_tanh:DynamicTanh"}
    majority: {d8: {seeds: {dynamic_tanh: 10}}}

It then appears in every figure and table of that experiment.
"""

import torch
from torch import nn


class DynamicTanh(nn.Module):
    """tanh(alpha x) with one learned alpha; the gain and bias are left off, as for the other variants.

    Takes the dimension, as every normalisation must; here nothing depends on it. Maps (..., dim) to (..., dim).
    """

    def __init__(self, dim: int):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return torch.tanh(self.alpha * x)
