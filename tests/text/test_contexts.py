"""The split by document, the windows, and the prepared files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layernorm_roles import store
from layernorm_roles.text import contexts, tokenizer
from layernorm_roles.text import manifest as manifests

SPLIT = {"training": 0.6, "validation": 0.2, "held_out": 0.2}


def words(seed, number=60):
    """A document of its own words, so that a token sequence says where it comes from."""
    rng = np.random.default_rng(seed)
    return (
        ". ".join(
            " ".join("".join(rng.choice(list("abcdefgh"), 4)).capitalize() for _ in range(8))
            for _ in range(number)
        )
        + "."
    )


@pytest.fixture
def settings(tmp_path):
    for seed in range(40):
        (tmp_path / f"{seed:02}.txt").write_text(words(seed))
    return {
        "corpus": {"kind": "files", "paths": [str(tmp_path / "*.txt")], "licence": "none"},
        "split": SPLIT,
        "tokenizer": "trained",
        "vocabulary": 300,
        "long": {"source": None, "shortest": 48, "longest": 64, "contexts": 5},
        "sentences": {"source": None, "shortest": 4, "longest": 40, "contexts": 6},
    }


@given(st.lists(st.text(min_size=1), unique=True, max_size=30))
def test_a_document_is_in_one_part_whatever_the_order(texts):
    parts = {text: contexts.part_of(text, SPLIT) for text in texts}
    assert {text: contexts.part_of(text, SPLIT) for text in reversed(texts)} == parts


def test_the_split_has_its_shares():
    parts = [contexts.part_of(str(i), SPLIT) for i in range(20_000)]
    for part, share in SPLIT.items():
        assert parts.count(part) / len(parts) == pytest.approx(share, abs=0.02)
    assert contexts.part_of("x", {"training": 0.5, "validation": 0.5, "held_out": 0.0}) != "held_out"


@given(st.integers(0, 300), st.integers(1, 50), st.integers(0, 50))
def test_windows_are_disjoint_in_order_and_of_the_right_length(size, shortest, more):
    tokens, longest = list(range(size)), shortest + more
    found = list(contexts.windows(tokens, shortest, longest))
    assert all(shortest <= len(window) <= longest for window in found)
    flat = [token for window in found for token in window]
    assert flat == tokens[: len(flat)]
    assert size - len(flat) < max(shortest, 1)


def test_prepared_parts_do_not_overlap(settings, tmp_path):
    out = contexts.Prepared(tmp_path / "out")
    manifest = contexts.prepare(settings, out.folder)
    bpe = tokenizer.load(out.tokenizer)
    parts = {part: [] for part in contexts.PARTS}
    for seed in range(40):
        parts[contexts.part_of(words(seed), SPLIT)].append(words(seed))
    for part in ("training", "validation"):
        stream = contexts.stream(out.tokens(part), 300, 64)
        assert stream.tolist() == [i for text in parts[part] for i in bpe.encode(text).ids]
        assert manifest["tokens"][part] == len(stream)
    used = "".join(parts["training"] + parts["validation"])
    frame = store.read(out.contexts, "contexts")
    for row in frame.itertuples():
        text = bpe.decode(row.tokens.tolist()).strip()
        assert text in parts["held_out"][row.document]
        assert text not in used
    assert frame.groupby("texts").size().to_dict() == {"long": 5, "sentences": 6}
    assert frame[frame.texts == "long"].tokens.map(len).between(48, 64).all()
    assert manifest["documents"] == {part: len(texts) for part, texts in parts.items()}


def test_preparing_twice_gives_the_same_bytes(settings, tmp_path):
    for folder in ("one", "two"):
        contexts.prepare(settings, tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": {"kind": "files", "paths": ["00.txt"]}}, "too small for text.split"),
        (
            {"long": {"source": None, "shortest": 48, "longest": 64, "contexts": 10**6}},
            "text.long.contexts = 1000000",
        ),
        (
            {"split": {"training": 0.5, "validation": 0.2, "held_out": 0.2}},
            "expected shares that add up to 1",
        ),
        ({"vocabulary": 10**6}, "text.tokenizer.vocabulary: 1000000 entries asked for"),
    ],
)
def test_too_small_a_corpus_is_refused_and_outputs_stay(settings, tmp_path, change, message):
    out = tmp_path / "out"
    contexts.prepare(settings, out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    if "corpus" in change:
        change = {"corpus": {"kind": "files", "paths": [str(tmp_path / "00.txt")]}, "vocabulary": 260}
    with pytest.raises(ValueError, match=message):
        contexts.prepare(settings | change, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_contexts_from_other_sources(settings, tmp_path):
    (tmp_path / "passages").mkdir()
    for seed in range(100, 106):
        (tmp_path / "passages" / f"{seed}.txt").write_text(words(seed))
    settings["long"]["source"] = {"kind": "files", "paths": [str(tmp_path / "passages" / "*.txt")]}
    contexts.prepare(settings, tmp_path / "out")
    frame = store.read(tmp_path / "out" / "contexts.parquet", "contexts")
    bpe = tokenizer.load(tmp_path / "out" / "tokenizer.json")
    for row in frame[frame.texts == "long"].itertuples():
        assert bpe.decode(row.tokens.tolist()) in words(100 + row.document)


def test_streams_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "training.npy"
    np.save(path, np.arange(100, dtype=np.uint16))
    with pytest.raises(ValueError, match="token 99 does not fit a model with 50 entries"):
        contexts.stream(path, 50, 10)
    with pytest.raises(ValueError, match="expected more than one window of 100"):
        contexts.stream(path, 100, 100)
    path.write_bytes(path.read_bytes()[:150])
    with pytest.raises(ValueError, match=r"training\.npy: damaged"):
        contexts.stream(path, 100, 10)


def test_gpt2_vocabulary():
    bpe = tokenizer.gpt2()
    assert bpe.encode("Hello world").ids == [15496, 995]
    assert bpe.get_vocab_size() == 50257
    text = "naïve — 北京 🙂\n\n  two spaces"
    assert bpe.decode(bpe.encode(text).ids) == text


def test_manifest_is_json_with_hashes(settings, tmp_path):
    contexts.prepare(settings, tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert set(manifest["sha256"]) == {"tokenizer.json", "training.npy", "validation.npy"}
    assert manifest["corpus"]["licence"] == "none"


def test_a_file_that_changed_since_the_manifest_is_never_read(settings, tmp_path):
    """Whatever bit is flipped: in the tokens or the tokenizer, all of which would still load, or in the manifest."""
    out = contexts.Prepared(tmp_path / "out")
    contexts.prepare(settings, out.folder)
    rng = np.random.default_rng(0)
    readers = {
        out.tokens("training"): lambda path: contexts.stream(path, 300, 64),
        out.tokens("validation"): lambda path: contexts.stream(path, 300, 64),
        out.tokenizer: tokenizer.load,
        out.manifest: manifests.read,
    }
    for path, read in readers.items():
        whole = path.read_bytes()
        reference = read(path)
        for position in rng.integers(len(whole), size=20):
            path.write_bytes(
                whole[:position] + bytes([whole[position] ^ 1 << rng.integers(7)]) + whole[position + 1 :]
            )
            if path == out.manifest:  # white space may differ
                try:
                    assert read(path) == reference
                    continue
                except ValueError as error:
                    assert f"{path}: damaged" in str(error)
            else:
                with pytest.raises(ValueError, match=rf"{path.name}: damaged.*delete it and run again"):
                    read(path)
        path.write_bytes(whole)
        read(path)
