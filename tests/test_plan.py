"""Plans: made when they are asked for, compared with what jobs left, and what ends a job instead of finishing it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from layernorm_roles import catalogue, files, plan, source_code


def plans(folder, **parameters):
    """Two jobs, of which the second reads the results of the first and has some other parameters."""
    made = plan.Plans(folder)
    made.add("majority_data", "data/a", settings={"size": 3})
    made.add("majority_train", "train/a", ["data/a"], settings={"steps": 2}, **parameters)
    return made


def finish(made, *jobs):
    for job in jobs:
        plan.finish(made[job], made.folder / f"origin/{job}.json")


def test_a_plan_has_its_code_and_the_hashes_of_the_plans_it_reads_and_is_made_when_asked_for(tmp_path):
    asked = []
    made = plans(tmp_path, corpus=lambda: asked.append(1) or {"a.txt": "7"})
    assert [*made] == ["data/a", "train/a"] and len(made) == 2 and not asked
    assert made.of_stages(["majority_train"]) == ["train/a"]
    code = catalogue.code("majority_train")
    assert (
        made["train/a"]
        == made["train/a"]
        == {
            "job": "train/a",
            "stage": "majority_train",
            "code": code,
            "settings": {"steps": 2},
            "corpus": {"a.txt": "7"},
            "made_by": {"data/a": plan.hash_of(made["data/a"])},
        }
    )
    assert asked == [1], "once"
    assert plan.hash_of({"a": 1, "b": 2}) == plan.hash_of({"b": 2, "a": 1}) != plan.hash_of({"b": 2, "a": 2})


def test_a_job_differs_until_it_left_its_plan_and_the_file_that_says_so_is_new(tmp_path):
    newer = tmp_path / plan.DIFFERS
    assert all(map(plans(tmp_path).differs, ["data/a", "train/a"]))
    first = newer.read_text()
    finish(plans(tmp_path), "data/a")
    made = plans(tmp_path)
    assert (made.differs("data/a"), made.differs("train/a")) == (False, True)
    assert newer.read_text() != first, "a content that no note of Snakemake has"
    second = newer.read_text()
    finish(made, "train/a")
    assert made.differs("train/a"), "one answer in one process"
    made = plans(tmp_path)
    assert not made.differs("train/a") and newer.read_text() == second
    assert plans(tmp_path, seed=1).differs("train/a") and newer.read_text() != second
    (tmp_path / "origin/data/a.json").write_bytes(b"\xff damaged")
    assert plans(tmp_path).differs("data/a")


def test_what_was_done_with_something_else_is_told(tmp_path):
    finish(plans(tmp_path), "train/a")
    assert plans(tmp_path).check() == 1, "a job that was never done is no fault, and is counted"
    says = r"1 file is not as planned\ntrain/a: made with other settings or code; [^\n]*$"
    with pytest.raises(ValueError, match=says):
        plans(tmp_path, seed=1).check()
    (tmp_path / "loose.txt").write_text("")
    with pytest.raises(ValueError, match="2 files are not as"):
        plans(tmp_path, seed=1).check()
    with pytest.raises(ValueError, match="never: no job has left its plan in origin/"):
        plans(tmp_path / "never").check()


def planned_table(folder, config):
    """A Parquet file with `config` as what it was made from, and its checksum."""
    path = folder / "parquet/a.parquet"
    schema = pa.schema({"x": pa.int64()}, {"config": json.dumps(config)})
    with files.atomic_write(path) as partial:
        pq.write_table(pa.table({"x": [1]}, schema), partial)
    return path


def test_a_check_names_what_is_gone_and_what_is_of_another_run(tmp_path):
    made = plans(tmp_path)
    finish(made, "data/a")
    path = planned_table(tmp_path, made["data/a"])
    for name in ("logs/a.log", "benchmarks/a.tsv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("no checksum")
    made.check()
    planned_table(tmp_path, made["data/a"] | {"settings": {"size": 4}})
    with pytest.raises(ValueError, match=r"a.parquet: a file of another run; delete"):
        made.check()
    path.write_text("damaged")
    with pytest.raises(ValueError, match=r"1 file is not as [^\n]*\n[^\n]*a.parquet: damaged[^\n]*$"):
        made.check()
    path.unlink()
    with pytest.raises(ValueError, match=r"a.parquet: gone, while its checksum is there"):
        made.check()


def test_a_job_whose_norm_or_text_was_edited_is_not_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    contents = {"norm.py": "class Norm: pass\n", "text.txt": "words"}
    for file, text in contents.items():
        (tmp_path / file).write_text(text)
    runs = [{"variant": "mine", "norm": "norm:Norm"}, {"variant": "layernorm", "norm": "layernorm"}]
    own = {"runs": runs, "norm_code": {"mine": source_code.of_norm("norm:Norm"), "layernorm": None}}
    own |= {"corpus": {"text.txt": files.sha256_of("text.txt")}}
    origin = tmp_path / "origin/train/a.json"
    plan.finish(own, origin)
    assert json.loads(origin.read_text()) == own
    origin.unlink()
    for file, named in (("norm.py", "norm:Norm"), ("text.txt", "text.txt")):
        for text in (f"{contents[file]}more = 1\n", contents[file]):
            (tmp_path / file).write_text(text)
            source_code._meaning.cache_clear()
            if text != contents[file]:
                with pytest.raises(ValueError, match=rf"^{named}: edited since"):
                    plan.finish(own, origin)
    keys = {"norms": {"mine": "norm:Norm"}, "norm_code": {"mine": "of another code"}}
    with pytest.raises(ValueError, match=r"^norm:Norm: edited since"):
        plan.finish(keys, origin)
    assert not origin.exists()


def test_a_file_of_another_run_is_refused_by_name():
    made = {"job": "train/a", "seed": 1}
    plan.refuse_other_run("a.parquet", made, plan.hash_of(made))
    for other in (made | {"seed": 2}, {}):
        with pytest.raises(
            files.Unusable, match=r"^a\.parquet: a file of another run of (train/a|no job); del"
        ):
            plan.refuse_other_run("a.parquet", other, plan.hash_of(made))
