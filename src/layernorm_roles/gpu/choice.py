"""Decides, before any job starts, on which device models are trained: what `device: auto` in config.yaml means."""

import os
from typing import NamedTuple

DECIDED = "LAYERNORM_ROLES_AUTO_DEVICE"
"""The environment variable that hands the device chosen for `auto` on to the processes of the workflow's jobs.

Snakemake evaluates the rules again in each of these processes, which may see other GPUs than the first process."""


class Choice(NamedTuple):
    """The device on which models are trained, and why it was chosen."""

    device: str
    """The chosen device by torch's name, "cpu" or "cuda"."""
    why: str
    """The reason for choosing `device` for "auto", as part of a sentence; empty if config.yaml names a device."""


def choose(wanted: str) -> Choice:
    """The device that a value of config.yaml means: "auto", "cpu" or "cuda".

    "auto" means the GPU of this machine if torch finds one, else the CPU; jobs that run on other machines need one of
    the other two. For "cuda" nothing is checked here: a job that then finds no GPU fails with a message.
    """
    if wanted != "auto":
        return Choice(wanted, "")
    if decided := os.environ.get(DECIDED):
        return Choice(decided, "as decided when the workflow was started")
    import torch  # takes a second, which nobody who names a device has to wait

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    why = f"torch {torch.__version__} finds {f'{number} here' if number else 'no GPU here'}"
    return Choice("cuda" if number else "cpu", why)


def hand_down(choice: Choice) -> None:
    """Set an environment variable by which "auto" means the device of `choice` in all processes that this one starts.

    If config.yaml names a device, nothing is set.
    """
    if choice.why:
        os.environ[DECIDED] = choice.device
