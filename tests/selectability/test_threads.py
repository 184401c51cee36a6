"""Work on all cores: how many there are, the order of the results, and what an interrupted caller waits for."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from layernorm_roles.selectability.threads import Work, cores, on_all_cores


@pytest.mark.parametrize("said,expected", [("3", 3), ("1", 1), ("0", None), ("", None), ("4,2", None)])
def test_the_number_of_cores_is_what_was_said_if_that_is_a_number_of_cores(said, expected, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(7), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert cores() == (expected or 7)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert cores() == 7
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert list(on_all_cores(abs, [-5, 4])) == [5, 4]


def test_another_thread_can_tell_how_far_the_work_is(monkeypatch):
    clock = iter([100.0, 110.0])
    monkeypatch.setattr("layernorm_roles.selectability.threads.time.monotonic", lambda: next(clock))
    assert Work.in_words() == ""
    results = on_all_cores(abs, [-1, -2, -3, -4])
    next(results)
    assert Work.in_words() == "1 of 4 parts of this pass, 30 s left"
    assert [*results] == [2, 3, 4] and Work.in_words() == ""


def test_results_come_in_the_order_of_their_items(monkeypatch):
    """The first item is finished last."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    others = threading.Semaphore(0)

    def call(item):
        if item == 0:
            assert all(others.acquire(timeout=60) for _ in range(9))
        else:
            others.release()
        return item

    assert list(on_all_cores(call, list(range(10)))) == list(range(10))


def test_who_is_interrupted_waits_for_no_more_than_what_has_begun(monkeypatch):
    """All items but the first are held back until the executor has been told to end."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    told, began = threading.Event(), []

    def shutdown(self, wait=True, *, cancel_futures=False, really=ThreadPoolExecutor.shutdown):
        really(self, wait=False, cancel_futures=cancel_futures)
        told.set()
        really(self, wait=wait)

    def call(item):
        began.append(item)
        assert item == 0 or told.wait(60)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
    results = on_all_cores(call, list(range(100)))
    next(results)
    results.close()
    assert len(began) <= 2
