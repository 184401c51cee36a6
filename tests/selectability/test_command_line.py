"""certify-keys on files of each kind, and on files it has to refuse."""

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from layernorm_roles import store
from layernorm_roles.selectability import certify
from layernorm_roles.selectability.command_line import main

KEYS = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "keys.npy", KEYS)
    pd.DataFrame(KEYS, columns=["x", "y", "z"]).to_parquet(tmp_path / "columns.parquet")
    pd.DataFrame({"token": range(50), "vector": list(KEYS)}).to_parquet(tmp_path / "lists.parquet")
    save_file({"keys": KEYS, "other": KEYS[:5]}, tmp_path / "two.safetensors")
    save_file({"keys": KEYS}, tmp_path / "one.safetensors")
    np.save(tmp_path / "bias.npy", KEYS[:, 0])
    return tmp_path


@pytest.mark.parametrize(
    "name,options",
    [
        ("keys.npy", []),
        ("columns.parquet", []),
        ("lists.parquet", []),
        ("lists.parquet", ["--tensor", "vector"]),
        ("one.safetensors", []),
        ("two.safetensors", ["--tensor", "keys"]),
    ],
)
def test_verdicts_of_a_file(files, name, options, capsys):
    assert main([str(files / name), *options, "--out", str(files / "verdicts.parquet")]) == 0
    expected = certify(KEYS)
    table = store.read(files / "verdicts.parquet", "key_verdicts")
    assert table.verdict.tolist() == expected.verdict.tolist()
    inner = table[table.verdict == "unselectable"].iloc[0]
    np.testing.assert_allclose(inner.weights @ KEYS[inner.support], KEYS[inner.key], atol=1e-6)
    winner = table[table.verdict == "selectable"].iloc[0]
    assert np.argmax(KEYS @ winner["query"]) == winner.key
    assert "50 keys, d = 3, float32" in capsys.readouterr().out


def test_bias(files, capsys):
    assert main([str(files / "keys.npy"), "--bias", str(files / "bias.npy")]) == 0
    assert "every certificate verified" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name,content,message",
    [
        ("absent.npy", None, "no such file"),
        ("keys.txt", b"1 2", "unknown kind '.txt'"),
        ("text.npy", b"not an array", "no NumPy array"),
        ("empty.npy", b"", "no NumPy array"),
        ("text.parquet", b"not a table", "no Parquet table"),
        ("text.safetensors", b"not tensors at all", "not readable as safetensors"),
    ],
)
def test_refuses_a_file_that_is_no_matrix(tmp_path, name, content, message, capsys):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert main([str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert name in error and message in error and error.count("\n") == 1


def test_refuses_pickles_and_wrong_arrays(files, capsys):
    np.save(files / "objects.npy", np.array([{}, {}]), allow_pickle=True)
    np.save(files / "line.npy", np.ones(3))
    np.save(files / "nan.npy", np.array([[1.0, np.nan]]))
    np.save(files / "short.npy", np.ones(3, np.float32))
    pd.DataFrame({"a": [[1.0], [1.0, 2.0]]}).to_parquet(files / "ragged.parquet")
    for options, message in [
        (["objects.npy"], "allow_pickle"),
        (["line.npy"], "line.npy: keys has shape (3,)"),
        (["nan.npy"], "nan.npy: keys has nan at (0, 1)"),
        (["two.safetensors"], "choose one with --tensor: keys, other"),
        (["two.safetensors", "--tensor", "values"], "no tensor 'values': it has"),
        (["lists.parquet", "--tensor", "values"], "no column 'values': it has token, vector"),
        (["ragged.parquet"], "lengths [1, 2]"),
        (["keys.npy", "--tensor", "values"], "holds one array"),
        (["keys.npy", "--bias", str(files / "short.npy")], "bias has 3 entries: expected 50"),
    ]:
        assert main([str(files / options[0]), *options[1:]]) == 2
        assert message in capsys.readouterr().err
