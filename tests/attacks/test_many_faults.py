"""Kills, damage and full disks at seeded random moments: the command, started again, ends with equal bytes.

One fault of each kind strikes a reproduction of all stages, the others one of a single experiment, which takes seconds.
"""

import os
import random

import faults
import pytest

FAULTS = int(os.environ.get("ATTACK_FAULTS", "20"))
"""How many faults the long form does; 300 for the table."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))


@pytest.mark.long
def test_a_reproduction_ends_with_equal_bytes_whatever_happened(checkout, record_property):
    whole = faults.Trials(checkout(faults.configuration()).folder, "faults")
    tiny = faults.Trials(checkout(faults.tiny_configuration()).folder, "tiny", (faults.TINY_TARGET,))
    tried, wrong = 0, []
    for number, fault in enumerate(faults.chosen(FAULTS, random.Random(SEED))):
        trials = whole if number < len(faults.FAULTS) else tiny
        try:
            outcome = trials.trial(fault, random.Random(f"{SEED} {tried}"))
        except PermissionError:  # a small disk cannot be mounted here
            continue
        print(fault.kind, outcome, flush=True)
        tried += 1
        wrong += [(fault.kind, outcome)] if outcome.different else []
    record_property("tried", tried)
    record_property("held", tried - len(wrong))
    assert not wrong
    assert not whole.network and not tiny.network
