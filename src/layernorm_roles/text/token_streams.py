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
    """A context manager that collects documents' token ids in a temporary file: a corpus need not fit in memory.

    No separator stands between documents, as in the paper's released code. The temporary file, in `folder`, goes away
    when the context ends; `save` writes the stream before that.
    """

    def __init__(self, tokenizer: Tokenizer, folder: Path):
        self.tokenizer, self._waiting, self._size = tokenizer, [], 0
        # GPT-2's 50,257 entries fit 16 bits, which halves what a large corpus takes.
        self.dtype = np.dtype("<u2" if tokenizer.get_vocab_size() <= 2**16 else "<u4")
        self._file = tempfile.TemporaryFile(dir=folder)

    def __enter__(self) -> "TokenStreamWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, text: str) -> None:
        """Append the tokens of the document `text` to the stream."""
        self._waiting.append(text)
        if len(self._waiting) == _TOGETHER:
            self._flush()

    def size(self) -> int:
        """The number of tokens that are in the token stream so far."""
        self._flush()
        return self._size

    def save(self, path: Path) -> None:
        """Write the stream to `path`, a .npy file of unsigned integers of 16 or 32 bits."""
        shape = (self.size(),)
        self._file.flush()
        with files.atomic_write(path) as partial:
            stream = np.lib.format.open_memmap(partial, "w+", self.dtype, shape)
            stream[:] = np.memmap(self._file, self.dtype, "r", shape=shape)
            stream.flush()

    def _flush(self) -> None:
        for ids in encode(self._waiting, self.tokenizer):
            self._file.write(np.asarray(ids, self.dtype).tobytes())
            self._size += len(ids)
        self._waiting.clear()


def read_stream(path: str | Path, vocabulary: int, window: int) -> Integer[np.ndarray, " tokens"]:
    """The token ids in the .npy file `path`, as a memory-mapped array.

    Raises ValueError if the file is missing or damaged, has no more than `window` tokens (what a model reads at once),
    or has a token id of `vocabulary` or above.
    """
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
