"""What of the benchmarks on a GPU shows without one: that they know today's settings, and what a failure does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu

    yield gpu
    del sys.modules["gpu"]


def test_every_model_of_the_papers_preset_has_the_settings_of_one_run(gpu):
    for name in gpu.SETTINGS.language_model:
        settings = gpu.run_settings(name)
        assert isinstance(settings.steps, int) and isinstance(settings.learning_rate, float)


def test_a_step_that_fails_does_not_stop_those_after_it():
    command = [sys.executable, BENCHMARKS / "first_hour.py", "--only", "operators", "attention"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert done.returncode == 1
    rows = done.stdout.partition("| step |")[2]
    assert rows.count("| failed |") == 2 and "| operators |" in rows and "| attention |" in rows
    assert "device = cuda: " in done.stderr
