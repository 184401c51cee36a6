"""Benchmarks: every script, at its smallest size, ends well and prints its tables."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from layernorm_roles.gpu import device

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Scripts, with the options of their smallest size.
ON_CPU = {
    "language_model.py": "--steps 1 --rounds 1",
    "majority.py": "--rounds 1",
    "overhead.py": "--runs 2 --steps 4 --runs-per-job 1",
    "selectability.py": "--quick",
}
ON_GPU = {
    "first_hour.py": "--only speed attention",
    "gpu.py": "--steps 1 --together 1 --only gpt_bytes/layernorm",
}
NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]

pytestmark = pytest.mark.long


def test_every_script_is_run_below():
    assert {file.name for file in BENCHMARKS.glob("*.py")} == {*ON_CPU, *ON_GPU, "__main__.py"}


@pytest.mark.parametrize("script", [*ON_CPU, *(pytest.param(script, marks=NEEDS_GPU) for script in ON_GPU)])
def test_a_script_ends_well_and_prints_its_tables(script):
    command = [sys.executable, BENCHMARKS / script, *(ON_CPU | ON_GPU)[script].split()]
    done = subprocess.run(command, capture_output=True, text=True)
    first_rows = re.findall(r"(?m)^\|[-:|]+\|\n(.?)", done.stdout)
    assert done.returncode == 0 and {*first_rows} == {"|"}, done.stdout + done.stderr


def test_the_scripts_for_a_gpu_call_what_there_is(monkeypatch):
    """On the CPU in its place: a training, and a norm that the preset defines."""

    class InItsPlace(device.Device):
        def compare(self, derivatives, title):
            derivatives(self.name)

    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(device, "open_device", lambda *_: InItsPlace())
    import gpu

    gpu.measure("gpt_bytes/layernorm", 1)
    gpu.trainer("gpt_paper_rate", "layernorm_03")[-1]()
