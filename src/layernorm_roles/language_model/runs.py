"""One training run of a language model: its settings, its model, and the texts on which its keys are tested."""

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
from layernorm_roles.settings.language_model import POINT, BERTSettings, GPTSettings
from layernorm_roles.text import tokenizer as tokenizers
from layernorm_roles.text.prepared import PreparedText

ARCHITECTURES = {"gpt": (GPTSettings, model.build), "bert": (BERTSettings, bert.build)}
"""For each architecture the class of a language model's settings, and the function that builds the model."""


@dataclass(frozen=True)
class LanguageModelRun:
    """One training run of a language model: all that its result depends on, except the code."""

    name: str
    """The run's name in files and logs: its model, variant, values of the columns of `POINT`, and seed, as a path."""
    model: str
    """The name that the trained model has in config.yaml, such as gpt_bytes."""
    variant: str
    """The name, in config.yaml, of the variant of the norm before attention."""
    norm: str
    """The name that `norms.build_pair` takes for the variant, such as layernorm or package.module:Class."""
    seed: int
    settings: GPTSettings | BERTSettings
    text: PreparedText
    """The folder of the text that the model is trained on: its tokens, and contexts for the tests of keys."""

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any], manifest: str | Path) -> "list[LanguageModelRun]":
        """The runs that one process trains or measures, in the order in which `plan` lists them.

        `settings` in the plan are those that all runs share; each of its `runs` has the keys name, model, variant,
        norm, seed and the columns of `POINT`. The text's other files lie beside its `manifest`.
        """
        text, settings, runs = PreparedText(Path(manifest).parent), plan["settings"], []
        of_architecture, _ = ARCHITECTURES[settings["architecture"]]
        for planned in plan["runs"]:
            point = {key: planned[column] for column, key in POINT.items()}
            fields = {key: value for key, value in point.items() if key in of_architecture.model_fields}
            checked = of_architecture.model_validate({**settings, **fields})
            names = {key: planned[key] for key in ("name", "model", "variant", "norm", "seed")}
            runs.append(cls(**names, settings=checked, text=text))
        return runs

    @property
    def identity(self) -> dict[str, Any]:
        """All that the run's result depends on, except the code; checkpoints that differ are not used."""
        settings = self.settings.model_dump(mode="json")
        return {**self.columns, "norm": self.norm, "settings": settings, "text": self.text.content_hash()}

    @property
    def columns(self) -> dict[str, str | int]:
        return {"model": self.model, "variant": self.variant, "seed": self.seed}

    @property
    def point(self) -> dict[str, int | float]:
        """What distinguishes runs of equal model, variant and seed, by the columns of `POINT`."""
        return {column: getattr(self.settings, key) for column, key in POINT.items()}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return tokenizers.load(self.text.tokenizer)

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary of the text's tokenizer, without the special tokens that a BERT adds."""
        return self.tokenizer.get_vocab_size()

    @property
    def prefix(self) -> tuple[int, ...]:
        """The token ids that the model reads before every text: the class token's for a BERT, none for a GPT."""
        return (self.vocabulary + bert.CLASS,) * self.settings.class_tokens

    def contexts(self) -> pd.DataFrame:
        """The texts whose keys are tested for whether a query can select them, as rows of the table `contexts`.

        Column tokens has a text's token ids. A BERT gets only the sentences, a GPT also the long texts. Raises
        ValueError if a text has more tokens than the model reads, or a token that is not in its vocabulary.
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
        """The model before training; `classes` is given if it classifies sentences."""
        _, build = ARCHITECTURES[self.settings.architecture]
        return build(self.settings, self.variant, self.norm, self.vocabulary, self.seed, classes)

    def restore_model(self, weights: Mapping[str, Tensor], checkpoint: str) -> model.GPT | bert.BERT | None:
        """The model with its weights before training (`checkpoint` "initial") or after it ("final").

        `weights` maps names <run>/<checkpoint>/<parameter> to tensors, for this run and others. If the training
        diverged, the final model is None, and a line that says so is printed.
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
