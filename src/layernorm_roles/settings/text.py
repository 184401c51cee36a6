"""Settings of a text: what language models are trained on, and the contexts whose keys are tested."""

import glob
import hashlib
import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from layernorm_roles.settings.base import Integer, Number, Real, Section, Word, misfit_error

BYTES = 256
"""Different values of a byte: the fewest entries of a byte-level tokenizer."""

GPT2_ENTRIES = 50_257
"""Entries of GPT-2's tokenizer."""


class Source(Section):
    """Where documents come from: a Wikipedia sample, text files, Parquet files, or a dataset of the hub."""

    kind: Literal["wikipedia_sample", "files", "parquet", "hub"]
    """wikipedia_sample: 106 English Wikipedia articles, offline; files: UTF-8 text, one document a file; parquet: one
    document a row; hub: a dataset of the Hugging Face hub."""
    paths: Annotated[tuple[Word, ...], Field(min_length=1)] | None = None
    """Paths of the files, if kind is files or parquet; in a path, `*` stands for any text."""
    dataset: Word | None = None
    """Name of a dataset of the Hugging Face hub, or a local folder, if kind is hub."""
    config: Word | None = None
    """Configuration of the dataset, if kind is hub."""
    split: Word | None = None
    """Split of the dataset, if kind is hub."""
    column: Word | None = None
    """Column that holds the text."""
    label_column: Word | None = None
    """Column that holds the class of a sentence."""
    joined_by: Word | None = None
    """Column whose value neighbouring rows share if their texts are parts of one document, as the paragraphs of an
    article do in SQuAD; for kind parquet and hub."""
    limit: Annotated[Integer, Field(ge=1)] | None = None
    """Largest number of documents to read."""
    licence: Word | None = None
    """Licence of the texts, for the manifest."""

    @model_validator(mode="after")
    def _kind_has_what_it_needs(self):
        needed = {"files": ["paths"], "parquet": ["paths"], "hub": ["dataset", "split", "column"]}
        for key in needed.get(self.kind, []):
            if getattr(self, key) is None:
                raise misfit_error(key, None, f"a value, which a source of kind {self.kind} needs")
        return self

    @property
    def file_name(self) -> str:
        """The name of the file to which a source of kind hub is downloaded; other rows or columns have another one."""
        dataset = (self.dataset, self.config, self.split)
        columns = (self.column, self.label_column, self.joined_by)
        digest = hashlib.sha256(repr((*dataset, *columns, self.limit)).encode()).hexdigest()[:8]
        name = re.sub("[^A-Za-z0-9]+", "_", "_".join(filter(None, dataset))).strip("_")[-80:]
        return f"{name}_{digest}.parquet"

    def matching_files(self) -> dict[str, list[str]]:
        """The files that match each entry of `paths` now, sorted, by the entry as it is written."""
        return {path: sorted(glob.glob(path, recursive=True)) for path in self.paths or ()}  # noqa: PTH207, it may be absolute


class Split(Section):
    """Shares of the documents for training, validation and held-out contexts; they add up to 1."""

    training: Annotated[Real, Field(gt=0, le=1)]
    """Share of the documents that models are trained on."""
    validation: Annotated[Real, Field(gt=0, le=1)]
    """Share of the documents for the validation loss."""
    held_out: Annotated[Real, Field(ge=0, le=1)]
    """Share of the documents from which contexts are taken whose keys are tested."""

    @model_validator(mode="after")
    def _shares_add_up(self):
        total = self.training + self.validation + self.held_out
        if abs(total - 1) > 1e-9:
            raise misfit_error("training + validation + held_out", total, "shares that add up to 1")
        return self


class Contexts(Section):
    """Settings of contexts, which are the texts whose keys are tested."""

    source: Source | None
    """Source of the contexts; null: they are taken from the held-out documents."""
    shortest: Number
    """Tokens of the shortest context."""
    longest: Number
    """Tokens of the longest context."""
    contexts: Number
    """Number of contexts."""

    @model_validator(mode="after")
    def _lengths_are_ordered(self):
        if self.shortest > self.longest:
            raise misfit_error("shortest", self.shortest, f"at most longest = {self.longest}")
        return self


class Text(Section):
    """The corpus, its tokenizer, and the contexts."""

    corpus: Source
    """Source of the documents for training, validation and held-out contexts."""
    split: Split
    """Shares of the corpus' documents."""
    tokenizer: Literal["trained", "gpt2"]
    """trained: a byte-level BPE made from the training documents; gpt2: the tokenizer of GPT-2."""
    vocabulary: Annotated[Integer, Field(ge=BYTES, le=1_000_000)]
    """Entries of the trained tokenizer; with 256, the fewest, every byte of the text is one token."""
    long: Contexts
    """Long contexts, for the paper's Tables 1 and 2."""
    sentences: Contexts
    """Sentences as contexts, for the paper's Tables 3 and 4."""

    @model_validator(mode="after")
    def _contexts_come_from_somewhere(self):
        if not self.split.held_out and not (self.long.source and self.sentences.source):
            raise refuse("split.held_out", 0, "a share above 0, or a source for long and for sentences")
        return self

    @property
    def entries(self) -> int:
        """The number of entries of the text's tokenizer."""
        return GPT2_ENTRIES if self.tokenizer == "gpt2" else self.vocabulary
