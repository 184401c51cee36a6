"""How long do ceilings take? `ceilings` over all queries and over those that LayerNorm allows a head.

    python benchmarks/ceilings.py [--quick]

One process, one thread, processor time. Prints a Markdown table: the time for a key (median of a few repetitions), for
verifying its bounds, and by scipy's SLSQP on 5 of the keys (over LayerNorm's queries); the largest gap between the
logarithms of the bounds; and the share of keys that no query can give half, or a hundredth, of its attention. Keys are
those of a random head, x W_K for LayerNorm's output x of d_model entries.
"""

# ruff: noqa: E402 (the number of threads has to be set before numpy is imported)

import argparse
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import statistics
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from layernorm_roles.selectability.ceilings import Ceilings, QueryEllipsoid, ceilings

SAMPLE = 5  # keys that SLSQP is given
REPEATED = 2.0  # seconds, about, over which a time is measured again and again
GOAL = "The goal is 0.3 ms a key at 256 x 32, over all queries and over LayerNorm's."


def head(n: int, d_model: int, d_head: int) -> tuple[np.ndarray, QueryEllipsoid]:
    """Keys of a random head, and the queries that it can make."""
    rng = np.random.default_rng([n, d_model, d_head])
    x = rng.standard_normal((n, d_model))
    x -= x.mean(axis=1, keepdims=True)
    x /= np.sqrt((x**2).mean(axis=1, keepdims=True))
    w_k, w_q = rng.standard_normal((2, d_head, d_model)) / np.sqrt(d_model)
    return x @ w_k.T, QueryEllipsoid.of_layernorm(w_q, None, np.ones(d_model), None)


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call; of a short one the median of up to 9."""
    times = []
    while not times or (sum(times) < REPEATED and len(times) < 9):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times)


def by_slsqp(keys: np.ndarray, queries: QueryEllipsoid, i: int) -> None:
    """Find key i's best query in the ellipsoid with scipy."""
    offsets = keys - keys[i]

    def value(u):
        scores = offsets @ (queries.centre + queries.axes @ u)
        p = np.exp(scores - scores.max())
        return scores.max() + np.log(p.sum()), p @ offsets @ queries.axes / p.sum()

    minimize(
        value,
        np.zeros(queries.axes.shape[1]),
        jac=True,
        constraints={"type": "ineq", "fun": lambda u: 1 - u @ u, "jac": lambda u: -2 * u},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )


def row(keys: np.ndarray, queries: QueryEllipsoid | None, scipy_time: str) -> str:
    """One row of the table."""
    n, d = keys.shape
    found: list[Ceilings] = []
    own = seconds(lambda: found.append(ceilings(keys, queries)))
    bounds = found[0]
    verification = seconds(lambda: bounds.verify(keys))
    upper = bounds.upper
    return (
        f"| {n} x {d} | {'all' if queries is None else 'LayerNorm'} | {own / n * 1e3:.3f} ms | "
        f"{verification / n * 1e3:.3f} ms | {scipy_time} | {bounds.gap.max():.1e} | "
        f"{(upper <= 0.5).mean():.0%} | {(upper < 0.01).mean():.0%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the small matrices only, a few seconds")
    options = parser.parse_args()

    keys, queries = head(20, 8, 2)
    for allowed in (None, queries):  # compiled before any clock starts
        ceilings(keys, allowed).verify(keys)
    cases = [(1024, 8, 2), (1024, 64, 8), (256, 384, 32)]
    if not options.quick:
        cases += [(1024, 384, 32), (512, 768, 64), (512, 1024, 128)]
    print(GOAL, end="\n\n")
    print("| n x d_head | queries | a key | verified | SLSQP | gap | below 1/2 | below 1/100 |")
    print("|---|---|---|---|---|---|---|---|")
    for n, d_model, d_head in cases:
        keys, queries = head(n, d_model, d_head)
        sample = range(0, n, -(-n // SAMPLE))
        scipy_time = seconds(lambda: [by_slsqp(keys, queries, i) for i in sample]) / len(sample)  # noqa: B023
        print(row(keys, None, ""), row(keys, queries, f"{scipy_time * 1e3:.1f} ms"), sep="\n", flush=True)


if __name__ == "__main__":
    main()
