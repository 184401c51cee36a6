"""Settings of the language models (Figure 4 and Tables 1 to 4 of the paper)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from layernorm_roles.settings.base import (
    Distinct,
    Identifier,
    Integer,
    LearningRate,
    Number,
    Real,
    RunsPerJob,
    Section,
    Seeds,
    Size,
    Steps,
    misfit_error,
    one_or_several,
    refuse_indivisible,
)
from layernorm_roles.settings.text import Source
from layernorm_roles.variants import BERT_VARIANTS

_Eps = Annotated[Real, Field(ge=0, le=1)]
_Dropout = Annotated[Real, Field(ge=0, lt=1)]


class _LanguageModel(Section):
    """The settings of a run that GPT and BERT share."""

    reads: ClassVar[tuple[str, ...]]
    """The kinds of contexts that the model reads when its keys are tested: long, sentences."""
    text: Identifier
    """Name of the text that the model is trained on, and whose contexts are tested."""
    layers: Size
    """Number of transformer layers."""
    d_model: Size
    """Size of the residual stream."""
    heads: Size
    """Attention heads of a layer; their size d_head is d_model / heads."""
    dropout: _Dropout
    """Share of the embeddings, and of what each layer adds, that is dropped in training."""
    batch_size: Size
    """Windows of context_length tokens, or sentences, in a training batch."""
    steps: Steps
    """Optimiser steps of a run."""
    learning_rate: LearningRate
    """AdamW's learning rate at the first step; it falls linearly to 0 at the last."""
    warmup: Annotated[Integer, Field(ge=0, le=100_000_000)]
    """Optimiser steps over which the learning rate rises linearly, beside its fall; 0, as in the paper: none."""
    weight_decay: Annotated[Real, Field(ge=0, le=10)]
    """AdamW's weight decay."""
    gradient_clip: Annotated[Real, Field(gt=0)]
    """Largest norm of the gradient; a longer one is shortened to it."""
    evaluate_every: Steps
    """Optimiser steps between two rows of language_model_metrics."""
    checkpoint_every: Steps
    """Optimiser steps between two checkpoints, from which a killed run goes on."""

    @model_validator(mode="after")
    def _heads_divide_d_model(self):
        refuse_indivisible(self.d_model, self.heads)
        return self


class GPTSettings(_LanguageModel):
    """A GPT-2, with a variant of the norm before attention: what a run depends on, beside its variant and seed."""

    reads = ("long", "sentences")

    architecture: Literal["gpt"]
    """gpt: GPT-2, which predicts the next token."""
    context_length: Annotated[Integer, Field(ge=2, le=65_536)]
    """Largest number of tokens that the model reads."""
    eps: _Eps
    """eps of every norm, as in GPT-2."""
    query_key_eps: _Eps
    """eps of the norm of queries and keys in layernorm_qk, as in OLMo 2 and Qwen 3."""
    attention_dropout: _Dropout
    """Share of the attention weights that is dropped in training."""
    validation_windows: Size
    """Windows of context_length tokens over which the validation loss is computed."""
    diagnose_every: Steps | None
    """Optimiser steps between two rows of the table language_model_attention; null leaves the table empty."""

    @property
    def longest_text(self) -> int:
        """Tokens of the longest text that the model reads."""
        return self.context_length


class BERTSettings(_LanguageModel):
    """A small BERT: none has no LayerNorm at all, layernorm has all of them, no_attention lacks attention only.

    These are the settings on which a run depends, beside its variant and seed.
    """

    reads = ("sentences",)

    architecture: Literal["bert"]
    """bert: BERT, which predicts masked tokens or the classes of sentences."""
    context_length: Annotated[Integer, Field(ge=3, le=65_536)]
    """Largest number of tokens that the model reads: one for the class, the others of text."""
    d_ff: Size
    """Hidden units of the feed-forward part."""
    task: Literal["masked", "labelled"]
    """masked: predict 15 % of the corpus' tokens; labelled: predict the classes of sentences, as in SST-2."""
    training: Source | None
    """Labelled sentences for training, if task is labelled: a source of kind hub with a label_column."""
    validation: Source | None
    """Labelled sentences for validation, if task is labelled: a source of kind hub with a label_column."""
    validation_batches: Size
    """Batches over which the validation loss is computed, if task is masked."""

    @property
    def longest_text(self) -> int:
        """Tokens of the longest text that the model reads, after its class token."""
        return self.context_length - 1

    @model_validator(mode="after")
    def _labelled_sentences_have_sources(self):
        for key in ("training", "validation") if self.task == "labelled" else ():
            source = getattr(self, key)
            if source is None or source.kind != "hub" or source.label_column is None:
                raise misfit_error(key, source and source.kind, "a source of kind hub with a label_column")
        return self


class _Runs(Section):
    """The keys of a language model in config.yaml that stand for several runs each."""

    learning_rate: Annotated[Distinct[LearningRate], one_or_several(LearningRate)]
    """AdamW's learning rate at the first step; it falls linearly to 0 at the last. A list trains every variant and
    seed with each."""
    steps: Annotated[Distinct[Steps], one_or_several(Steps)]
    """Optimiser steps of a run. A list trains every variant and seed for each length, with its own falling rate."""
    runs_per_job: RunsPerJob
    """Runs of the model that one process trains in turn, and whose keys one judges: above 1 for runs that take less
    time than its start; all: every run. A run that is added to a batch that is not full trains all of that batch
    again."""

    def of_training(self) -> dict[str, Any]:
        """The settings that all of the runs share, as dictionaries and lists of plain values."""
        of_runs = {"learning_rate", "steps", "runs_per_job", "seeds", "ceiling_seeds", "ceiling_contexts"}
        return self.model_dump(mode="json", exclude=of_runs)


class GPTModel(_Runs, GPTSettings):
    """A GPT-2 in config.yaml: it has a run for every combination of learning rate, steps, variant and seed."""

    seeds: Seeds
    """Number of runs by variant, with the seeds first_seed, first_seed + 1, ...; 0 or null leaves the variant out."""
    ceiling_seeds: Annotated[Integer, Field(ge=0, le=1000)]
    """Runs of a variant, the first ones, of whose keys the ceilings of attention are computed; 0 for none."""
    ceiling_contexts: Number
    """Long contexts behind the ceilings of a run, the first ones: seeds differ more than contexts do."""


class BERTModel(_Runs, BERTSettings):
    """A BERT in config.yaml: it has a run for every combination of learning rate, steps, variant and seed."""

    seeds: dict[Literal[tuple(BERT_VARIANTS)], Annotated[Integer, Field(ge=0, le=1000)]]
    """Number of runs by variant, with the seeds first_seed, first_seed + 1, ...; 0 or null leaves the variant out."""


LanguageModel = Annotated[GPTModel | BERTModel, Field(discriminator="architecture")]
"""The settings of a language model; its key `architecture` says which keys it has."""
