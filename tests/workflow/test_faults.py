"""A run that is struck by a fault ends, started again by the same command, with the results of an undisturbed one.

A smoke reproduction that is killed is among the tests of test_whole.py.
"""

import random

import faults
import pytest
from checkouts import SEED

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["one_experiment", "all_stages"])
def trials(request, checkout):
    """One majority experiment, tiny; or a reproduction of all stages."""
    if request.param == "all_stages":
        made = faults.Trials(checkout(faults.configuration()), "faults")
    else:
        made = faults.Trials(checkout(faults.tiny_configuration()), "tiny", (faults.TINY_TARGET,))
    yield made
    made.clear()


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_run_ends_with_the_same_results_whatever_happened(trials, fault):
    try:
        trials.trial(faults.FAULTS[fault], random.Random(f"{SEED} {fault}"))
    except PermissionError:
        pytest.skip("a small disk cannot be mounted here")
