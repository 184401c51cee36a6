"""Makes of a corpus what language models need: a tokenizer, token streams, and texts on which attention is tested."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from itertools import tee
from pathlib import Path

import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles import files, store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.script import naming
from layernorm_roles.settings.text import Contexts, Split, Text
from layernorm_roles.text import documents
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.contexts import KINDS, Candidates, candidates, choose
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.text.token_streams import TokenStreamWriter, encode

PARTS = ("training", "validation", "held_out")
"""The three sets into which the documents of a corpus are split, in the order of their shares in `part_of`."""


def prepare(settings: Text, folder: str | Path, seed: int, downloads: str | Path | None = None) -> None:
    """Make a tokenizer, token streams, contexts and a manifest from a corpus, and write them to `folder`.

    Token streams are the token ids of the documents for training and for validation; contexts are texts on which
    attention keys are tested. The folder has the name of the text in config.yaml. `downloads` is the folder to which
    sources of kind hub were downloaded. `seed` decides which contexts are chosen and, later, BERT's validation windows.
    Raises ValueError if a source cannot be read or the corpus is too small.
    """
    out = PreparedText(Path(folder))
    out.folder.mkdir(parents=True, exist_ok=True)
    with naming(f"text.{out.folder.name}"):
        _prepare(settings, out, Path(downloads) if downloads else None, seed)


def _prepare(settings: Text, out: PreparedText, downloads: Path | None, seed: int) -> None:
    texts, tokenizer = _texts_and_tokenizer(settings, downloads)
    wanted = {kind: getattr(settings, kind) for kind in KINDS}
    # Texts that came before are left out: a dataset of questions repeats the paragraph of each question.
    found = {
        kind: candidates(kind, of, list(dict.fromkeys(documents.read(of.source, downloads))), tokenizer)
        for kind, of in wanted.items()
        if of.source
    }
    _refuse_few(wanted, found)  # before a large corpus is tokenised
    entries = tokenizer.get_vocab_size()
    streams = {part: TokenStreamWriter(entries, out.folder) for part in ("training", "validation")}
    numbers, held_out = _distribute(texts, settings, tokenizer, streams)
    tokens = {part: stream.size for part, stream in streams.items()}
    own = {kind: candidates(kind, of, held_out, tokenizer) for kind, of in wanted.items() if not of.source}
    _refuse_small(settings, numbers, tokens, entries, own)
    found |= own
    for part, stream in streams.items():
        stream.save(out.tokens(part))
    metadata = provenance({**settings.model_dump(mode="json"), "seed": seed}, "cpu", Stream.TEXT_SELECTION)
    chosen = pd.concat([choose(kind, found[kind], wanted[kind].contexts, seed) for kind in KINDS])
    store.write(chosen, "contexts", out.contexts, metadata)
    with files.atomic_write(out.tokenizer) as partial:
        tokenizer.save(str(partial))
    read_in_training = [out.tokenizer, *(out.tokens(part) for part in streams)]
    digests = {path.name: files.recorded(path) for path in (*read_in_training, out.contexts)}
    read_by_models = " ".join([*(digests[path.name] for path in read_in_training), str(seed)])
    corpus = settings.corpus.model_dump(mode="json", exclude_none=True)
    manifest = {
        "corpus": {**corpus, "licence": documents.licence(settings.corpus)},
        "split": settings.split.model_dump(mode="json"),
        "documents": numbers,
        "tokens": tokens,
        "contexts": {
            texts: {"number": len(rows), "tokens": int(rows["tokens"].map(len).sum())}
            for texts, rows in chosen.groupby("texts")
        },
        "tokenizer": {"kind": settings.tokenizer, "vocabulary": entries},
        "seed": seed,
        "sha256": digests,
        "content_hash": hashlib.sha256(read_by_models.encode()).hexdigest(),
    }
    files.write_text(out.manifest, json.dumps(manifest, indent=2) + "\n")


def part_of(text: str, split: Split) -> str:
    """The name of the set to which the document `text` belongs: "training", "validation" or "held_out"."""
    position = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
    bounds = np.cumsum([getattr(split, part) for part in PARTS[:-1]])
    return PARTS[int(np.searchsorted(bounds, position, side="right"))]


def _refuse_few(wanted: Mapping[str, Contexts], found: Mapping[str, Candidates]) -> None:
    """Raise ValueError if a source of contexts has fewer texts of the allowed lengths than the settings ask for."""
    few = "; ".join(
        f"{kind}.contexts = {of.contexts}: the source {of.source.dataset or of.source.paths} gives {len(found[kind])} "
        f"of {of.shortest} to {of.longest} tokens"
        for kind, of in wanted.items()
        if of.source and len(found[kind]) < of.contexts
    )
    if few:
        raise ValueError(f"{few}; expected at most that many, other lengths, or joined_by")


def _refuse_small(
    settings: Text,
    numbers: dict[str, int],
    tokens: dict[str, int],
    entries: int,
    found: dict[str, Candidates],
) -> None:
    """Raise ValueError, saying what is lacking, if the corpus gives too few tokens, tokenizer entries or contexts."""
    whole, longest, shares = sum(numbers.values()), settings.long.longest, settings.split.model_dump()
    more = f"tokens; expected more than long.longest = {longest:,}"
    needs = [(part, size, longest + 1, more) for part, size in tokens.items()]
    if settings.tokenizer == "trained":
        more = f"entries of a tokenizer; expected vocabulary = {settings.vocabulary:,}"
        needs.append(("training", entries, settings.vocabulary, more))
    for kind, texts in found.items():
        of, what = getattr(settings, kind), "windows" if kind == "long" else kind
        more = (
            f"{what} of {of.shortest:,} to {of.longest:,} tokens; expected {kind}.contexts = {of.contexts:,}"
        )
        needs.append(("held_out", len(texts), of.contexts, more))
    if lacks := [need for need in needs if need[1] < need[2]]:
        # If other documents are like these; where there is nothing, as many as give one in 99 cases of 100.
        enough = max(
            whole * wanted / there if there else math.log(0.01) / math.log(1 - shares[part])
            for part, there, wanted, _ in lacks
        )
        lines = [
            f"split.{part} = {shares[part]}: {numbers[part]:,} documents with {there:,} {more}"
            for part, there, _, more in lacks
        ]
        raise ValueError(
            "\n  ".join([f"its {whole:,} documents are too few, or too short:", *lines])
            + f"\nexpected {math.ceil(enough):,} such documents or more, other shares, or fewer or shorter contexts"
        )


def _texts_and_tokenizer(settings: Text, downloads: Path | None) -> tuple[Iterable[str], Tokenizer]:
    """The documents of the corpus, and GPT-2's tokenizer or one that is trained on the training documents."""
    texts = documents.read(settings.corpus, downloads)
    if settings.tokenizer == "gpt2":
        return texts, tokenizers.gpt2()
    texts = list(texts)
    training = [text for text in texts if part_of(text, settings.split) == "training"]
    return texts, tokenizers.train(training, settings.vocabulary)


def _distribute(
    texts: Iterable[str], settings: Text, tokenizer: Tokenizer, streams: Mapping[str, TokenStreamWriter]
) -> tuple[dict[str, int], list[str]]:
    """Add documents to their sets' token streams; return their number by set, and held-out texts if wanted."""
    are_wanted = not (settings.long.source and settings.sentences.source)
    numbers, held_out = dict.fromkeys(PARTS, 0), []
    texts, encoded = tee(texts)
    for text, ids in zip(texts, encode(encoded, tokenizer), strict=True):
        part = part_of(text, settings.split)
        numbers[part] += 1
        if part in streams:
            streams[part].add(ids)
        elif are_wanted:
            held_out.append(text)
    return numbers, held_out
