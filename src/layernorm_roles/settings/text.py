"""Settings of a text: the corpus on which language models are trained, and the texts on which they are then tested."""

import glob
import hashlib
import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from layernorm_roles.settings.base import Integer, Number, Real, Section, Word, misfit_error

BYTES = 256
"""Number of different bytes, which is the smallest vocabulary of a byte-level tokenizer."""

GPT2_ENTRIES = 50_257
"""Vocabulary size of GPT-2's tokenizer."""


class Source(Section):
    """Settings of a source of documents: a Wikipedia sample, text files, Parquet files, or a Hugging Face dataset."""

    kind: Literal["wikipedia_sample", "files", "parquet", "hub"]
    """wikipedia_sample: 106 English Wikipedia articles from an installed package; files: UTF-8 text, one document a
    file; parquet: one document a row; hub: a dataset of the Hugging Face hub."""
    paths: Annotated[tuple[Word, ...], Field(min_length=1)] | None = None
    """Paths of the files, if kind is files or parquet; they may have wildcards such as `*`."""
    dataset: Word | None = None
    """Name of a dataset of the Hugging Face hub, or a local folder with the hub's layout, if kind is hub."""
    config: Word | None = None
    """Name of the dataset's configuration (subset), if kind is hub."""
    split: Word | None = None
    """Name of the dataset's split, such as train, if kind is hub."""
    column: Word | None = None
    """Column that holds the text, if kind is parquet or hub; for parquet, null stands for `text`."""
    label_column: Word | None = None
    """Column that holds the class of each sentence as an integer, where a BERT learns to classify sentences."""
    joined_by: Word | None = None
    """Column by which neighbouring rows of equal value are joined to a document, if kind is parquet or hub."""
    limit: Annotated[Integer, Field(ge=1)] | None = None
    """Largest number of documents to read from the source."""
    licence: Word | None = None
    """Licence of the texts, which is noted in manifest.json beside the prepared text."""

    @model_validator(mode="after")
    def _kind_has_what_it_needs_and_no_other_place(self):
        needed = {"files": ["paths"], "parquet": ["paths"], "hub": ["dataset", "split", "column"]}
        for key in needed.get(self.kind, []):
            if getattr(self, key) is None:
                raise misfit_error(key, None, f"a value, which a source of kind {self.kind} needs")
        # A place beside another kind is left where a user forgot to change the kind.
        for key, kinds in {"paths": ("files", "parquet"), "dataset": ("hub",)}.items():
            if getattr(self, key) and self.kind not in kinds:
                expected = f"null beside kind: {self.kind}, or kind: {' or '.join(kinds)}"
                raise misfit_error(key, getattr(self, key), expected)
        return self

    @property
    def file_name(self) -> str:
        """The name of the Parquet file to which a source of kind "hub" is downloaded.

        It contains a hash of the settings that say which texts are downloaded.
        """
        dataset = (self.dataset, self.config, self.split)
        columns = (self.column, self.label_column, self.joined_by)
        digest = hashlib.sha256(repr((*dataset, *columns, self.limit)).encode()).hexdigest()[:8]
        name = re.sub("[^A-Za-z0-9]+", "_", "_".join(filter(None, dataset))).strip("_")[-80:]
        return f"{name}_{digest}.parquet"

    def matching_files(self) -> dict[str, list[str]]:
        """The files that now match the setting `paths`: a dict from a path or pattern to a sorted list of files."""
        return {path: sorted(glob.glob(path, recursive=True)) for path in self.paths or ()}  # noqa: PTH207, it may be absolute


class Split(Section):
    """The shares of the documents that are for training, for validation, and held out for tests; they add up to 1."""

    training: Annotated[Real, Field(gt=0, le=1)]
    """Share of the documents that models are trained on."""
    validation: Annotated[Real, Field(gt=0, le=1)]
    """Share of the documents on which the validation loss is computed."""
    held_out: Annotated[Real, Field(ge=0, le=1)]
    """Share of the documents on which no model is trained, from which the texts to test attention keys are taken."""

    @model_validator(mode="after")
    def _shares_add_up(self):
        total = self.training + self.validation + self.held_out
        if abs(total - 1) > 1e-9:
            raise misfit_error("training + validation + held_out", total, "shares that add up to 1")
        return self


class Contexts(Section):
    """Settings of contexts: texts that a trained model reads so that its attention keys can be tested."""

    source: Source | None
    """Source of the texts to test keys on; null: they are taken from the corpus' held-out documents."""
    shortest: Number
    """Smallest number of tokens that a context, a text to test keys on, may have."""
    longest: Number
    """Largest number of tokens that a context, a text to test keys on, may have."""
    contexts: Number
    """Number of contexts, the texts on which models' keys are tested."""

    @model_validator(mode="after")
    def _lengths_are_ordered(self):
        if self.shortest > self.longest:
            raise misfit_error("shortest", self.shortest, f"at most longest = {self.longest}")
        return self


class Text(Section):
    """Settings of a text: its corpus, its tokenizer, and the contexts on which trained models' keys are tested."""

    corpus: Source
    """Source of the documents that are split into those for training, for validation, and held out."""
    split: Split
    """The shares of the corpus' documents for training, for validation, and held out for tests."""
    tokenizer: Literal["trained", "gpt2"]
    """trained: a byte-level BPE made from the training documents; gpt2: the tokenizer of GPT-2."""
    vocabulary: Annotated[Integer, Field(ge=BYTES, le=1_000_000)]
    """Vocabulary size of the trained tokenizer; with 256, the smallest, every byte of the text is one token."""
    long: Contexts
    """Settings of long texts to test keys on, for the paper's Tables 1 and 2."""
    sentences: Contexts
    """Settings of single sentences to test keys on, for the paper's Tables 3 and 4."""

    @model_validator(mode="after")
    def _contexts_come_from_somewhere(self):
        if not self.split.held_out and not (self.long.source and self.sentences.source):
            raise misfit_error("split.held_out", 0, "a share above 0, or a source for long and for sentences")
        return self

    @property
    def entries(self) -> int:
        """The vocabulary size of the text's tokenizer: 50,257 for GPT-2's, else the setting `vocabulary`."""
        return GPT2_ENTRIES if self.tokenizer == "gpt2" else self.vocabulary
