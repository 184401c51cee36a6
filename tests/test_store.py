"""Parquet tables: what is written comes back with its provenance, and nothing else is ever read."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
        (lambda arrow: arrow.drop_columns("seed"), "it lacks seed (int64, no null)"),
        (lambda arrow: arrow.append_column("extra", arrow["step"]), "it has extra (int64)"),
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


@pytest.mark.parametrize(
    "change",
    [
        lambda arrow: arrow.slice(1),
        lambda arrow: pa.concat_tables([arrow, arrow.slice(0, 1)]),
        lambda arrow: arrow.take([1, 0]),
        lambda arrow: arrow.set_column(5, arrow.schema[5], [[1, 0]]),
        lambda arrow: arrow.set_column(1, arrow.schema[1], [["layer", "normlayernorm"]]),
        lambda arrow: arrow.replace_schema_metadata(None),
    ],
)
def test_a_table_whose_rows_another_program_changed_is_refused_though_its_checksum_is_right(path, change):
    arrow = pq.read_table(path)
    with files.atomic_write(path) as partial:
        pq.write_table(arrow, partial, row_group_size=1, compression="snappy")
    assert store.read(path, "majority_metrics").step.tolist() == [0, 1], "other pages are no change"
    replace(path, change(arrow))
    with pytest.raises(ValueError, match=r"metrics\.parquet: (not the \d rows|no table .* does not name it)"):
        store.read(path, "majority_metrics")


def test_a_damaged_page_is_named_though_the_checksum_is_right(path):
    content = bytearray(path.read_bytes())
    first = pq.ParquetFile(path).metadata.row_group(0).column(0)
    middle = (first.dictionary_page_offset or first.data_page_offset) + first.total_compressed_size // 2
    content[middle] ^= 255
    with files.atomic_write(path) as partial:
        partial.write_bytes(content)
    with pytest.raises(ValueError, match=r"metrics\.parquet: a damaged Parquet file"):
        store.read(path, "majority_metrics")


def test_lists_are_told_apart_by_where_they_end(tmp_path):
    """Two data sets whose counts are alike one after another."""
    schema, path = SCHEMAS["majority_data"], tmp_path / "data.parquet"
    rows = pd.DataFrame({"split": "train", "label": [0, 1], "counts": [[1, 2], [3]]})
    store.write(rows, "majority_data", path, ORIGIN)
    other = pq.read_table(path).set_column(2, schema[2], pa.array([[1], [2, 3]], schema[2].type))
    replace(path, other)
    with pytest.raises(ValueError, match="not the 2 rows"):
        store.read_arrow(path, "majority_data")


def test_missing_values_are_told_apart_by_their_rows(tmp_path):
    """Two tables whose values are alike but for the row that has none."""
    path, numbers = tmp_path / "law.parquet", dict.fromkeys(SCHEMAS["gaussian_law"].names, 2)
    frame = pd.DataFrame(numbers | {"causal": False, "n": [None, 3.0]})
    store.write(frame, "gaussian_law", path, ORIGIN)
    arrow = pq.read_table(path)
    replace(path, arrow.set_column(at := arrow.column_names.index("n"), arrow.schema[at], [[3.0, None]]))
    with pytest.raises(ValueError, match="not the 2 rows"):
        store.read(path, "gaussian_law")


def test_another_table_or_no_table_or_no_file_is_named(path):
    with pytest.raises(ValueError, match="no table majority_vectors of this version, it lacks checkpoint"):
        store.read(path, "majority_vectors")
    files.write_text(path, "not Parquet")
    with pytest.raises(ValueError, match=r"metrics\.parquet: no Parquet file"):
        store.read(path, "majority_metrics")
    with pytest.raises(ValueError, match="no such file"):
        store.read(path.with_name("nothing.parquet"), "majority_metrics")


def test_collected_tables_keep_their_order_and_name_every_origin(metrics, tmp_path):
    other = provenance({"steps": 3}, "cuda", Stream.FUSION)
    store.write(metrics.assign(seed=2), "majority_metrics", tmp_path / "a", ORIGIN)
    store.write(metrics.assign(seed=1), "majority_metrics", tmp_path / "b", other)
    steps = [{"steps": 3}] * 2
    store.collect([tmp_path / "a", tmp_path / "b"], "majority_metrics", tmp_path / "c", {"all": 1}, steps)
    assert store.read(tmp_path / "c", "majority_metrics").seed.tolist() == [2, 2, 1, 1]
    origin = store.read_provenance(tmp_path / "c")
    assert origin["config"] == '{"all": 1}' and origin["device"] == "cpu, cuda"
    assert "Stream.FUSION" in origin["seed_rule"] and "Stream.RANDOM_KEYS" in origin["seed_rule"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of threads")
def test_collecting_and_reading_start_no_thread_that_could_abort_the_exit_of_a_short_job(path, tmp_path):
    program = """
import os, sys
import numpy, pandas, pyarrow.parquet
from layernorm_roles import store
before = os.listdir("/proc/self/task")
path, out = sys.argv[1:]
store.collect([path], "majority_metrics", out, {}, [{"steps": 3}])
store.read(out, "majority_metrics")
print(len(os.listdir("/proc/self/task")) - len(before))
"""
    command = [sys.executable, "-c", program, path, tmp_path / "all.parquet"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"


def test_numbers_that_differ_are_split_into_bytes_and_those_that_repeat_stand_in_a_dictionary(tmp_path):
    many = {name: np.random.default_rng(0).normal(size=1000) for name in SCHEMAS["majority_metrics"].names}
    many |= {
        "experiment": "d8",
        "variant": "none",
        "seed": 0,
        "step": range(1000),
        "d_model": 8,
        "learning_rate": 0.1,
    }
    store.write(pd.DataFrame(many), "majority_metrics", tmp_path / "many.parquet", ORIGIN)
    columns = pq.ParquetFile(tmp_path / "many.parquet").metadata.row_group(0)
    encodings = {(c := columns.column(i)).path_in_schema: c.encodings for i in range(columns.num_columns)}
    assert "BYTE_STREAM_SPLIT" in encodings["test_loss"] and "RLE_DICTIONARY" in encodings["learning_rate"]
    read = store.read(tmp_path / "many.parquet", "majority_metrics")
    assert np.array_equal(read.test_loss, many["test_loss"])
