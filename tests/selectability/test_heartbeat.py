"""Lines of progress while code runs that lets no other thread print."""

import ctypes
import re
import subprocess
import sys

import pytest

from layernorm_roles.selectability.heartbeat import duration, heartbeat, line


def hold(milliseconds):
    """Sleep with Python's lock held, as compiled code does."""
    ctypes.PyDLL(None).usleep(1000 * milliseconds)


def test_lines_come_while_the_lock_is_held_and_end_with_the_block(capfd):
    with heartbeat("keys", 100.0, every=0.2):
        hold(1500)
    printed = capfd.readouterr().err
    assert re.match(r"(keys: \d s, about (100|99|98) s left\n)+$", printed)
    hold(500)
    assert capfd.readouterr().err == ""


def test_nothing_is_printed_about_a_short_block(capfd):
    with heartbeat("keys"):
        pass
    assert capfd.readouterr() == ("", "")


def test_an_error_in_the_block_is_raised():
    with pytest.raises(KeyError), heartbeat("keys"):
        raise KeyError


def test_the_lines_end_with_a_process_that_is_killed():
    code = (
        "import os, time; from layernorm_roles.selectability.heartbeat import heartbeat\n"
        "with heartbeat('keys', every=0.1): time.sleep(1); os.kill(os.getpid(), 9)"
    )
    # Returns only when nobody holds standard error any more.
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == -9
    assert done.stderr.splitlines()[0] == "keys: 0 s"


def test_a_machine_without_room_for_a_process_gets_no_lines(monkeypatch, capfd):
    def none_left(*_, **__):
        raise BlockingIOError

    monkeypatch.setattr(subprocess, "Popen", none_left)
    with heartbeat("keys", every=0.1):
        hold(300)
    assert capfd.readouterr().err == ""


def test_the_words_of_a_line():
    assert line("a", 30.4, 0.0) == "a: 30 s"
    assert line("a", 30.0, 100.0) == "a: 30 s, about 70 s left"
    assert line("a", 90.0, 400.0) == "a: 90 s, about 5 min left"
    assert line("a", 100.0, 80.0) == "a: 100 s, longer than the 80 s expected"
    assert duration(119.0) == "119 s" and duration(150.1) == "3 min"
