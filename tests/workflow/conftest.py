"""Checkouts of the workflow, and one whole small reproduction, which runs beside the tests from their start."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from checkouts import ROOT, SMOKE, Checkout, command, environment

STARTED = pytest.StashKey[tuple[Checkout, subprocess.Popen]]()


def pytest_collection_finish(session):
    """Start the reproduction if a test is going to look at it."""
    if session.config.option.collectonly or not any(
        "smoke" in getattr(item, "fixturenames", ()) for item in session.items
    ):
        return
    made = Checkout(Path(tempfile.mkdtemp(prefix="smoke_")), SMOKE)
    with (made.folder / "printed.txt").open("w") as output:
        own = {"cwd": made.folder, "env": environment(made.folder), "start_new_session": True}
        process = subprocess.Popen(command("--cores", "2"), stdout=output, stderr=subprocess.STDOUT, **own)
    session.config.stash[STARTED] = made, process


def pytest_sessionfinish(session):
    if STARTED in session.config.stash:
        made, process = session.config.stash[STARTED]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def smoke(request):
    """A checkout in which the smoke preset, with a norm of one's own, has run; `printed` is what it printed."""
    made, process = request.config.stash[STARTED]
    code = process.wait()
    made.printed = (made.folder / "printed.txt").read_text()
    assert code == 0, made.printed[-4000:]
    shutil.copytree(ROOT / "results/published", made.folder / "results/published", dirs_exist_ok=True)
    return made
