"""The ways in which a process computes, which are part of what a run's metadata say of its device."""

_taken: dict[str, str] = {}


def note(what: str, how: str) -> None:
    """Remember that `what` is done in the way `how`."""
    _taken[what] = how


def taken() -> dict[str, str]:
    """The ways that this process has taken, by what was done."""
    return dict(_taken)
