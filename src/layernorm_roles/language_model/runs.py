"""One training run of a language model: what the configuration says about it, its model and its contexts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from tokenizers import Tokenizer

from layernorm_roles import checkpoint as checkpoints
from layernorm_roles import store
from layernorm_roles.language_model import bert, model
from layernorm_roles.provenance import run_identity
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.prepared import PreparedText

SETTINGS = {"gpt": GPTSettings, "bert": BERTSettings}
"""The class of the settings of a language model, by its architecture."""


@dataclass(frozen=True)
class LanguageModelRun:
    """One training run of a language model: all that its result depends on but the code."""

    model: str
    """The name of the model in the configuration."""
    variant: str
    """The name of the norm's variant in the configuration."""
    norm: str
    """What `norms.build_pair` takes for that variant."""
    seed: int
    settings: GPTSettings | BERTSettings
    text: PreparedText

    @classmethod
    def of_job(cls, job: Any) -> "list[LanguageModelRun]":
        """The runs of a job of the workflow in the order of its files; `job` is the object `snakemake` of its script.

        Its parameters are `runs`, with model, variant, base_learning_rate, steps and seed of each; `norms`, by variant;
        and `settings`, which all of them share. The files of the text lie beside its input manifest.
        """
        text, settings = PreparedText(Path(job.input.manifest).parent), job.params.settings
        runs = []
        for named in job.params.runs:
            point = {"learning_rate": named["base_learning_rate"], "steps": named["steps"]}
            checked = SETTINGS[settings["architecture"]].model_validate({**settings, **point})
            variant = named["variant"]
            runs.append(cls(named["model"], variant, job.params.norms[variant], named["seed"], checked, text))
        return runs

    @property
    def identity(self) -> dict[str, Any]:
        """What the result of the run depends on, in values that JSON has."""
        settings = self.settings.model_dump(mode="json", exclude={"learning_rate", "steps"})
        names = {"model": self.model, "text": self.text.content_hash(), **self.point}
        return run_identity(self.variant, self.norm, settings, seed=self.seed, **names)

    @property
    def point(self) -> dict[str, int | float]:
        """The run's learning rate and number of steps, by the names of their columns, which paths have as well."""
        return {"base_learning_rate": self.settings.learning_rate, "steps": self.settings.steps}

    @property
    def title(self) -> str:
        """What logs and error messages call the run."""
        return (
            f"language model {self.model} {self.variant} learning rate {self.settings.learning_rate} "
            f"steps {self.settings.steps} seed {self.seed}"
        )

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the text."""
        return tokenizers.load(self.text.tokenizer)

    @property
    def vocabulary(self) -> int:
        """Entries of the tokenizer."""
        return self.tokenizer.get_vocab_size()

    @property
    def prefix(self) -> tuple[int, ...]:
        """The tokens that the model reads before every text: BERT's class token."""
        return (self.vocabulary + bert.CLASS,) if self.settings.architecture == "bert" else ()

    def contexts(self) -> pd.DataFrame:
        """The rows of table `contexts` whose keys are tested in this model; BERT reads sentences only.

        Raises ValueError if a context has more tokens than the model reads, or one that it does not know.
        """
        contexts = store.read(self.text.contexts, "contexts")
        contexts = contexts[contexts.texts.isin(self.settings.reads)]
        refuse_misfits(contexts, self.settings.longest_text, self.vocabulary)
        return contexts

    def build_model(self, classes: int | None = None) -> model.GPT | bert.BERT:
        """The model with its parameters as they are before training; `classes` is for BERT on labelled sentences."""
        if isinstance(self.settings, GPTSettings):
            return model.build(self.settings, self.variant, self.norm, self.vocabulary, self.seed)
        return bert.build(self.settings, self.variant, self.vocabulary, classes, self.seed)

    def weights_identity(self, checkpoint: str) -> dict[str, Any]:
        """What the weights of a checkpoint, initial or final, say of themselves."""
        return {**self.identity, "checkpoint": checkpoint}

    def restore_model(self, weights: str | Path, checkpoint: str = "final") -> model.GPT | bert.BERT | None:
        """The model with parameters that training has written; None if it diverged, which leaves no numbers.

        Raises ValueError if they are of another run or of another `checkpoint`, initial or final.
        """
        parameters, _ = checkpoints.load(weights, self.weights_identity(checkpoint))
        if not all(tensor.isfinite().all() for tensor in parameters.values()):
            return None
        classes = len(parameters["classify.weight"]) if "classify.weight" in parameters else None
        network = self.build_model(classes)
        network.load_state_dict(parameters)
        return network

    def restored(self, weights: Mapping[str, Path]) -> Iterator[tuple[str, model.GPT | bert.BERT]]:
        """Each checkpoint's name, initial or final, and its model.

        A diverged run has no final model, and a line says so. `weights` has a file for each name. Raises ValueError as
        `restore_model` does.
        """
        for checkpoint, path in weights.items():
            network = self.restore_model(path, checkpoint)
            if network is None:
                print(f"{path}: the run diverged; its model has no keys", flush=True)
            else:
                yield checkpoint, network


def refuse_misfits(contexts: pd.DataFrame, longest: int, vocabulary: int) -> None:
    """Raise ValueError if a row of table `contexts` has more than `longest` tokens or one beyond the vocabulary."""
    for context in contexts.itertuples():
        where = f"context {context.context} of the {context.texts} texts"
        if len(context.tokens) > longest:
            raise ValueError(f"{where} has {len(context.tokens)} tokens; the model reads at most {longest}")
        if max(context.tokens) >= vocabulary:
            raise ValueError(f"{where} has token {max(context.tokens)}; the model knows {vocabulary}")
