"""A line every few seconds while compiled code runs, which lets no other thread of its process print.

The lines come from a second process: this file, run as a script. It imports the standard library alone, so that it
starts within milliseconds.
"""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

SECONDS = 10.0
"""Time between two lines."""


@contextlib.contextmanager
def heartbeat(title: str, expected: float | None = None, every: float = SECONDS) -> Iterator[None]:
    """While the block runs, print a line to standard error every so many seconds: `title` and the time spent.

    `expected`, the seconds that the block is thought to take, adds the time left. Nothing is printed about a block
    that ends sooner. The lines end with the block, and with this process however it ends.
    """
    command = [sys.executable, "-I", "-S", __file__, title, str(expected or 0), str(every)]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    except OSError:  # no process can be had; the block matters more
        process = None
    try:
        yield
    finally:
        if process is not None:
            process.communicate()  # closes its standard input, which ends it


def line(title: str, spent: float, expected: float) -> str:
    """One line of progress after `spent` seconds of a task that was expected to take `expected` (0: unknown)."""
    if not expected:
        return f"{title}: {duration(spent)}"
    if spent >= expected:
        return f"{title}: {duration(spent)}, longer than the {duration(expected)} expected"
    return f"{title}: {duration(spent)}, about {duration(expected - spent)} left"


def duration(seconds: float) -> str:
    """Seconds below two minutes, and minutes above."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _beat(title: str, expected: float, every: float) -> None:
    """Print lines until standard input ends."""
    began = time.monotonic()
    # Ctrl-C reaches every process of the terminal; this one ends with the one that started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reader = threading.Thread(target=sys.stdin.read, daemon=True)
    reader.start()
    while reader.join(every) or reader.is_alive():
        print(line(title, time.monotonic() - began, expected), file=sys.stderr, flush=True)


if __name__ == "__main__":
    _beat(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
