"""Parquet tables: what is written comes back with its provenance, and nothing else is ever read."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planned import planned

from layernorm_roles import files, store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import SCHEMAS

ORIGIN = provenance({"steps": 3}, "cpu", Stream.RANDOM_KEYS)


@pytest.fixture
def metrics():
    rows = {name: [0.5, 0.25] for name in SCHEMAS["majority_metrics"].names} | {"d_model": [8, 3]}
    return pd.DataFrame(rows | {"experiment": "d8", "variant": "layernorm", "seed": 0, "step": [0, 1]})


@pytest.fixture
def path(metrics, tmp_path):
    """The file of a written table."""
    store.write(metrics, "majority_metrics", tmp_path / "metrics.parquet", ORIGIN)
    return tmp_path / "metrics.parquet"


def replace(path, table):
    """Put another table there, with its checksum."""
    with files.atomic_write(path) as partial:
        pq.write_table(table, partial)


def test_what_is_written_is_read_and_says_where_it_comes_from(metrics, tmp_path):
    path = tmp_path / "new" / "metrics.parquet"
    store.write(metrics, "majority_metrics", path, ORIGIN)
    pd.testing.assert_frame_equal(
        store.read(path, "majority_metrics"), metrics[SCHEMAS["majority_metrics"].names], check_dtype=False
    )
    origin = store.read_provenance(path)
    assert origin["table"] == "majority_metrics"
    assert origin["config"] == '{"steps": 3}'
    assert len(origin["config_sha256"]) == 64
    assert "Stream.RANDOM_KEYS, seed, n, d" in origin["seed_rule"]
    field = pq.read_schema(path).field("test_loss")
    assert field.metadata[b"unit"] == b"nats per token"


def test_the_same_data_gives_the_same_bytes(metrics, tmp_path):
    for name in "ab":
        store.write(metrics, "majority_metrics", tmp_path / name, ORIGIN)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame.drop(columns="seed"),
        lambda frame: frame.assign(extra=1),
        lambda frame: frame.assign(variant=[None, "layernorm"]),
        lambda frame: frame.assign(step=[0.5, 1.5]),
        lambda frame: frame.assign(train_loss="low"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_and_the_old_one_stays(metrics, path, spoil):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"metrics\.parquet"):
        store.write(spoil(metrics), "majority_metrics", path, ORIGIN)
    assert files.read_bytes(path) == before


def test_a_table_with_nulls_where_its_schema_has_none_is_not_read(path):
    arrow = pq.read_table(path)
    fields = [field.with_nullable(True) for field in arrow.schema]
    holes = arrow.cast(pa.schema(fields)).set_column(4, fields[4], [[None, 0.5]])
    replace(path, holes)
    with pytest.raises(
        ValueError, match=r"lacks .*test_loss \(double, no null\).* has .*test_loss \(double\)"
    ):
        store.read(path, "majority_metrics")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda arrow: arrow.select(arrow.column_names[::-1]), "its columns have another order"),
        (
            lambda arrow: arrow.rename_columns(["group", *arrow.column_names[1:]]),
            "it lacks experiment (string, no null) and it has group (string, no null)",
        ),
    ],
)
def test_a_table_of_another_version_says_in_one_line_what_differs(path, spoil, said):
    replace(path, spoil(pq.read_table(path)))
    with pytest.raises(ValueError) as refused:
        store.read(path, "majority_metrics")
    expected = f"{path}: no table majority_metrics of this version, {said}; delete it and run again"
    assert str(refused.value) == expected


@pytest.mark.parametrize("read", [lambda path: store.read(path, "majority_metrics"), store.read_provenance])
def test_a_damaged_file_is_never_read(path, read):
    content = path.read_bytes()
    for position in range(0, len(content), 97):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(ValueError, match=r"metrics\.parquet: damaged.*delete it and run again"):
            read(path)


def test_a_damaged_page_is_named_though_the_checksum_is_right(path):
    content = bytearray(path.read_bytes())
    first = pq.ParquetFile(path).metadata.row_group(0).column(0)
    middle = (first.dictionary_page_offset or first.data_page_offset) + first.total_compressed_size // 2
    content[middle] ^= 255
    with files.atomic_write(path) as partial:
        partial.write_bytes(content)
    with pytest.raises(ValueError, match=r"metrics\.parquet: a damaged Parquet file"):
        store.read(path, "majority_metrics")


def test_another_table_or_no_table_or_no_file_is_named(path):
    """Though the checksum is right."""
    replace(path, pq.read_table(path).replace_schema_metadata(None))
    with pytest.raises(ValueError, match=r"metrics\.parquet: no table .* does not name it"):
        store.read(path, "majority_metrics")
    with pytest.raises(ValueError, match="no table majority_vectors of this version, it lacks checkpoint"):
        store.read(path, "majority_vectors")
    files.write_text(path, "not Parquet")
    with pytest.raises(ValueError, match=r"metrics\.parquet: no Parquet file"):
        store.read(path, "majority_metrics")
    with pytest.raises(ValueError, match="no such file"):
        store.read(path.with_name("nothing.parquet"), "majority_metrics")


def test_collected_tables_keep_their_order_and_name_every_origin(metrics, tmp_path):
    made = {"b": ("cpu", Stream.RANDOM_KEYS, 2), "a": ("cuda", Stream.FUSION, 1)}
    for name, (device, stream, seed) in made.items():
        origin = provenance(planned(tmp_path, name, steps=3), device, stream)
        store.write(metrics.assign(seed=seed), "majority_metrics", tmp_path / name, origin)
    plan, paths = planned(tmp_path, "tables/majority_metrics", made), [tmp_path / name for name in made]
    store.collect(plan, paths, "majority_metrics", tmp_path / "c")
    assert store.read(tmp_path / "c", "majority_metrics").seed.tolist() == [2, 2, 1, 1]
    origin = store.read_provenance(tmp_path / "c")
    assert json.loads(origin["config"]) == plan and origin["device"] == "cpu, cuda"
    assert "Stream.FUSION" in origin["seed_rule"] and "Stream.RANDOM_KEYS" in origin["seed_rule"]


def test_collecting_takes_no_file_of_another_job_or_of_a_job_that_is_planned_otherwise_now(metrics, tmp_path):
    for name, steps in (("a", 3), ("b", 4)):
        origin = provenance(planned(tmp_path, name, steps=steps), "cpu")
        store.write(metrics, "majority_metrics", tmp_path / f"{name}.parquet", origin)
    plan, (a, b) = planned(tmp_path, "tables", ["a", "b"]), (tmp_path / f"{name}.parquet" for name in "ab")
    with pytest.raises(
        ValueError, match=r"b\.parquet: a file of another run \(job = 'b', expected 'a'; steps = 4"
    ):
        store.collect(plan, [b, a], "majority_metrics", tmp_path / "out")
    planned(tmp_path, "a", steps=5)
    with pytest.raises(ValueError, match="planned anew since"):
        store.collect(plan, [a, b], "majority_metrics", tmp_path / "out")
    again = planned(tmp_path, "tables", ["a", "b"])
    with pytest.raises(ValueError, match=r"a\.parquet: a file of another run \(steps = 3, expected 5\)"):
        store.collect(again, [a, b], "majority_metrics", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of threads")
def test_a_table_of_another_run_is_refused_though_its_checksum_is_right(metrics, tmp_path):
    a, kept, verdicts = (tmp_path / f"{name}.parquet" for name in ("a", "kept", "verdicts"))
    store.write(metrics, "majority_metrics", a, provenance(planned(tmp_path, "a", steps=3), "cpu"))
    store.write(metrics, "majority_metrics", kept, provenance({"job": "b"}, "cpu"))
    store.write(metrics, "majority_metrics", verdicts, provenance({}, "cpu"))
    store.refuse_unplanned(planned(tmp_path, "draw", ["a"]), [a, kept, verdicts])
    planned(tmp_path, "a", steps=4)
    with pytest.raises(ValueError, match=r"a\.parquet: a file of another run \(steps = 3, expected 4\)"):
        store.refuse_unplanned(planned(tmp_path, "draw", ["a"]), [a, kept, verdicts])


def test_collecting_and_reading_start_no_thread_that_could_abort_the_exit_of_a_short_job(
    metrics, path, tmp_path
):
    program = """
import os, sys
import numpy, pandas, pyarrow.parquet
from layernorm_roles import store
from layernorm_roles.plan import Plan
before = os.listdir("/proc/self/task")
plan, path, out = sys.argv[1:]
store.collect(Plan(plan), [path], "majority_metrics", out)
store.read(out, "majority_metrics")
print(len(os.listdir("/proc/self/task")) - len(before))
"""
    store.write(metrics, "majority_metrics", path, provenance(planned(tmp_path, "majority", steps=3), "cpu"))
    plan = planned(tmp_path, "tables/majority_metrics", ["majority"])
    command = [sys.executable, "-c", program, plan.path, path, tmp_path / "all.parquet"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"
