"""The short form of faults.py: the majority part of the workflow, tiny, and three of the faults."""

import random
from pathlib import Path

import faults
import pytest
import yaml

FEW = {
    "sequences": 300,
    "batch_size": 100,
    "schedule_steps": 6000,
    "evaluate_every": 500,
    "checkpoint_every": 25,
}
TINY = {
    "name": "tiny",
    "device": "cpu",
    "majority": {
        "only": ["d8", "d3", "d8_uniform"],
        "d8": FEW | {"steps": 3000, "seeds": {"layernorm": 1}},
        "d3": FEW | {"steps": 50, "seeds": {"layernorm": 1}},
        "d8_uniform": FEW | {"steps": 50, "seeds": {"layernorm": 1}},
    },
}
DEFAULT = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text(encoding="utf-8"))
for name in TINY["majority"]["only"]:
    seeds = TINY["majority"][name]["seeds"]
    TINY["majority"][name]["seeds"] = dict.fromkeys(DEFAULT["majority"][name]["seeds"], 0) | seeds
# One table, made of two jobs for each of three experiments.
TARGET = "results/tiny/parquet/majority_metrics.parquet"


@pytest.fixture(scope="module")
def trials(checkout):
    return faults.Trials(checkout(TINY).folder, "tiny", (TARGET,))


def test_an_undisturbed_run_does_not_use_the_network(trials):
    assert not trials.network


@pytest.mark.parametrize("kind", ["SIGKILL to Snakemake", "SIGTERM to a job", "checkpoint flipped"])
def test_a_run_ends_with_the_same_results_whatever_happened(trials, kind):
    fault = next(fault for fault in faults.FAULTS if fault.kind == kind)
    outcome = trials.trial(fault, random.Random(kind))
    assert not outcome.different, outcome
    if kind.startswith("SIGKILL"):
        assert outcome.did == ["unlocked"] * outcome.done.locked
