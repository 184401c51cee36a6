"""Kills, damage and full disks at seeded random moments: the command, started again, ends with equal bytes.

One fault of each kind strikes a reproduction of all stages, the others one of a single experiment, which takes seconds.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import faults
import pytest

FAULTS = int(os.environ.get("ATTACK_FAULTS", "20"))
"""How many faults the long form does; 300 for the table."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))
JOBS = int(os.environ.get("ATTACK_JOBS", "1"))
"""Reproductions that are struck side by side, in folders of their own."""


@pytest.mark.long
def test_a_reproduction_ends_with_equal_bytes_whatever_happened(checkout, record_property):
    numbered = list(enumerate(faults.chosen(FAULTS, random.Random(SEED))))
    whole, tiny = numbered[: len(faults.FAULTS)], numbered[len(faults.FAULTS) :]
    shares = [("faults", faults.configuration(), (), whole)]
    for job in range(others := max(1, JOBS - 1)):
        shares.append(("tiny", faults.tiny_configuration(), (faults.TINY_TARGET,), tiny[job::others]))
    prepared = [(checkout(settings).folder, name, targets, part) for name, settings, targets, part in shares]
    with ThreadPoolExecutor(JOBS) as pool:
        struck = list(pool.map(lambda share: _strike(*share), prepared))
    outcomes = [each for _, part in struck for each in part]
    wrong = [(kind, what) for kind, what in outcomes if what]
    record_property("tried", len(outcomes))
    record_property("held", len(outcomes) - len(wrong))
    assert not wrong
    assert not any(network for network, _ in struck)


def _strike(folder, name, targets, numbered):
    """What an undisturbed reproduction wanted from the network; and of each fault its kind and what differed then."""
    if not numbered:
        return [], []
    trials, found = faults.Trials(folder, name, targets), []
    for number, fault in numbered:
        try:
            outcome = trials.trial(fault, random.Random(f"{SEED} {number}"))
        except PermissionError:  # a small disk cannot be mounted here
            continue
        except AssertionError as refusal:  # it was not done, or said what it should not
            found.append((fault.kind, str(refusal)))
            continue
        print(number, fault.kind, outcome, flush=True)
        found.append((fault.kind, outcome.different))
    trials.run.clear()
    return trials.network, found
