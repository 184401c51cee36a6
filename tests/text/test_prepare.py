"""The prepared text: training documents in the letters a to f, validation in g to l, held-out ones in m to r."""

import hashlib
import math
import re
import shutil

import numpy as np
import pytest
from default_settings import example

from layernorm_roles import files, random_streams, store
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.text import Text
from layernorm_roles.text import prepare as module
from layernorm_roles.text import tokenizer
from layernorm_roles.text.contexts import windows
from layernorm_roles.text.prepare import prepare
from layernorm_roles.text.prepared import PreparedText, read_manifest
from layernorm_roles.text.token_streams import read_stream

SPLIT = {"training": 0.6, "validation": 0.2, "held_out": 0.2}
LETTERS = {"training": "abcdef", "validation": "ghijkl", "held_out": "mnopqr"}
SEED = 5
DOCUMENTS = {"training": 20, "validation": 8, "held_out": 12}


def part_by_hash(text):
    """The part of a document: where its SHA-256, read as a number from 0 to 1, lies among the shares."""
    position = int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) / 16**16
    return "training" if position < 0.6 else "validation" if position < 0.8 else "held_out"


def document(part, rng):
    """A document of 30 sentences in the letters of a part, drawn until its hash belongs to that part."""
    while True:
        words = ["".join(rng.choice(list(LETTERS[part]), 4)) for _ in range(180)]
        text = ". ".join(" ".join(words[i : i + 6]).capitalize() for i in range(0, 180, 6)) + "."
        if part_by_hash(text) == part:
            return text


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The texts of each part in the order of their files, and the settings that read them."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("world")
    names = rng.permutation([part for part, number in DOCUMENTS.items() for _ in range(number)])
    texts = {part: [] for part in LETTERS}
    for i, part in enumerate(names):
        texts[part].append(document(part, rng))
        (folder / f"{i:02}.txt").write_text(texts[part][-1])
    settings = example(
        Text,
        corpus={"kind": "files", "paths": [str(folder / "*.txt")]},
        split=SPLIT,
        vocabulary=300,
        long={"source": None, "shortest": 48, "longest": 64, "contexts": 25},
        sentences={"source": None, "shortest": 4, "longest": 60, "contexts": 40},
    )
    return texts, settings


@pytest.fixture(scope="module")
def prepared(world, tmp_path_factory):
    text = PreparedText(tmp_path_factory.mktemp("prepared"))
    prepare(world[1], text.folder, seed=SEED)
    return text


def changed(settings, **changes):
    return Text.model_validate(settings.model_dump() | changes)


def test_streams_hold_the_documents_of_their_part_and_the_tokenizer_those_of_training(world, prepared):
    (texts, _), bpe = world, tokenizer.load(prepared.tokenizer)
    for part in ("training", "validation"):
        stream = read_stream(prepared.tokens(part), 300, 64)
        assert stream.dtype == np.uint16
        assert stream.tolist() == [i for text in texts[part] for i in bpe.encode(text).ids]
    merged = [entry for entry in bpe.get_vocab() if len(entry) > 1 and entry.isascii()]
    assert len(merged) > 10 and set("".join(merged).lower()) <= set(LETTERS["training"]) | {"."}


def test_contexts_are_a_random_choice_of_held_out_text_in_the_order_of_the_documents(world, prepared):
    texts, bpe = world[0]["held_out"], tokenizer.load(prepared.tokenizer)
    frame = store.read(prepared.contexts, "contexts")
    long, sentences = (frame[frame.texts == kind] for kind in ("long", "sentences"))
    assert (long.context.tolist(), sentences.context.tolist()) == ([*range(25)], [*range(40)])
    origin = store.read_provenance(prepared.contexts)
    assert origin["seed_rule"] == Stream.TEXT_SELECTION.sentence and f'"seed": {SEED}' in origin["config"]
    every = [(i, window) for i, text in enumerate(texts) for window in windows(bpe.encode(text).ids, 48, 64)]
    order = random_streams.generator(Stream.TEXT_SELECTION, SEED, 0).permutation(len(every))
    assert [(row.document, row.tokens.tolist()) for row in long.itertuples()] == [
        every[i] for i in sorted(order[:25])
    ]
    candidates = [(i, s + ".") for i, text in enumerate(texts) for s in text[:-1].split(". ")]
    candidates = [(i, s) for i, s in candidates if 4 <= len(bpe.encode(s).ids) <= 60]
    order = random_streams.generator(Stream.TEXT_SELECTION, SEED, 1).permutation(len(candidates))
    chosen = [(row.document, bpe.decode(list(row.tokens))) for row in sentences.itertuples()]
    assert chosen == [candidates[i] for i in sorted(order[:40])] != candidates[:40]


