"""Old results never pass as new, good ones are kept: a job whose plan is not the one that it left is done again."""

import copy
import json
import os
import random
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from checkouts import TINY_RUNS, command, jobs_of, no_runs

TEXT = {
    "like": "bytes",
    "corpus": {"kind": "files", "paths": ["mine/*.txt"]},
    "long": {"source": None, "shortest": 32, "longest": 32, "contexts": 2},
    "sentences": {"source": None, "shortest": 4, "longest": 128, "contexts": 2},
}
TINY = {"name": "tiny", "device": "cpu", "norms": {"mine": "mine_norm:Mine"}, "text": {"mine": TEXT}}
TINY |= {"majority": {"only": ["d8"], "d8": TINY_RUNS | {"seeds": no_runs() | {"layernorm": 1, "mine": 1}}}}
NORM = "from torch import nn\nclass Mine(nn.Module):\n    def __init__(self, dim): super().__init__()\n"
TABLE = "results/tiny/parquet/majority_metrics.parquet"
TARGETS = (TABLE, "results/tiny/data/text/mine/manifest.json")
OWN = "d_model_8/base_learning_rate_0.001/seed_1000"
RUNS_AGAIN = {"majority_train": 2, "tables": 1}


@pytest.fixture(scope="module")
def finished(checkout):
    """A checkout whose reproduction is finished: the majority task, with a norm and a text of the user's own."""
    made = checkout(TINY)
    (made.folder / "mine_norm.py").write_text(NORM + "    def forward(self, x): return x * 0.5\n")
    (made.folder / "mine").mkdir()
    for number in range(40):
        words = random.Random(number).choices(["norm", "key", "head", "query"], k=60)
        (made.folder / f"mine/{number}.txt").write_text(" ".join(f"The {word} has keys." for word in words))
    made.run(*TARGETS)
    return made


@pytest.fixture
def copied(finished, tmp_path):
    """Another clone with the results and Snakemake's notes, as cp -rp makes it."""
    made = copy.copy(finished)
    made.folder = tmp_path / "clone"
    shutil.copytree(finished.folder, made.folder)
    return made


def again(made, *arguments):
    return jobs_of(made.run("--dry-run", *TARGETS, *arguments))


def change(made, **changed):
    settings = copy.deepcopy(TINY)
    settings["majority"]["d8"] |= changed
    made.configure(settings)


def edit(made, file, old, new):
    path = made.folder / file
    text, times = path.read_text(), path.stat()
    assert old in text
    path.write_text(text.replace(old, new))
    os.utime(path, (times.st_atime, times.st_mtime))


def forget(made):
    shutil.rmtree(made.folder / ".snakemake")


SAMPLING, IMPORT = "src/layernorm_roles/majority/data.py", "import numpy"


@pytest.mark.parametrize("notes", [True, False], ids=["with Snakemake's notes", "without"])
def test_what_was_made_from_something_else_is_made_again_and_nothing_more(copied, notes):
    """A norm or text of the user's own, edited; a run whose origin is lost; other code; a comment is nothing new."""
    copied.copy_package()
    if not notes:
        forget(copied)
    edit(copied, SAMPLING, IMPORT, f"# nothing new\n{IMPORT}")
    assert again(copied) == {}
    edit(copied, "mine_norm.py", "0.5", "0.4")
    assert again(copied) == {"majority_train": 1, "tables": 1}
    edit(copied, "mine_norm.py", "0.4", "0.5")
    (copied.folder / f"results/tiny/origin/majority_train/d8/layernorm/{OWN}.json").unlink()
    edit(copied, "mine/7.txt", "key", "yek")
    assert again(copied) == {"majority_train": 1, "tables": 1, "text": 1}
    edit(copied, SAMPLING, IMPORT, f"EDITED = 1\n{IMPORT}")
    assert again(copied) == {"majority_data": 1, **RUNS_AGAIN, "text": 1}


@pytest.mark.parametrize("notes", [True, False], ids=["with Snakemake's notes", "without"])
def test_other_settings_make_again_what_depends_on_them_and_settings_that_are_back_leave_no_trace(
    copied, notes
):
    if not notes:
        forget(copied)
    change(copied, steps=5)
    assert again(copied) == RUNS_AGAIN
    done = copied.snakemake("check")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    for variant in ("layernorm", "mine"):
        job = f"majority_train/d8/{variant}/{OWN}"
        assert f"{job}: made with other settings or code; run again" in done.stdout
    copied.configure(TINY)
    assert again(copied) == {}
    said = copied.run(*TARGETS, "check")
    lines = r".*\n\S+  1 job\n.* code\n.* \d+ of the planned jobs are not done\n\S+  1 job done in \d+ s\n"
    assert re.fullmatch(lines, said), "and nothing else is printed"


