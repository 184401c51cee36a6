"""How a job ends, whatever happens in it, as a process of its own."""

import signal
import subprocess
import sys
import textwrap

PATIENCE = 60  # seconds


def script(block):
    """A program whose job, logged in log.txt, holds a temporary folder called held_... while it runs `block`."""
    lines = ["import sys, tempfile, time, types", "from layernorm_roles import job"]
    lines += ["with job.job(types.SimpleNamespace(log=['log.txt'], input={}, output=[])):"]
    lines += ["    with tempfile.TemporaryDirectory(prefix='held_', dir='.'):"]
    return "\n".join(lines) + "\n" + textwrap.indent(textwrap.dedent(block), 8 * " ")


def ended(block, folder):
    """The finished process of such a program in `folder`, where no temporary folder is left."""
    command = [sys.executable, "-c", script(block)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert not list(folder.glob("held_*"))
    return done


def test_a_job_that_is_done_says_so_in_its_log_alone(tmp_path):
    done = ended("pass", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "log.txt").read_text().endswith(" done\n")


def test_bad_input_fails_in_one_line_whose_details_are_in_the_log(tmp_path):
    done = ended("raise OSError('text.words is 0: expected more')", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "\nerror: text.words is 0: expected more\n(details: log.txt)\n\n"
    log = (tmp_path / "log.txt").read_text()
    assert "Traceback" in log and not log.endswith(" done\n")


def test_memory_that_is_used_up_is_said_in_one_line(tmp_path):
    done = ended("import torch\ntorch.empty(1 << 58)", tmp_path)
    assert done.returncode == 1
    _, line, details, *rest = done.stderr.split("\n")
    assert line.startswith("error: the memory of this machine is used up; run fewer jobs at a time (")
    assert "can't allocate memory" in line and details == "(details: log.txt)" and rest == ["", ""]
    assert "Traceback" in (tmp_path / "log.txt").read_text()


def test_an_unexpected_error_fails_with_its_traceback(tmp_path):
    done = ended("raise KeyError('lost')", tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr and "KeyError: 'lost'" in done.stderr
    log = (tmp_path / "log.txt").read_text()
    assert "KeyError: 'lost'" in log and not log.endswith(" done\n")


WAITS = script("print('ready', flush=True)\ntime.sleep(100)")


def test_sigterm_ends_a_job_that_leaves_nothing_half_written(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            assert list(tmp_path.glob("held_*"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert not list(tmp_path.glob("held_*"))
    assert "ended by SIGTERM" in (tmp_path / "log.txt").read_text()


def test_an_orphan_ends_and_leaves_nothing_half_written(tmp_path):
    """The parent waits until the job runs, and goes; the job keeps its output open, so that its end is seen there."""
    parent = f"""
import os, subprocess, sys
job = subprocess.Popen([sys.executable, "-c", {WAITS!r}], stdout=subprocess.PIPE, stderr=sys.stderr)
assert job.stdout.readline() == b"ready\\n"
assert [name for name in os.listdir() if name.startswith("held_")]
print(job.pid, file=open("pid.txt", "w"))
os._exit(0)
"""
    subprocess.run(
        [sys.executable, "-c", parent], cwd=tmp_path, stderr=subprocess.PIPE, check=True, timeout=PATIENCE
    )
    assert not list(tmp_path.glob("held_*"))
    assert "the process that started this job is gone" in (tmp_path / "log.txt").read_text()