def test_the_manifest_describes_the_text(world, prepared):
    manifest, frame = read_manifest(prepared.manifest), store.read(prepared.contexts, "contexts")
    assert manifest["documents"] == DOCUMENTS and manifest["split"] == SPLIT
    assert manifest["corpus"] == {"kind": "files", "paths": [*world[1].corpus.paths], "licence": "not stated"}
    for part in ("training", "validation"):
        assert manifest["tokens"][part] == len(np.load(prepared.tokens(part)))
    tokens = int(frame[frame.texts == "long"].tokens.map(len).sum())
    assert manifest["contexts"]["long"] == {"number": 25, "tokens": tokens}
    assert manifest["tokenizer"] == {"kind": "trained", "vocabulary": 300}


SENTENCES = {"source": None, "shortest": 4, "longest": 60, "contexts": 3}
SPLITS = [{"training": a, "validation": b, "held_out": c} for a, b, c in ((0.5, 0.3, 0.2), (0.6, 0.15, 0.25))]


@pytest.mark.parametrize(
    ("seed", "change", "equal"),
    [
        # Another seed chooses other contexts of equal texts.
        (SEED + 1, {}, "training.npy validation.npy tokenizer.json"),
        (SEED, {"vocabulary": 301}, "validation.npy"),  # one merge more of letters of the training documents
        (SEED, {"split": SPLITS[0]}, ""),
        (SEED, {"split": SPLITS[1]}, "training.npy tokenizer.json"),
        # The identity of a text is that of its tokenizer and streams: models read no contexts in training.
        (SEED, {"sentences": SENTENCES}, "training.npy validation.npy tokenizer.json identity"),
    ],
)
def test_the_identity_of_a_text_is_that_of_its_streams(world, prepared, tmp_path, seed, change, equal):
    prepare(changed(world[1], **change), tmp_path, seed=seed)
    other = PreparedText(tmp_path)
    names = ("training.npy", "validation.npy", "tokenizer.json", "contexts.parquet")
    same = {name for name in names if (tmp_path / name).read_bytes() == (prepared.folder / name).read_bytes()}
    same |= {"identity"} if other.content_hash() == prepared.content_hash() else set()
    assert same == {*equal.split()} and other.seed == seed


def test_with_the_fewest_entries_every_byte_is_a_token():
    bpe = tokenizer.train(["words"], 256)
    assert bpe.get_vocab_size() == 256
    for spelt in ("é–日本", "Other words."):
        ids = bpe.encode(spelt).ids
        assert len(ids) == len(spelt.encode()) and len(set(ids)) == len(set(spelt.encode()))
        assert bpe.decode(ids) == spelt


def test_no_file_of_another_text_is_read_beside_a_manifest(world, prepared, tmp_path):
    prepare(changed(world[1], vocabulary=301, split=SPLITS[0]), tmp_path / "other", seed=SEED + 1)
    for name in ("tokenizer.json", "training.npy", "validation.npy", "contexts.parquet"):
        folder = shutil.copytree(prepared.folder, tmp_path / name)
        for file in (tmp_path / "other" / name, files.checksum_file(tmp_path / "other" / name)):
            shutil.copy(file, folder / file.relative_to(tmp_path / "other"))
        with pytest.raises(ValueError, match=f"{name}: a file of another text .*delete it and run again"):
            PreparedText(folder).content_hash()


