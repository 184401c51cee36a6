"""What of the benchmarks on a GPU shows without one: that they know today's settings, and what a failure does."""

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_step_that_fails_does_not_stop_those_after_it():
    command = [sys.executable, BENCHMARKS / "first_hour.py", "--only", "operators", "attention"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert done.returncode == 1
    rows = done.stdout.partition("| step |")[2]
    assert rows.count("| failed |") == 2 and "| operators |" in rows and "| attention |" in rows
    assert "device = cuda: " in done.stderr
