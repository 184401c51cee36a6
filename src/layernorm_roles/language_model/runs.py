"""One run from a configuration's values to its files: which model, which task, which keys."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from layernorm_roles import store
from layernorm_roles.language_model import bert, keys, model
from layernorm_roles.language_model import train as training
from layernorm_roles.text import documents, tokenizer
from layernorm_roles.text.contexts import Prepared


@dataclass(frozen=True)
class Run:
    """`kind` is gpt or bert; `norm` what norms.build takes for `variant`; `settings` the kind's configuration."""

    kind: str
    variant: str
    seed: int
    norm: str
    settings: Mapping[str, Any]
    corpus: Prepared

    @property
    def identity(self) -> dict[str, Any]:
        """All that the run's result depends on, for its files and for recognising its own checkpoint."""
        return {
            "model": self.kind,
            "variant": self.variant,
            "norm": self.norm,
            "seed": self.seed,
            "settings": dict(self.settings),
            "text": hashlib.sha256(self.corpus.manifest.read_bytes()).hexdigest(),
        }

    def train(self, out: training.Outputs, device: str, threads: int) -> None:
        task = self._task()
        classes = getattr(task, "classes", None)
        training.train(self._model(classes), task, self.settings, self.identity, out, device, threads)

    def keys(self, weights: Mapping[str, Path], threads: int) -> keys.Verdicts:
        """Verdicts for every checkpoint of `weights` (its name, its file), in the tables' columns."""
        torch.set_num_threads(threads)
        words = tokenizer.load(self.corpus.tokenizer)
        contexts = store.read(self.corpus.contexts, "contexts")
        vocabulary = words.get_vocab_size()
        prefix: tuple[int, ...] = ()
        if self.kind == "bert":
            contexts, prefix = contexts[contexts.texts == "sentences"], (vocabulary + bert.CLASS,)
        parts = []
        for checkpoint, path in weights.items():
            part = keys.collect(
                self._restore(path),
                contexts,
                words,
                self.settings["context"],
                vocabulary,
                model.scaled_sites(self.variant, self.norm) if self.kind == "gpt" else (),
                prefix,
            )
            about = {"model": self.kind, "variant": self.variant, "seed": self.seed, "checkpoint": checkpoint}
            parts.append([frame.assign(**about) for frame in part])
        return keys.Verdicts(*(pd.concat(frames) for frames in zip(*parts, strict=True)))

    def _model(self, classes: int | None = None) -> nn.Module:
        vocabulary = tokenizer.load(self.corpus.tokenizer).get_vocab_size()
        if self.kind == "gpt":
            return model.build(self.settings, self.variant, self.norm, vocabulary, self.seed)
        if self.variant not in ("none", "layernorm"):
            raise ValueError(
                f"language_model.bert.seeds: variant {self.variant!r}; expected none or layernorm"
            )
        torch.manual_seed(self.seed)
        return bert.BERT(self.settings, self.variant == "layernorm", vocabulary, classes)

    def _task(self) -> training.Task:
        words = tokenizer.load(self.corpus.tokenizer)
        streams = (self.corpus.tokens("training"), self.corpus.tokens("validation"), words.get_vocab_size())
        if self.kind == "gpt":
            return training.NextToken(*streams, self.settings, self.seed)
        if self.settings["task"] == "masked":
            return bert.Masked(*streams, self.settings, self.seed)
        parts = (documents.labelled(self.settings[part]) for part in ("training", "validation"))
        return bert.Labelled(*parts, words, self.settings, self.seed)

    def _restore(self, path: Path) -> nn.Module:
        weights, metadata = training.load_weights(path)
        if json.loads(metadata.get("identity", "{}")) != json.loads(json.dumps(self.identity)):
            raise ValueError(f"{path}: weights of another configuration; delete them and run again")
        classes = len(weights["classify.weight"]) if "classify.weight" in weights else None
        network = self._model(classes)
        network.load_state_dict(weights)
        return network
