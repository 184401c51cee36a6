"""Plan files: when a job counts as done, whatever the times of files; who may write them; what ends a job."""

import json
import os
import subprocess
import sys
from errno import ENOLCK, ENOSPC, EPERM

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planned import planned

from layernorm_roles import plan

PLANS = {
    "data/a": {"job": "data/a", "settings": {"size": 3}, "made_by": {}},
    "train/a": {"job": "train/a", "settings": {"steps": 2}, "made_by": {"data/a": "x"}},
}
OTHER = PLANS | {"train/a": PLANS["train/a"] | {"settings": {"steps": 3}}}


def is_planned(folder, job):
    origin = folder / f"origin/{job}.json"
    return not origin.exists() or (folder / f"plan/{job}.json").stat().st_mtime > origin.stat().st_mtime


def finish(folder, job):
    plan.Plan(folder / f"plan/{job}.json").finish(folder / f"origin/{job}.json")


def write(folder, plans):
    """Write plans as a command does that has ended; the jobs that are to be done."""
    plan.write(folder, plans)
    while plan._held:
        plan._held.pop().close()
    return {job for job in plans if is_planned(folder, job)}


def test_a_job_is_planned_until_it_was_done_as_planned_and_again_when_its_plan_differs(tmp_path):
    assert write(tmp_path, PLANS) == {*PLANS}
    finish(tmp_path, "data/a")
    assert write(tmp_path, PLANS) == {"train/a"}
    finish(tmp_path, "train/a")
    assert write(tmp_path, PLANS) == set()
    assert write(tmp_path, OTHER) == {"train/a"}
    assert write(tmp_path, PLANS) == set(), "planned with other settings, and back"
    for number, path in enumerate(sorted(tmp_path.rglob("*.json"))):
        os.utime(path, (1e9 - number, 1e9 - number))
    assert write(tmp_path, PLANS) == set(), "the times of files do not matter"
    assert {path.stat().st_mtime for path in tmp_path.rglob("*.json")} == {1}, "Snakemake ignores a 0"
    (tmp_path / "origin/data/a.json").write_text("damaged")
    assert write(tmp_path, PLANS) == {"data/a"}


def test_plan_files_are_those_of_the_plan_and_can_be_read(tmp_path):
    write(tmp_path, PLANS)
    (tmp_path / "plan/mine.json").write_text("{}")
    (tmp_path / "plan/data/.a.json.7.partial").touch()
    write(tmp_path, {"data/a": PLANS["data/a"]})
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.json*"))
    assert found == ["plan/data/a.json", "plan/mine.json"], "a user's own file stays"
    assert json.loads((tmp_path / found[0]).read_text()) == PLANS["data/a"]
    assert plan.hash_of({"a": 1, "b": 2}) == plan.hash_of({"b": 2, "a": 1}) != plan.hash_of({"b": 2, "a": 2})


def test_what_was_done_with_something_else_is_told(tmp_path):
    write(tmp_path, PLANS)
    finish(tmp_path, "train/a")
    assert plan.check(tmp_path) == 1, "a job that was never done is no fault, and is counted"
    write(tmp_path, OTHER)
    says = rf"1 file is not as .*\n{tmp_path}/plan/train/a.json: differs from its copy in origin/; [^\n]*$"
    with pytest.raises(ValueError, match=says):
        plan.check(tmp_path)
    (tmp_path / "loose.txt").write_text("")
    with pytest.raises(ValueError, match="2 files are not as"):
        plan.check(tmp_path)
    (tmp_path / "loose.txt").unlink()
    write(tmp_path, {"data/a": PLANS["data/a"]})
    assert plan.check(tmp_path) == 1, "nor is one that is no longer planned, and that is not counted"
    with pytest.raises(ValueError, match="never: no job has left a copy of its plan in origin/"):
        plan.check(tmp_path / "never")
    for name in ("data", "runs", "parquet"):
        assert not plan.begun(tmp_path)
        (tmp_path / name).mkdir()
        assert plan.begun(tmp_path)
        (tmp_path / name).rmdir()


def planned_table(folder, job, config):
    """The Parquet file of a job that is done, with `config` as what it was made from, and its checksum."""
    finish(folder, job)
    path = folder / "parquet/a.parquet"
    schema = pa.schema({"x": pa.int64()}, {"config": json.dumps(config)})
    with plan.files.atomic_write(path) as partial:
        pq.write_table(pa.table({"x": [1]}, schema), partial)
    return path


