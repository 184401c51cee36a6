"""certify-keys on files of each kind, and on files it has to refuse."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from layernorm_roles import store
from layernorm_roles.selectability import certify
from layernorm_roles.selectability.command_line import main

KEYS = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "keys.npy", KEYS)
    pd.DataFrame(KEYS, columns=["x", "y", "z"]).to_parquet(tmp_path / "columns.parquet")
    pd.DataFrame({"token": range(50), "vector": list(KEYS)}).to_parquet(tmp_path / "lists.parquet")
    keys = torch.tensor(KEYS)
    save_file({"keys": keys, "other": keys[:5].clone()}, tmp_path / "two.safetensors")
    save_file({"keys": keys}, tmp_path / "one.safetensors")
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
        (["objects.npy"], "objects.npy: no NumPy array: Array can't be memory-mapped: Python objects"),
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_exactly(tmp_path, dtype, capsys):
    keys = torch.tensor(KEYS).to(dtype)
    save_file({"keys": keys}, tmp_path / "half.safetensors")
    assert main([str(tmp_path / "half.safetensors"), "--out", str(tmp_path / "v.parquet")]) == 0
    expected = certify(keys.float().numpy())
    table = store.read(tmp_path / "v.parquet", "key_verdicts")
    assert table.verdict.tolist() == expected.verdict.tolist()
    np.testing.assert_array_equal(table.margin, expected.margin)


def test_the_input_is_never_overwritten(tmp_path, capsys):
    pd.DataFrame(KEYS, columns=["x", "y", "z"]).to_parquet(tmp_path / "keys.parquet")
    pd.DataFrame({"b": KEYS[:, 0]}).to_parquet(tmp_path / "bias.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "keys.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "keys.parquet")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    arguments = [str(tmp_path / "keys.parquet"), "--bias", str(tmp_path / "bias.parquet"), "--out"]
    for out in (
        "keys.parquet",
        "bias.parquet",
        "link.parquet",
        "hard.parquet",
        f"../{tmp_path.name}/keys.parquet",
    ):
        assert main([*arguments, str(tmp_path / out)]) == 2
        assert "would overwrite what is read" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}


def test_integers_that_floats_cannot_hold_are_refused(tmp_path, capsys):
    """Rounded, the first two keys would be duplicates, which no query selects."""
    large = np.array([2**53, 2**53 + 1, 0, 5])
    np.save(tmp_path / "a.npy", large[:, None])
    pd.DataFrame({"i": large, "x": [0.0, 1.0, 2.0, 3.0]}).to_parquet(tmp_path / "b.parquet")
    pd.DataFrame({"v": [[k, 1] for k in large.tolist()]}).to_parquet(tmp_path / "c.parquet")
    save_file({"k": torch.tensor(large)[:, None]}, tmp_path / "d.safetensors")
    for name in ("a.npy", "b.parquet", "c.parquet", "d.safetensors"):
        assert main([str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert name in error and "9007199254740993" in error and "expected integers up to 2^53" in error


def test_files_that_lie_about_their_size_or_kind_end_in_one_line(tmp_path, capsys):
    claims = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }"
    (tmp_path / "claims.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(claims + b"\n").to_bytes(2, "little") + claims + b"\n" + bytes(24)
    )
    save_file({"keys": torch.zeros(4, 2).to(torch.float8_e4m3fn)}, tmp_path / "fp8.safetensors")
    save_file({"keys": torch.zeros(4, 2, dtype=torch.complex64)}, tmp_path / "complex.safetensors")
    for name in ("claims.npy", "fp8.safetensors", "complex.safetensors"):
        assert main([str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert name in error and error.count("\n") == 1


def test_control_characters_do_not_reach_the_terminal(tmp_path, capsys):
    names = {"\x1b[31mred\x07": torch.zeros(2, 2), "two\nlines\u202e": torch.ones(2, 2)}
    save_file(names, tmp_path / "names.safetensors")
    assert main([str(tmp_path / "names.safetensors")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.rstrip("\n").isprintable()
    assert r"\x1b[31mred\x07" in error and r"two\nlines\u202e" in error


def test_a_damaged_file_of_the_project_is_refused(files, capsys):
    assert main([str(files / "keys.npy"), "--out", str(files / "verdicts.parquet")]) == 0
    damaged = bytearray((files / "verdicts.parquet").read_bytes())
    damaged[len(damaged) // 3] ^= 1
    (files / "verdicts.parquet").write_bytes(damaged)
    assert main([str(files / "verdicts.parquet"), "--tensor", "query"]) == 2
    assert "verdicts.parquet: damaged" in capsys.readouterr().err


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("certify-keys 0.")
