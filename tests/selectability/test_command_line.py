"""certify-keys on files of each kind, its options, and files and options it has to refuse."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

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
from layernorm_roles.selectability.command_line import FORMATS, main

KEYS = np.random.default_rng(0).standard_normal((50, 3)).astype(np.float32)
BIAS = np.round(4 * KEYS[:, 0] * KEYS[:, 1]) / 4  # the same number in every format


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The working folder, with files of every kind."""
    monkeypatch.chdir(tmp_path)
    np.save("keys.npy", KEYS)
    pd.DataFrame({"token": range(50), "vector": list(KEYS)}).to_parquet("lists.parquet")
    pd.DataFrame({"token": [None] + ["a"] * 49, "vector": list(KEYS)}).to_parquet("words.parquet")
    exact = pd.DataFrame(KEYS.astype(float))
    exact.to_csv("plain.csv", index=False, header=False)
    named = exact.to_csv(index=False, header=["2019", "y", "z, quoted"], lineterminator="\r\n").encode()
    (tmp_path / "windows.csv").write_bytes(b"\xef\xbb\xbf\r\n" + named)
    exact.to_csv("index.csv")
    (tmp_path / "folder.csv").mkdir()
    # Evenly spaced row numbers would not be kept as a column.
    pd.DataFrame(KEYS, index=np.arange(50) ** 2, columns=["x", "y", "z"]).to_parquet("chosen.parquet")
    repeated = pa.Table.from_arrays([pa.array(KEYS[:, 0])] * 2, names=["x", "x"])
    pq.write_table(repeated, "repeated.parquet")
    for name, bias in (("short", BIAS[:3]), ("nan", np.where(np.arange(50) == 3, np.nan, BIAS)), ("", BIAS)):
        np.save(f"{name}bias.npy", bias)
    keys, before = torch.tensor(KEYS), torch.zeros(7)  # so that the keys do not begin where the tensors do
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        save_file({"a": before, "keys": keys.to(dtype)}, f"{name}.safetensors")
    save_file({"keys": keys, "b": torch.tensor(1.0)}, "two.safetensors")
    save_file({"keys": keys.clone()}, "model-00002-of-00002.safetensors")
    shards = {f"layer.{k}": "model-00001-of-00002.safetensors" for k in range(60)}
    index = {"metadata": {}, "weight_map": shards | {"keys": "model-00002-of-00002.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def verdicts_in(path):
    """The table that --out wrote, and what the file says it was made from."""
    with Path(path).open("rb") as file:  # pyarrow takes no name that is not in UTF-8
        table = pq.ParquetFile(file).read()
    assert table.schema.equals(SCHEMAS["key_verdicts"])
    return table.to_pandas(), json.loads(table.schema.metadata[b"config"])


def last_error(capsys):
    """What was printed to standard error, without the name of the program: one line."""
    error = capsys.readouterr().err
    assert error.startswith("certify-keys: ") and error.count("\n") == 1
    return error.removeprefix("certify-keys: ")


@pytest.mark.parametrize(
    "name,options,taken",
    [
        ("keys.npy", [], ""),
        ("chosen.parquet", [], ""),
        ("words.parquet", [], " (column vector)"),
        ("lists.parquet", ["--tensor", "vector"], " (column vector)"),
        ("two.safetensors", ["--tensor", "keys"], " (tensor keys, float32)"),
        ("bfloat16.safetensors", ["--tensor", "keys"], " (tensor keys, bfloat16)"),
        ("float16.safetensors", ["--tensor", "keys"], " (tensor keys, float16)"),
        ("model.safetensors.index.json", ["--tensor", "keys"], " (tensor keys, float32)"),
        ("plain.csv", [], " (numbers from the first line on)"),
        ("windows.csv", ["--header"], " (the first line names the columns)"),
    ],
)
def test_verdicts_of_a_file(files, name, options, taken, capsys):
    """Every digit of a text is read, and every number of half precision is taken exactly. The name is no UTF-8."""
    on_interrupt = signal.getsignal(signal.SIGINT)
    out = "gr\udcf6\udcdfe.parquet"
    assert main([name, *options, "--out", out]) == 0
    assert signal.getsignal(signal.SIGINT) is on_interrupt
    dtype = getattr(torch, name.removesuffix(".safetensors"), torch.float32)
    keys = torch.tensor(KEYS).to(dtype).to(torch.float64 if name.endswith("csv") else torch.float32).numpy()
    expected, (table, _) = certify(keys), verdicts_in(out)
    assert table.verdict.tolist() == expected.verdict.tolist()
    np.testing.assert_array_equal([table.margin, table.residual], [expected.margin, expected.residual])
    inner = table[table.verdict == "unselectable"].iloc[0]
    np.testing.assert_allclose(inner.weights @ keys[inner.support], keys[inner.key], atol=1e-6)
    winner = table[table.verdict == "selectable"].iloc[0]
    assert np.argmax(keys @ winner["query"]) == winner.key
    printed = capsys.readouterr().out
    assert re.search(re.escape(f"{name}{taken}: 50 keys, d = 3, ") + r"float\d+\n", printed)
    inside = np.flatnonzero(expected.verdict == "unselectable")
    first = ", ".join(map(str, inside[:20]))
    assert f"unselectable rows, from 0: {first} and {len(inside) - 20} more\n" in printed
    for verdict, number in expected.counts().items():
        assert re.search(rf"{verdict} +{number} +{2 * number}\.00%\n", printed)
    weakest = np.nanmin(expected.margin[expected.verdict == "selectable"]), np.max(expected.residual[inside])
    assert f"margin {weakest[0]:.3g} (tolerance {expected.tolerance:g})\n" in printed
    assert f"residual {weakest[1]:.3g}\n" in printed


def test_a_table_of_text_may_have_one_column_or_one_row_and_large_fractions(files, capsys):
    for text, size in ((b'\xef\xbb\xbf"0.5"\n1e300\n', "2 keys, d = 1"), (b"1,2\n", "1 keys, d = 2")):
        (files / "a.csv").write_bytes(text)
        assert main(["a.csv"]) == 0 and size in capsys.readouterr().out


LARGE = np.array([2**53, 2**53 + 1, 0, 5])
"""Rounded to float64, the first two are equal, and as keys duplicates, which no query selects."""
NO_NUMPY = "no NumPy array"
NUMBERS, WORDS = (
    "expected numbers such as 1.5 and -2e-3",
    ("1,000", "1_000", "#1", "NA", "true", "2020-01-01"),
)
PICKLE = "is a pickle, which runs code when it is read: save the matrix by safetensors.torch.save_file"
HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3), }\n"
CLAIMS = b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER + bytes(24)
BESIDE = "expected the name of a file beside the index"
MODEL, K = "model.safetensors.index.json", "k.safetensors.index.json"
REFUSED = [
    # file, its content (None: one of `files`), further options, a part of the message
    ("absent.npy", None, [], "no such file"),
    ("/dev/null", None, [], "a folder, pipe or device"),
    *((f"keys{ending}", b"1 2", [], f"unknown kind '{ending}'") for ending in (".txt", ".npz")),
    *((f"model{ending}", b"PK", [], PICKLE) for ending in (".pt", ".bin")),
    ("empty.npy", b"", [], NO_NUMPY),
    ("claims.npy", CLAIMS, [], NO_NUMPY),
    ("objects.npy", np.array([{}, {}]), [], "Python objects"),
    ("nan.npy", np.array([[1.0, np.nan]]), [], "nan.npy: keys has nan at (0, 1)"),
    ("integers.npy", LARGE[:, None], [], "9007199254740993 at (1, 0): expected integers up to 2^53"),
    *((name, None, ["--tensor", "values"], "holds one array") for name in ("keys.npy", "plain.csv")),
    ("text.parquet", b"not a table", [], "no Parquet table"),
    ("lists.parquet", None, [], "lists (vector) beside columns of numbers (token): choose one with --tensor"),
    ("lists.parquet", None, ["--tensor", "values"], "no column 'values': it has token, vector"),
    ("a.parquet", {"v": [[1.0]], "w": [[2.0]]}, [], "holds 2 list columns; choose one with --tensor: v, w"),
    ("a.parquet", {"v": [[1.0], [1.0, 2.0]]}, [], "lengths [1, 2]"),
    ("a.parquet", {"v": [[1.0], [None]]}, [], "column 'v' has no numbers, or nulls among them"),
    ("a.parquet", {"x": [1.0, None]}, [], "there are nulls"),
    ("a.parquet", {}, [], "a.parquet: keys is empty"),
    ("a.parquet", {"k": [True, False], "x": [1.0, 2.0]}, [], "column 'k' has dtype bool"),
    ("repeated.parquet", None, ["--tensor", "x"], "two columns have one name"),
    ("a.parquet", {"i": LARGE, "x": [0.0, 1.0, 2.0, 3.0]}, [], "9007199254740993 at (1,)"),
    ("a.parquet", {"v": [[k, 1] for k in LARGE.tolist()]}, [], "9007199254740993 at (1, 0)"),
    ("text.safetensors", b"not tensors at all", [], "not readable as safetensors"),
    ("none.safetensors", b"\x02" + bytes(7) + b"{}", [], "holds no tensor: expected at least"),
    ("k.safetensors", torch.tensor(LARGE)[:, None], [], "9007199254740993 at (1, 0)"),
    ("k.safetensors", torch.zeros(4, 2).to(torch.float8_e4m3fn), [], "F8_E4M3: expected real numbers"),
    ("k.safetensors", torch.zeros(0, 3, dtype=torch.bfloat16), [], "keys is empty: shape (0, 3)"),
    ("two.safetensors", None, ["--tensor", "b", "--rows", "0:1"], "expected at least one of the rows 0:0"),
    ("two.safetensors", None, [], "choose one with --tensor: keys, b"),
    (MODEL, None, [], "holds 61 tensors; choose one with --tensor: keys, layer.0, "),
    (MODEL, None, ["--tensor", "layer.60"], "'layer.60': it has layer.6, layer.0, layer.56 and 58 more"),
    (MODEL, None, ["--tensor", "layer.3"], "which is not beside the index"),
    (K, b'{"weight_map": 3}', ["--tensor", "k"], "no index of safetensors files"),
    (K, b'{"weight_map": {"k": "../two.safetensors"}}', ["--tensor", "k"], BESIDE),
    (K, b'{"weight_map": {"k": ["two.safetensors"]}}', ["--tensor", "k"], BESIDE),
    (K, b'{"weight_map": {"k": "two.safetensors"}}', ["--tensor", "k"], "two.safetensors: no tensor 'k'"),
    (
        "index.csv",
        None,
        ["--header"],
        "column 0 has no name: the index that pandas writes? to_csv(index=False)",
    ),
    (
        "index.csv",
        None,
        [],
        "column 0 has an empty cell: expected numbers such as 1.5 and -2e-3, or --header",
    ),
    *(("a.csv", f'1,"{x}"\n'.encode(), [], f"column 1: {NUMBERS}, or --header if the first") for x in WORDS),
    ("a.csv", b"x\n\n1\nb\n", ["--header"], f"column 0: {NUMBERS}: Failed to parse string: 'b'"),
    ("a.csv", b'x,y\n1,2\n3,"4\n', ["--header"], r"Failed to parse string: '4\n'"),
    ("a.csv", b"1.5,2\n3\n", [], "no table of numbers separated by commas: CSV parse error: "),
    (
        "a.csv",
        b"1,2\n9007199254740993,1\n",
        [],
        "Integer value 9007199254740993 not in range",
    ),
    ("a.csv", b"1,2\n2,-1e400\n", [], "keys has -inf at (1, 1): expected finite"),
    ("a.csv", b"1,nan\n", [], "keys has nan at (0, 1): expected finite"),
    ("a.csv", b"", [], "no table of numbers separated by commas: Empty CSV file"),
    ("a.csv", b"\xff\xfe1\x00", [], "no table of numbers separated by commas"),
    ("a.csv", b"x,y\n", ["--header"], "keys is empty: shape (0, 2)"),
    ("keys.npy", None, ["--bias", "shortbias.npy"], "shortbias.npy: bias has shape (3,): expected (50,)"),
    ("keys.npy", None, ["--bias", "nanbias.npy"], "nanbias.npy: bias has nan at (3,): expected finite"),
    ("keys.npy", None, ["--bias", "bias.npy", "--causal"], "--causal and --bias: expected one of the two"),
    ("keys.npy", None, ["--bias-tensor", "b"], "--bias-tensor without --bias"),
    ("keys.npy", None, ["--rows", "5"], "'5': expected FIRST:STOP, such as 0:5000"),
    ("keys.npy", None, ["--rows", "0:51"], "--rows 0:51: expected at least one of the rows 0:50"),
    ("keys.npy", None, ["--rows", "3:3"], "--rows 3:3: expected at least one of the rows 0:50"),
    ("keys.npy", None, ["--header"], "--header: expected only with a .csv file"),
    ("absent.npy", None, ["--out", "v.txt"], "ending '.txt': expected one of .parquet, .csv"),
    ("absent.npy", None, ["--out", "folder.csv"], "is a folder"),
    ("absent.npy", None, ["--out", "bias.npy/deep/v.csv"], "expected a place in a folder"),
    ("absent.npy", None, ["--out", "x" * 245 + ".parquet"], "that can be written to (File name too long)"),
    # Control characters must not reach the terminal.
    ("a.safetensors", {"\x1b[31m": KEYS, "two\nlines\u202e": KEYS}, [], r"\x1b[31m, two\nlines\u202e"),
]


