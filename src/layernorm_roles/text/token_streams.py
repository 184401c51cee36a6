"""Token streams: all token ids of the training or validation documents, one after another, as a .npy file."""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from jaxtyping import Integer
from tokenizers import Tokenizer

from layernorm_roles import files

_TOGETHER = 256
"""Number of documents that the tokenizer encodes in one call, for which it uses several threads."""


def encode(texts: Iterable[str], tokenizer: Tokenizer) -> Iterator[list[int]]:
    """Yield the list of token ids of each text, in order; a few hundred texts are encoded at a time."""
    texts = iter(texts)
    while batch := list(islice(texts, _TOGETHER)):
        yield from (encoding.ids for encoding in tokenizer.encode_batch(batch))


class TokenStreamWriter:
    """Collects the token ids of documents in a temporary file, so that a corpus need not fit in memory.

    No separator stands between documents, as in the paper's released code. The temporary file lies on the disk of
    `folder`. A token takes 16 bits if `entries`, the size of the vocabulary, is at most 65,536, else 32.
    """

    def __init__(self, entries: int, folder: Path):
        self.size = 0
        # GPT-2's 50,257 entries fit 16 bits, which halves what a large corpus takes.
        self.dtype = np.dtype("<u2" if entries <= 2**16 else "<u4")
        self._file = tempfile.TemporaryFile(dir=folder)

    def add(self, ids: list[int]) -> None:
        """Append the token ids of a document to those collected so far."""
        self._file.write(np.asarray(ids, self.dtype).tobytes())
        self.size += len(ids)

    def save(self, path: Path) -> None:
        """Write the collected token ids to `path`, a .npy file of unsigned integers of 16 or 32 bits."""
        with self._file, files.atomic_write(path) as partial:
            self._file.flush()
            stream = np.lib.format.open_memmap(partial, "w+", self.dtype, (self.size,))
            stream[:] = np.memmap(self._file, self.dtype, "r", shape=stream.shape)
            stream.flush()


def read_stream(path: str | Path, vocabulary: int, window: int) -> Integer[np.ndarray, " tokens"]:
    """The token ids of a text, as a memory-mapped array, from the .npy file at `path`."""
    files.verify(path)
    try:
        tokens = np.load(path, mmap_mode="r")
    except (ValueError, OSError) as error:
        raise files.Unusable.because(path, f"no token stream ({error})") from None
    if len(tokens) <= window:
        raise ValueError(f"{path}: {len(tokens)} tokens; expected more than one window of {window}")
    if int(tokens.max()) >= vocabulary:
        raise ValueError(f"{path}: token {int(tokens.max())} does not fit a model with {vocabulary} entries")
    return tokens
