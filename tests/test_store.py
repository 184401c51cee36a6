import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from layernorm_roles import store

ABOUT = store.provenance({"steps": 3}, device="cpu", seed_rule="none")


@pytest.fixture
def metrics():
    rows = {name: [0.5, 0.25] for name in store.SCHEMAS["majority_metrics"].names}
    return pd.DataFrame(rows | {"experiment": "d8", "variant": "layernorm", "seed": 0, "step": [0, 1]})


def test_what_is_written_is_read_and_says_where_it_comes_from(metrics, tmp_path):
    path = tmp_path / "new" / "metrics.parquet"
    store.write(metrics, "majority_metrics", path, ABOUT)
    pd.testing.assert_frame_equal(
        store.read(path, "majority_metrics"),
        metrics[store.SCHEMAS["majority_metrics"].names],
        check_dtype=False,
    )
    about = store.about(path)
    assert about["table"] == "majority_metrics"
    assert about["config"] == '{"steps": 3}'
    assert len(about["config_sha256"]) == 64
    field = pq.read_schema(path).field("test_loss")
    assert field.metadata[b"unit"] == b"nats per token"


def test_the_same_data_gives_the_same_bytes(metrics, tmp_path):
    for name in "ab":
        store.write(metrics, "majority_metrics", tmp_path / name, ABOUT)
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
def test_a_table_that_does_not_fit_is_refused_and_the_old_one_stays(metrics, tmp_path, spoil):
    path = tmp_path / "metrics.parquet"
    store.write(metrics, "majority_metrics", path, ABOUT)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"metrics\.parquet"):
        store.write(spoil(metrics), "majority_metrics", path, ABOUT)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.parquet"]


def test_a_damaged_file_is_never_read(metrics, tmp_path):
    """Whatever bit is flipped, in data, headers or footer, or however the file is cut, reading says so."""
    path = tmp_path / "metrics.parquet"
    many = pd.concat([metrics] * 500, ignore_index=True).assign(
        train_loss=np.random.default_rng(0).random(1000)
    )
    store.write(many, "majority_metrics", path, ABOUT)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [whole[:n] for n in rng.integers(0, len(whole) - 1, 20)]
    mark = whole.rfind(b"sha256:")  # seven bytes whose damage hides the checksum and touches no data
    for position in set(rng.integers(len(whole), size=500)) - {*range(mark, mark + 7)}:
        flipped = whole[position] ^ 1 << rng.integers(8)
        damaged.append(whole[:position] + bytes([flipped]) + whole[position + 1 :])
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"metrics\.parquet: damaged.*delete it and run again"):
            store.read(path, "majority_metrics")


def test_a_file_without_a_checksum_is_read(metrics, tmp_path):
    path = tmp_path / "metrics.parquet"
    store.write(metrics, "majority_metrics", path, ABOUT)
    table = pq.read_table(path)
    about = {k: v for k, v in table.schema.metadata.items() if k != b"checksum"}
    pq.write_table(table.replace_schema_metadata(about), path)
    assert len(store.read(path, "majority_metrics")) == len(metrics)


def test_another_table_or_no_file_is_named(metrics, tmp_path):
    path = tmp_path / "metrics.parquet"
    store.write(metrics, "majority_metrics", path, ABOUT)
    with pytest.raises(ValueError, match="do not fit table majority_vectors"):
        store.read(path, "majority_vectors")
    with pytest.raises(ValueError, match="no such file"):
        store.read(tmp_path / "nothing.parquet", "majority_metrics")


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), store.whole(tmp_path / "file.txt") as partial:
        partial.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
