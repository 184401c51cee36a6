"""certify-keys on files of each kind, its options, and files and options it has to refuse."""

import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.schemas import SCHEMAS
from layernorm_roles.selectability import certify, command_line
from layernorm_roles.selectability.command_line import main

KEYS = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
BIAS = np.round(4 * KEYS[:, 0] * KEYS[:, 1]) / 4  # the same number in every format


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "keys.npy", KEYS)
    pd.DataFrame(KEYS, columns=["x", "y", "z"]).to_parquet(tmp_path / "columns.parquet")
    pd.DataFrame({"token": range(50), "vector": list(KEYS)}).to_parquet(tmp_path / "lists.parquet")
    keys = torch.tensor(KEYS)
    save_file({"keys": keys, "other": keys[:5].clone()}, tmp_path / "two.safetensors")
    save_file({"keys": keys}, tmp_path / "one.safetensors")
    np.save(tmp_path / "bias.npy", BIAS)
    np.savez(tmp_path / "one.npz", KEYS)
    np.savez_compressed(tmp_path / "two.npz", keys=KEYS, other=KEYS[:5])
    vectors = pa.array([row.tolist() for row in KEYS], pa.large_list(pa.float32()))
    pq.write_table(pa.table({"vector": vectors}), tmp_path / "large.parquet")
    save_file({"keys": keys.clone()}, tmp_path / "model-00002-of-00002.safetensors")
    shards = {f"layer.{k}": "model-00001-of-00002.safetensors" for k in range(60)}
    index = {"metadata": {}, "weight_map": shards | {"keys": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def verdicts_in(path):
    """The table that --out wrote."""
    table = pq.ParquetFile(path).read()
    assert table.schema.equals(SCHEMAS["key_verdicts"])
    return table.to_pandas()


def asked(path):
    """What the provenance in the file that --out wrote says it was made from."""
    return json.loads(pq.read_schema(path).metadata[b"config"])


def last_error(capsys):
    """What was printed to standard error, without the name of the program: one line."""
    error = capsys.readouterr().err
    assert error.startswith("certify-keys: ") and error.count("\n") == 1
    return error.removeprefix("certify-keys: ")


@pytest.mark.parametrize(
    "name,options",
    [
        ("keys.npy", []),
        ("columns.parquet", []),
        ("lists.parquet", []),
        ("lists.parquet", ["--tensor", "vector"]),
        ("one.safetensors", []),
        ("two.safetensors", ["--tensor", "keys"]),
        ("one.npz", []),
        ("two.npz", ["--tensor", "keys"]),
        ("large.parquet", []),
        ("model.safetensors.index.json", ["--tensor", "keys"]),
    ],
)
def test_verdicts_of_a_file(files, name, options, capsys):
    assert main([str(files / name), *options, "--out", str(files / "verdicts.parquet")]) == 0
    expected = certify(KEYS)
    table = verdicts_in(files / "verdicts.parquet")
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
        (["keys.npy", "--bias", str(files / "short.npy")], "short.npy: bias has shape (3,): expected (50,)"),
    ]:
        assert main([str(files / options[0]), *options[1:]]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_exactly(tmp_path, dtype, capsys):
    keys = torch.tensor(KEYS).to(dtype)
    save_file({"keys": keys}, tmp_path / "half.safetensors")
    assert main([str(tmp_path / "half.safetensors"), "--out", str(tmp_path / "v.parquet")]) == 0
    expected = certify(keys.float().numpy())
    table = verdicts_in(tmp_path / "v.parquet")
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


def test_a_damaged_file_of_the_project_is_refused(tmp_path, capsys):
    path = tmp_path / "verdicts.parquet"
    store.write(certify(KEYS).to_frame(), "key_verdicts", path, provenance({}, "cpu"))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)
    assert main([str(path), "--tensor", "query"]) == 2
    assert "verdicts.parquet: damaged" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["v.csv", "v.parquet"])
def test_beside_an_output_nothing_is_left(files, name, capsys):
    out = files / "new" / name
    for rows in ("0:50", "0:40"):  # the second run replaces the file of the first
        assert main([str(files / "keys.npy"), "--rows", rows, "--out", str(out)]) == 0
    assert [path.name for path in out.parent.iterdir()] == [name]


def test_an_output_takes_the_place_of_a_file_of_the_project(files, capsys):
    """Whose checksum would call the new file damaged."""
    out = files / "verdicts.parquet"
    store.write(certify(KEYS).to_frame(), "key_verdicts", out, provenance({}, "cpu"))
    assert main([str(files / "keys.npy"), "--rows", "0:40", "--out", str(out)]) == 0
    assert main([str(out), "--tensor", "key"]) == 2
    assert "keys has shape (40,)" in last_error(capsys)


