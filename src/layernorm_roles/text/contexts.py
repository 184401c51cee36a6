"""From documents to what the models read: token streams for training, and contexts whose keys are tested.

Documents are split, never windows: no sentence of a held-out context was trained on. A document's part is
decided by a hash of its text, so that it depends on no order and a document that occurs twice stays in one part.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Integer
from numpy.lib import format as npy
from tokenizers import Tokenizer

from layernorm_roles import store
from layernorm_roles.text import documents
from layernorm_roles.text import manifest as manifests
from layernorm_roles.text import tokenizer as tokenizers

SELECTION = 1
"""Stream of np.random.default_rng([0, stream]) that chooses among the possible contexts."""

PARTS = ("training", "validation", "held_out")
SEED_RULE = "documents are split by SHA-256 of their text; contexts chosen by default_rng([0, SELECTION = 1])"


class Prepared(NamedTuple):
    """The files of a prepared corpus, in `folder`."""

    folder: Path

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer.json"

    @property
    def contexts(self) -> Path:
        return self.folder / "contexts.parquet"

    @property
    def manifest(self) -> Path:
        return self.folder / manifests.NAME

    def tokens(self, part: str) -> Path:
        return self.folder / f"{part}.npy"


def part_of(text: str, split: Mapping[str, float]) -> str:
    """The part, one of PARTS, that a document belongs to; `split` gives the parts' shares, which add up to 1."""
    digest = hashlib.sha256(text.encode()).digest()
    position = int.from_bytes(digest[:8]) / 2**64
    bounds = np.cumsum([split[part] for part in PARTS[:-1]])
    return PARTS[int(np.searchsorted(bounds, position, side="right"))]


