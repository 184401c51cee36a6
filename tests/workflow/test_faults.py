"""The short form of faults.py: one majority experiment, tiny, and three of the faults."""

import random

import faults
import pytest

from layernorm_roles import planning


@pytest.fixture(scope="module")
def trials(checkout):
    return faults.Trials(checkout(faults.tiny_configuration()).folder, "tiny", (faults.TINY_TARGET,))


@pytest.mark.parametrize(
    "overlay", [faults.configuration(), faults.tiny_configuration()], ids=["all", "tiny"]
)
def test_the_configurations_of_the_long_test_are_usable(overlay):
    planning.configured(faults.ROOT / "config.yaml", overlay)


def test_an_undisturbed_run_does_not_use_the_network(trials):
    assert not trials.network


@pytest.mark.parametrize("kind", ["SIGKILL to Snakemake", "SIGTERM to a job", "checkpoint flipped"])
def test_a_run_ends_with_the_same_results_whatever_happened(trials, kind):
    fault = next(fault for fault in faults.FAULTS if fault.kind == kind)
    outcome = trials.trial(fault, random.Random(kind))
    assert not outcome.different, outcome
    if kind.startswith("SIGKILL"):
        assert outcome.did == ["unlocked"] * outcome.done.locked
