"""How much of what enters each norm of a network lies along the ones vector: what a projection has to remove there.

A vector x of size d has the share (1·x)² / (d |x|²) of its squared length along the ones vector. The share of a random
direction is 1/d on average. Gupta et al. (2026, arXiv 2409.12951) find that the hidden vectors of trained decoders are
nearly orthogonal to the ones vector, so that LayerNorm's projection changes next to nothing there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn


class NormInput(NamedTuple):
    """What entered one norm of a network."""

    name: str
    """The name of the norm's module in the network."""
    x: Float[Tensor, "*batch d"]


def share(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
    """The share of each vector's squared length that lies along the ones vector, from 0 to 1; NaN of a zero vector."""
    x = x.double()
    return x.sum(dim=-1).square() / (x.shape[-1] * x.square().sum(dim=-1))


def table(network: nn.Module, run: Callable[[], object]) -> pd.DataFrame:
    """A row for each norm of `network` that runs while `run` is called, in the order of their first calls.

    Columns: norm (from 1), norm_name, dimensions, and ones_share, the mean over the vectors that enter the norm.
    """
    with _inputs(network) as seen, torch.no_grad():
        run()
    vectors: dict[str, list[Tensor]] = {}
    for name, x in seen:
        vectors.setdefault(name, []).append(x.flatten(0, -2))
    rows = [
        (number, name, parts[0].shape[-1], share(torch.cat(parts)).mean().item())
        for number, (name, parts) in enumerate(vectors.items(), start=1)
    ]
    return pd.DataFrame(rows, columns=["norm", "norm_name", "dimensions", "ones_share"])


@contextmanager
def _inputs(network: nn.Module) -> Iterator[list[NormInput]]:
    """While the block runs, collect what enters the modules of `network` whose class is called a norm."""
    seen: list[NormInput] = []
    hooks = [
        module.register_forward_pre_hook(
            lambda _, positional, name=name: seen.append(NormInput(name, positional[0].detach()))
        )
        for name, module in network.named_modules()
        if "Norm" in type(module).__name__
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()
