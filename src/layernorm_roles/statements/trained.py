"""Blocks and heads of the trained models, in the form in which `fusion` and `score_scale` measure random ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Integer

from layernorm_roles import checkpoint
from layernorm_roles.language_model import model as language_model
from layernorm_roles.language_model.attention import causal_attention
from layernorm_roles.statements.fusion import Block
from layernorm_roles.statements.score_scale import Head


def load(path: str | Path) -> tuple[language_model.GPT, dict[str, Any]]:
    """A trained language model in float64, and the columns that say which: `source`, `variant`, `seed`."""
    weights, about = checkpoint.load(path)
    run = about["identity"]
    vocabulary = len(weights["tokens.weight"])
    network = language_model.build(run["settings"], run["variant"], run["norm"], vocabulary, run["seed"])
    network.load_state_dict(weights)
    return network.double().eval(), {
        "source": "language_model",
        "variant": run["variant"],
        "seed": run["seed"],
    }


def long_contexts(contexts: pd.DataFrame, number: int) -> list[Integer[torch.Tensor, "1 n"]]:
    """The first `number` long contexts of table `contexts`."""
    return [torch.tensor(tokens)[None] for tokens in contexts[contexts.texts == "long"].tokens.iloc[:number]]


@torch.no_grad()
def blocks(path: str | Path, contexts: list[Integer[torch.Tensor, "1 n"]]) -> Iterator[Block]:
    """What stands between attention and feed-forward part of each layer, over the tokens of all contexts."""
    network, about = load(path)
    streams = [network.embed(tokens) for tokens in contexts]
    for number, layer in enumerate(network.layers, start=1):
        heads = [
            causal_attention(*layer.attention.split(layer.norm(x))).transpose(1, 2).flatten(2)
            for x in streams
        ]
        out, norm, up = layer.attention.out, layer.ln_2, layer.feed_forward[0]
        yield Block(
            stream=torch.cat(streams, dim=1)[0].numpy(),
            heads=torch.cat(heads, dim=1)[0].numpy(),
            w_o=out.weight.T.numpy(),
            b_o=out.bias.numpy(),
            gain=norm.weight.numpy(),
            bias=norm.bias.numpy(),
            w_1=up.weight.T.numpy(),
            about={**about, "layer": number},
        )
        streams = [layer(x) for x in streams]


@torch.no_grad()
def language_model_heads(path: str | Path, contexts: list[Integer[torch.Tensor, "1 n"]]) -> Iterator[Head]:
    """Queries and keys of every layer and head in every context."""
    network, about = load(path)
    for tokens in contexts:
        x = network.embed(tokens)
        for number, layer in enumerate(network.layers, start=1):
            queries, keys, _ = layer.attention.split(layer.norm(x))
            for head, (q, k) in enumerate(zip(queries[0].numpy(), keys[0].numpy(), strict=True)):
                yield Head(q, k, {**about, "layer": number, "head": head}, causal=True)
            x = layer(x)


def majority_heads(vectors: pd.DataFrame, experiment: str) -> Iterator[Head]:
    """The head of every run of table `majority_vectors`, its queries without their division by sqrt(d)."""
    of_experiment = vectors[vectors.experiment == experiment]
    for (variant, seed), run in of_experiment.groupby(["variant", "seed"]):
        kinds = {kind: np.stack(part.sort_values("token").vector) for kind, part in run.groupby("kind")}
        about = {"source": "majority", "variant": variant, "seed": seed, "layer": 1, "head": 0}
        yield Head(kinds["query"] * np.sqrt(kinds["query"].shape[1]), kinds["key"], about)
