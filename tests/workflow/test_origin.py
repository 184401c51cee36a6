"""Old results never pass as new, and good ones are kept: what they were made from stands in their folder alone."""

import copy
import os
import random
import shutil
import subprocess
import time

import pytest
from checkouts import command, environment

from layernorm_roles import files, variants

NONE = dict.fromkeys((*variants.VARIANTS, *variants.SPLIT_VARIANTS), 0)
D8 = {"sequences": 300, "batch_size": 100, "steps": 4, "schedule_steps": 8, "evaluate_every": 2}
TEXT = {
    "like": "bytes",
    "corpus": {"kind": "files", "paths": ["mine/*.txt"]},
    "long": {"source": None, "shortest": 32, "longest": 32, "contexts": 2},
    "sentences": {"source": None, "shortest": 4, "longest": 128, "contexts": 2},
}
TINY = {"name": "tiny", "device": "cpu", "norms": {"mine": "mine_norm:Mine"}, "text": {"mine": TEXT}}
TINY |= {"majority": {"only": ["d8"], "d8": D8 | {"seeds": NONE | {"layernorm": 1, "mine": 1}}}}
NORM = "from torch import nn\nclass Mine(nn.Module):\n    def __init__(self, dim): super().__init__()\n"
METRICS = "majority_metrics.parquet"
TABLE = f"results/tiny/parquet/{METRICS}"
TARGETS = (TABLE, "results/tiny/data/text/mine/manifest.json")
RUNS = "results/tiny/runs/majority/d8"
OWN = "d_model_8/base_learning_rate_0.001/seed_1000"


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
    """Another clone with a copy of the results, as cp -r makes it: with other times, and without Snakemake's notes."""
    made = copy.copy(finished)
    made.folder = tmp_path / "clone"
    ignored = shutil.ignore_patterns(".snakemake")
    shutil.copytree(finished.folder, made.folder, ignore=ignored, copy_function=shutil.copyfile)
    for number, path in enumerate(sorted((made.folder / "results").rglob("*"), reverse=True)):
        os.utime(path, (1e9 + number, 1e9 + number))
    return made


def again(made, *targets):
    """The number of jobs of each rule that a dry run plans."""
    plan = made.run("--dry-run", *(targets or TARGETS))
    rows = (line.split() for line in plan.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit() and row[0] != "total"}


def test_unchanged_nothing_is_done_with_and_without_the_notes_of_snakemake(finished, copied):
    assert again(finished) == {}
    assert again(copied) == {}
    assert "every file is as it was written" in copied.run("check")


def with_settings(**changes):
    def change(made):
        settings = copy.deepcopy(TINY)
        settings["majority"]["d8"] |= changes.get("d8", {})
        made.configure(settings | {key: value for key, value in changes.items() if key != "d8"})

    return change


def edit(file, old, new):
    def change(made):
        text = (made.folder / file).read_text()
        assert old in text
        times = (made.folder / file).stat()
        (made.folder / file).write_text(text.replace(old, new))
        os.utime(made.folder / file, (times.st_atime, times.st_mtime))  # the time of the change is hidden

    return change


def without_origin(made):
    (made.folder / f"results/tiny/origin/majority/d8/layernorm/{OWN}.json").unlink()


SAMPLING = "src/layernorm_roles/majority/sampling.py"
ALL = {"majority_data": 1, "majority_train": 2, "tables": 1}


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (with_settings(d8={"steps": 5}), {"majority_train": 2, "tables": 1}),
        (with_settings(first_seed=2000), {**ALL, "text": 1}),
        (edit(SAMPLING, "import numpy", "EDITED = 1\nimport numpy"), ALL),
        (edit(SAMPLING, "import numpy", "# nothing new\nimport numpy"), {}),
        (edit("mine_norm.py", "0.5", "0.4"), {"majority_train": 1, "tables": 1}),
        (edit("mine/7.txt", "key", "yek"), {"text": 1}),
        (without_origin, {"majority_train": 1, "tables": 1}),
    ],
)
@pytest.mark.parametrize("notes", [True, False])
def test_what_was_made_from_something_else_is_made_again(finished, copied, change, rules, notes):
    if notes:
        shutil.copytree(finished.folder / ".snakemake", copied.folder / ".snakemake")
    change(copied)
    assert again(copied) == rules


def test_a_plan_with_other_settings_and_back_leaves_no_trace_and_check_tells_what_differs(copied):
    with_settings(d8={"steps": 5})(copied)
    assert again(copied)["majority_train"] == 2
    done = copied.snakemake("check")
    assert done.returncode != 0
    for variant in ("layernorm", "mine"):
        plan = f"plan/majority/d8/{variant}/{OWN}.json"
        assert f"results/tiny/{plan}: differs from its copy in origin/; run again" in done.stdout
    copied.configure(TINY)
    assert again(copied) == {}
    assert "every file is as it was written" in copied.run("check")


def test_more_seeds_keep_the_runs_that_are_there_and_end_with_what_was_planned(copied):
    with_settings(d8={"seeds": NONE | {"layernorm": 2, "mine": 1}})(copied)
    assert again(copied) == {"majority_data": 1, "majority_train": 1, "tables": 1}
    copied.run(*TARGETS)
    assert again(copied) == {}


def test_a_file_of_another_run_is_refused_by_what_it_says_of_itself(copied):
    ours, theirs = (copied.folder / RUNS / each / OWN / METRICS for each in ("layernorm", "mine"))
    for of in (lambda path: path, files.checksum_file):
        shutil.copy(of(theirs), of(ours))
    (copied.folder / TABLE).unlink()
    done = copied.snakemake(TABLE)
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "majority_metrics.parquet: a file of another run (job = 'majority/d8/mine" in done.stdout


def test_while_a_run_goes_on_no_other_plan_takes_its_place(copied):
    with_settings(d8={"steps": 200_000, "schedule_steps": 200_000, "evaluate_every": 1000})(copied)
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    logs = copied.folder / "results/tiny/logs/majority"
    shutil.rmtree(logs)
    running = subprocess.Popen(
        command("--cores", "1", *TARGETS), cwd=copied.folder, env=environment(copied.folder), **pipes
    )
    try:
        while running.poll() is None and not [*logs.rglob("*.log")]:
            time.sleep(0.2)
        assert running.poll() is None
        with_settings(d8={"steps": 5})(copied)
        done = copied.snakemake("--dry-run", *TARGETS)
        assert done.returncode != 0 and "Traceback" not in done.stdout
        assert (
            "results/tiny: another command makes it at this moment, with other settings or code"
            in done.stdout
        )
    finally:
        running.terminate()
        running.wait()
