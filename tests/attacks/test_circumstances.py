"""Odd circumstances: rights, what stands in a result's place, two commands at once: an error names the path."""

import multiprocessing
import os

import pandas as pd
import pytest
from checkouts import ROOT, snakemake

from layernorm_roles import store
from layernorm_roles.provenance import provenance

FRAME = pd.DataFrame({"split": ["train"], "label": [0], "counts": [[1, 2]]})


def give_up_rights():
    os.setgroups([])
    os.setgid(65_534)
    os.setuid(65_534)


def as_nobody(work, *arguments):
    """What `work` raises, in words, in a process without any rights; the test is skipped where there is none."""
    if os.geteuid() != 0:
        pytest.skip("only root can give up its rights")
    with multiprocessing.get_context("fork").Pool(1, give_up_rights) as pool:
        try:
            pool.apply(work, arguments)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "nothing"


@pytest.fixture
def table(tmp_path):
    """A table in a folder to which everybody has a way, and what it was written with."""
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    facts = provenance({}, "cpu")  # nobody may be unable to read the environment
    store.write(FRAME, "majority_data", tmp_path / "d.parquet", facts)
    return tmp_path / "d.parquet", facts


def test_a_file_or_folder_without_rights_is_named_and_keeps_what_it_has(table):
    path, facts = table
    before = path.read_bytes()
    said = as_nobody(store.write, FRAME, "majority_data", path, facts)
    assert said.startswith("PermissionError: ") and str(path.parent) in said
    names = sorted(file.name for file in path.parent.iterdir())
    assert path.read_bytes() == before and names == [".sha256", "d.parquet"]
    path.chmod(0)
    said = as_nobody(store.read, path, "majority_data")
    assert said.startswith(f"Unusable: {path}: not readable (") and said.endswith("delete it and run again")


def test_what_stands_in_the_place_of_plans_is_named(tmp_path):
    (tmp_path / "results/default").mkdir(parents=True)
    (tmp_path / "results/default/plan").write_text("")
    done = snakemake(tmp_path, "--snakefile", str(ROOT / "Snakefile"), "-n", "random_keys", package=ROOT)
    assert done.returncode == 1 and 'File "' not in done.stdout
    assert f"\nerror: {tmp_path}/results/default/plan: expected a folder" in done.stdout
