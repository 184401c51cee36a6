"""The notice that numba compiles a CPU kernel, which all compiled kernels share."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core import event

_announced: set[str] = set()


class _Notice(event.Listener):
    def __init__(self, what: str, seconds: int):
        self.what, self.seconds = what, seconds

    def on_start(self, event):
        """Print the line, at the first compilation."""
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
