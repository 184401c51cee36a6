"""How tests run `snakemake` beside a SLURM of one node."""

import signal
import subprocess
import time

from checkouts import command

SECONDS = 480
COMMON = ["--cores", "2", "--latency-wait", "20", "--workflow-profile"]
# There is no slurmdbd.
SLURM = ["slurm", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2"]
GENERIC = ["cluster-generic", "--seconds-between-status-checks", "1"]


def submit(checkout, profile, *arguments, watch=lambda: None):
    """What a user's command with a profile prints, with shorter waits; while it runs, `watch` is called."""
    output = checkout.folder / "snakemake.out"
    with output.open("w") as out:
        own = {"cwd": checkout.folder, "env": checkout.environment()}
        process = subprocess.Popen(command(*arguments, *COMMON, *profile), stdout=out, stderr=out, **own)
    end = time.monotonic() + SECONDS
    try:
        while process.poll() is None:
            assert time.monotonic() < end, f"not done in {SECONDS} s:\n{output.read_text()[-4000:]}"
            time.sleep(0.3)
            watch()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # it cancels its jobs
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    text = output.read_text(errors="replace")
    assert process.returncode == 0, text[-6000:]
    return text
