"""One training run of a language model: what its plan says about it, its model and its contexts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from tokenizers import Tokenizer
from torch import Tensor

from layernorm_roles import store
from layernorm_roles.language_model import bert, model
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.prepared import PreparedText

ARCHITECTURES = {"gpt": (GPTSettings, model.build), "bert": (BERTSettings, bert.build)}
"""The class of the settings of a language model, and the function that builds it, by its architecture."""


@dataclass(frozen=True)
class LanguageModelRun:
    """One training run of a language model, by all that its result depends on but the code."""

    name: str
    """What files and logs call the run: gpt/layernorm/base_learning_rate_0.01/steps_1200/seed_1000."""
    model: str
    """The name of the model in the configuration."""
    variant: str
    """The name of the norm's variant in the configuration."""
    norm: str
    """What `norms.build_pair` takes for the variant: its name, or package.module:Class."""
    seed: int
    settings: GPTSettings | BERTSettings
    text: PreparedText

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any], manifest: str | Path) -> "list[LanguageModelRun]":
        """The runs of a batch, in the order of its plan.

        The plan's `settings` are those that all of the runs share; each of its `runs` has name, model, variant, norm,
        seed, base_learning_rate and steps. The files of the text lie beside its `manifest`.
        """
        text, settings = PreparedText(Path(manifest).parent), plan["settings"]
        runs = []
        for planned in plan["runs"]:
            point = {"learning_rate": planned["base_learning_rate"], "steps": planned["steps"]}
            of_architecture, _ = ARCHITECTURES[settings["architecture"]]
            checked = of_architecture.model_validate({**settings, **point})
            names = {key: planned[key] for key in ("name", "model", "variant", "norm", "seed")}
            runs.append(cls(**names, settings=checked, text=text))
        return runs

    @property
    def identity(self) -> dict[str, Any]:
        """All that the result of the run depends on but the code, in values that JSON has."""
        settings = self.settings.model_dump(mode="json")
        return {**self.columns, "norm": self.norm, "settings": settings, "text": self.text.content_hash()}

    @property
    def columns(self) -> dict[str, str | int]:
        """The columns that name the run in every table."""
        return {"model": self.model, "variant": self.variant, "seed": self.seed}

    @property
    def point(self) -> dict[str, int | float]:
        """The columns base_learning_rate and steps, which tell the runs of one model, variant and seed apart."""
        return {"base_learning_rate": self.settings.learning_rate, "steps": self.settings.steps}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the text that the model is trained on."""
        return tokenizers.load(self.text.tokenizer)

    @property
    def vocabulary(self) -> int:
        """The number of entries of the text's tokenizer."""
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
        for context in contexts.itertuples():
            where = f"context {context.context} of the {context.texts} texts"
            if len(context.tokens) > (longest := self.settings.longest_text):
                raise ValueError(
                    f"{where} has {len(context.tokens)} tokens; the model reads at most {longest}"
                )
            if max(context.tokens) >= self.vocabulary:
                raise ValueError(
                    f"{where} has token {max(context.tokens)}; the model knows {self.vocabulary}"
                )
        return contexts

    def build_model(self, classes: int | None = None) -> model.GPT | bert.BERT:
        """The model with its parameters as they are before training; `classes` is for BERT on labelled sentences."""
        _, build = ARCHITECTURES[self.settings.architecture]
        return build(self.settings, self.variant, self.norm, self.vocabulary, self.seed, classes)

    def restore_model(self, weights: Mapping[str, Tensor], checkpoint: str) -> model.GPT | bert.BERT | None:
        """The model at a checkpoint, initial or final, from the `weights` of the batch.

        If the run diverged it is None, and a line on the terminal says so.
        """
        prefix = f"{self.name}/{checkpoint}/"
        parameters = {
            name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)
        }
        if not all(tensor.isfinite().all() for tensor in parameters.values()):
            print(f"{self.name}: the run diverged; its {checkpoint} model has no keys", flush=True)
            return None
        classes = len(parameters["classify.weight"]) if "classify.weight" in parameters else None
        network = self.build_model(classes)
        network.load_state_dict(parameters)
        return network
