"""Large matrices: leads, where float32 rules most rivals out, certificates, and work on all cores."""

import itertools
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import second_methods as second

from layernorm_roles.selectability import certify
from layernorm_roles.selectability.leads import LARGE, leads
from layernorm_roles.selectability.threads import Work, cores, on_all_cores


def in_float64(keys, queries, causal, bias):
    """Leads and best rivals of one matrix by all scores in float64."""
    n = len(keys)
    scores = queries @ keys.T + bias
    own = scores[np.arange(n), np.arange(n)].copy()
    scores[np.triu_indices(n) if causal else np.diag_indices(n)] = -np.inf
    return own - scores.max(axis=1), scores.argmax(axis=1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n,c", [(100, 3), (LARGE + 500, 1), (LARGE + 500, 7), (LARGE + 500, 64)])
def test_leads_are_those_in_float64(n, c, causal):
    """Entries differ by a hundred orders of magnitude. Half of the keys are asked about; of some of them queries lack.

    A matrix beside this one has all queries. If not causal, each query has a factor of its own for the bias.
    """
    rng = np.random.default_rng([c, causal])
    column = 10.0 ** rng.integers(-150, 100, c)
    keys = rng.standard_normal((n, c)) * rng.lognormal(size=(n, 1)) * column
    queries, bias = rng.standard_normal((n, c)) / column, 3 * rng.standard_normal(n)
    queries[rng.random(n) < 0.1] = 0
    factor = np.ones((n, 1)) if causal else rng.lognormal(size=(n, 1))
    rows = np.r_[0, 1 + np.flatnonzero(rng.random(n - 1) < 0.5)]
    expected, best = (each[rows] for each in in_float64(keys, queries, causal, factor * bias))
    asked = queries.any(axis=1)
    stack, given = np.stack([keys, queries]), np.stack([np.ones(n, bool), asked])
    if not causal:
        stack = np.concatenate([stack, np.stack([factor, factor])], axis=2)
    both, biases = np.stack([-keys, keys]), np.stack([-bias, bias])
    asked = asked[rows]
    lead, rival = (found[1] for found in leads(both, rows, stack[:, rows], given[:, rows], causal, biases))
    np.testing.assert_array_equal(np.isnan(lead), ~asked)
    assert (rival[~asked] == -1).all() and (not (causal and asked[0]) or lead[0] == np.inf)
    asked[0] &= not causal
    np.testing.assert_allclose(lead[asked], expected[asked], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(rival[asked], best[asked])


@pytest.mark.parametrize("gap", [1e-7, 1e-10])
def test_rivals_that_float32_cannot_tell_apart(gap):
    """Each key has a neighbour that differs by less than float32 resolves, but for the last, which are short."""
    rng = np.random.default_rng(0)
    some = rng.standard_normal((LARGE, 16))
    keys = np.concatenate([some, some * (1 + gap * rng.standard_normal((LARGE, 1))), 1e-9 * some[:10]])
    queries = rng.standard_normal(keys.shape)
    _, best = in_float64(keys, queries, False, 0.0)
    _, rival = leads(keys[None], np.arange(len(keys)), queries[None], queries[None].any(axis=2), False)
    np.testing.assert_array_equal(rival[0], best)
    scores = (queries.astype(np.float32) @ keys.T.astype(np.float32)).astype(np.float64)
    np.fill_diagonal(scores, -np.inf)
    assert (scores.argmax(axis=1) != best).mean() > 0.1, "float32 alone is right, too"


def test_a_pool_of_thousands_of_vertices_against_qhull():
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((6000, 4))
    keys *= (1 - 0.02 * rng.random((6000, 1))) / np.linalg.norm(keys, axis=1, keepdims=True)
    certificates = certify(keys)
    certificates.verify(keys)
    numbers = certificates.counts()
    assert numbers["selectable"] > LARGE and numbers["unselectable"] > 500
    second.assert_agree(certificates.verdict, second.qhull(keys))


@pytest.mark.parametrize("d", [12, 20])
def test_close_neighbours_beside_thousands_of_vertices(d):
    """A key that turned up as a vertex in the search for its neighbour is no rival of itself in its own."""
    rng = np.random.default_rng(0)
    some = rng.standard_normal((150, d))
    pairs = np.stack([some, some + 2e-6 * rng.standard_normal(some.shape)], axis=1).reshape(-1, d)
    keys = np.concatenate([rng.standard_normal((3000, d)), pairs])
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    certificates = certify(keys)
    assert certificates.counts()["selectable"] == len(keys)
    own = 1 - np.einsum("ij,ij->i", keys[3000::2], keys[3001::2])
    assert (own < 1000 * certificates.tolerance).all(), "a key's own direction is enough"


def test_the_number_of_cores_changes_no_byte():
    script = """
import hashlib, numpy as np
from layernorm_roles.selectability import certify
rng = np.random.default_rng(0)
for n, d, inside in ((2500, 40, 20), (7000, 6, 4500)):  # several rounds of parts in the second
    found = certify(rng.standard_normal((n, d)) * rng.lognormal(sigma=0.5, size=(n, 1)))
    assert found.counts()["unselectable"] > inside, found
    arrays = (found.code, found.queries, found.margin, found.residual, found.support, found.weights)
    print(*(hashlib.sha256(array.tobytes()).hexdigest() for array in arrays))
"""
    said = set()
    for number in ("1", "5"):
        environment = os.environ | {"OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number}
        said.add(subprocess.check_output([sys.executable, "-c", script], env=environment))
    assert len(said) == 1


@pytest.mark.parametrize("spread,arrays", [(0.0, 4), (0.3, 8)], ids=["nothing to search", "searched"])
def test_memory_grows_with_the_keys_and_not_with_their_pairs(spread, arrays, monkeypatch):
    """Queries as large as the keys, and blocks; for a search the whitened keys, too, twice as large in float64."""
    monkeypatch.setattr("layernorm_roles.selectability.arrays._BLOCK", 1 << 16)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((8_000, 64), np.float32)
    keys *= rng.lognormal(sigma=spread, size=(len(keys), 1)).astype(np.float32)
    certify(keys[:50])  # compiled
    tracemalloc.start()
    try:
        certificates = certify(keys)
        before, most = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        certificates.verify(keys)
        _, verified = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (certificates.counts()["selectable"] == len(keys)) == (spread == 0)
    assert most < arrays * keys.nbytes and verified - before < 2.5 * keys.nbytes


@pytest.mark.parametrize(
    "said,kept_to,counted,expected",
    [(said, 7, 9, 7) for said in ("0", "", "4,2", " 0 ", None)]
    + [("3", 7, 9, 3), (None, None, 9, 9), (None, None, None, 1)],
)
def test_the_number_of_cores_is_what_was_said_or_those_that_the_process_may_use(
    said, kept_to, counted, expected, monkeypatch
):
    """Not every system keeps a process to some of the cores."""
    if kept_to is None:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(kept_to), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: counted)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert cores() == expected


def test_results_come_in_the_order_of_their_items(monkeypatch):
    """The first item is finished last."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    last = threading.Event()
    calls = [lambda: last.wait(60), lambda: 1, lambda: last.set() or 2]
    assert list(on_all_cores(lambda call: call(), calls)) == [True, 1, 2]


def test_progress_is_told_of_the_parts_that_are_done(monkeypatch):
    """By a clock that shows ten seconds more whenever it is read."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    clock = SimpleNamespace(monotonic=itertools.count(0, 10).__next__)
    monkeypatch.setattr("layernorm_roles.selectability.threads.time", clock)
    results = on_all_cores(lambda item: "" if item else Work.in_words(), list(range(4)))
    first, *said = [word for result in results for word in (result, Work.in_words()) if word]
    assert first == "0 of 4 parts of this pass" and Work.in_words() == ""
    assert said == [f"{k} of 4 parts of this pass, {40 - 10 * k} s left" for k in (1, 2, 3)]


def test_no_call_begins_after_an_interrupt(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    begun = []
    results = on_all_cores(lambda item: time.sleep(0.01) or begun.append(item), list(range(1000)))
    next(results)
    results.close()
    assert len(begun) < 1000
