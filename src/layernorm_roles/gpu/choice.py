"""The device that trains, by the keys `device` and `majority_device` of config.yaml, while Snakemake plans."""

import os
from typing import NamedTuple

DECIDED = "LAYERNORM_ROLES_AUTO_DEVICE"
"""The environment variable that tells a job's process what `auto` meant where the workflow was started.

Snakemake reads the rules again in the process of every job, which may see other GPUs than the first one."""


class Choice(NamedTuple):
    """The device of training jobs, and why it was chosen."""

    device: str
    """cpu or cuda."""
    why: str
    """Why `auto` stands for `device`, as the end of a sentence; empty if the configuration names cpu or cuda."""


def choose(wanted: str) -> Choice:
    """The device that `wanted`, auto, cpu or cuda, means.

    auto asks torch for a GPU of this machine; for jobs that run on others one names cpu or cuda. cuda is not
    questioned: a job that finds no GPU says so.
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
    """Let `auto` mean the device of `choice` in the processes of all jobs, by an environment variable."""
    if choice.why:
        os.environ[DECIDED] = choice.device
