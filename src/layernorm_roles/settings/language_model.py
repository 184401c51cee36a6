"""Settings of the language models (Figure 4 and Tables 1 to 4 of the paper)."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from layernorm_roles.settings.base import (
    Distinct,
    Identifier,
    Integer,
    LearningRate,
    Number,
    NumberOrSeeds,
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
from layernorm_roles.variants import BERT_VARIANTS, NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT, maps

POINT = {"base_learning_rate": "learning_rate", "steps": "steps", "query_key_rate": "query_key_rate"}
"""The keys of a language model that may hold a list of values to train with, by the column of result tables that holds
the value of a training run."""

_Eps = Annotated[Real, Field(ge=0, le=1)]
_Factor = Annotated[Real, Field(gt=0, le=1e6)]
_Dropout = Annotated[Real, Field(ge=0, lt=1)]


class _LanguageModel(Section):
    """Settings on which both the training of a GPT and that of a BERT depend."""

    reads: ClassVar[tuple[str, ...]]
    """The kinds of text, "long" or "sentences", on which it is tested which attention keys a query can select."""
    class_tokens: ClassVar[int]
    """The number of tokens that the model puts before a text."""
    pre_norm: ClassVar[bool]
    """Whether the norm precedes attention, so that ceilings behind it can be computed and activations be sampled."""
    text: Identifier
    """Name of the entry of the section `text` on which the model is trained and its attention keys are tested."""
    layers: Size
    """Number of transformer layers."""
    d_model: Size
    """Size of the residual stream."""
    heads: Size
    """Attention heads of a layer; each has d_model / heads dimensions."""
    dropout: _Dropout
    """Dropout rate of the embeddings and of what attention and feed-forward add to the residual stream."""
    batch_size: Size
    """Number of sequences in a training batch: windows of context_length tokens, or sentences."""
    steps: Steps
    """Optimiser steps of a training run."""
    learning_rate: LearningRate
    """AdamW's learning rate at the first step; it falls linearly to 0 at the last step."""
    warmup: Annotated[Integer, Field(ge=0, le=100_000_000)]
    """Optimiser steps over which a factor of the learning rate rises linearly to 1; 0, as in the paper: no warm-up."""
    weight_decay: Annotated[Real, Field(ge=0, le=10)]
    """AdamW's weight decay."""
    gradient_clip: Annotated[Real, Field(gt=0)]
    """Largest norm of the gradient over all parameters; a longer gradient is scaled down to it."""
    evaluate_every: Steps
    """Optimiser steps between two evaluations, which are the rows of the table language_model_metrics."""
    checkpoint_every: Steps
    """Optimiser steps between two checkpoints, from which an interrupted training goes on."""

    @property
    def rate_ends(self) -> int:
        """The optimiser step at which the learning rate, which falls linearly, reaches 0."""
        return self.schedule_steps or self.steps

    @property
    def longest_text(self) -> int:
        """The largest number of tokens of a text that fits the model; BERT's class token is not counted."""
        return self.context_length - self.class_tokens

    @property
    def labelled_sources(self) -> tuple[Source, ...]:
        """The sources of labelled sentences for training and for validation; empty if the model predicts tokens."""
        return ()

    def sites(self, variant: str, norm: str) -> tuple[str, ...]:
        """The places in a layer whose vectors are tested, as keys, for whether some query can select them.

        They are "before_norm" (the residual stream), "after_norm" (the input of attention) and "head" (the heads'
        keys). Where a built-in norm before attention, without learned parameters, has scaled the vectors to one length,
        "after_norm_exact" and "head_exact" are added: the vectors as they would be with eps = 0. `variant` is the
        variant's name in config.yaml, `norm` its name for `norms.build_pair`.
        """
        return ("before_norm", "after_norm", "head")

    @model_validator(mode="after")
    def _heads_divide_d_model(self):
        refuse_indivisible(self.d_model, self.heads)
        return self


