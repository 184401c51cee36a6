"""Which device trains, for the keys `device` and `majority_device` of config.yaml, as Snakemake plans."""

import os
from typing import NamedTuple

from layernorm_roles.gpu import driver

DECIDED = "LAYERNORM_ROLES_AUTO_DEVICE"
"""The environment variable that tells a job's process what `auto` meant where the workflow was started.

Snakemake reads the rules again in the process of every job, which may see other GPUs than the first one."""


class Choice(NamedTuple):
    """The device of training jobs."""

    device: str
    """cpu or cuda."""
    why: str
    """Why `auto` stands for `device`, as the end of a sentence; empty if the configuration names cpu or cuda."""


def choose(wanted: str, elsewhere: bool = False) -> Choice:
    """The device that `wanted`, auto, cpu or cuda, means; `elsewhere` says that jobs run on other machines.

    auto takes the GPU if driver, card and torch's build fit each other, and the CPU for jobs that run elsewhere. cuda
    is not questioned here: `driver.usable_cards` refuses it before the first job, or where the job runs.
    """
    if wanted != "auto":
        return Choice(wanted, "")
    if decided := os.environ.get(DECIDED):
        return Choice(decided, "as decided when the workflow was started")
    if elsewhere:
        why = "jobs run on other machines, and this one cannot see their GPUs; device: cuda asks for them"
        return Choice("cpu", why)
    try:
        cards = driver.usable_cards()
    except driver.NoGPU as fault:
        return Choice("cpu", str(fault))
    names = ", ".join(sorted({card.name for card in cards}))
    return Choice("cuda", f"{len(cards)} can be used: {names}")


def hand_down(choice: Choice) -> None:
    """Let the processes of jobs mean by `auto` what `choice` says."""
    if choice.why:
        os.environ[DECIDED] = choice.device
