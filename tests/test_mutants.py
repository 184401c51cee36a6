"""Mistakes put into the code on purpose are noticed: each has its place; the long tests try three.

`python tests/mutants --jobs 2` tries all.
"""

import subprocess
import sys
from dataclasses import replace

import pytest
from mutants import machine

MUTANTS = machine.read()


def test_every_mistake_has_one_place_and_tests():
    machine.check(MUTANTS)


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"old": "a text that stands nowhere"}, "stands 0 times .no file.; expected 1"),
        ({"where": "nowhere"}, "In what is called nowhere"),
        ({"old": "e"}, r"stands \d+ times"),
        ({"tests": ("tests/test_nowhere.py",)}, "there are no tests tests/test_nowhere.py"),
    ],
)
def test_a_mistake_that_no_longer_fits_the_code_is_named(spoilt, said):
    with pytest.raises(ValueError, match=said):
        machine.check([replace(MUTANTS[0], **spoilt)])


@pytest.mark.long
def test_three_mistakes_chosen_by_the_commit_are_noticed():
    command = [sys.executable, str(machine.HERE), "--sample", "3", "--jobs", "2"]
    done = subprocess.run(command, cwd=machine.ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
