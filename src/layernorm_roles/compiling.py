"""How CPU kernels are compiled: once for each source and processor, kept in a private cache, and with a notice.

A kernel may be spread over modules: what is kept of it belongs to the text of the module that defines it and of all
modules of this package that it reaches by imports, so that an edit of any of them compiles anew.

numba keeps compiled functions as pickles, which run code when they are read. They lie in a folder that only its owner
can enter, below $NUMBA_CACHE_DIR or ~/.cache/layernorm-roles, and each file ends with the SHA-256 of the rest: one that
is damaged is deleted, and its function compiled again. While one process compiles, others that lack something wait for
it and load what it has compiled.

Every kernel takes `njit` and `cached_njit` from here, because on some processors LLVM has to be told, before numba
compiles anything, to use the widest vectors.
"""

import fcntl
import hashlib
import io
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if re.fullmatch(r"\s*(-\d+|[+]?0+)\s*", os.environ.get("NUMBA_NUM_THREADS", "")):
    os.environ["NUMBA_NUM_THREADS"] = "1"  # numba does not start with less than 1; no kernel uses its threads

import llvmlite.binding
import numba
from numba import njit
from numba.core import caching, event
from numba.core.runtime import rtsys

from layernorm_roles.provenance import reached

__all__ = ["cache_folder", "cached_njit", "compilation_notice", "njit", "processor"]

_DIGEST = hashlib.sha256().digest_size


def _widest_vectors() -> int:
    """Let LLVM use the widest vectors that this processor computes with at full speed; returns their bits.

    LLVM keeps to 256 of 512 bits on all of Intel's processors, because the first of them with AVX-512 lowered their
    clock for it. Those from Ice Lake on, known by AVX-512 VBMI2, hardly do: on Emerald Rapids the majority kernel
    takes 0.7 of the time (2.79 instead of 4.04 ms). A user's own NUMBA_CPU_FEATURES are left as they are.
    """
    features = llvmlite.binding.get_host_cpu_features()
    wide = features.get("avx512vbmi2", False) and bool(numba.config.ENABLE_AVX)
    if wide and numba.config.CPU_FEATURES is None:
        numba.config.CPU_FEATURES = features.flatten() + ",-prefer-256-bit"
    return 512 if wide else 256 if features.get("avx2", False) else 128


_BITS = _widest_vectors()


def processor() -> str:
    """The processor that compiled kernels run on, by LLVM's name of it, and the vectors that they may use."""
    return f"{llvmlite.binding.get_host_cpu_name()} with {_BITS}-bit vectors"


def cached_njit(**options) -> Callable:
    """`numba.njit` with these options and the private cache of this module; like it, a decorator of a function."""

    def decorate(function):
        dispatcher = njit(**options)(function)
        dispatcher._cache = _Cache(function)  # what njit(cache=True) sets, to a cache of another kind
        return dispatcher

    return decorate


def cache_folder(source: str | Path) -> Path:
    """The folder of what is compiled from the Python file `source`, for this user, numba and processor.

    Its name holds a hash of that file and of the modules of this package that it reaches. Of what this module itself
    needs, only this module counts, since compiled code does not call the rest. Comments count: they move lines, by
    which numba tells functions of one name apart.
    """
    source, here = Path(source), Path(__file__)
    files = (reached(source)[0] - reached(here)[0]) | {source, here}
    parts = (
        *(file.read_bytes() for file in sorted(files)),
        numba.__version__.encode(),
        sys.version.encode(),
        llvmlite.binding.get_host_cpu_name().encode(),
        llvmlite.binding.get_host_cpu_features().flatten().encode(),
        str(os.geteuid()).encode(),
    )
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    return _root() / f"{source.stem}_{digest}"


def _root() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "layernorm-roles")
    except RuntimeError:  # a user without a home, as containers have them
        return Path(tempfile.gettempdir(), f"layernorm-roles-{os.geteuid()}")


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


