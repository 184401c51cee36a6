"""Training tasks of the language models: to predict the next token, masked tokens, or the classes of sentences.

A task gives a batch of token ids for each step. The batch depends on the task's seed and the step alone, so that an
interrupted training can go on from any step, and models trained with equal seeds read equal batches in equal order.
"""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from jaxtyping import Integer
from tokenizers import Tokenizer

from layernorm_roles import random_streams
from layernorm_roles.language_model.bert import CLASS, MASK, PAD
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings
from layernorm_roles.text import documents
from layernorm_roles.text.prepared import PreparedText
from layernorm_roles.text.token_streams import read_stream

Batch = tuple[Integer[np.ndarray, "_ ..."], ...]
"""The arrays of a batch, as a model's method `loss` takes them; in training they have equal shapes at every step."""

TokenStream = Integer[np.ndarray, " _"]
"""The token ids of all documents of a text, one document after another."""

MASKED_SHARE = 0.15
"""The share of a sequence's tokens that BERT has to predict."""
SHOWN_AS_MASK, SHOWN_AS_RANDOM = 0.8, 0.1
"""Of the tokens that BERT has to predict, the shares that are replaced by the mask token, and by a random token."""


class Task:
    """Base class of training tasks, which give a training batch for each step, from 0, and validation batches."""

    streams: ClassVar[tuple[Stream, ...]]
    """The random streams (see `random_streams`) from which batches are drawn, named in the metadata of tables."""
    validation: list[Batch]
    unigram_loss: float | None = None
    """Validation loss, nats per token, of predicting tokens by training frequency; None if none are predicted."""
    classes: int | None = None
    """The number of classes into which sentences are put; None if tokens are predicted."""

    def batch(self, step: int) -> Batch:
        raise NotImplementedError


