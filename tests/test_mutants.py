"""Mistakes put into the code on purpose are noticed: every one of the list still applies, and ten are tried."""

import subprocess
import sys
from dataclasses import replace

import pytest
from mutants import machine

MUTANTS = machine.read()


def test_every_mutant_applies_and_its_tests_are_there():
    machine.check(MUTANTS)


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"old": "a text that stands nowhere"}, "old stands 0 times"),
        ({"old": "e"}, r"old stands \d+ times"),
        ({"file": "src/nowhere.py"}, "nowhere.py"),
        ({"tests": ("tests/test_nowhere.py",)}, "there is no test tests/test_nowhere.py"),
        (
            {"tests": ("tests/test_norms.py::test_nothing",)},
            "there is no test tests/test_norms.py::test_nothing",
        ),
    ],
)
def test_a_mutant_that_no_longer_fits_the_code_is_named(spoilt, said):
    with pytest.raises(ValueError, match=said):
        machine.check([replace(MUTANTS[0], **spoilt)])


def test_the_sample_is_that_of_the_commit():
    names = [[mutant.name for mutant in machine.chosen(MUTANTS, 10, seed)] for seed in ("a", "a", "b")]
    assert names[0] == names[1] != names[2]
    assert len(set(names[0])) == 10


def test_ten_mutants_chosen_by_the_commit_are_noticed():
    command = [sys.executable, str(machine.HERE), "--sample", "10", "--jobs", "2"]
    done = subprocess.run(command, cwd=machine.ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
