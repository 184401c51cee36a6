"""How much of the input of each norm of a network lies along the ones vector, which LayerNorm's projection removes.

A vector x of size d has the share (1·x)² / (d |x|²) of its squared length there, a random one 1/d on average. Gupta et
al. (2026, arXiv 2409.12951) find that the hidden vectors of trained decoders have nearly none.
"""

from collections.abc import Callable, Collection

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn


def share(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
    """The share, 0 to 1, of each vector's squared length that lies along the ones vector; NaN for a zero vector."""
    x = x.double()
    return x.sum(dim=-1).square() / (x.shape[-1] * x.square().sum(dim=-1))


def table(
    network: nn.Module, run: Callable[[], object], norms: Collection[nn.Module] | None = None
) -> pd.DataFrame:
    """A table with a row for each norm in `network`: the share of its inputs' squared length along the ones vector.

    `run` is a function that runs the network once. Norms are those in `norms`, or else every module with "Norm" in its
    class name.
    Columns: norm (its number, from 1, in the order of first calls), norm_name (the module's path), dimensions (size of
    its inputs), ones_share (0..1, the mean over all vectors that enter the norm).
    """
    entered: dict[str, list[Float[Tensor, "n d"]]] = {}

    def note(name: str, x: Float[Tensor, "*batch d"]) -> None:
        entered.setdefault(name, []).append(x.flatten(0, -2))

    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs, named, name=name: note(name, [*inputs, *named.values()][0]), with_kwargs=True
        )
        for name, module in network.named_modules()
        if (module in norms if norms is not None else "Norm" in type(module).__name__)
    ]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    rows = [
        (number, name, vectors[0].shape[-1], share(torch.cat(vectors)).mean().item())
        for number, (name, vectors) in enumerate(entered.items(), start=1)
    ]
    return pd.DataFrame(rows, columns=["norm", "norm_name", "dimensions", "ones_share"])