class NextToken(Task):
    """The task of a GPT, next-token prediction, on consecutive windows of context_length tokens of a text.

    In each epoch the windows begin at a new random offset and come in a new random order. The token after a window is
    its last target. Raises ValueError if the training text has fewer windows than a training batch.
    """

    streams = (Stream.LANGUAGE_MODEL_BATCHES,)

    def __init__(
        self,
        training: TokenStream,
        validation: TokenStream,
        vocabulary: int,
        settings: GPTSettings,
        seed: int,
    ):
        self._length, self._size, self._seed = settings.context_length, settings.batch_size, seed
        self._training = training
        # One window less than would fit leaves tokens for the offset.
        self.windows = (len(training) - 1) // self._length - 1
        if self.windows < self._size:
            raise ValueError(
                f"the training text has {self.windows} windows of context_length = {self._length} tokens; "
                f"expected at least batch_size = {self._size}"
            )
        possible = (len(validation) - 1) // self._length
        chosen = np.unique(np.linspace(0, possible - 1, settings.validation_windows).astype(int))
        windows = self._windows(validation, chosen * self._length)
        self.validation = _in_batches((windows,), self._size)
        self.unigram_loss = unigram_loss(training, vocabulary, windows[:, 1:])
        # To draw an epoch's order at every step would take longer than the step of a small model on a GPU.
        self._starts = lru_cache(maxsize=1)(self._draw_starts)

    def batch(self, step: int) -> Batch:
        """Token ids (batch_size, context_length + 1), in a tuple."""
        epoch, position = divmod(step, self.windows // self._size)
        chosen = self._starts(epoch)[position * self._size :][: self._size]
        return (self._windows(self._training, chosen),)

    def _draw_starts(self, epoch: int) -> Integer[np.ndarray, " windows"]:
        """Where an epoch's windows begin in the training text, in the order in which they are read."""
        rng = random_streams.generator(Stream.LANGUAGE_MODEL_BATCHES, self._seed, epoch)
        offset = rng.integers(self._length)
        return offset + rng.permutation(self.windows) * self._length

    def _windows(
        self, stream: TokenStream, starts: Integer[np.ndarray, " windows"]
    ) -> Integer[np.ndarray, "windows length"]:
        return np.stack([stream[start : start + self._length + 1] for start in starts]).astype(np.int64)


class MaskedTokens(Task):
    """The task of a BERT that predicts masked tokens, on random windows of the text.

    A sequence is the class token and a window. Tokens are masked as in Devlin et al. (2019). `seed` decides the
    training batches, `validation_seed` the validation batches.
    """

    streams = (Stream.MASKED_BATCHES, Stream.MASKED_VALIDATION)

    def __init__(
        self,
        training: TokenStream,
        validation: TokenStream,
        vocabulary: int,
        settings: BERTSettings,
        seed: int,
        validation_seed: int,
    ):
        self._length, self._size, self._seed = settings.context_length - 1, settings.batch_size, seed
        self._vocabulary, self._training = vocabulary, training
        rng = random_streams.generator(Stream.MASKED_VALIDATION, validation_seed)
        self.validation = [self._draw(validation, rng) for _ in range(settings.validation_batches)]
        targets = np.concatenate([targets for _, _, targets in self.validation])
        self.unigram_loss = unigram_loss(training, vocabulary, targets)

    def batch(self, step: int) -> Batch:
        """Token ids with masks (batch_size, context_length); positions and tokens to predict (batch_size, masked)."""
        rng = random_streams.generator(Stream.MASKED_BATCHES, self._seed, step)
        return self._draw(self._training, rng)

    def _draw(self, stream: TokenStream, rng: np.random.Generator) -> Batch:
        starts = rng.integers(len(stream) - self._length, size=self._size)
        tokens = np.stack([stream[s : s + self._length] for s in starts]).astype(np.int64)
        masked = max(1, round(MASKED_SHARE * self._length))
        where = np.argsort(rng.random(tokens.shape), axis=1)[:, :masked]
        targets = np.take_along_axis(tokens, where, axis=1)
        fate = rng.random(where.shape)
        random = rng.integers(self._vocabulary, size=where.shape)
        shown = np.where(fate < SHOWN_AS_MASK + SHOWN_AS_RANDOM, random, targets)
        shown = np.where(fate < SHOWN_AS_MASK, self._vocabulary + MASK, shown)
        np.put_along_axis(tokens, where, shown, axis=1)
        # BERT reads its class token before every text.
        return np.pad(tokens, ((0, 0), (1, 0)), constant_values=self._vocabulary + CLASS), where + 1, targets


class LabelledSentences(Task):
    """The task of the paper's BERT: to predict the classes of sentences, as in the dataset SST-2.

    `training` and `validation` give pairs of a sentence and its class. Sentences are cut or padded to context_length
    tokens, a class token at the start included. Raises ValueError if there are fewer sentences than in a training
    batch, or if a sentence has no label (a negative class).
    """

    streams = (Stream.LABELLED_BATCHES,)

    def __init__(
        self,
        training: Iterable[tuple[str, int]],
        validation: Iterable[tuple[str, int]],
        tokenizer: Tokenizer,
        settings: BERTSettings,
        seed: int,
    ):
        self._size, self._seed, self._length = settings.batch_size, seed, settings.context_length
        self._training = self._encode("training", training, tokenizer)
        self.classes = int(self._training[2].max()) + 1
        self.validation = _in_batches(self._encode("validation", validation, tokenizer), self._size)
        self._order = lru_cache(maxsize=1)(self._draw_order)

    def batch(self, step: int) -> Batch:
        """Token ids (batch_size, context_length), lengths with the class token but no padding, and classes."""
        epoch, position = divmod(step, len(self._training[0]) // self._size)
        rows = self._order(epoch)[position * self._size :][: self._size]
        return tuple(part[rows] for part in self._training)

    def _draw_order(self, epoch: int) -> Integer[np.ndarray, " sentences"]:
        rng = random_streams.generator(Stream.LABELLED_BATCHES, self._seed, epoch)
        return rng.permutation(len(self._training[0]))

    def _encode(self, part: str, rows: Iterable[tuple[str, int]], tokenizer: Tokenizer) -> Batch:
        vocabulary = tokenizer.get_vocab_size()
        texts, labels = zip(*rows, strict=True)
        if len(texts) < self._size:
            raise ValueError(
                f"the source of {part} has {len(texts)} sentences; expected at least batch_size = {self._size}"
            )
        if min(labels) < 0:
            raise ValueError(
                f"the source of {part} has a sentence without a label (SST-2's test split has none)"
            )
        ids = [encoding.ids[: self._length - 1] for encoding in tokenizer.encode_batch(list(texts))]
        tokens = np.full((len(ids), self._length), vocabulary + PAD, dtype=np.int64)
        tokens[:, 0] = vocabulary + CLASS
        for row, sentence in zip(tokens, ids, strict=True):
            row[1 : 1 + len(sentence)] = sentence
        return tokens, np.array([len(sentence) + 1 for sentence in ids]), np.array(labels)


def _in_batches(examples: tuple[Integer[np.ndarray, "examples ..."], ...], size: int) -> list[Batch]:
    return [
        tuple(part[start : start + size] for part in examples) for start in range(0, len(examples[0]), size)
    ]


def unigram_loss(training: TokenStream, vocabulary: int, tokens: Integer[np.ndarray, "..."]) -> float:
    """The mean cross-entropy on `tokens`, in nats per token, of predicting tokens by their frequencies in `training`.

    The count of every entry of the vocabulary is increased by 1, so that no probability is 0.
    """
    counts = np.ones(vocabulary, np.int64)
    # In parts, because counting makes 64-bit integers of a stream that may fill the memory.
    for start in range(0, len(training), 10_000_000):
        counts += np.bincount(training[start : start + 10_000_000], minlength=vocabulary)
    return float(np.log(counts.sum()) - np.log(counts)[tokens].mean())


def task_type(settings: GPTSettings | BERTSettings) -> type[NextToken | MaskedTokens | LabelledSentences]:
    """The class of training tasks, a subclass of `Task`, for a language model with these settings."""
    return {"next": NextToken, "masked": MaskedTokens, "labelled": LabelledSentences}[settings.task]


def build(
    settings: GPTSettings | BERTSettings,
    text: PreparedText,
    tokenizer: Tokenizer,
    seed: int,
    downloads: Path | None = None,
) -> Task:
    """The training task for a language model with these `settings`, on the prepared `text` or on labelled sentences.

    If the model classifies sentences, the settings say of which dataset, and `downloads` is the folder to which it was
    downloaded. Raises ValueError if a file is missing, damaged or too short.
    """
    kind = task_type(settings)
    if settings.labelled_sources:
        parts = (documents.labelled(source, downloads) for source in settings.labelled_sources)
        return LabelledSentences(*parts, tokenizer, settings, seed)
    vocabulary = tokenizer.get_vocab_size()
    streams = [
        read_stream(text.tokens(part), vocabulary, settings.longest_text)
        for part in ("training", "validation")
    ]
    if kind is MaskedTokens:
        return MaskedTokens(*streams, vocabulary, settings, seed, text.seed)
    return NextToken(*streams, vocabulary, settings, seed)
