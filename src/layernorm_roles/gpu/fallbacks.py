"""The ways in which a process computes, and what is done instead where one fails.

A failure is said once, in the log and on the terminal, and is part of what a run's metadata say of its device.
"""

from layernorm_roles.memory import first_line, warn

_taken: dict[str, str] = {}


def give_up(what: str, how: str, error: Exception, instead: str) -> None:
    """Warn that `what` cannot be done in the way `how`, and note that it is done in the way `instead`."""
    warn(f"{what} cannot be done {how} ({first_line(error)}); it is done {instead}", error)
    note(what, instead)


def note(what: str, how: str) -> None:
    """Remember that `what` is done in the way `how`."""
    _taken[what] = how


def taken() -> dict[str, str]:
    """The ways that this process has taken, by what was done."""
    return dict(_taken)
