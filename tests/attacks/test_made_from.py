"""Old results never pass as new: what they were made from stands in their folder, whatever Snakemake has forgotten."""

import copy
import os
import random
import shutil

import pytest

from layernorm_roles import files, made_from, variants

NONE = dict.fromkeys((*variants.VARIANTS, *variants.SPLIT_VARIANTS), 0)
D8 = {"sequences": 300, "batch_size": 100, "steps": 4, "schedule_steps": 8, "evaluate_every": 2}
TEXT = {
    "like": "bytes",
    "corpus": {"kind": "files", "paths": ["mine/*.txt"]},
    "long": {"source": None, "shortest": 32, "longest": 32, "contexts": 2},
    "sentences": {"source": None, "shortest": 4, "longest": 128, "contexts": 2},
}
TINY = {"name": "tiny", "device": "cpu", "norms": {"mine": "mine:Mine"}, "text": {"mine": TEXT}}
TINY |= {"majority": {"only": ["d8"], "d8": D8 | {"seeds": NONE | {"layernorm": 1, "mine": 1}}}}
NORM = "from torch import nn\nclass Mine(nn.Module):\n    def __init__(self, dim): super().__init__()\n"
MANIFEST = "results/tiny/data/text/mine/manifest.json"
TARGETS = ("majority", MANIFEST)
SAMPLING = "src/layernorm_roles/majority/sampling.py"
TRAINED = "results/tiny/runs/majority/d8/layernorm/d_model_8/base_learning_rate_0.001/seeds_1000_to_1000"


@pytest.fixture(scope="module")
def finished(checkout):
    """A checkout whose reproduction is finished: the majority task, with a norm and a text of the user's own."""
    made = checkout(TINY)
    (made.folder / "mine.py").write_text(NORM + "    def forward(self, x): return x * 0.5\n")
    (made.folder / "mine").mkdir()
    for number in range(40):
        words = random.Random(number).choices(["norm", "key", "head", "query"], k=60)
        (made.folder / f"mine/{number}.txt").write_text(" ".join(f"The {word} has keys." for word in words))
    made.run(*TARGETS)
    return made


@pytest.fixture
def copied(finished, tmp_path):
    """Another clone with a copy of the results, which keeps the files' times, but without Snakemake's own notes."""
    made = copy.copy(finished)
    made.folder = tmp_path / "clone"
    shutil.copytree(finished.folder, made.folder, ignore=shutil.ignore_patterns(".snakemake"))
    return made


def again(made, *targets):
    """The number of jobs of each rule that a dry run plans."""
    plan = made.run("--dry-run", *(targets or TARGETS))
    rows = (line.split() for line in plan.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit() and row[1] != "0"}


def test_a_copy_is_used_as_it_is_whatever_the_times_of_its_files(copied):
    assert again(copied) == {}
    for number, path in enumerate(sorted(copied.folder.rglob("*"), reverse=True)):
        if path.is_file():
            os.utime(path, (1e9 + number, 1e9 + number))
    assert again(copied) == {}, "content decides"
    assert "every file is as it was written" in copied.run("check")


def with_settings(**changes):
    def change(made):
        settings = copy.deepcopy(TINY)
        settings["majority"]["d8"] |= changes.pop("d8", {})
        made.configure(settings | changes)

    return change


def edit(file, old, new):
    def change(made):
        text = (made.folder / file).read_text()
        assert old in text
        times = (made.folder / file).stat()
        (made.folder / file).write_text(text.replace(old, new))
        os.utime(made.folder / file, (times.st_atime, times.st_mtime))  # the time of the change is hidden

    return change


def foreign(made):
    """Another table of the same kind, with a checksum of its own."""
    table = made.folder / TRAINED / "metrics.parquet"
    shutil.copy(str(table).replace("/layernorm/", "/mine/"), table)
    shutil.copy(str(files.checksum_file(table)).replace("/layernorm/", "/mine/"), files.checksum_file(table))


def without_note(made):
    shutil.rmtree(made.folder / "results/tiny/.made_from/majority_train/d8/layernorm")


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (with_settings(d8={"steps": 5}), {"majority_train": 2, "tables": 1, "draw_majority": 1}),
        (with_settings(first_seed=2000), {"majority_data": 1, "majority_train": 2, "text": 1}),
        (edit(SAMPLING, "import numpy", "EDITED = 1\nimport numpy"), {"majority_data": 1}),
        (edit("mine.py", "0.5", "0.4"), {"majority_train": 1}),
        (edit("mine/7.txt", "key", "yek"), {"text": 1}),
        (foreign, {"majority_train": 1, "tables": 1}),
        (without_note, {"majority_train": 1, "tables": 1}),
    ],
)
def test_what_was_made_from_something_else_is_made_again(copied, change, rules):
    change(copied)
    found = again(copied)
    assert rules.items() <= found.items(), found
    assert {"majority_train", "text"} & {*found} <= {*rules, "majority_train"}
    assert "text" in rules or "text" not in found


def test_check_does_not_praise_a_reproduction_that_nobody_has_made(tmp_path):
    with pytest.raises(ValueError, match="never: nothing is there that a job has made"):
        made_from.check(tmp_path / "never", [])


def test_check_names_what_was_made_from_something_else_and_a_plan_leaves_no_trace(copied):
    with_settings(d8={"steps": 5})(copied)
    table = "results/tiny/parquet/majority_metrics.parquet"
    assert again(copied, table)["majority_train"] == 2
    done = copied.snakemake("check")
    assert done.returncode != 0
    for path in (f"{TRAINED}/weights.safetensors", f"{TRAINED}/metrics.parquet"):
        assert f"{path}: made with other settings or code; run again" in done.stdout
    foreign(copied)
    copied.configure(TINY)
    done = copied.snakemake("check")
    assert f"{TRAINED}/metrics.parquet: made by nobody knows what" in done.stdout
    assert f"{table}: made from other content of its inputs" in done.stdout
    assert "weights.safetensors" not in done.stdout