@pytest.mark.parametrize("name,content,options,message", REFUSED)
def test_what_may_be_no_matrix_is_refused_in_one_line(files, name, content, options, message, capsys):
    path = files / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, torch.Tensor):
        save_file({"k": content}, path)
    elif isinstance(content, dict) and path.suffix == ".safetensors":
        save_file({key: torch.tensor(value) for key, value in content.items()}, path)
    elif isinstance(content, dict):
        pd.DataFrame(content).to_parquet(path)
    elif content is not None:
        np.save(path, content, allow_pickle=True)
    assert main([name, *options]) == 2
    error = last_error(capsys)
    assert message in error and error.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [(MemoryError(), 2, "keys.npy: too large for the memory\n"), (KeyboardInterrupt(), 130, "")],
)
def test_a_full_memory_and_an_interrupt_end_in_a_status(files, error, status, line, capsys, monkeypatch):
    def load(*_):
        raise error

    monkeypatch.setattr(command_line, "load", load)
    assert main(["keys.npy"]) == status
    assert capsys.readouterr().err.removeprefix("certify-keys: ") == line


def test_the_help_can_be_printed_and_names_all_kinds_of_files(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--help"])
    assert all(f"\n  {ending} " in said for said in [capsys.readouterr().out] for ending in FORMATS)


def test_verdicts_are_written_before_anything_is_printed(files, monkeypatch):
    def nobody_reads(*_):
        raise BrokenPipeError

    monkeypatch.setattr(command_line, "summary", nobody_reads)
    assert main(["keys.npy", "--out", "v.parquet"]) == 2 and len(verdicts_in("v.parquet")[0]) == 50


def test_a_certificate_that_does_not_hold_is_not_called_verified(files, capsys, monkeypatch):
    monkeypatch.setattr(command_line, "certify", lambda keys, *options: certify(keys[::-1], *options))
    assert main(["keys.npy"]) == 2 and "does not hold" in last_error(capsys)


def test_the_input_is_never_overwritten(files, capsys):
    pd.DataFrame({"b": BIAS}).to_parquet("bias.parquet")
    (files / "link.parquet").symlink_to("chosen.parquet")
    (files / "hard.parquet").hardlink_to("chosen.parquet")
    before = {path: path.read_bytes() for path in files.glob("*.parquet")}
    for out in ("chosen", "bias", "link", "hard", f"../{files.name}/chosen"):
        assert main(["chosen.parquet", "--bias", "bias.parquet", "--out", f"{out}.parquet"]) == 2
        assert "would overwrite what is read" in last_error(capsys)
    assert before == {path: path.read_bytes() for path in files.glob("*.parquet")}


def test_a_failure_leaves_an_earlier_output_as_it_was_and_nothing_beside_it(files, capsys, monkeypatch):
    for rows in ("0:50", "0:40"):  # the second run replaces the file of the first
        assert main(["keys.npy", "--rows", rows, "--out", "new/v.csv"]) == 0
    before = (files / "new/v.csv").read_text()

    def full_disk(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(command_line.csv, "writer", full_disk)
    assert main(["keys.npy", "--out", "new/v.csv"]) == 2
    assert "new/v.csv: --out: no space left" in last_error(capsys)
    assert [(path.name, path.read_text()) for path in (files / "new").iterdir()] == [("v.csv", before)]


def test_a_file_of_the_project_is_checked_and_may_be_replaced(files, capsys):
    """By one without a checksum: that of the old file would call the new one damaged. Its pages have their own."""
    out = files / "verdicts.parquet"

    def refused(because):
        whole = out.read_bytes()
        out.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
        assert main([out.name, "--tensor", "query"]) == 2 and because in last_error(capsys)

    store.write(certify(KEYS).to_frame(), "key_verdicts", out, provenance({}, "cpu"))
    refused("verdicts.parquet: damaged")
    assert main(["keys.npy", "--rows", "0:40", "--out", out.name]) == 0
    assert main([out.name, "--tensor", "key"]) == 2
    assert "keys has shape (40,)" in last_error(capsys)
    refused("verdicts.parquet: no Parquet table: ")


OF_KEYS, OF_TENSORS = ["keys.npy"], ["two.safetensors", "--tensor", "keys"]


@pytest.mark.parametrize(
    ("keys", "bias"),
    [
        (OF_KEYS, []),
        (OF_KEYS, ["--bias", "bias.csv", "--header"]),
        (OF_KEYS, ["--bias", "bias.parquet", "--bias-tensor", "bias"]),
        (OF_TENSORS, ["--bias", "bias.safetensors", "--bias-tensor", "b"]),
    ],
)
def test_rows_are_the_whole_problem_and_keep_their_numbers(files, keys, bias, capsys):
    pd.DataFrame({"bias": BIAS}).to_csv("bias.csv", index=False)
    pd.DataFrame({"x": -BIAS, "bias": BIAS}).to_parquet("bias.parquet")
    save_file({"keys": torch.zeros(50), "b": torch.tensor(BIAS)}, "bias.safetensors")
    assert main([*keys, *bias, "--rows", "10:40", "--out", "v.parquet"]) == 0
    expected, (table, asked) = certify(KEYS[10:40], BIAS[10:40] if bias else None), verdicts_in("v.parquet")
    words = ["--file", *keys, *bias]
    said = dict(zip(words[::2], words[1::2], strict=False))
    names = ("file", "tensor", "bias", "bias_tensor")
    of = {name: said.get(f"--{name.replace('_', '-')}") for name in names}
    assert asked == of | {"rows": [10, 40], "causal": False, "flat": False}
    assert table.key.tolist() == list(range(10, 40))
    assert table.verdict.tolist() == expected.verdict.tolist() != certify(KEYS).verdict[10:40].tolist()
    inside = table[table.verdict == "unselectable"]
    assert f"unselectable rows, from 0: {', '.join(map(str, inside.key[:20]))}" in capsys.readouterr().out
    for row in inside.itertuples():
        np.testing.assert_allclose(row.weights @ KEYS[row.support], KEYS[row.key], atol=1e-6)
    for rows, number in ((":40", 40), ("40:", 10)):
        assert main([*keys, "--rows", rows]) == 0 and f"{number} keys" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["causal", "flat"])
def test_options_are_those_of_the_library(files, option, capsys, monkeypatch):
    """Keys in a plane of four dimensions, off which they differ by rounding alone; a .csv file has all but proofs."""
    rng = np.random.default_rng(1)
    keys = rng.standard_normal((60, 2)) @ np.linalg.qr(rng.standard_normal((4, 4)))[0][:2]
    keys[7] = keys[5]
    np.save("plane.npy", keys)
    expected = certify(keys, **{option: True})
    assert expected.counts() != certify(keys).counts()
    assert main(["plane.npy", f"--{option}", "--out", "v.parquet"]) == 0
    table, asked = verdicts_in("v.parquet")
    assert table.verdict.tolist() == expected.verdict.tolist() and asked[option] is True
    monkeypatch.setattr(command_line, "row_blocks", lambda n, d: [slice(0, 7), slice(7, n)])
    assert main(["plane.npy", f"--{option}", "--out", "v.csv"]) == 0
    printed = capsys.readouterr().out
    assert "v.parquet\n" in printed and "v.csv; its proofs need a .parquet file\n" in printed
    assert f"exact duplicates {1 if option == 'causal' else 2};" in printed
    assert (", each among those before it\n" in printed) == (option == "causal")
    plain = expected.to_frame().drop(columns=["query", "support", "weights"])
    assert (files / "v.csv").read_text() == plain.to_csv(index=False)


WORKING = """
import time
import numpy as np
from layernorm_roles.selectability import command_line

def certify(*_):
    print(flush=True)
    time.sleep(60)

command_line.certify = certify
command_line._certified(np.zeros((3000, 2)), None, False, False, every=0.2)
"""


def test_lines_of_progress_come_while_it_works_and_ctrl_c_ends_it_at_once():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", WORKING], **pipes) as process:
        process.stdout.readline()
        lines = [process.stderr.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
    assert all(re.fullmatch(r"certify-keys: 3,000 x 2: \d s\n", line) for line in lines)
