"""A SLURM whose node or time fails: the command ends with equal results. Minutes, most of them waits of SLURM's own."""

import os
import re
import shutil
import signal
import time
from pathlib import Path

import faults
import one_node
import pytest
from submitting import on_slurm

pytestmark = pytest.mark.long

TARGET = (
    "results/tiny/runs/majority/d8/layernorm/d_model_8/base_learning_rate_0.001/seed_1000/weights.safetensors"
)


def one_run():
    """One training that lasts some seconds and often writes its checkpoint."""
    settings = faults.tiny_configuration()
    settings["majority"]["d8"] |= {"steps": 6000, "evaluate_every": 1000}
    settings["majority"]["d8"]["seeds"]["layernorm"] = 1
    return settings


@pytest.fixture(scope="module")
def slurm():
    if why := one_node.missing():
        pytest.skip(why)
    with one_node.OneNode() as slurm:
        yield slurm


@pytest.fixture(scope="module")
def undisturbed(checkout):
    """A checkout, and the results of an undisturbed run in it without SLURM, in another folder."""
    made = checkout(one_run())
    made.run(TARGET)
    reference = made.folder / "undisturbed"
    shutil.copytree(made.folder / "results/tiny", reference)
    return made, reference


@pytest.fixture
def made(undisturbed):
    """The checkout before its training."""
    made, _ = undisturbed
    for name in ("runs", "origin/majority", "logs", "benchmarks"):
        shutil.rmtree(made.folder / "results/tiny" / name, ignore_errors=True)
    return made


def different(undisturbed):
    made, reference = undisturbed
    return faults.differences(reference, made.folder / "results/tiny")


def struck(made, strike, *arguments):
    """The output of the command, whose training is struck as soon as it has a checkpoint; it must succeed by itself."""
    runs = made.folder / "results/tiny/runs"
    waiting = True
    with on_slurm(made, TARGET, *arguments) as run:
        while run.running():
            if waiting and any(runs.rglob("checkpoint*.safetensors")):
                waiting = False
                strike()
        output = run.finish()
    assert not waiting, "the training was over before it was struck"
    assert "Traceback" not in output
    return output


def latest(slurm, number):
    """The states of the jobs submitted last, and how often SLURM itself started them again."""
    jobs = sorted(slurm.jobs(), key=lambda job: int(job["JobId"]))[-number:]
    return [(job["JobState"], job["Restarts"]) for job in jobs]


@pytest.mark.parametrize("requeued", [True, False], ids=["requeued by SLURM", "submitted again"])
def test_the_node_is_lost(slurm, made, undisturbed, requeued):
    def strike():
        slurm.lose_node()
        time.sleep(3)
        slurm.repair_node()

    output = struck(made, strike, *([] if requeued else ["--slurm-no-requeue"]))
    assert latest(slurm, 1 if requeued else 2) == (
        [("COMPLETED", "1")] if requeued else [("NODE_FAIL", "0"), ("COMPLETED", "0")]
    )
    assert requeued or re.search(r"FAILED .*majority_train", output)
    assert not different(undisturbed)


def test_a_job_that_hangs_reaches_its_time_limit(slurm, made, undisturbed):
    def strike():
        for process in slurm.processes():
            command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            if ".snakemake/scripts" in " ".join(command) and "python" in command[0]:
                os.kill(process, signal.SIGSTOP)

    output = struck(made, strike, "--set-resources", "majority_train:runtime=1 * 2 ** (attempt - 1)")
    assert "DUE TO TIME LIMIT" in output
    (log, *_) = re.findall(r"its log: (\S+/slurm_logs/\S+/\d+\.log)", output)
    assert "Traceback" not in Path(log).read_text()
    assert latest(slurm, 2) == [("TIMEOUT", "0"), ("COMPLETED", "0")]
    assert not different(undisturbed)
