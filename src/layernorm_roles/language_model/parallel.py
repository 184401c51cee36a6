"""Threads for the compiled kernels of the language models, which compute slices of a training batch in parallel.

The number of threads changes no result: in attention, a slice is a group of whole heads, over which nothing is summed;
elsewhere it is `TOKENS` consecutive tokens, and sums over slices are taken in order. torch itself, for the linear
layers, runs on one thread, because it splits its sums by the number of threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.slices import slices

Result = TypeVar("Result")

TOKENS = 2048
"""Number of consecutive tokens that a thread computes at a time, where sums are taken over tokens."""

_pool: ThreadPoolExecutor | None = None
_threads = 1


def use(threads: int) -> None:
    """Set the number of threads on which this process runs compiled kernels; torch itself is set to one thread."""
    global _pool, _threads
    torch.set_num_threads(1)
    if threads != _threads:
        # In a new thread torch would record for autograd what is computed.
        options = {"initializer": torch.set_grad_enabled, "initargs": (False,)}
        _pool, _threads = ThreadPoolExecutor(threads, **options) if threads > 1 else None, threads


def shares(n: int) -> list[slice]:
    """Split range(n) into slices of about equal length, one for each thread of the compiled kernels.

    Do not use them to sum over range(n): the rounding of the sum would depend on the number of threads.
    """
    return slices(n, -(-n // _threads))


def each(function: Callable[[slice], Result], parts: Iterable[slice]) -> list[Result]:
    """What `function`, which runs a compiled kernel, returns for each slice, in their order; on all threads."""
    with compilation_notice("the language models' kernels", seconds=8):
        return list((_pool.map if _pool else map)(function, parts))