def test_csv_with_and_without_a_line_of_names(tmp_path, capsys):
    table = pd.DataFrame(KEYS.astype(float))
    table.to_csv(tmp_path / "plain.csv", index=False, header=False)
    table.to_csv(tmp_path / "names.csv", index=False, header=["x", "y", "z, quoted"])
    (tmp_path / "windows.csv").write_bytes(
        b"\xef\xbb\xbf" + (tmp_path / "names.csv").read_bytes().replace(b"\n", b"\r\n")
    )
    table.to_csv(tmp_path / "counted.csv", index=False)
    expected = certify(KEYS.astype(float))
    for name, options in [
        ("plain.csv", []),
        ("names.csv", []),
        ("windows.csv", []),
        ("counted.csv", ["--header", "yes"]),
    ]:
        assert main([str(tmp_path / name), *options, "--out", str(tmp_path / "v.parquet")]) == 0
        assert "50 keys, d = 3, float64" in capsys.readouterr().out
        verdicts = verdicts_in(tmp_path / "v.parquet")
        np.testing.assert_array_equal(verdicts.margin, expected.margin)  # every digit was read
    assert main([str(tmp_path / "counted.csv"), "--header", "no"]) == 0
    assert "51 keys, d = 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content,message",
    [
        ("0,1\n2,3\n", "line 1 counts 0 to 1: say with --header yes or --header no"),
        (",x,y\n0,1.5,2\n", "leave out a column that numbers the rows"),
        ("word,1.5\ncat,2\n", "names beside numbers"),
        ("1.5,2\n3\n", "no table of numbers separated by commas"),
        ("1.5;2\n3;4\n", "no table of numbers separated by commas"),
        ("x,y\n1,two\n", "could not convert string 'two'"),
        ("1.5,\n1,2\n", "line 1 has empty cells"),
        ("1,2\n9007199254740993,1\n", "column 0 has integers of 2^53 and more"),
        ("1.5,nan\n2,3\n", "keys has nan at (0, 1)"),
        ("", "empty: expected numbers separated by commas"),
        ("x,y\n", "keys is empty"),
        (b"\xff\xfe1\x00", "no text in UTF-8"),
    ],
)
def test_a_csv_file_that_is_no_table_of_numbers_or_may_be_another_one_is_refused(
    tmp_path, content, message, capsys
):
    file = tmp_path / "keys.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main([str(file)]) == 2
    error = last_error(capsys)
    assert "keys.csv: " in error and message in error


def test_rows_are_the_whole_problem_and_keep_their_numbers(files, capsys):
    out = files / "verdicts.parquet"
    assert main([str(files / "keys.npy"), "--rows", "10:40", "--out", str(out)]) == 0
    assert "30 keys" in capsys.readouterr().out
    expected = certify(KEYS[10:40])
    table = verdicts_in(out)
    assert table.key.tolist() == list(range(10, 40))
    assert table.verdict.tolist() == expected.verdict.tolist() != certify(KEYS).verdict[10:40].tolist()
    for row in table[table.verdict == "unselectable"].itertuples():
        np.testing.assert_allclose(row.weights @ KEYS[row.support], KEYS[row.key], atol=1e-6)
    assert asked(out)["rows"] == [10, 40]
    for rows in (":40", "40:"):
        assert main([str(files / "keys.npy"), "--rows", rows]) == 0
    assert "40 keys" in (printed := capsys.readouterr().out) and "10 keys" in printed


def test_rows_of_a_bias_are_taken_with_those_of_the_keys(files, capsys):
    out = files / "verdicts.csv"
    pd.DataFrame({"bias": BIAS}).to_csv(files / "bias.csv", index=False)
    for bias in ("bias.npy", "bias.csv"):
        options = ["--rows", "10:40", "--bias", str(files / bias), "--out", str(out)]
        assert main([str(files / "keys.npy"), *options]) == 0
        expected = certify(KEYS[10:40], BIAS[10:40])
        assert pd.read_csv(out).verdict.tolist() == expected.verdict.tolist()
    np.save(files / "long.npy", np.zeros(60))
    assert main([str(files / "keys.npy"), "--rows", "10:40", "--bias", str(files / "long.npy")]) == 2
    assert "long.npy: bias has shape (60,): expected (50,)" in last_error(capsys)


