"""How tests start `snakemake` beside a SLURM of one node, and watch it."""

import signal
import subprocess
import time

from checkouts import command

SECONDS = 480


class Snakemake:
    """One `snakemake` command in a checkout, running beside the test; ended by its process id if the test fails."""

    def __init__(self, checkout, *arguments):
        self.output = checkout.folder / "snakemake.out"
        with self.output.open("w") as out:
            own = {"cwd": checkout.folder, "env": checkout.environment()}
            self.process = subprocess.Popen(command(*arguments), stdout=out, stderr=out, **own)
        self.end = time.monotonic() + SECONDS

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # it cancels its jobs
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def running(self):
        """True until it ends; fails the test if that takes too long."""
        assert time.monotonic() < self.end, f"not done in {SECONDS} s:\n{self.text()[-4000:]}"
        time.sleep(0.3)
        return self.process.poll() is None

    def text(self):
        return self.output.read_text(errors="replace")

    def finish(self):
        while self.running():
            pass
        assert self.process.returncode == 0, self.text()[-6000:]
        return self.text()


def on_slurm(checkout, *arguments):
    """The command that a user of profiles/slurm gives, with shorter waits."""
    every = ["--cores", "2", "--latency-wait", "20"]
    status = ["--slurm-status-command", "squeue"]  # there is no slurmdbd
    poll = ["--slurm-init-seconds-before-status-checks", "2"]
    return Snakemake(checkout, *arguments, "--workflow-profile", "slurm", *every, *status, *poll)


def through_cluster_generic(checkout, *arguments):
    """The command that a user of profiles/cluster-generic gives, with shorter waits."""
    profile = ["--workflow-profile", "cluster-generic", "--cores", "2", "--latency-wait", "20"]
    return Snakemake(checkout, *arguments, *profile, "--seconds-between-status-checks", "1")
