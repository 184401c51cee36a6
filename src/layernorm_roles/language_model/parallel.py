"""Several cores for one training: the compiled kernels compute the parts of a batch side by side.

How many threads there are changes no result. A part is the work of one thread from beginning to end, parts are the
heads of attention, or are cut where a fixed number of tokens ends; and what sums over parts adds them in their order.
torch itself is kept to one thread, because its sums are cut by the number of its threads.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Result = TypeVar("Result")

TOKENS = 2048
"""Tokens of a part, where parts are cut by tokens."""

_pool: ThreadPoolExecutor | None = None
_threads = 1


def use(threads: int) -> None:
    """Let the kernels of this process run on so many threads from now on, and torch on one."""
    global _pool, _threads
    torch.set_num_threads(1)
    if threads != _threads:
        # In a new thread torch would record for autograd what is computed.
        options = {"initializer": torch.set_grad_enabled, "initargs": (False,)}
        _pool, _threads = ThreadPoolExecutor(threads, **options) if threads > 1 else None, threads


def slices(n: int, length: int) -> list[slice]:
    """The slices of `length`, the last one perhaps shorter, that cover n positions."""
    return [slice(start, min(start + length, n)) for start in range(0, n, length)]


def shares(n: int) -> list[slice]:
    """About equal slices of n positions, one for each thread. Only for parts that have nothing to add up."""
    return slices(n, -(-n // _threads))


def each(function: Callable[[slice], Result], parts: Iterable[slice]) -> list[Result]:
    """The results of `function` for every part, in their order."""
    return list((_pool.map if _pool else map)(function, parts))
