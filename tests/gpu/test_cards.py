"""Jobs spread over the GPUs of a machine, and let go of them however they end."""

import os
import signal
import subprocess
import sys

from layernorm_roles.gpu.driver import Card

PROGRAM = """
import sys, time
from pathlib import Path
from layernorm_roles.gpu import cards
from layernorm_roles.gpu.driver import Card
print(cards.take([Card(i, "card", (9, 0), f"id{i}") for i in range(2)], Path(sys.argv[1])).index, flush=True)
time.sleep(60)
"""


def job(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
    )
    return process, int(process.stdout.readline())


def test_jobs_take_the_card_with_the_fewest_jobs(tmp_path):
    running = [job(tmp_path) for _ in range(5)]
    try:
        assert [card for _, card in running] == [0, 1, 0, 1, 0]
        os.kill(running[1][0].pid, signal.SIGKILL)
        running[1][0].wait()
        running.append(job(tmp_path))
        assert running[-1][1] == 1
    finally:
        for process, _ in running:
            process.kill()
            process.wait()


def test_a_card_is_taken_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    from layernorm_roles.gpu import cards

    monkeypatch.setattr(cards.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cards, "_held", [])
    card = Card(0, "card", (9, 0), "id0")
    assert cards.take([card]) is card
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