def test_a_check_names_what_is_gone_and_what_is_of_another_run(tmp_path):
    write(tmp_path, PLANS)
    path = planned_table(tmp_path, "data/a", {**PLANS["data/a"], "more": 1})
    for name in ("logs/a.log", "benchmarks/a.tsv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("no checksum")
    plan.check(tmp_path)
    planned_table(tmp_path, "data/a", {**PLANS["data/a"], "settings": {"size": 4}})
    says = r"a.parquet: a file of another run \(settings.size = 4, expected 3\); d"
    with pytest.raises(ValueError, match=says):
        plan.check(tmp_path)
    path.write_text("damaged")
    with pytest.raises(ValueError, match=r"1 file is not as [^\n]*\n[^\n]*a.parquet: damaged[^\n]*$"):
        plan.check(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=r"a.parquet: gone, while its checksum is there"):
        plan.check(tmp_path)


@pytest.mark.parametrize("module,name,number", [("files", "replace_text", ENOSPC), ("os", "utime", EPERM)])
def test_a_plan_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, module, name, number):
    """On a full disk, and where another user owns it, whose time nobody else may set."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(getattr(plan, module), name, refuse)
    with pytest.raises(ValueError, match=f"data/a.json or its copy in origin/: {os.strerror(number)}"):
        write(tmp_path, PLANS)


def test_where_files_cannot_be_locked_plans_are_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(ENOLCK, os.strerror(ENOLCK))

    monkeypatch.setattr(plan.fcntl, "flock", refuse)
    assert write(tmp_path, PLANS) == write(tmp_path, OTHER) == {*PLANS}


HOLD = """
import json, sys, time
from layernorm_roles import plan
plan.write(sys.argv[1], json.loads(sys.argv[2]))
print('held')
time.sleep(60)
"""


def test_while_a_command_is_at_work_another_may_plan_the_same_and_nothing_else(tmp_path):
    write(tmp_path, PLANS)
    command = [sys.executable, "-c", HOLD, str(tmp_path), json.dumps(PLANS)]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "held\n"
        (partial := tmp_path / "plan/.a.json.7.partial").touch()
        write(tmp_path, PLANS)
        assert partial.exists(), "it may be what the other command writes"
        for other in (OTHER, {"data/a": PLANS["data/a"]}):
            with pytest.raises(ValueError, match="makes it at this moment, with other settings or code"):
                write(tmp_path, other)
        assert json.loads((tmp_path / "plan/train/a.json").read_text()) == PLANS["train/a"]
    finally:
        first.kill()
        first.wait()
    assert write(tmp_path, OTHER) == {*PLANS}, "the lock of a killed command is free"


def test_a_job_that_was_planned_anew_or_whose_norm_or_text_was_edited_is_not_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents = {"norm.py": "class Norm: pass\n", "text.txt": "words"}
    for file, text in contents.items():
        (tmp_path / file).write_text(text)
    runs = [{"variant": "mine", "norm": "norm:Norm"}, {"variant": "layernorm", "norm": "layernorm"}]
    own = {"runs": runs, "norm_code": {"mine": plan.source_code.of_norm("norm:Norm"), "layernorm": None}}
    own |= {"corpus": {"text.txt": plan.files.sha256_of("text.txt")}}
    job, origin = planned(tmp_path, "train/a", **own), tmp_path / "origin/train/a.json"
    job.finish(origin)
    assert origin.read_text() == job.path.read_text()
    origin.unlink()
    for file, named in (("norm.py", "norm:Norm"), ("text.txt", "text.txt")):
        for text in (f"{contents[file]}more = 1\n", contents[file]):
            (tmp_path / file).write_text(text)
            plan.source_code._meaning.cache_clear()
            if text != contents[file]:
                with pytest.raises(ValueError, match=rf"^{named}: edited since"):
                    job.finish(origin)
    keys = {"norms": {"mine": "norm:Norm"}, "norm_code": {"mine": "of another code"}}
    with pytest.raises(ValueError, match=r"^norm:Norm: edited since"):
        planned(tmp_path, "random_keys", **keys).finish(origin)
    planned(tmp_path, "train/a", **own, seed=1)
    with pytest.raises(ValueError, match="planned anew while its job ran"):
        job.finish(origin)
    assert not origin.exists()