class _Locator(caching._CacheLocator):
    """Where numba keeps the compiled forms of a function: in the private folder of its file's source."""

    def __init__(self, function, file: str):
        self.folder, self.line = cache_folder(file), function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """The folder in which numba keeps the compiled function."""
        return str(self.folder)

    def ensure_cache_path(self) -> None:
        """Make the folder. Raises PermissionError if others may write there."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(self.folder):
            raise PermissionError(f"{self.folder}: others may write there")

    def get_source_stamp(self) -> str:
        """What tells one version of the source from another."""
        return self.folder.name  # another source has another folder

    def get_disambiguator(self) -> str:
        """What tells functions of one name in one file apart: the line where the function begins."""
        return str(self.line)

    @classmethod
    def from_function(cls, function, file: str) -> "_Locator":
        """The place of a function that `file` defines; every function has one."""
        return cls(function, file)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Files(caching.IndexDataCacheFile):
    """numba's files, each with the SHA-256 of its content after it, where `pickle` does not look."""

    def load(self, key):
        """The compiled function called `key`; None if it is not there or damaged."""
        if not self._is_whole(self._index_path):
            return None
        name = self._load_index().get(key)
        return self._load_data(name) if name and self._is_whole(self._data_path(name)) else None

    def save(self, key, data) -> None:
        """Write the compiled function `data` under the name `key`; a damaged index is deleted before."""
        self._is_whole(self._index_path)
        super().save(key, data)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + hashlib.sha256(content.getvalue()).digest())

    @staticmethod
    def _is_whole(path: str) -> bool:
        """Whether the file is there and as it was written; a damaged one is deleted."""
        try:
            content = Path(path).read_bytes()
            if hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]:
                return True
            Path(path).unlink()
        except OSError:
            pass
        return False


class _Turn:
    """The right to compile, which one process of a user has at a time; it may be taken again while it is held.

    The operating system gives it back when the process ends, however it ends.
    """

    def __init__(self):
        self.held, self.lock = 0, None

    def take(self) -> None:
        """Wait until no other process compiles. Where files cannot be locked, several may at once."""
        self.held += 1
        if self.held > 1:
            return
        try:
            _root().mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW  # what others put in its place is not followed
            self.lock = os.open(_root() / f"compiling-{os.geteuid()}.lock", flags, 0o600)
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        except OSError:
            pass

    def give_back(self) -> None:
        """Let the next process compile."""
        self.held -= 1
        if not self.held and self.lock is not None:
            os.close(self.lock)
            self.lock = None


_turn = _Turn()


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function):
        super().__init__(function)
        locator = self._impl.locator
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, locator.get_source_stamp())

    def load_overload(self, sig, target_context):
        """The compiled function for a signature; None if it must be compiled, for which it is this process' turn."""
        found = self._load(sig, target_context)
        if found is None:
            _turn.take()
            found = self._load(sig, target_context)  # another process may have compiled it meanwhile
            if found is not None:
                _turn.give_back()
        return found

    def _load(self, sig, target_context):
        if not _is_private(Path(self._cache_path)):
            return None
        # FunctionCache.load_overload makes numba ready to compile, which takes a third of a second and is not needed.
        rtsys.initialize(target_context)
        return self._load_overload(sig, target_context)

    def save_overload(self, sig, data) -> None:
        """Keep a compiled function, if there is a place for it; if not, the next process compiles again."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            print(f"nothing compiled is kept: {error}", file=sys.stderr, flush=True)
        finally:
            _turn.give_back()


_announced: set[str] = set()


class _Notice(event.Listener):
    def __init__(self, what: str, seconds: int):
        self.what, self.seconds = what, seconds

    def on_start(self, event):
        """Print what is compiled, when numba begins to compile for the first time."""
        if self.what not in _announced:
            print(f"compiling {self.what}, once (about {self.seconds} s)", file=sys.stderr, flush=True)
            _announced.add(self.what)

    def on_end(self, event):
        """Nothing is to be said when numba is done."""


@contextmanager
def compilation_notice(what: str, seconds: int) -> Iterator[None]:
    """Within the block, print one line to standard error when numba compiles because nothing is cached.

    The line says that `what` is compiled and about how many `seconds` that takes. A process prints it once for each
    value of `what`.
    """
    with event.install_listener("numba:compile", _Notice(what, seconds)):
        yield
