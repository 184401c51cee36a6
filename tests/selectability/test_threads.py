"""Work on all cores: how many there are, and the order of the results."""

import os
import threading

import pytest

from layernorm_roles.selectability.threads import cores, on_all_cores


@pytest.mark.parametrize("said,expected", [("3", 3), ("0", 7), ("", 7), ("4,2", 7), (" 0 ", 7), (None, 7)])
def test_the_number_of_cores_is_what_was_said_if_that_is_a_number_of_cores(said, expected, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(7), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert cores() == expected


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
