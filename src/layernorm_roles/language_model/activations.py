"""What a trained GPT computes between attention and feed-forward part, and its queries and keys, in one file.

The measurements of `statements` on trained models (whether W_O and W_1 could be one matrix, how attention scores are
spread) read this file, so that they need no model. The network runs in float64 on the first long contexts.
"""

from pathlib import Path

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from layernorm_roles import checkpoint
from layernorm_roles.language_model.model import GPT
from layernorm_roles.language_model.runs import LanguageModelRun


def record_run(
    run: LanguageModelRun,
    weights: str | Path,
    out: str | Path,
    block_contexts: int,
    head_contexts: int,
    threads: int,
) -> None:
    """Write the activations of a trained GPT to `out`, a safetensors file with float64 tensors.

    The facts are identity, variant, seed, layers, heads, and contexts, the number of contexts with queries and keys.
    For each layer l, from 1:

        layer_l.stream  (tokens, d)           the residual stream before attention, of the first `block_contexts` long
                                              contexts, one after another
        layer_l.heads   (tokens, d_heads)     the concatenated outputs of the heads
        layer_l.w_o, .b_o                     (d_heads, d) and (d,)
        layer_l.gain, .bias, .w_1             (d,), (d,) and (d, d_ff), of ln_2 and the feed-forward part
        layer_l.context_c.queries, .keys      (heads, n, d_head), of the first `head_contexts` long contexts, c from 0

    Raises ValueError if a file is damaged, the weights are of another run, or the run diverged.
    """
    torch.set_num_threads(threads)
    contexts = run.contexts()
    texts = [torch.tensor(tokens)[None] for tokens in contexts[contexts.texts == "long"].tokens]
    network = run.restore_model(weights)
    if network is None:
        raise ValueError(
            f"{weights}: the run diverged, so that there is nothing to record; lower learning_rate of "
            f"language_model.{run.model}"
        )
    network = network.double().eval()
    tensors = blocks(network, texts[:block_contexts]) | queries_and_keys(network, texts[:head_contexts])
    facts = {
        "identity": run.identity,
        "variant": run.variant,
        "seed": run.seed,
        "layers": run.settings.layers,
        "heads": run.settings.heads,
        "contexts": len(texts[:head_contexts]),
    }
    checkpoint.save(tensors, out, facts)


@torch.no_grad()
def blocks(network: GPT, contexts: list[Integer[Tensor, "1 _"]]) -> dict[str, Float[Tensor, "..."]]:
    """What meets between attention and feed-forward part of every layer, over the tokens of all contexts."""
    tensors, streams = {}, [network.embed(tokens) for tokens in contexts]
    for number, layer in enumerate(network.layers, start=1):
        heads = [layer.attention.attended(*layer.normed(x)) for x in streams]
        out, norm, up = layer.attention.out, layer.ln_2, layer.feed_forward[0]
        recorded = {
            "stream": torch.cat(streams, dim=1)[0],
            "heads": torch.cat(heads, dim=1)[0],
            "w_o": out.weight.T,
            "b_o": out.bias,
            "gain": norm.weight,
            "bias": norm.bias,
            "w_1": up.weight.T,
        }
        tensors |= {f"layer_{number}.{name}": tensor for name, tensor in recorded.items()}
        streams = [layer(x) for x in streams]
    return tensors


def queries_and_keys(network: GPT, contexts: list[Integer[Tensor, "1 _"]]) -> dict[str, Float[Tensor, "..."]]:
    """The queries and keys of every head of every layer, in every context."""
    return {
        f"layer_{layer.layer}.context_{number}.{name}": torch.from_numpy(getattr(layer, name))
        for number, tokens in enumerate(contexts)
        for layer in network.record(tokens[0].tolist())
        for name in ("queries", "keys")
    }