def windows(tokens: list[int], shortest: int, longest: int) -> Iterator[list[int]]:
    """Disjoint windows of `longest` tokens from the start; the last may be shorter, down to `shortest`."""
    for start in range(0, len(tokens), longest):
        window = tokens[start : start + longest]
        if len(window) >= shortest:
            yield window


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text`: lines, cut after '.', '!' or '?' before a capital or a quotation mark.

    Headings and list items, which do not end like a sentence, are left out.
    """
    for line in text.splitlines():
        for sentence in re.split(r'(?<=[.!?])\s+(?=["“(]?[A-Z])', line.strip()):
            if sentence.endswith((".", "!", "?")):
                yield sentence


def prepare(settings: Mapping[str, Any], folder: str | Path) -> dict[str, Any]:
    """Make the corpus of the `text` section in `folder`; returns the manifest. Bad input: ValueError.

    Written: tokenizer.json, training.npy and validation.npy (one stream of token ids each, documents one after
    another without a separator, as released), contexts.parquet (table `contexts`), manifest.json.
    """
    out, corpus, split = Prepared(Path(folder)), settings["corpus"], settings["split"]
    if abs(sum(split.values()) - 1) > 1e-9:
        raise ValueError(f"text.split = {dict(split)}: expected shares that add up to 1")
    out.folder.mkdir(parents=True, exist_ok=True)
    own_contexts = settings["long"]["source"] is None or settings["sentences"]["source"] is None

    texts: Iterable[str] = documents.read(corpus)
    if settings["tokenizer"] == "gpt2":
        tokenizer = tokenizers.gpt2()
    else:
        texts = list(texts)
        training = [text for text in texts if part_of(text, split) == "training"]
        tokenizer = tokenizers.train(training, settings["vocabulary"])
    counts = {part: 0 for part in PARTS}
    held_out: list[str] = []
    with (
        _writer(out.tokens("training"), tokenizer) as training,
        _writer(out.tokens("validation"), tokenizer) as validation,
    ):
        for text in texts:
            part = part_of(text, split)
            counts[part] += 1
            if part == "training":
                training.add(text)
            elif part == "validation":
                validation.add(text)
            elif own_contexts:
                held_out.append(text)
        for part, writer in (("training", training), ("validation", validation)):
            writer.flush()
            if writer.size <= settings["long"]["longest"]:
                raise ValueError(
                    f"the corpus is too small for text.split: {counts[part]} of its {sum(counts.values())} documents "
                    f"are for {part}, with {writer.size:,} tokens; expected more than text.long.longest = "
                    f"{settings['long']['longest']:,}"
                )
        contexts = pd.concat(
            [_long(settings, held_out, tokenizer), _sentences(settings, held_out, tokenizer)]
        )
    store.write(contexts, "contexts", out.contexts, store.provenance(dict(settings), "cpu", SEED_RULE))
    with store.whole(out.tokenizer) as partial:
        tokenizer.save(str(partial))

    about = {
        "corpus": {**corpus, "licence": documents.licence(corpus)},
        "split": dict(split),
        "documents": counts,
        "tokens": {"training": training.size, "validation": validation.size},
        "contexts": {
            texts: {"number": len(rows), "tokens": int(rows["tokens"].map(len).sum())}
            for texts, rows in contexts.groupby("texts")
        },
        "tokenizer": {"kind": settings["tokenizer"], "vocabulary": tokenizer.get_vocab_size()},
    }
    # The contexts are Parquet, which has checksums of its own.
    files = [out.tokenizer, out.tokens("training"), out.tokens("validation")]
    return manifests.write(out.folder, about, files)


def stream(path: str | Path, vocabulary: int, window: int) -> Integer[np.ndarray, " tokens"]:
    """The token stream at `path`, on disk. ValueError if it is damaged or does not fit a model of that size."""
    manifests.verify(path)
    try:
        tokens = np.load(path, mmap_mode="r")
    except (ValueError, OSError) as error:
        raise ValueError(f"{path}: damaged or no token stream ({error}); delete it and run again") from None
    if len(tokens) <= window:
        raise ValueError(f"{path}: {len(tokens)} tokens; expected more than one window of {window}")
    if int(tokens.max()) >= vocabulary:
        raise ValueError(f"{path}: token {int(tokens.max())} does not fit a model with {vocabulary} entries")
    return tokens


class _Writer:
    """Appends token ids to a .npy file, document by document, so that a corpus need not fit in memory."""

    def __init__(self, file: BinaryIO, tokenizer: Tokenizer):
        self.file, self.tokenizer, self.size, self.waiting = file, tokenizer, 0, []
        # GPT-2's 50,257 entries fit 16 bits, which halves what a large corpus takes.
        self.dtype = np.dtype("<u2" if tokenizer.get_vocab_size() <= 2**16 else "<u4")
        self.header()

    def add(self, text: str) -> None:
        self.waiting.append(text)
        if len(self.waiting) >= 256:
            self.flush()

    def flush(self) -> None:
        for ids in _encoded(self.waiting, self.tokenizer):
            self.file.write(np.asarray(ids, self.dtype).tobytes())
            self.size += len(ids)
        self.waiting.clear()

    def header(self) -> None:
        # numpy pads the header so that it can be written again, in place, once the length is known.
        self.file.seek(0)
        about = {"descr": npy.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.size,)}
        npy.write_array_header_1_0(self.file, about)


@contextmanager
def _writer(path: Path, tokenizer: Tokenizer) -> Iterator[_Writer]:
    with store.whole(path) as partial:
        with partial.open("wb") as file:
            writer = _Writer(file, tokenizer)
            yield writer
            writer.flush()
            writer.header()


def _long(settings: Mapping[str, Any], held_out: list[str], tokenizer: Tokenizer) -> pd.DataFrame:
    wanted = settings["long"]
    texts = documents.read(wanted["source"]) if wanted["source"] else held_out
    found = [
        (document, window)
        for document, tokens in enumerate(_encoded(texts, tokenizer))
        for window in windows(tokens, wanted["shortest"], wanted["longest"])
    ]
    return _choose("long", found, wanted)


def _sentences(settings: Mapping[str, Any], held_out: list[str], tokenizer: Tokenizer) -> pd.DataFrame:
    wanted = settings["sentences"]
    if wanted["source"]:  # one text a sentence already, as in SST-2
        texts = list(enumerate(documents.read(wanted["source"])))
    else:
        texts = [(document, s) for document, text in enumerate(held_out) for s in sentences(text)]
    encoded = zip(texts, _encoded([s for _, s in texts], tokenizer), strict=True)
    found = [
        (i, tokens) for (i, _), tokens in encoded if wanted["shortest"] <= len(tokens) <= wanted["longest"]
    ]
    return _choose("sentences", found, wanted)


def _choose(texts: str, found: list[tuple[int, list[int]]], wanted: Mapping[str, Any]) -> pd.DataFrame:
    number = wanted["contexts"]
    if len(found) < number:
        raise ValueError(
            f"text.{texts}.contexts = {number}: the held-out texts give {len(found)} of {wanted['shortest']} to "
            f"{wanted['longest']} tokens; expected at most that many, or a larger corpus or text.split.held_out"
        )
    chosen = np.sort(np.random.default_rng([0, SELECTION]).permutation(len(found))[:number])
    rows = [(texts, context, *found[i]) for context, i in enumerate(chosen)]
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])


def _encoded(texts: Iterable[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    texts = iter(texts)
    while batch := list(islice(texts, 256)):
        yield from (encoding.ids for encoding in tokenizer.encode_batch(batch))
