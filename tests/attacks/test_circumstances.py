"""Odd circumstances: rights, what stands in a result's place, two commands at once: an error names the path."""

import multiprocessing
import os

import pandas as pd
import pytest
from checkouts import ROOT, snakemake

from layernorm_roles import files, planning, store
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


def test_a_checkout_of_another_user_is_refused_with_the_way_to_run_it(table, monkeypatch):
    """Nobody may write to the checkout, then nobody may write to results/ alone; in a folder of their own they may."""
    folder = table[0].parent
    monkeypatch.chdir(folder)
    way = "run in a folder of your own: snakemake --snakefile /theirs/Snakefile --directory FOLDER"
    for opened, named in ((None, folder), (folder, folder / "results"), (folder / "results", None)):
        if opened:
            (folder / "results").mkdir(exist_ok=True)
            opened.chmod(0o777)
        said = as_nobody(planning.refuse_read_only, "results/tiny", "/theirs/Snakefile")
        assert said == (f"ValueError: {named}: no file can be written there; {way}" if named else "nothing")


@pytest.mark.parametrize("place", [".snakemake", "results", "results/x", "results/x/logs"])
@pytest.mark.parametrize("what", ["file", "dangling link"])
def test_what_stands_in_the_place_of_a_folder_is_named(tmp_path, monkeypatch, place, what):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch() if what == "file" else path.symlink_to("nowhere")
    with pytest.raises(ValueError, match=f"^{path}: expected a folder, or nothing; move away"):
        planning.refuse_read_only("results/x", "Snakefile")


def test_what_stands_in_the_place_of_plans_is_named(tmp_path):
    (tmp_path / "results/default").mkdir(parents=True)
    (tmp_path / "results/default/plan").write_text("")
    done = snakemake(tmp_path, "--snakefile", str(ROOT / "Snakefile"), "-n", "random_keys", package=ROOT)
    assert done.returncode == 1 and 'File "' not in done.stdout
    assert f"\nerror: {tmp_path}/results/default/plan: expected a folder" in done.stdout


@pytest.mark.parametrize("target", [None, "nowhere", "d.parquet"])
def test_what_is_no_file_is_never_read(table, target):
    """A folder, a dangling link, and a link to itself."""
    path, _ = table
    path.unlink()
    path.symlink_to(target) if target else path.mkdir()
    for read in (lambda: store.read(path, "majority_data"), lambda: files.verify(path)):
        with pytest.raises(ValueError, match=r"d\.parquet: (no such file|not readable)"):
            read()
