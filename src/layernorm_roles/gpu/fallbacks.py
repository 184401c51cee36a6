"""Ways of computing that are tried once, and what is done instead where they fail.

A failure is said once, in the log and on the terminal, and is part of what a run's metadata say of its device.
"""

import logging
import sys
from collections.abc import Callable

log = logging.getLogger("layernorm_roles")

_taken: dict[str, str] = {}


def try_once(what: str, how: str, trial: Callable[[], object], instead: str) -> bool:
    """Whether `what` can be done in the way `how`: whether `trial`, which does it on a small scale, raises nothing.

    Where it fails, a warning says what is done `instead`. Memory that is used up is no failure of the way, and raised
    again.
    """
    import torch

    try:
        trial()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # compilers, linkers and drivers fail in ways of their own
        give_up(what, how, error, instead)
        return False
    note(what, how)
    return True


def give_up(what: str, how: str, error: Exception, instead: str) -> None:
    """Warn that `what` cannot be done in the way `how`, and note that it is done in the way `instead`."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = f"warning: {what} cannot be done {how} ({lines[0]}); it is done {instead}"
    log.warning(line, exc_info=error)
    print(line, file=sys.stderr, flush=True)
    note(what, instead)


def note(what: str, how: str) -> None:
    """Remember that `what` is done in the way `how`."""
    _taken[what] = how


def taken() -> dict[str, str]:
    """The ways that this process has taken, by what was done."""
    return dict(_taken)
