"""Odd circumstances: what stands in a result's place, rights, clocks, signals, long paths, two commands at once.

Whatever it is, no traceback is shown, an error names the path, and the command ends with equal bytes once the obstacle
is gone. The target is a table of two small jobs.
"""

import os
import re
import shutil
import signal
import subprocess
import time

import pandas as pd
import pytest
from checkouts import command, environment

from layernorm_roles import files, planning, store
from layernorm_roles.provenance import provenance

NAME = "results/tiny"
MIDDLE, END = f"{NAME}/parquet/worked_numbers.parquet", f"{NAME}/tables/worked_numbers.csv"
MAKE = command("--cores", "2", END)
TINY = {"name": "tiny", "device": "cpu", "pretrained": {"minilm": None}}


@pytest.fixture(scope="module")
def finished(checkout):
    """A checkout in which the target is made, and the bytes of its results."""
    made = checkout(TINY)
    made.run(END)
    return made, {name: (made.folder / name).read_bytes() for name in (MIDDLE, END)}


def same(finished):
    made, before = finished
    return all((made.folder / name).read_bytes() == content for name, content in before.items())


def directory(path):
    path.unlink()
    path.mkdir()
    return lambda: path.rmdir() if path.is_dir() else None


def dangling_link(path):
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))
    return lambda: path.unlink(missing_ok=True)


def empty(path):
    path.write_bytes(b"")
    return lambda: path.unlink(missing_ok=True)


def without_checksum(path):
    files.checksum_file(path).unlink()
    return lambda: path.unlink(missing_ok=True)


@pytest.mark.long
@pytest.mark.parametrize("obstacle", [directory, dangling_link, empty, without_checksum])
def test_what_stands_in_the_place_of_an_intermediate_file_is_named_or_replaced(finished, obstacle):
    made, _ = finished
    (made.folder / END).unlink()
    clear = obstacle(made.folder / MIDDLE)
    done = made.snakemake(END)
    assert "Traceback" not in done.stdout
    if done.returncode:
        assert "worked_numbers.parquet" in done.stdout
        clear()
        made.run(END)
    assert same(finished)


@pytest.mark.long
def test_times_in_the_future_are_named_and_make_nothing_wrong(finished):
    """Snakemake refuses a file that is older than what it was made from, as it would be made again at every start."""
    made, _ = finished
    later = time.time() + 10 * 365 * 86_400
    for path in (made.folder / NAME).rglob("*"):
        os.utime(path, (later, later))
    (made.folder / END).unlink()
    done = made.snakemake(END)
    assert "Traceback" not in done.stdout
    assert done.returncode
    assert re.search(rf"older modification time .*than input {MIDDLE} \(20", done.stdout)
    for path in (made.folder / NAME).rglob("*"):
        os.utime(path)
    made.run(END)
    assert same(finished)


