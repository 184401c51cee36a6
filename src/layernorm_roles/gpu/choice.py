"""What `device: auto` of config.yaml means, decided before any job starts."""

import os
from typing import NamedTuple

DECIDED = "LAYERNORM_ROLES_AUTO_DEVICE"
"""The environment variable with the device chosen for `auto`, for the jobs' processes, which may see other GPUs."""


class Choice(NamedTuple):
    """The device on which models train, and the reason for it."""

    device: str
    """torch's name of the device, cpu or cuda."""
    why: str
    """The reason for choosing `device` for "auto", as part of a sentence; empty if config.yaml names a device."""


def choose(wanted: str) -> Choice:
    """The device for the value `wanted` of `device` in config.yaml; "auto" is the GPU that torch finds here, if any."""
    if wanted != "auto":
        return Choice(wanted, "")
    if decided := os.environ.get(DECIDED):
        return Choice(decided, "as decided when the workflow was started")
    import torch  # takes a second, which nobody who names a device has to wait

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    os.environ[DECIDED] = "cuda" if number else "cpu"
    why = f"torch {torch.__version__} finds {number or 'no GPU'} here"
    return Choice(os.environ[DECIDED], why)