def test_causal_certificates_are_those_of_the_library(files, capsys):
    out = files / "verdicts.parquet"
    assert main([str(files / "keys.npy"), "--causal", "--out", str(out)]) == 0
    assert "50 keys, d = 3, float32, each among those before it" in capsys.readouterr().out
    table = verdicts_in(out)
    assert table.verdict.tolist() == certify(KEYS, causal=True).verdict.tolist()
    assert (table.verdict != certify(KEYS).verdict).any()
    assert all(row.support.max() < row.key for row in table[table.verdict == "unselectable"].itertuples())
    assert asked(out)["causal"] is True


def test_flat_keys_are_judged_in_their_plane(tmp_path, capsys):
    """Off the plane the keys differ by rounding alone, in which no search is possible."""
    plane = np.random.default_rng(1).standard_normal((60, 2))
    keys = plane @ np.linalg.qr(np.random.default_rng(2).standard_normal((4, 4)))[0][:2]
    np.save(tmp_path / "keys.npy", keys)
    expected = certify(plane).verdict
    inside = expected == "unselectable"
    out = tmp_path / "verdicts.parquet"
    assert main([str(tmp_path / "keys.npy"), "--flat", "--out", str(out)]) == 0
    assert verdicts_in(out).verdict.tolist() == expected.tolist()
    assert asked(out)["flat"] is True
    assert main([str(tmp_path / "keys.npy"), "--out", str(out)]) == 0
    assert (verdicts_in(out).verdict[inside] == "borderline").all() and inside.any()


def test_a_csv_output_has_all_but_the_proofs(files, capsys):
    assert main([str(files / "keys.npy"), "--out", str(files / "v.csv")]) == 0
    assert "v.csv; its proofs need a .parquet file" in capsys.readouterr().out
    expected = certify(KEYS).to_frame()[["key", "verdict", "margin", "residual", "duplicate"]]
    pd.testing.assert_frame_equal(pd.read_csv(files / "v.csv"), expected)


def test_outputs_that_would_fail_later_are_refused_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").touch()
    for out, message in [
        ("v.txt", "ending '.txt': expected one of .parquet, .csv"),
        ("verdicts", "ending ''"),
        ("v.parquet.gz", "ending '.gz'"),
        ("folder.csv", "is a folder"),
        ("file/deep/v.csv", "expected a place in a folder that can be written to"),
    ]:
        assert main([str(tmp_path / "absent.npy"), "--out", str(tmp_path / out)]) == 2
        assert message in last_error(capsys)


def test_a_failure_leaves_an_earlier_output_as_it_was(files, capsys):
    out = files / "v.csv"
    out.write_text("earlier")
    np.save(files / "nan.npy", np.array([[1.0, np.nan]]))
    assert main([str(files / "nan.npy"), "--out", str(out)]) == 2
    assert out.read_text() == "earlier"


def test_options_that_cannot_be_are_refused_in_one_line(files, capsys):
    keys = str(files / "keys.npy")
    for options, message in [
        ([keys, "--rows", "5"], "'5': expected FIRST:STOP, such as 0:5000"),
        ([keys, "--rows", "-5:"], "expected"),
        ([keys, "--rows", "0:51"], "--rows 0:51: expected at least one of the rows 0:50"),
        ([keys, "--rows", "7:7"], "--rows 7:7"),
        (
            [keys, "--causal", "--bias", str(files / "bias.npy")],
            "--causal and --bias: expected one of the two",
        ),
        ([keys, "--bias-tensor", "b"], "--bias-tensor without --bias"),
        ([keys, "--header", "yes"], "--header: expected only with a .csv file"),
        ([keys, "--header", "maybe"], "expected yes or no"),
        ([keys, "--wrong"], "--wrong"),
        ([], "required: file"),
    ]:
        assert main(options) == 2
        assert message in last_error(capsys)


def test_tensors_are_named_where_one_has_to_be_chosen(files, capsys):
    index = str(files / "model.safetensors.index.json")
    for options, message in [
        ([str(files / "two.npz")], "holds 2 arrays; choose one with --tensor: keys, other"),
        ([str(files / "two.npz"), "--tensor", "kyes"], "no array 'kyes': it has keys"),
        ([index], "holds 61 tensors; choose one with --tensor: keys, layer.0, "),
        ([index], " and 21 more"),
        ([index, "--tensor", "layer.60"], "no tensor 'layer.60': it has layer.6"),
        (
            [index, "--tensor", "layer.3"],
            "is in model-00001-of-00002.safetensors, which is not beside the index",
        ),
    ]:
        assert main(options) == 2
        assert message in last_error(capsys)