@pytest.mark.long
def test_closed_standard_input_and_one_core(finished):
    made, _ = finished
    shutil.rmtree(made.folder / NAME)
    shell = ["sh", "-c", '"$@" <&-', "sh", *command("--cores", "1", END)]
    done = subprocess.run(
        shell, cwd=made.folder, env=environment(made.folder), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert same(finished)


@pytest.mark.long
def test_ctrl_c_twice_and_unlocking_a_living_run(finished):
    made, _ = finished
    shutil.rmtree(made.folder / NAME)
    process = subprocess.Popen(
        MAKE,
        cwd=made.folder,
        env=environment(made.folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (made.folder / NAME / "logs").exists() and process.poll() is None:
        time.sleep(0.05)
    made.snakemake(END, "--unlock")
    for _ in range(2):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.1)
    process.wait(timeout=120)
    done = made.snakemake(END)
    if done.returncode:
        assert "--unlock" in done.stdout
        made.run(END, "--unlock")
        made.run(END)
    assert same(finished)


@pytest.mark.long
def test_two_commands_for_one_reproduction(finished):
    made, _ = finished
    shutil.rmtree(made.folder / NAME)
    both = [
        subprocess.Popen(
            MAKE,
            cwd=made.folder,
            env=environment(made.folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in both]
    assert any(process.returncode == 0 for process in both)
    for process, output in zip(both, outputs, strict=True):
        assert "Traceback" not in output
        assert process.returncode == 0 or "Directory cannot be locked" in output
    assert same(finished)


@pytest.mark.long
def test_a_path_of_250_characters(finished, tmp_path):
    made, before = finished
    folder = tmp_path
    while len(str(folder)) < 200:
        folder = folder / "a_folder_with_a_long_name"
    folder = folder / ("x" * (249 - len(str(folder))))
    shutil.copytree(made.folder, folder, ignore=shutil.ignore_patterns("results", ".snakemake"))
    done = subprocess.run(MAKE, cwd=folder, env=environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all((folder / name).read_bytes() == content for name, content in before.items())


def as_nobody(work):
    """What `work` raises, or None, in a process without any rights; the test is skipped where there is none."""
    if os.geteuid() != 0:
        pytest.skip("only root can give up its rights")
    read, write = os.pipe()
    if child := os.fork():
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as answers:
            said = answers.read()
        os.waitpid(child, 0)
        return said
    os.close(read)
    os.setgroups([])
    os.setgid(65_534)
    os.setuid(65_534)
    try:
        work()
        said = "nothing"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    os.write(write, said.encode())
    os._exit(0)


FRAME = pd.DataFrame({"split": ["train"], "label": [0], "counts": [[1, 2]]})


def test_a_file_without_any_rights_is_named(tmp_path):
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    path = tmp_path / "d.parquet"
    store.write(FRAME, "majority_data", path, provenance({}, "cpu"))
    path.chmod(0)
    said = as_nobody(lambda: store.read(path, "majority_data"))
    assert said.startswith(f"Unusable: {path}: not readable (") and said.endswith("delete it and run again")


def test_a_folder_that_cannot_be_written_to_is_named_and_keeps_what_it_has(tmp_path):
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    path = tmp_path / "d.parquet"
    facts = provenance({}, "cpu")  # nobody may be unable to read the environment
    store.write(FRAME, "majority_data", path, facts)
    before = path.read_bytes()
    said = as_nobody(lambda: store.write(FRAME, "majority_data", path, facts))
    assert said.startswith("PermissionError: ") and str(tmp_path) in said
    assert path.read_bytes() == before and sorted(file.name for file in tmp_path.iterdir()) == [
        ".sha256",
        "d.parquet",
    ]


def test_a_checkout_of_another_user_is_refused_with_the_way_to_run_it(tmp_path, monkeypatch):
    """Nobody may write to the checkout, then nobody may write to results/ alone; in a folder of their own they may."""
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    said = as_nobody(lambda: planning.refuse_read_only(NAME, "/theirs/Snakefile"))
    assert said == (
        f"ValueError: {tmp_path}: no file can be written there; run in a folder of your own: "
        "snakemake --snakefile /theirs/Snakefile --directory FOLDER"
    )
    (tmp_path / "results").mkdir()
    tmp_path.chmod(0o777)
    said = as_nobody(lambda: planning.refuse_read_only(NAME, "/theirs/Snakefile"))
    assert said.startswith(f"ValueError: {tmp_path}/results: no file can be written there; ")
    (tmp_path / "results").chmod(0o777)
    assert as_nobody(lambda: planning.refuse_read_only(NAME, "/theirs/Snakefile")) == "nothing"


@pytest.mark.long
def test_a_read_only_checkout_runs_from_another_folder(finished, tmp_path):
    """Root cannot write there either: the checkout is mounted once more, read-only."""
    made, before = finished
    checkout, own = tmp_path / "theirs", tmp_path / "mine"
    shutil.copytree(made.folder, checkout, ignore=shutil.ignore_patterns("results", ".snakemake"))
    own.mkdir()
    if subprocess.run(["mount", "--bind", str(checkout), str(checkout)], capture_output=True).returncode:
        pytest.skip("a folder cannot be mounted here")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(checkout)], check=True)
        refused = subprocess.run(
            MAKE, cwd=checkout, env=environment(checkout), capture_output=True, encoding="utf-8"
        )
        said = refused.stdout + refused.stderr
        assert refused.returncode and "Traceback" not in said
        assert f"error: {checkout}: no file can be written there; run in a folder of your own" in said
        there = ["--snakefile", str(checkout / "Snakefile"), "--directory", str(own)]
        done = subprocess.run(
            command("--cores", "2", END, *there),
            cwd=checkout,
            env=environment(checkout),
            capture_output=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert all((own / name).read_bytes() == content for name, content in before.items())
    finally:
        subprocess.run(["umount", str(checkout)], check=True)


@pytest.mark.parametrize("what", ["directory", "dangling link", "link to itself"])
def test_what_is_no_file_is_never_read(tmp_path, what):
    path = tmp_path / "d.parquet"
    store.write(FRAME, "majority_data", path, provenance({}, "cpu"))
    path.unlink()
    if what == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nowhere" if what == "dangling link" else path)
    with pytest.raises(ValueError, match=r"d\.parquet: (no such file|not readable)"):
        store.read(path, "majority_data")
    with pytest.raises(ValueError, match=r"d\.parquet: (no such file|not readable)"):
        files.verify(path)
