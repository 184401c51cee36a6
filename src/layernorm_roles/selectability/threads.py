"""All cores for one large matrix, with results that do not depend on how many there are."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import numpy  # noqa: F401 (its library of linear algebra has to be loaded before it is looked for)
from threadpoolctl import ThreadpoolController

_LIBRARIES = ThreadpoolController()


def cores() -> int:
    """The cores that this process may use: as many as OMP_NUM_THREADS says, where it is set."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_all_cores(call: Callable, items: list) -> Iterator:
    """`call` of every item, in their order. Whoever is interrupted waits for no more than what has begun."""
    threads = ThreadPoolExecutor(max_workers=cores())
    try:
        yield from threads.map(call, items)
    finally:
        threads.shutdown(cancel_futures=True)


def one_thread_a_product() -> AbstractContextManager:
    """In the block, numpy's products of matrices keep to the thread that asks for them.

    Their own threads would change how sums are rounded, and slow down the many small ones.
    """
    return _LIBRARIES.limit(limits=1, user_api="blas")