def test_more_seeds_keep_the_runs_that_are_there(copied):
    change(copied, seeds=no_runs() | {"layernorm": 2, "mine": 1})
    assert "  3 jobs\n" in copied.run(*TARGETS), "data, a run, and the table"
    assert again(copied) == {}


def test_exchanged_values_of_two_parameters_are_a_change(copied):
    """Snakemake compares the parameters of a job as a set."""
    change(copied, d_ff=TINY_RUNS["steps"], steps=8)  # d_ff was 8
    assert again(copied) == RUNS_AGAIN


def test_touching_never_makes_stale_results_pass(copied):
    change(copied, steps=5)
    copied.run("--touch", *TARGETS)
    assert again(copied) == RUNS_AGAIN
    forget(copied)
    copied.run("--touch", *TARGETS)
    assert again(copied) == RUNS_AGAIN


def test_results_of_another_machine_do_not_pass_by_the_notes_of_this_one(finished, copied, tmp_path):
    """They were made with other settings, and are copied over results and notes of the present ones."""
    other = copy.copy(copied)
    other.folder = tmp_path / "other"
    shutil.copytree(finished.folder, other.folder)
    change(other, steps=5)
    other.run(*TARGETS)
    shutil.rmtree(copied.folder / "results/tiny")
    shutil.copytree(other.folder / "results/tiny", copied.folder / "results/tiny")
    assert again(copied) == RUNS_AGAIN
    change(copied, steps=5)
    copied.run("--touch", *TARGETS)
    assert again(copied) == {}


def test_after_a_copy_without_times_results_are_touched_first(copied):
    for number, path in enumerate(sorted((copied.folder / "results").rglob("*"), reverse=True)):
        os.utime(path, (1e9 + number, 1e9 + number))
    forget(copied)
    copied.run("--touch", *TARGETS)
    assert again(copied) == {}


def test_what_is_edited_while_a_job_runs_does_not_pass(copied):
    """The settings in their file; a norm of the user's own; and what a running command planned is not planned again."""
    long = {"steps": 2000, "schedule_steps": 2000, "checkpoint_every": 2000}
    change(copied, **long)
    place = copied.folder / "results/tiny/logs/majority_train/d8"
    logs = [place / f"{variant}/{OWN}.log" for variant in ("mine", "layernorm")]
    for log in logs:
        log.unlink()
    running = subprocess.Popen(
        command("--cores", "2", *TARGETS),
        cwd=copied.folder,
        env=copied.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while running.poll() is None and not all(map(Path.exists, logs)):
        time.sleep(0.02)
    change(copied, **long, learning_rate=0.002)
    edit(copied, "mine_norm.py", "0.5", "0.4")
    said, _ = running.communicate()
    assert "mine_norm:Mine: edited since the job was planned" in said, said
    change(copied, **long)
    assert again(copied) == {"majority_train": 1, "tables": 1}, "LayerNorm's run is as it was planned"
    left = copied.folder / f"results/tiny/origin/majority_train/d8/layernorm/{OWN}.json"
    assert json.loads(left.read_text())["runs"][0]["base_learning_rate"] == 0.001


def test_a_second_command_waits_for_the_first_by_snakemakes_own_lock(copied):
    (locks := copied.folder / ".snakemake/locks").mkdir(exist_ok=True)
    (locks / "0.output.lock").write_text(f"{TABLE}\n")
    change(copied, steps=5)
    done = copied.snakemake(*TARGETS)
    assert done.returncode != 0 and "--unlock" in done.stdout


def test_a_setting_that_changes_no_number_changes_what_says_so(copied):
    """The number of threads stands in the settings, and so in the plans of all that is judged and drawn."""
    figure = "results/tiny/figures/figure_2b.png"
    copied.run(figure)
    said = copied.run("--dry-run", figure, "--config", "threads_per_training=2")
    assert jobs_of(said) == {"draw_majority": 1}
    copied.run(figure, "--config", "threads_per_training=2")
    assert jobs_of(copied.run("--dry-run", figure, "--config", "threads_per_training=2")) == {}
