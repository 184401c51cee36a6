"""One run from a configuration's values to its files: which model, which task, which keys."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tokenizers import Tokenizer
from torch import nn

from layernorm_roles import store
from layernorm_roles.checkpoint import load as load_weights
from layernorm_roles.language_model import bert, keys, model
from layernorm_roles.language_model import train as training
from layernorm_roles.text import documents, manifest, tokenizer
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
            "text": manifest.read(self.corpus.manifest)["checksum"],
        }

    def train(self, out: training.Outputs, device: str, threads: int, code: Any = None) -> None:
        """Train, and write the files of `out`; `code` is the code's version, for the checkpoint."""
        self._contexts()  # what does not fit should show now, not after hours of training
        task = self._task()
        network = self._model(getattr(task, "classes", None))
        training.train(network, task, self.settings, self.identity, out, device, threads, code)

    def keys(self, weights: Mapping[str, Path], threads: int) -> keys.Verdicts:
        """Verdicts for every checkpoint of `weights` (its name, its file), in the tables' columns."""
        torch.set_num_threads(threads)
        contexts = self._contexts()
        scaled = model.scaled_sites(self.variant, self.norm) if self.kind == "gpt" else ()
        parts = []
        for checkpoint, path in weights.items():
            part = keys.collect(self._restore(path), contexts, self._tokenizer, scaled, self._prefix)
            about = {"model": self.kind, "variant": self.variant, "seed": self.seed, "checkpoint": checkpoint}
            parts.append([frame.assign(**about) for frame in part])
        return keys.Verdicts(*(pd.concat(frames) for frames in zip(*parts, strict=True)))

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return tokenizer.load(self.corpus.tokenizer)

    @property
    def _prefix(self) -> tuple[int, ...]:
        """What the model reads before every text."""
        return (self._tokenizer.get_vocab_size() + bert.CLASS,) if self.kind == "bert" else ()

    def _contexts(self) -> pd.DataFrame:
        """The contexts whose keys are tested; BERT reads no long ones. ValueError if one does not fit the model."""
        contexts = store.read(self.corpus.contexts, "contexts")
        if self.kind == "bert":
            contexts = contexts[contexts.texts == "sentences"]
        longest = self.settings["context"] - len(self._prefix)
        keys.refuse_misfits(contexts, longest, self._tokenizer.get_vocab_size())
        return contexts

    def _model(self, classes: int | None = None) -> nn.Module:
        vocabulary = self._tokenizer.get_vocab_size()
        if self.kind == "gpt":
            return model.build(self.settings, self.variant, self.norm, vocabulary, self.seed)
        if self.variant not in ("none", "layernorm"):
            raise ValueError(
                f"language_model.bert.seeds: variant {self.variant!r}; expected none or layernorm"
            )
        torch.manual_seed(self.seed)
        return bert.BERT(self.settings, self.variant == "layernorm", vocabulary, classes)

    def _task(self) -> training.Task:
        streams = [self.corpus.tokens(part) for part in ("training", "validation")]
        streams.append(self._tokenizer.get_vocab_size())
        if self.kind == "gpt":
            return training.NextToken(*streams, self.settings, self.seed)
        if self.settings["task"] == "masked":
            return bert.Masked(*streams, self.settings, self.seed)
        parts = (documents.labelled(self.settings[part]) for part in ("training", "validation"))
        return bert.Labelled(*parts, self._tokenizer, self.settings, self.seed)

    def _restore(self, path: Path) -> nn.Module:
        weights, about = load_weights(path)
        if about.get("identity") != json.loads(json.dumps(self.identity)):
            raise ValueError(f"{path}: weights of another configuration; delete them and run again")
        classes = len(weights["classify.weight"]) if "classify.weight" in weights else None
        network = self._model(classes)
        network.load_state_dict(weights)
        return network
