"""A run that is struck by a fault ends, started again by the same command, with the results of an undisturbed one."""

import os
import random

import faults
import pytest

SEED = os.environ.get("FAULT_SEED", "0")
"""Another seed strikes at other moments."""
SHORT = "SIGKILL to Snakemake"
"""The fault that the short tests try; the long ones try them all, here and on a reproduction of all stages."""


@pytest.fixture(scope="module")
def one_experiment(checkout):
    """One majority experiment, tiny."""
    trials = faults.Trials(checkout(faults.tiny_configuration()).folder, "tiny", (faults.TINY_TARGET,))
    yield trials
    trials.clear()


@pytest.fixture(scope="module")
def all_stages(checkout):
    trials = faults.Trials(checkout(faults.configuration()).folder, "faults")
    yield trials
    trials.clear()


def struck(trials, fault):
    assert not trials.network, "an undisturbed run does not use the network"
    try:
        return trials.trial(faults.FAULTS[fault], random.Random(f"{SEED} {fault}"))
    except PermissionError:
        pytest.skip("a small disk cannot be mounted here")


def test_one_experiment_that_was_killed_ends_with_the_same_results(one_experiment):
    assert set(struck(one_experiment, SHORT)) <= {"unlocked"}


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in faults.FAULTS if fault != SHORT])
def test_one_experiment_ends_with_the_same_results_whatever_happened(one_experiment, fault):
    struck(one_experiment, fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_all_stages_end_with_the_same_results_whatever_happened(all_stages, fault):
    struck(all_stages, fault)