class GPTSettings(_LanguageModel):
    """The settings of a training of a GPT-2, except for the variant of the norm before attention and the seed."""

    reads, class_tokens, pre_norm = ("long", "sentences"), 0, True
    task: ClassVar[str] = "next"
    """The task is to predict the next token."""

    architecture: Literal["gpt"]
    """gpt: GPT-2, which predicts the next token."""
    context_length: Annotated[Integer, Field(ge=2, le=65_536)]
    """Largest number of tokens that the model reads at once."""
    eps: _Eps
    """Number that is added to the variance in every LayerNorm and in the variant of it before attention."""
    query_key_eps: _Eps
    """eps of the RMSNorm that the variant layernorm_qk applies to each head's queries and keys."""
    attention_dropout: _Dropout
    """Dropout rate of the attention weights."""
    validation_windows: Size
    """Number of windows, of context_length tokens each, over which the validation loss is computed."""
    diagnose_every: Steps | None
    """Optimiser steps between measurements of what attention contributes (language_model_attention); null: none."""
    query_key_rate: _Factor
    """Factor on the learning rate of W_Q and W_K; that of all other parameters is `learning_rate`."""
    adam_eps: Annotated[Real, Field(gt=0, le=1)]
    """AdamW's epsilon, which is added to the root of the mean squared gradient; torch's default is 1e-8."""
    schedule_steps: Steps | None
    """Optimiser step at which the learning rate reaches 0, if training ends before; null: the last step."""

    @property
    def hidden(self) -> int:
        """Hidden units of each layer's feed-forward network."""
        return 4 * self.d_model

    def sites(self, variant: str, norm: str) -> tuple[str, ...]:
        sites = super().sites(variant, norm)
        if variant == QUERY_KEY_VARIANT:
            return (*sites, "after_norm_exact", "head_exact")
        built_in = maps(norm)
        exact = built_in and built_in[0].scales and built_in[0].learns == "nothing"
        return (*sites, "after_norm_exact") if exact else sites

    @model_validator(mode="after")
    def _schedule_covers_the_steps(self):
        steps = max(self.steps) if isinstance(self.steps, tuple) else self.steps
        if self.schedule_steps is not None and steps > self.schedule_steps:
            expected = f"at most schedule_steps = {self.schedule_steps}, where the learning rate is 0"
            raise misfit_error("steps", steps, expected)
        return self


class BERTSettings(_LanguageModel):
    """The settings of a training of a small BERT, except for the variant of its norms and the seed.

    The variants are `none`, which has no LayerNorm; `layernorm`, which has all of BERT's LayerNorms; and
    `no_attention`, whose layers have only the feed-forward network and the LayerNorm after it.
    """

    reads, class_tokens, pre_norm = ("sentences",), 1, False
    diagnose_every: ClassVar[None] = None
    query_key_rate: ClassVar[float] = 1.0
    adam_eps: ClassVar[float] = 1e-8
    schedule_steps: ClassVar[None] = None

    architecture: Literal["bert"]
    """bert: BERT, which predicts masked tokens or the classes of sentences."""
    context_length: Annotated[Integer, Field(ge=3, le=65_536)]
    """Largest number of tokens that the model reads, the class token at the start among them."""
    d_ff: Size
    """Hidden units of each layer's feed-forward network."""
    task: Literal["masked", "labelled"]
    """masked: to predict masked tokens, 15 % of the corpus; labelled: to classify sentences (SST-2)."""
    training: Source | None
    """Source of the sentences and classes for training, if task is labelled: of kind hub, with a label_column."""
    validation: Source | None
    """Source of the sentences and classes for validation, if task is labelled: of kind hub, with a label_column."""
    validation_batches: Size
    """Number of batches over which the validation loss is computed, if task is masked."""

    @property
    def hidden(self) -> int:
        """Hidden units of each layer's feed-forward network."""
        return self.d_ff

    @property
    def labelled_sources(self) -> tuple[Source, ...]:
        return (self.training, self.validation) if self.task == "labelled" else ()

    @model_validator(mode="after")
    def _labelled_sentences_have_sources(self):
        for key in ("training", "validation") if self.task == "labelled" else ():
            source = getattr(self, key)
            if source is None or source.kind != "hub" or source.label_column is None:
                raise misfit_error(key, source and source.kind, "a source of kind hub with a label_column")
        return self


