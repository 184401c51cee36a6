"""Old results never pass as new, and good ones are kept: what they were made from stands in their folder alone."""

import copy
import os
import random
import re
import shutil

import pytest
from checkouts import TINY_RUNS, jobs_of, no_runs

TEXT = {
    "like": "bytes",
    "corpus": {"kind": "files", "paths": ["mine/*.txt"]},
    "long": {"source": None, "shortest": 32, "longest": 32, "contexts": 2},
    "sentences": {"source": None, "shortest": 4, "longest": 128, "contexts": 2},
}
TINY = {"name": "tiny", "device": "cpu", "norms": {"mine": "mine_norm:Mine"}, "text": {"mine": TEXT}}
TINY |= {"majority": {"only": ["d8"], "d8": TINY_RUNS | {"seeds": no_runs() | {"layernorm": 1, "mine": 1}}}}
NORM = "from torch import nn\nclass Mine(nn.Module):\n    def __init__(self, dim): super().__init__()\n"
TARGETS = ("results/tiny/parquet/majority_metrics.parquet", "results/tiny/data/text/mine/manifest.json")
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


def again(made):
    return jobs_of(made.run("--dry-run", *TARGETS))


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


SAMPLING, IMPORT = "src/layernorm_roles/majority/data.py", "import numpy"


@pytest.mark.parametrize("notes", [True, False], ids=["with Snakemake's notes", "without"])
def test_what_was_made_from_something_else_is_made_again(finished, copied, notes):
    """A norm or text of the user's own, edited; a run whose origin is lost; other code; a comment is nothing new."""
    copied.copy_package()
    if notes:
        shutil.copytree(finished.folder / ".snakemake", copied.folder / ".snakemake")
    edit(copied, SAMPLING, IMPORT, f"# nothing new\n{IMPORT}")
    edit(copied, "mine_norm.py", "0.5", "0.4")
    assert again(copied) == {"majority_train": 1, "tables": 1}
    edit(copied, "mine_norm.py", "0.4", "0.5")
    (copied.folder / f"results/tiny/origin/majority/d8/layernorm/{OWN}.json").unlink()
    edit(copied, "mine/7.txt", "key", "yek")
    assert again(copied) == {"majority_train": 1, "tables": 1, "text": 1}
    edit(copied, SAMPLING, IMPORT, f"EDITED = 1\n{IMPORT}")
    assert again(copied) == {"majority_data": 1, "majority_train": 2, "tables": 1, "text": 1}


def test_other_settings_make_again_what_depends_on_them_and_more_seeds_keep_the_runs_that_are_there(copied):
    """Settings that are back leave no trace."""
    change(copied, steps=5)
    assert again(copied) == {"majority_train": 2, "tables": 1}
    done = copied.snakemake("check")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    for variant in ("layernorm", "mine"):
        plan = f"results/tiny/plan/majority/d8/{variant}/{OWN}.json"
        assert f"{plan}: differs from its copy in origin/; run again" in done.stdout
    copied.configure(TINY)
    said = copied.run(*TARGETS, "check")
    lines = r".*\n\S+  1 job\n.* code\n.* \d+ of the planned jobs are not done\n\S+  1 job done in \d+ s\n"
    assert re.fullmatch(lines, said), "and nothing else is printed"
    shutil.rmtree(copied.folder / "results/tiny/parquet")
    change(copied, seeds=no_runs() | {"layernorm": 2, "mine": 1})
    assert "  3 jobs\n" in copied.run(*TARGETS), "data, a run, and the table"
    assert again(copied) == {}
