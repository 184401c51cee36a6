"""Token streams and tokenizers on disk: what does not fit, or has changed since it was written, is refused."""

import sys

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from layernorm_roles import files
from layernorm_roles.text import tokenizer
from layernorm_roles.text.prepared import read_manifest
from layernorm_roles.text.token_streams import TokenStreamWriter, encode, read_stream


def words(entries):
    return Tokenizer(WordLevel({str(i): i for i in range(entries)}, unk_token="0"))


@pytest.mark.parametrize(("entries", "dtype"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_tokens_take_16_bits_where_they_fit(tmp_path, entries, dtype):
    writer, texts = TokenStreamWriter(entries, tmp_path), [str(i) for i in range(600)]
    for ids in encode(texts, words(entries)):  # more than are encoded together
        writer.add(ids)
    writer.add([0, entries - 1])
    assert writer.size == 602
    writer.save(tmp_path / "training.npy")
    stream = read_stream(tmp_path / "training.npy", entries, 10)
    assert (type(stream), stream.dtype) == (np.memmap, dtype), "it need not fit in memory"
    assert stream.tolist() == [*range(600), 0, entries - 1]
    assert {path.name for path in tmp_path.iterdir()} == {"training.npy", ".sha256"}
    with pytest.raises(FileNotFoundError):
        TokenStreamWriter(entries, tmp_path / "nowhere")  # where its temporary file would lie


STREAM = np.arange(100, dtype=np.uint16)
WRITTEN = {
    "training.npy": (lambda path: np.save(path, STREAM), lambda path: read_stream(path, 300, 10)),
    "tokenizer.json": (lambda path: words(300).save(str(path)), tokenizer.load),
    "manifest.json": (lambda path: path.write_text('{"content_hash": "abc"}'), read_manifest),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_that_changed_since_it_was_written_is_never_read(tmp_path, name):
    """A token, a merge or a number with another bit would still load."""
    (write, read), path = WRITTEN[name], tmp_path / name
    with files.atomic_write(path) as partial:
        write(partial)
    read(path)
    content = path.read_bytes()
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(ValueError, match=rf"{name}: damaged.*delete it and run again"):
        read(path)
    path.unlink()
    with pytest.raises(ValueError, match=rf"{name}: no such file"):
        read(path)


def test_streams_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "training.npy"
    with files.atomic_write(path) as partial:
        np.save(partial, STREAM)
    beyond = (99, 10, "token 99 does not fit a model with 99 entries")
    for entries, window, says in (beyond, (100, 100, "expected more than one window of 100")):
        with pytest.raises(ValueError, match=says):
            read_stream(path, entries, window)
    assert read_stream(path, 100, 99).tolist() == STREAM.tolist()
    files.write_text(path, "no array")
    with pytest.raises(ValueError, match=r"training\.npy: no token stream"):
        read_stream(path, 100, 10)
    with pytest.raises(ValueError, match=r"training\.npy: no readable tokenizer"):
        tokenizer.load(path)


def test_gpt2_vocabulary(monkeypatch):
    bpe = tokenizer.gpt2()
    assert bpe.encode("Hello world").ids == [15496, 995]
    assert bpe.get_vocab_size() == 50257
    text = "naïve — 北京 🙂\n\n  two spaces"
    assert bpe.decode(bpe.encode(text).ids) == text
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ValueError, match=r"gpt2 needs: pip install 'layernorm-roles\[paper\]'"):
        tokenizer.gpt2()