class _Runs(Section):
    """The keys of a language model in config.yaml that say which trainings, or runs, of the model there are."""

    learning_rate: Annotated[Distinct[LearningRate], one_or_several(LearningRate)]
    """AdamW's learning rate at the first step, falling linearly to 0; a list: each variant and seed with each rate."""
    steps: Annotated[Distinct[Steps], one_or_several(Steps)]
    """Optimiser steps of a training, over which the learning rate falls to 0. With a list, every variant and seed is
    trained anew for each number."""
    runs_per_job: RunsPerJob
    """How many runs of the model one process trains in turn, and one then measures; all: every run. More than 1 suits
    short runs. If a process has fewer and a run is added to it, all of its runs are trained again."""

    def of_training(self) -> dict[str, Any]:
        """The settings that do not differ between trainings of the model, as JSON values by key of config.yaml.

        Left out are the keys that may hold a list, seeds, runs_per_job, ceiling_seeds and ceiling_contexts.
        """
        of_runs = {*POINT.values(), "runs_per_job", "seeds", "ceiling_seeds", "ceiling_contexts"} | {
            "gradient_seeds"
        }
        return self.model_dump(mode="json", exclude=of_runs)


class GPTModel(_Runs, GPTSettings):
    """The settings of a GPT-2, an entry of the section `language_model` in config.yaml.

    The model is trained once for every combination of learning rate, number of steps, factor on the rate of W_Q and
    W_K, variant of the norm and seed.
    """

    query_key_rate: Annotated[Distinct[_Factor], one_or_several(_Factor)]
    """Factor on the learning rate of W_Q and W_K; a list: each variant and seed with each factor."""
    seeds: Seeds
    """Number or list of seeds of the training runs of each variant, by its name; 0 or null: no such run."""
    ceiling_seeds: Annotated[Integer, Field(ge=0, le=1000)]
    """For how many seeds of layernorm and projection the largest attention that keys can get is computed; 0: none."""
    ceiling_contexts: Number
    """Number of long texts, the first ones, for whose keys the largest possible attention weights are computed."""
    gradient_seeds: Annotated[Integer, Field(ge=0, le=1000)]
    """Initialisations at which the gradients of W_Q, W_K and W_V are measured for inputs of several sizes; 0: none."""

    @model_validator(mode="after")
    def _factors_have_an_attention(self):
        if self.seeds.get(NO_ATTENTION_VARIANT) and set(self.query_key_rate) != {1.0}:
            expected = f"1, since {NO_ATTENTION_VARIANT} has neither W_Q nor W_K"
            raise misfit_error("query_key_rate", self.query_key_rate, expected)
        return self


class BERTModel(_Runs, BERTSettings):
    """The settings of a BERT, an entry of the section `language_model` in config.yaml.

    The model is trained once for every combination of learning rate, number of steps, variant of the norms and seed.
    """

    seeds: dict[Literal[tuple(BERT_VARIANTS)], NumberOrSeeds]
    """Number or list of seeds of the training runs of each variant, by its name; 0 or null: no such run."""
    query_key_rate: ClassVar[tuple[float, ...]] = (1.0,)
    ceiling_seeds: ClassVar[int] = 0
    ceiling_contexts: ClassVar[int] = 0


LanguageModel = Annotated[GPTModel | BERTModel, Field(discriminator="architecture")]
"""The type of a language model's settings; `architecture: gpt` or `bert` decides which class, and so which keys."""
