"""Calls a function for many items on all cores, with results that do not depend on the number of cores."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import numpy  # noqa: F401 (its library of linear algebra has to be loaded before it is looked for)
from threadpoolctl import ThreadpoolController

_LIBRARIES = ThreadpoolController()


def cores() -> int:
    """The number of cores that this process may use; a positive number in OMP_NUM_THREADS takes its place."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    if said.isdecimal() and int(said):
        return int(said)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Work:
    """The progress of the current call of `on_all_cores`, in class attributes, where another thread can read it."""

    items = done = 0
    began = 0.0

    @classmethod
    def in_words(cls) -> str:
        """The progress of the current call of `on_all_cores`, such as "3 of 20 parts of this pass, 12 s left"."""
        done, items = cls.done, cls.items
        if not done < items:
            return ""
        left = f", {(time.monotonic() - cls.began) * (items / done - 1):.0f} s left" if done else ""
        return f"{done:,} of {items:,} parts of this pass{left}"


def on_all_cores(call: Callable, items: list) -> Iterator:
    """Yield call(item) for every item of `items`, in their order, computed by threads on all cores."""
    threads = ThreadPoolExecutor(max_workers=cores())
    Work.items, Work.done, Work.began = len(items), 0, time.monotonic()
    try:
        for result in threads.map(call, items):
            Work.done += 1
            yield result
    finally:
        Work.items = 0
        threads.shutdown(cancel_futures=True)


def one_thread_a_product() -> AbstractContextManager:
    """A context manager in which each matrix product of numpy runs on one thread."""
    return _LIBRARIES.limit(limits=1, user_api="blas")
