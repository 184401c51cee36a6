"""A norm with a buffer: what a checkpoint keeps besides parameters."""

import torch
from torch import nn


class Stateful(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(dim))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return self.gain * x + 1e-4 * self.calls
