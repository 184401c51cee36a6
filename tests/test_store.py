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
from layernorm_roles.plan import hash_of
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import CEILING_SHARES, SCHEMAS

ORIGIN = provenance({"steps": 3}, "cpu", Stream.RANDOM_KEYS)
TABLE = "majority_metrics"


@pytest.fixture
def metrics():
    rows = {name: [0.5, 0.25] for name in SCHEMAS[TABLE].names} | {"d_model": [8, 3]}
    return pd.DataFrame(rows | {"experiment": "d8", "variant": "layernorm", "seed": 0, "step": [0, 1]})


@pytest.fixture
def path(metrics, tmp_path):
    store.write(metrics, TABLE, tmp_path / "new/metrics.parquet", ORIGIN)
    return tmp_path / "new/metrics.parquet"


def test_what_is_written_is_read_says_where_it_comes_from_and_has_equal_bytes(metrics, path):
    found, origin = store.read(path, TABLE), store.read_provenance(path)
    pd.testing.assert_frame_equal(found, metrics[SCHEMAS[TABLE].names], check_dtype=False)
    assert origin["table"] == TABLE and origin["config"] == '{"steps": 3}'
    assert pq.read_schema(path).field("test_loss").metadata[b"unit"] == b"nats per token"
    assert store.read_arrow(path, TABLE, hash_of({"steps": 3})).to_pandas().equals(found)
    with pytest.raises(ValueError, match=r"metrics\.parquet: a file of another run of no job; delete"):
        store.read_arrow(path, TABLE, hash_of({"steps": 4}))
    before = path.read_bytes()
    store.write(metrics, TABLE, path, ORIGIN)
    assert path.read_bytes() == before


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
        store.write(spoil(metrics), TABLE, path, ORIGIN)
    assert files.read_bytes(path) == before


def with_hole(arrow):
    fields = [field.with_nullable(True) for field in arrow.schema]
    return arrow.cast(pa.schema(fields)).set_column(4, fields[4], [[None, 0.5]])


def with_damaged_page(arrow):
    """The bytes of a Parquet file of which one in the middle of a page differs."""
    sink = pa.BufferOutputStream()
    pq.write_table(arrow, sink)
    content = bytearray(sink.getvalue().to_pybytes())
    first = pq.ParquetFile(pa.BufferReader(bytes(content))).metadata.row_group(0).column(0)
    page = first.dictionary_page_offset or first.data_page_offset
    content[page + first.total_compressed_size // 2] ^= 255
    return bytes(content)


RENAMED = "it lacks experiment (string, no null) and it has group (string, no null)"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (with_hole, "test_loss (double, no null)"),
        (lambda arrow: arrow.select(arrow.column_names[::-1]), "its columns have another order"),
        (lambda arrow: arrow.rename_columns(["group", *arrow.column_names[1:]]), f"this version, {RENAMED}"),
        (lambda arrow: arrow.replace_schema_metadata(None), "no table majority_metrics, its metadata does"),
        (lambda arrow: b"not Parquet", "no Parquet file"),
        (with_damaged_page, "a damaged Parquet file"),
    ],
)
def test_what_is_no_such_table_is_refused_in_one_line_though_its_checksum_is_right(path, spoil, says):
    table = spoil(pq.read_table(path))
    with files.atomic_write(path) as partial:
        partial.write_bytes(table) if isinstance(table, bytes) else pq.write_table(table, partial)
    with pytest.raises(ValueError) as refused:
        store.read(path, TABLE)
    said = str(refused.value)
    assert said.startswith(f"{path}: ") and says in said and said.endswith("; delete it and run again")


@pytest.mark.parametrize("read", [lambda path: store.read(path, TABLE), store.read_provenance])
def test_a_damaged_missing_or_other_file_is_never_read(path, read):
    with pytest.raises(ValueError, match="no table majority_vectors of this version, it lacks checkpoint"):
        store.read(path, "majority_vectors")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"metrics\.parquet: damaged.*delete it and run again"):
        read(path)
    with pytest.raises(ValueError, match="no such file"):
        read(path.with_name("nothing.parquet"))


