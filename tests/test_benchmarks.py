"""Benchmarks: every script, at its smallest size, ends well and prints its tables; a step as a graph is a step."""

import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from hand_made import contexts, prepared_text

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Scripts, with the options of their smallest size.
OPTIONS = {
    "gpu.py": "--minutes 1",
    "language_model.py": "--steps 1 --rounds 1",
    "majority.py": "--rounds 1",
    "selectability.py": "--quick",
}

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The folder of two small prepared texts of random tokens."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    for name in ("words", "bytes"):
        (folder / name).mkdir()
        frame = contexts(("long", rng.integers(300, size=16)), ("sentences", rng.integers(300, size=9)))
        prepared_text(folder / name, *(rng.integers(300, size=n) for n in (3000, 500)), frame)
    return folder


def test_every_script_is_run_below():
    assert {file.name for file in BENCHMARKS.glob("*.py")} == {*OPTIONS, "__main__.py"}


@pytest.mark.parametrize("script", OPTIONS)
def test_a_script_ends_well_and_prints_its_tables(script, texts):
    """That for a GPU rehearses on the CPU, where both devices agree and sums are what the kernels compute."""
    options = OPTIONS[script].split() + (["--text", texts] if script == "gpu.py" else [])
    done = subprocess.run([sys.executable, BENCHMARKS / script, *options], capture_output=True, text=True)
    first_rows = re.findall(r"(?m)^\|[-:|]+\|\n(.?)", done.stdout)
    assert done.returncode == 0 and {*first_rows} == {"|"}, done.stdout + done.stderr
    if script == "gpu.py":
        assert {*re.findall(r"differs most, by (\S+) of", done.stdout)} == {"0.0e+00"}
        errors = [float(error) for error in re.findall(r"error (\S+)", done.stdout)]
        assert len(errors) == 4 and max(errors) < 1e-5


def test_steps_of_a_graph_are_those_of_a_training(texts, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import gpu

    changes = gpu.PAPER | {"steps": 12, "warmup": 5}
    run, task = gpu.run_of(Namespace(text=texts), "gpt", "projection", **changes)
    trained = []
    for way in ("graph", "steps"):
        training = gpu.training_of(run, task)
        torch.manual_seed(0)
        step = gpu.Graph(training, 12).step if way == "graph" else training.take_step
        [step() for _ in range(9 if way == "graph" else 12)]
        trained.append([training.loss_sum, *training.model.parameters()])
    for one, other in zip(*trained, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)
