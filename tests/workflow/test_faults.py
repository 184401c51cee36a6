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
    trials.run.clear()


@pytest.fixture(scope="module")
def all_stages(checkout):
    trials = faults.Trials(checkout(faults.configuration()).folder, "faults")
    yield trials
    trials.run.clear()


def test_an_undisturbed_run_does_not_use_the_network(one_experiment):
    assert not one_experiment.network


def struck(trials, fault):
    try:
        outcome = trials.trial(fault, random.Random(f"{SEED} {fault.kind}"))
    except PermissionError:
        pytest.skip("a small disk cannot be mounted here")
    assert not outcome.different, outcome
    return outcome


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.kind, marks=[] if fault.kind == SHORT else [pytest.mark.long])
        for fault in faults.FAULTS
    ],
)
def test_one_experiment_ends_with_the_same_results_whatever_happened(one_experiment, fault):
    outcome = struck(one_experiment, fault)
    if fault.kind == SHORT:
        assert outcome.did == ["unlocked"] * outcome.done.locked


@pytest.mark.long
@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.kind)
def test_all_stages_end_with_the_same_results_whatever_happened(all_stages, fault):
    struck(all_stages, fault)
    assert not all_stages.network
