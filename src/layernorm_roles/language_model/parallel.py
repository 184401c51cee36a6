"""Threads for the compiled kernels of a language model, which compute the parts of a training batch side by side.

The number of threads changes no result. In attention, where nothing is summed over parts, a part is a group of whole
heads. Elsewhere a part is a fixed number of consecutive tokens (`TOKENS`), and sums over parts are taken in the order
of the tokens. torch itself, which computes the linear layers, runs on one thread, because it splits its sums by the
number of threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from layernorm_roles.slices import slices

Result = TypeVar("Result")

TOKENS = 2048
"""Consecutive tokens that one thread computes at a time, where sums are taken over tokens."""

_pool: ThreadPoolExecutor | None = None
_threads = 1


def use(threads: int) -> None:
    """Let the compiled kernels of this process run on so many `threads` from now on, and torch on one."""
    global _pool, _threads
    torch.set_num_threads(1)
    if threads != _threads:
        # In a new thread torch would record for autograd what is computed.
        options = {"initializer": torch.set_grad_enabled, "initargs": (False,)}
        _pool, _threads = ThreadPoolExecutor(threads, **options) if threads > 1 else None, threads


def shares(n: int) -> list[slice]:
    """About equal slices of n positions, one for each thread; only where no sum is taken over positions."""
    return slices(n, -(-n // _threads))


def each(function: Callable[[slice], Result], parts: Iterable[slice]) -> list[Result]:
    """The results of `function` for every slice in `parts`, in the order of `parts`, computed on all threads."""
    return list((_pool.map if _pool else map)(function, parts))
