"""Compiles functions for the CPU by numba and caches them on disk for one version of all sources and one processor.

The cache is a folder in layernorm-roles/ below $NUMBA_CACHE_DIR, $XDG_CACHE_HOME or ~/.cache. numba would not see that
a function or constant used by a compiled function has changed, so the folder's name is a hash of the sources of all
compiled functions (kernels) and of all else that they depend on. Kernels take `njit` and `cached_njit` from here, since
LLVM has to be told, before anything is compiled, to use the widest vectors.
"""

import hashlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path

if re.fullmatch(r"\s*(-\d+|[+]?0+)\s*", os.environ.get("NUMBA_NUM_THREADS", "")):
    os.environ["NUMBA_NUM_THREADS"] = "1"  # numba does not start with less than 1; no kernel uses its threads

import llvmlite.binding
import numba
from numba import njit
from numba.core import event

__all__ = ["IN_ONE", "cached_njit", "compilation_notice", "kernel_sources", "njit", "processor"]

IN_ONE = {"error_model": "numpy", "forceinline": True}
"""Options of numba's njit that inline a function into its callers. Otherwise the process that compiles would run
another copy of it, with other roundings, than a process that loads the caller from numba's cache."""

KERNELS = (
    "compiling.py",
    "elementary.py",
    "majority/kernel/*.py",
    "majority/parameters.py",
    "language_model/kernels/*.py",
    "selectability/*.py",
    "slices.py",
)
"""Patterns of the files of this package that compiled code comes from, or takes types and constants from."""


def _widest_vectors() -> int:
    """Let LLVM use the widest vectors that this processor computes with at full speed, and return their width in bits.

    LLVM itself keeps to 256 of 512 bits on Intel's processors. From Ice Lake on (AVX-512 VBMI2) 512 are faster: the
    majority kernel takes 2.79 instead of 4.04 ms on Emerald Rapids. NUMBA_CPU_FEATURES, where set, stays as it is.
    """
    features = llvmlite.binding.get_host_cpu_features()
    wide = features.get("avx512vbmi2", False) and bool(numba.config.ENABLE_AVX)
    if wide and numba.config.CPU_FEATURES is None:
        numba.config.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"
    return 512 if wide else 256 if features.get("avx2", False) else 128


_BITS = _widest_vectors()


def processor() -> str:
    """LLVM's name for the processor and the width of its vectors, such as "znver3 with 256-bit vectors"."""
    return f"{llvmlite.binding.get_host_cpu_name()} with {_BITS}-bit vectors"


def kernel_sources() -> list[Path]:
    """The sorted paths of this package's files that numba compiles or takes types and constants from."""
    package = Path(__file__).parent
    return sorted(path for pattern in KERNELS for path in package.glob(pattern))


@lru_cache
def _cache_folder() -> Path | None:
    """The cache folder of compiled functions, made if missing; None if that fails or other users may write into it."""
    parts = (
        *(path.read_bytes() for path in kernel_sources()),
        numba.__version__.encode(),
        llvmlite.binding.get_host_cpu_name().encode(),
        llvmlite.binding.get_host_cpu_features().flatten().encode(),
        str(numba.config.CPU_FEATURES).encode(),
    )
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    try:
        root = numba.config.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        folder = Path(root, "layernorm-roles", digest)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # numba reads pickles there, which run code.
        if folder.stat().st_uid != os.geteuid() or folder.stat().st_mode & 0o022:
            raise PermissionError(f"others may write into {folder}")
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home, as containers have them
        print(f"nothing compiled is kept: {error}", file=sys.stderr, flush=True)
        return None
    return folder


def cached_njit(**options) -> Callable:
    """Return a decorator like `numba.njit(**options)` that also keeps the compiled function on disk for later use.

    Use it only for functions that are called from Python and raise no exception. If a call raises one, the stored code
    is taken to be faulty: it is deleted, and the function is compiled and called again.
    """

    def decorate(function):
        compiled = njit(**options)(function)
        if not (folder := _cache_folder()):
            return compiled
        usual = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = str(folder)  # which numba reads in the next line
        cached = njit(cache=True, **options)(function)
        numba.config.CACHE_DIR = usual
        failed = threading.Event()

        @wraps(function)
        def call(*arguments):
            if not failed.is_set():
                try:
                    return cached(*arguments)
                except Exception as error:
                    print(f"compiled again, as the cache fails: {error!r}", file=sys.stderr, flush=True)
                    failed.set()
                    for path in folder.rglob("*.nb?"):
                        path.unlink(missing_ok=True)
            return compiled(*arguments)

        return call

    return decorate


_announced: set[str] = set()


class _Notice(event.Listener):
    def __init__(self, what: str, seconds: int):
        self.what, self.seconds = what, seconds

    def on_start(self, event):
        """Print what numba begins to compile and about how long it takes, once in a process."""
        if self.what not in _announced:
            print(f"compiling {self.what}, once (about {self.seconds} s)", file=sys.stderr, flush=True)
            _announced.add(self.what)

    def on_end(self, event):
        """Do nothing when numba has finished compiling; `event.Listener` requires this method."""


@contextmanager
def compilation_notice(what: str, seconds: int) -> Iterator[None]:
    """A context manager that announces the compilation of `what` by numba, and that it takes about `seconds`."""
    with event.install_listener("numba:compile", _Notice(what, seconds)):
        yield
