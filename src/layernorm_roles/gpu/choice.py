"""Decides, before any job starts, on which device models are trained: what `device: auto` in config.yaml means."""

import os
from typing import NamedTuple

DECIDED = "LAYERNORM_ROLES_AUTO_DEVICE"
"""The environment variable with the device chosen for `auto`, for the jobs' processes, which may see other GPUs."""


class Choice(NamedTuple):
    """The device on which models are trained, "cpu" or "cuda", and the reason why it was chosen."""

    device: str
    """The chosen device by torch's name, "cpu" or "cuda"."""
    why: str
    """The reason for choosing `device` for "auto", as part of a sentence; empty if config.yaml names a device."""


def choose(wanted: str) -> Choice:
    """The device on which to train, and the reason for it, for the value `wanted` of `device` in config.yaml.

    `wanted` is "auto", "cpu" or "cuda". "auto" means "cuda" if torch finds a GPU on this machine, else "cpu"; processes
    that this one starts later get the same answer. For "cuda" it is not checked whether there is a GPU.
    """
    if wanted != "auto":
        return Choice(wanted, "")
    if decided := os.environ.get(DECIDED):
        return Choice(decided, "as decided when the workflow was started")
    import torch  # takes a second, which nobody who names a device has to wait

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    why = f"torch {torch.__version__} finds {f'{number} here' if number else 'no GPU here'}"
    os.environ[DECIDED] = "cuda" if number else "cpu"
    return Choice(os.environ[DECIDED], why)
