"""Blocks and heads of trained models, from files, and the tables that hold them beside random ones.

The language models' files are those of `language_model.activations`; the majority models' heads are the table
majority_vectors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from layernorm_roles import checkpoint, store
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.statements import Fusion, ScoreScale
from layernorm_roles.statements import fusion, score_scale
from layernorm_roles.statements.fusion import AttentionBlock
from layernorm_roles.statements.score_scale import QueriesAndKeys

SOURCE = "language_model"
"""What the tables call the trained language models in their column `source`."""

Activations = Iterable[tuple[str | Path, Mapping[str, Any]]]
"""The activations files of language models, each with the identity of the run that it must be of."""


def write_fusion(settings: Fusion, seeds: Sequence[int], activations: Activations, out: str | Path) -> None:
    """Write the table fusion: random blocks of `seeds`, and those of the trained models with files of activations."""
    found = chain(fusion.random_blocks(settings, seeds), *(blocks(*file) for file in activations))
    origin = provenance({**settings.model_dump(mode="json"), "seeds": list(seeds)}, "cpu", Stream.FUSION)
    store.write(fusion.measure(found), "fusion", out, origin)


def write_score_scale(
    settings: ScoreScale,
    seeds: Sequence[int],
    vectors: str | Path,
    experiment: str,
    activations: Activations,
    out: str | Path,
) -> None:
    """Write the table score_scale: random heads, those of a majority experiment, and those of the language models.

    `seeds` are those of the random heads, `vectors` is the file of the table majority_vectors, and `activations` are
    the activations files of language models.
    """
    heads = chain(
        score_scale.random_heads(settings, seeds),
        majority_heads(store.read(vectors, "majority_vectors"), experiment),
        *(language_model_heads(*file) for file in activations),
    )
    origin = provenance({**settings.model_dump(mode="json"), "seeds": list(seeds)}, "cpu", Stream.SCORE_SCALE)
    store.write(score_scale.measure(heads), "score_scale", out, origin)


def blocks(path: str | Path, identity: Mapping[str, Any] | None = None) -> Iterator[AttentionBlock]:
    """What meets between attention and feed-forward part of each layer of a trained language model, first layer first.

    `path` is an activations file. Raises ValueError if it is missing or damaged, or of another run than `identity`.
    """
    tensors, facts = checkpoint.load(path, identity)
    for layer in range(1, facts["layers"] + 1):
        names = [name for name in AttentionBlock._fields if name != "columns"]
        parts = {name: tensors[f"layer_{layer}.{name}"].numpy() for name in names}
        run = {"source": SOURCE, "variant": facts["variant"], "seed": facts["seed"], "layer": layer}
        yield AttentionBlock(**parts, columns=run)


def language_model_heads(
    path: str | Path, identity: Mapping[str, Any] | None = None
) -> Iterator[QueriesAndKeys]:
    """Queries and keys of a trained language model: context by context, layer by layer, head by head.

    `path` is an activations file. Raises ValueError if it is missing or damaged, or of another run than `identity`.
    """
    tensors, facts = checkpoint.load(path, identity)
    for context in range(facts["contexts"]):
        for layer in range(1, facts["layers"] + 1):
            queries, keys = (tensors[f"layer_{layer}.context_{context}.{of}"] for of in ("queries", "keys"))
            run = {"source": SOURCE, "variant": facts["variant"], "seed": facts["seed"], "layer": layer}
            for head in range(facts["heads"]):
                yield QueriesAndKeys(
                    queries[head].numpy(), keys[head].numpy(), run | {"head": head}, causal=True
                )


def majority_heads(vectors: pd.DataFrame, experiment: str) -> Iterator[QueriesAndKeys]:
    """The attention head of every trained model of an experiment in table majority_vectors.

    Of an experiment with several d_model or learning rates only the largest d_model and the smallest rate are taken.
    The queries in the table are divided by sqrt(d); here they are not, as in the other sources.
    """
    of_experiment = vectors[(vectors.experiment == experiment) & (vectors.checkpoint == "final")]
    widest, slowest = of_experiment.d_model.max(), of_experiment.base_learning_rate.min()
    of_experiment = of_experiment[
        (of_experiment.d_model == widest) & (of_experiment.base_learning_rate == slowest)
    ]
    for (variant, seed), run in of_experiment.groupby(["variant", "seed"]):
        kinds = {kind: np.stack(part.sort_values("token").vector) for kind, part in run.groupby("kind")}
        columns = {"source": "majority", "variant": variant, "seed": seed, "layer": 1, "head": 0}
        yield QueriesAndKeys(kinds["query"] * np.sqrt(kinds["query"].shape[1]), kinds["key"], columns)