@pytest.mark.parametrize(
    "content,message",
    [
        ("{", "no index of safetensors files"),
        ("[]", "no index of safetensors files"),
        ('{"weight_map": 3}', "no index of safetensors files"),
        ('{"weight_map": {"k": "../two.safetensors"}}', "expected the name of a file beside the index"),
        ('{"weight_map": {"k": ["two.safetensors"]}}', "expected the name of a file beside the index"),
        ('{"weight_map": {"k": "two.safetensors"}}', "two.safetensors: no tensor 'k'"),
        ('{"weight_map": {}}', "holds 0 tensors"),
    ],
)
def test_an_index_that_names_no_shard_beside_it_is_refused(files, content, message, capsys):
    (files / "bad.safetensors.index.json").write_text(content)
    assert main([str(files / "bad.safetensors.index.json")]) == 2
    assert message in last_error(capsys)


def test_damaged_archives_of_arrays_and_pickles_in_them_are_refused(files, capsys):
    np.savez(files / "objects.npz", np.array([{}, {}]), allow_pickle=True)
    content = bytearray((files / "one.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (files / "flipped.npz").write_bytes(content)
    (files / "text.npz").write_bytes(b"no archive")
    for name, message in [
        ("objects.npz", "Object arrays cannot be loaded"),
        ("flipped.npz", "Bad CRC-32"),
        ("text.npz", "not a zip file"),
    ]:
        assert main([str(files / name), *(["--tensor", "arr_0"] if name == "objects.npz" else [])]) == 2
        error = last_error(capsys)
        assert "no archive of NumPy arrays" in error and message in error


class FakeClock:
    """Time that passes only while keys are certified: so many seconds for so many keys, after a compilation."""

    def __init__(self, seconds, selectable):
        self.now, self.seconds, self.selectable, self.compiled = 0.0, seconds, selectable, False

    def prove(self, keys, bias):
        self.now += self.seconds(len(keys)) + 20 * (not self.compiled)
        self.compiled = True
        return SimpleNamespace(counts=lambda: {"selectable": self.selectable(len(keys))})


@pytest.mark.parametrize(
    "seconds,selectable",
    [
        (lambda n: n / 125, lambda n: 100),
        (lambda n: (n / 2500) ** 2, lambda n: n),
        (lambda n: 1.0 + (n / 2500) ** 2, lambda n: n),  # a constant hides how the small parts' time grows
        (lambda n: (n / 50_000) ** 2.2 * 400, lambda n: int(n**0.5)),
    ],
)
def test_the_expected_time_is_right_for_laws_that_were_measured(seconds, selectable, monkeypatch):
    clock = FakeClock(seconds, selectable)
    monkeypatch.setattr(command_line.time, "perf_counter", lambda: clock.now)
    expected = command_line._expected_seconds(np.zeros((50_000, 2)), None, clock.prove)
    assert expected == pytest.approx(400, rel=0.2)
    assert clock.now - 20 < 80


def test_no_time_is_expected_of_few_keys_or_of_keys_that_will_be_refused():
    for keys, bias in (
        (KEYS, None),
        (np.full((9000, 2), np.nan), None),
        (np.zeros((9000, 2)), np.zeros(3)),
        (np.zeros(9000), None),
    ):
        assert command_line._expected_seconds(keys, bias, certify) is None


def test_the_wrong_entry_of_a_large_matrix_is_named_by_its_own_place(tmp_path, capsys):
    """Not by its place in the part of the rows that is timed first."""
    keys = np.ones((9000, 2))
    keys[8999, 1] = np.nan
    np.save(tmp_path / "keys.npy", keys)
    assert main([str(tmp_path / "keys.npy")]) == 2
    assert "keys has nan at (8999, 1)" in last_error(capsys)


def test_a_long_search_says_how_long_it_will_take_and_how_long_it_took(files, monkeypatch, capfd):
    monkeypatch.setattr(command_line, "_expected_seconds", lambda *_: 300.0)
    assert main([str(files / "keys.npy")]) == 0
    assert "certify-keys: 50 x 3: about 5 min\n" in capfd.readouterr().err


def test_ctrl_c_ends_compiled_code_at_once():
    """As one line of compiled code that keeps Python's lock for a minute, libc's sleep."""
    code = (
        "import ctypes; from layernorm_roles.selectability.command_line import _ended_by_ctrl_c\n"
        "with _ended_by_ctrl_c(): print(flush=True); ctypes.PyDLL(None).sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("certify-keys 0.")