TOO_FEW = [
    r"its 1 documents are too few.*\n  split.validation = 0.2: 0 documents with 0 tokens; expected .*longest = 64",
    "split.held_out = 0.2: 0 documents with 0 windows of 48 to 64 tokens; expected long.contexts = 25",
    "0 sentences of 4 to 60 tokens; expected sentences.contexts = 40\nexpected 21 such documents or more",
]
TOO_SHORT = [
    r"its 40 documents .*\n  split.training = 0.6: 20 documents with \d,\d+ entries .* vocabulary = 1,000,000",
    r"split.held_out = 0.2: 12 documents with \d+ windows of 48 to 64 tokens; expected long.contexts = 1,000",
]


@pytest.mark.parametrize("said", [TOO_FEW, TOO_SHORT], ids=["one document", "all documents"])
def test_too_small_a_corpus_is_refused_with_all_that_it_lacks_and_outputs_stay(world, tmp_path, said):
    (texts, settings), out = world, tmp_path / "out"
    prepare(settings, out, 0)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    (tmp_path / "one.txt").write_text(texts["training"][0])
    long = {"source": None, "shortest": 48, "longest": 64, "contexts": 1000}
    change = {"vocabulary": 10**6, "long": long}
    if said == TOO_FEW:
        change = {"corpus": {"kind": "files", "paths": [str(tmp_path / "one.txt")]}}
    with pytest.raises(ValueError, match=r"text\.out: ") as fault:
        prepare(changed(settings, **change), out, 0)
    assert all(re.search(line, str(fault.value)) for line in said), fault.value
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


ENOUGH = {"training": 65, "validation": 65, "entries": 300, "long": 25, "sentences": 40}


@pytest.mark.parametrize("lacking", ENOUGH)
def test_a_corpus_may_be_just_large_enough_and_not_smaller(world, lacking):
    """Of 10 documents: a token more than a window in each stream, all entries, and as many contexts as are asked."""

    def check(enough):
        tokens = {part: enough[part] for part in ("training", "validation")}
        found = {kind: [(0, [1])] * enough[kind] for kind in ("long", "sentences")}
        module._refuse_small(world[1], dict.fromkeys(module.PARTS, 10), tokens, enough["entries"], found)

    check(ENOUGH)
    number = math.ceil(30 * ENOUGH[lacking] / (ENOUGH[lacking] - 1))
    says = rf"its 30 documents are too few.*\n.*\nexpected {number} such documents"
    with pytest.raises(ValueError, match=says):
        check(ENOUGH | {lacking: ENOUGH[lacking] - 1})


def test_contexts_from_other_sources(world, tmp_path):
    passages = [document("held_out", np.random.default_rng(seed)) for seed in range(50, 53)]
    (tmp_path / "passages").mkdir()
    (tmp_path / "sentences").mkdir()
    for i, passage in enumerate(passages * 2):  # a text that came before is left out
        (tmp_path / "passages" / f"{i}.txt").write_text(passage)
        (tmp_path / "sentences" / f"{i}.txt").write_text(". ".join(passage.split(". ")[i % 3 :][:2]))
    paths = (str(tmp_path / name / "*.txt") for name in ("passages", "sentences"))
    sources = [{"kind": "files", "paths": [path]} for path in paths]
    long, sentences = ({"source": source, "shortest": 4, "longest": 64} for source in sources)
    settings = changed(world[1], long=long | {"contexts": 5}, sentences=sentences | {"contexts": 3})
    prepare(settings, tmp_path / "out", 0)
    text = PreparedText(tmp_path / "out")
    bpe, frame = tokenizer.load(text.tokenizer), store.read(text.contexts, "contexts")
    for row in frame[frame.texts == "long"].itertuples():
        assert bpe.decode(row.tokens.tolist()) in passages[row.document]
    found = [bpe.decode(tokens.tolist()) for tokens in frame[frame.texts == "sentences"].tokens]
    assert found == [". ".join(passage.split(". ")[i:][:2]) for i, passage in enumerate(passages)]
    prepare(changed(world[1], long=settings.long.model_dump()), tmp_path / "long", 0)
    frame = store.read(PreparedText(tmp_path / "long").contexts, "contexts")
    assert frame.texts.value_counts().to_dict() == {"long": 5, "sentences": world[1].sentences.contexts}
