"""From the documents of a corpus to the files that the language models read."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles import files, store
from layernorm_roles.job import naming
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.text import Contexts, Text
from layernorm_roles.text import documents
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.contexts import different, long_contexts, sentence_contexts
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.text.split import PARTS, documents_for, part_of
from layernorm_roles.text.token_streams import TokenStreamWriter


def prepare(
    settings: Text, folder: str | Path, downloads: str | Path | None = None, seed: int = 0
) -> dict[str, Any]:
    """Write the files of `PreparedText` to `folder`, whose name is the text's, and return the manifest.

    `downloads` is the folder to which sources of kind hub were downloaded. `seed` is that of the choice of contexts
    and of BERT's validation windows: first_seed, so that a reproduction with other seeds looks at other texts, too.
    Contexts that have a source of their own are chosen first, so that too few of them show before a large corpus is
    tokenised. Raises ValueError, and leaves files
    that are already there as they are, if a source cannot be read or the corpus is too small for the settings.
    """
    out = PreparedText(Path(folder))
    out.folder.mkdir(parents=True, exist_ok=True)
    with naming(f"text.{out.folder.name}"):
        return _prepare(settings, out, Path(downloads) if downloads else None, seed)


def _prepare(settings: Text, out: PreparedText, downloads: Path | None, seed: int) -> dict[str, Any]:
    texts, tokenizer = _texts_and_tokenizer(settings, downloads)
    contexts = {
        name: choose(of, different(documents.read(of.source, downloads)), tokenizer, seed)
        for name, (of, choose) in _contexts(settings).items()
        if of.source
    }
    with (
        TokenStreamWriter(tokenizer, out.folder) as training,
        TokenStreamWriter(tokenizer, out.folder) as validation,
    ):
        streams = {"training": training, "validation": validation}
        numbers, held_out = _distribute(texts, settings, streams)
        tokens = {part: stream.size() for part, stream in streams.items()}
        _refuse_small_parts(numbers, tokens, settings)
        for name, (of, choose) in _contexts(settings).items():
            if not of.source:
                contexts[name] = choose(of, held_out, tokenizer, seed)
        for part, stream in streams.items():
            stream.save(out.tokens(part))
    metadata = provenance({**settings.model_dump(mode="json"), "seed": seed}, "cpu", Stream.TEXT_SELECTION)
    chosen = pd.concat([contexts[name] for name in _contexts(settings)])
    store.write(chosen, "contexts", out.contexts, metadata)
    with files.atomic_write(out.tokenizer) as partial:
        tokenizer.save(str(partial))
    read_in_training = [out.tokenizer, *(out.tokens(part) for part in streams)]
    manifest = {
        **_description(settings, numbers, tokens, chosen, tokenizer),
        "seed": seed,
        "sha256": {path.name: files.recorded(path) for path in (*read_in_training, out.contexts)},
        "content_hash": _content_hash(read_in_training, seed),
    }
    files.write_text(out.manifest, json.dumps(manifest, indent=2) + "\n")
    return manifest


def _contexts(settings: Text) -> dict[str, tuple[Contexts, Callable[..., pd.DataFrame]]]:
    """The settings of each kind of contexts, and the function that chooses them, in the order of table `contexts`."""
    return {"long": (settings.long, long_contexts), "sentences": (settings.sentences, sentence_contexts)}


def _texts_and_tokenizer(settings: Text, downloads: Path | None) -> tuple[Iterable[str], Tokenizer]:
    """The documents, and GPT-2's tokenizer or one that has seen the training documents alone."""
    texts = documents.read(settings.corpus, downloads)
    if settings.tokenizer == "gpt2":
        return texts, tokenizers.gpt2()
    texts = list(texts)
    training = [text for text in texts if part_of(text, settings.split) == "training"]
    return texts, tokenizers.train(training, settings.vocabulary)


def _distribute(
    texts: Iterable[str], settings: Text, streams: Mapping[str, TokenStreamWriter]
) -> tuple[dict[str, int], list[str]]:
    """Add every document to the stream of its part; return the documents of each part, and the held-out texts.

    Held-out texts are kept only if contexts are taken from them: those of a large corpus would fill the memory.
    """
    are_needed = settings.long.source is None or settings.sentences.source is None
    numbers, held_out = dict.fromkeys(PARTS, 0), []
    for text in texts:
        part = part_of(text, settings.split)
        numbers[part] += 1
        if part in streams:
            streams[part].add(text)
        elif are_needed:
            held_out.append(text)
    return numbers, held_out


def _refuse_small_parts(numbers: Mapping[str, int], tokens: Mapping[str, int], settings: Text) -> None:
    for part, size in tokens.items():
        if size <= settings.long.longest:
            needed = documents_for(part, settings.split)
            more = "" if numbers[part] else f"; it takes {needed:,} documents to be nearly sure of one there"
            raise ValueError(
                f"the corpus is too small for split: {numbers[part]} of its {sum(numbers.values())} documents "
                f"are for {part}, with {size:,} tokens; expected more than long.longest = "
                f"{settings.long.longest:,}{more}"
            )


def _description(
    settings: Text,
    numbers: Mapping[str, int],
    tokens: Mapping[str, int],
    contexts: pd.DataFrame,
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """What the text is, for the manifest."""
    corpus = settings.corpus.model_dump(mode="json", exclude_none=True)
    return {
        "corpus": {**corpus, "licence": documents.licence(settings.corpus)},
        "split": settings.split.model_dump(mode="json"),
        "documents": dict(numbers),
        "tokens": dict(tokens),
        "contexts": {
            texts: {"number": len(rows), "tokens": int(rows["tokens"].map(len).sum())}
            for texts, rows in contexts.groupby("texts")
        },
        "tokenizer": {"kind": settings.tokenizer, "vocabulary": tokenizer.get_vocab_size()},
    }


def _content_hash(paths: Iterable[Path], seed: int) -> str:
    return hashlib.sha256(" ".join([*map(files.recorded, paths), str(seed)]).encode()).hexdigest()
