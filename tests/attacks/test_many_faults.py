"""Kills, damage and full disks at seeded random moments: the command, started again, ends with equal bytes."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import faults
import pytest

FAULTS = int(os.environ.get("ATTACK_FAULTS", "20"))
"""How many faults strike the short reproduction, at first one of each kind."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))
JOBS = int(os.environ.get("ATTACK_JOBS", "1"))
"""Short reproductions that are struck side by side, in folders of their own."""

pytestmark = pytest.mark.long


def test_of_all_stages(checkout):
    """A fault of each kind strikes a reproduction of all stages, which takes minutes."""
    kinds = faults.chosen(len(faults.FAULTS), random.Random(SEED))
    _judge([_strike(checkout(faults.configuration()).folder, "faults", (), enumerate(kinds))])


def test_of_one_experiment(checkout):
    """Many strike a reproduction of one experiment, which takes seconds."""
    numbered = list(enumerate(faults.chosen(FAULTS, random.Random(SEED))))
    folders = [checkout(faults.tiny_configuration()).folder for _ in range(JOBS)]
    with ThreadPoolExecutor(JOBS) as pool:
        strikes = [
            pool.submit(_strike, folder, "tiny", (faults.TINY_TARGET,), numbered[job::JOBS])
            for job, folder in enumerate(folders)
        ]
        _judge([strike.result() for strike in strikes])


def _strike(folder, name, targets, numbered):
    """What an undisturbed reproduction wanted from the network; and of each fault its kind and what differed then."""
    trials, found = faults.Trials(folder, name, targets), []
    for number, fault in numbered:
        try:
            outcome = trials.trial(fault, random.Random(f"{SEED} {number}"))
        except PermissionError:  # a small disk cannot be mounted here
            continue
        except AssertionError as refusal:  # it was not done, or said what it should not
            print(number, fault.kind, refusal, flush=True)
            found.append((fault.kind, str(refusal)))
            continue
        print(number, fault.kind, outcome, flush=True)
        found.append((fault.kind, outcome.different))
    trials.run.clear()
    return trials.network, found


def _judge(struck):
    wrong = [(kind, what) for _, found in struck for kind, what in found if what]
    assert not wrong
    assert not any(network for network, _ in struck)