def test_collected_tables_keep_their_order_and_name_every_origin(metrics, tmp_path):
    made = {"b": ("cpu", Stream.RANDOM_KEYS, 2), "a": ("cuda", Stream.FUSION, 1)}
    plans = [planned(name, steps=3) for name in made]
    for plan, (device, stream, seed) in zip(plans, made.values(), strict=True):
        origin = provenance(plan, device, stream)
        store.write(metrics.assign(seed=seed), TABLE, tmp_path / plan["job"], origin)
    plan, paths = planned(f"tables/{TABLE}", *plans), [tmp_path / name for name in made]
    store.collect(plan, paths, TABLE, tmp_path / "c")
    assert store.read(tmp_path / "c", TABLE).seed.tolist() == [2, 2, 1, 1]
    origin = store.read_provenance(tmp_path / "c")
    assert json.loads(origin["config"]) == plan and origin["device"] == "cpu, cuda"
    assert "Stream.FUSION" in origin["seed_rule"] and "Stream.RANDOM_KEYS" in origin["seed_rule"]


def test_no_file_of_another_job_or_of_a_job_that_is_planned_otherwise_now_is_taken(metrics, tmp_path):
    plans = [planned(name, steps=steps) for name, steps in (("a", 3), ("b", 4))]
    for plan in plans:
        store.write(metrics, TABLE, tmp_path / f"{plan['job']}.parquet", provenance(plan, "cpu"))
    a, b, verdicts, out = (tmp_path / f"{name}.parquet" for name in ("a", "b", "verdicts", "out"))
    store.write(metrics, TABLE, verdicts, provenance({"job": "elsewhere"}, "cpu"))
    plan = planned("tables", *plans)
    store.refuse_unplanned(plan, [b, verdicts, a])
    with pytest.raises(ValueError, match=r"b\.parquet: a file of another run of b; delete"):
        store.collect(plan, [b, a], TABLE, out)
    with pytest.raises(ValueError, match="zip"):
        store.collect(plan, [a], TABLE, out)
    other = planned("tables", planned("a", steps=5), plans[1])
    for refuse, *given in ((store.collect, [a, b], TABLE, out), (store.refuse_unplanned, [b, verdicts, a])):
        with pytest.raises(ValueError, match=r"a\.parquet: a file of another run of a; delete"):
            refuse(other, *given)
    assert not out.exists()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's list of threads")
def test_collecting_and_reading_start_no_thread_that_could_abort_the_exit_of_a_short_job(metrics, tmp_path):
    program = """
import json, os, sys
import numpy, pandas, pyarrow.parquet
from layernorm_roles import store
before = os.listdir("/proc/self/task")
plan, path, out = sys.argv[1:]
store.collect(json.loads(plan), [path], "majority_metrics", out)
store.read(out, "majority_metrics")
print(len(os.listdir("/proc/self/task")) - len(before))
"""
    path = tmp_path / "metrics.parquet"
    majority = planned("majority", steps=3)
    store.write(metrics, TABLE, path, provenance(majority, "cpu"))
    plan = json.dumps(planned(f"tables/{TABLE}", majority))
    command = [sys.executable, "-c", program, plan, path, tmp_path / "all.parquet"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0\n"


def test_columns_are_of_the_types_that_the_list_names_and_blocks_of_columns_are_put_in():
    kinds = {field.name: (str(field.type), field.nullable) for field in SCHEMAS["key_selectability"]}
    assert kinds["head"] == ("int64", True) and kinds["causal"] == ("bool", False)
    assert kinds["min_margin"] == ("double", True) and kinds["model"] == ("string", False)
    assert SCHEMAS["majority_vectors"].field("vector").type.equals(pa.list_(pa.float64()))
    assert not any(name.startswith("of ") for name in SCHEMAS)
    decade = [share for share in CEILING_SHARES if 0.01 <= share < 0.1]
    assert (*CEILING_SHARES[:2], len(decade)) == (0.001, 0.001047, 50) and {0.5, 1.0} < {*CEILING_SHARES}
