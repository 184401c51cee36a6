"""What is measured of trained language models: keys and ceilings of their heads, their norms' inputs, small samples.

A network runs in float64 with its float32 weights: normalised keys then lie on their sphere to 16 digits, and rounding
does not decide which key is inside the convex hull of the others. The weights are known exactly, and so are the queries
that a head can make behind a LayerNorm.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import pandas as pd
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from layernorm_roles import checkpoint, ones_direction, store
from layernorm_roles.heads import ceilings, keys
from layernorm_roles.heads.layer import layers
from layernorm_roles.language_model.model import GPT
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import task_type
from layernorm_roles.plan import Plan
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import AS_USED, SCHEMAS
from layernorm_roles.variants import QUERY_KEY_VARIANT, maps

TABLES = {
    "keys": "key_selectability",
    "tokens": "sentence_tokens",
    "ones_share": "language_model_ones_share",
    "ceilings": "language_model_ceilings",
}
"""The Parquet table that each output of a measuring job is a part of, by the name of the output."""


def measure_batch(
    plan: Plan, weights: str, inputs: Mapping[str, str], out: Mapping[str, str], threads: int
) -> None:
    """Measure the trained models of a batch, and write each of TABLES, and the samples that `statements` reads.

    The plan has runs and settings as `LanguageModelRun.of_plan` reads them, and for each run whether `keys`, `ceilings`
    and `samples` are measured; ceiling_contexts and block_contexts say for how many long contexts, the first ones,
    ceilings and samples are. The job that wrote `weights` by `train_batch` is the first of those that it
    reads; it may have trained more runs. `inputs` has the text's manifest. A run that diverged has no rows of its final
    checkpoint. A table of which nothing is asked has no rows. Raises ValueError if a file is damaged, the weights are
    not of the job as it is planned, or a run of which samples are wanted has diverged.
    """
    torch.set_num_threads(threads)
    parameters, _ = checkpoint.load(weights, plan.of(next(iter(plan["made_by"]))))
    frames: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    samples, sampled = {}, []
    runs = LanguageModelRun.of_plan(plan, inputs["manifest"])
    for (run, planned), name in product(zip(runs, plan["runs"], strict=True), ("initial", "final")):
        network, contexts = run.restore_model(parameters, name), run.contexts()
        if network is None and planned["samples"]:
            raise ValueError(
                f"{weights}: {run.name} diverged, so that there is nothing to record; lower learning_rate of "
                f"language_model.{run.model}"
            )
        if network is None:
            continue
        network = network.double().eval()
        sites = sites_of(run.variant, run.norm, run.settings.architecture) if planned["keys"] else ()
        bounded = plan["ceiling_contexts"] if planned["ceilings"] else 0
        tables = heads(network, contexts, run.tokenizer, sites, run.prefix, bounded)
        if planned["keys"]:
            first = contexts.iloc[0]
            read = partial(network, torch.tensor([[*run.prefix, *first.tokens.tolist()]]))
            tables["ones_share"] = ones_direction.table(network, read).assign(context=first.context)
        for table, frame in tables.items():
            frames[table].append(frame.assign(**run.columns, checkpoint=name))
        if name == "final" and planned["samples"]:
            tensors, about = sample(network, contexts, plan["block_contexts"])
            samples |= {f"{run.name}/{part}": tensor for part, tensor in tensors.items()}
            sampled.append({"name": run.name, "variant": run.variant, "seed": run.seed, **about})
    streams = (*task_type(runs[0].settings).streams, Stream.TEXT_SELECTION)
    origin = provenance(plan, "cpu", *streams, torch=True)
    for name, table in TABLES.items():
        filled = [frame for frame in frames[name] if len(frame)]
        frame = pd.concat(filled) if filled else pd.DataFrame(columns=SCHEMAS[table].names)
        store.write(frame, table, out[table], origin)
    checkpoint.save(samples, out["samples"], {"identity": plan, "runs": sampled})


def sites_of(variant: str, norm: str, architecture: str) -> tuple[str, ...]:
    """The sites of `heads.keys.stacks_at` at which the keys of a model are certified.

    Where keys come out of a scaling, with nothing after it, they are certified with eps = 0 as well; a norm of the
    user's own counts as no scaling, and BERT's norms have a gain.
    """
    sites = ("before_norm", "after_norm", "head")
    if architecture == "bert":
        return sites
    if variant == QUERY_KEY_VARIANT:
        return (*sites, "after_norm_exact", "head_exact")
    built_in = maps(norm)
    exact = built_in and built_in[0].scales and built_in[0].learns == "nothing"
    return (*sites, "after_norm_exact") if exact else sites


def heads(
    network: nn.Module,
    contexts: pd.DataFrame,
    tokenizer: Tokenizer,
    sites: Sequence[str],
    prefix: tuple[int, ...] = (),
    ceiling_contexts: int = 0,
) -> dict[str, pd.DataFrame]:
    """Verdicts on keys, verdicts on tokens, and ceilings of every head on the contexts of table `contexts`.

    Keys are certified at `sites`, those of `heads.keys.stacks_at`; tokens are the verdicts of every token of the
    sentences at the input of attention; ceilings are those of the first `ceiling_contexts` long contexts. `prefix` is
    the tokens that stand before each text. The frames lack the columns that name the model. Raises ValueError if a
    certificate does not prove its verdict.
    """

    def spell(token: int) -> str:
        """A token's text; a part of a character shows as the replacement character."""
        return tokenizer.decode([token]) if token < tokenizer.get_vocab_size() else "[CLS]"

    verdicts, tokens, pairs = [], [], []
    for texts, part in contexts.groupby("texts", sort=False):
        ids = {row.context: [*prefix, *row.tokens.tolist()] for row in part.itertuples()}
        bounded = [*ids][:ceiling_contexts] if texts == "long" else []
        read = ids if sites else {context: ids[context] for context in bounded}
        rows = []
        for context, layer in layers(network, read, f"heads ({texts})"):
            for certified in keys.certified(layer, sites):
                rows += certified.rows(context)
                if texts == "sentences" and certified.site == "after_norm":
                    words = zip(map(spell, ids[context]), certified.certificates.verdict[0], strict=True)
                    tokens += [(context, layer.layer, position, *word) for position, word in enumerate(words)]
            if context in bounded:
                pairs.append(ceilings.pairs(layer, [AS_USED]).assign(context=context))
        verdicts.append(keys.table(rows).assign(texts=texts))
    columns = ["context", "layer", "position", "token", "verdict"]
    tables = {"keys": pd.concat(verdicts, ignore_index=True), "tokens": pd.DataFrame(tokens, columns=columns)}
    return tables | ({"ceilings": ceilings.summary(pd.concat(pairs, ignore_index=True))} if pairs else {})


@torch.no_grad()
def sample(
    network: GPT, contexts: pd.DataFrame, block_contexts: int
) -> tuple[dict[str, Tensor], dict[str, int]]:
    """Tensors of a trained GPT, by name, that the statement on fusion reads instead of a model, and its layers.

    The tensors (float64) are, for each layer l from 1:

        layer_l.stream  (tokens, d)           the residual stream before attention, of the first `block_contexts` long
                                              contexts, one after another
        layer_l.heads   (tokens, d_heads)     the concatenated outputs of the heads
        layer_l.w_o, .b_o                     (d_heads, d) and (d,)
        layer_l.gain, .bias, .w_1             (d,), (d,) and (d, d_ff), of ln_2 and the feed-forward part
    """
    texts = contexts[contexts.texts == "long"].tokens.tolist()
    tensors, streams = {}, [network.embed(torch.tensor(tokens)[None]) for tokens in texts[:block_contexts]]
    for number, layer in enumerate(network.layers, start=1):
        outputs = [layer.attention.attended(*layer.normed(x)) for x in streams]
        out, norm, up = layer.attention.out, layer.ln_2, layer.feed_forward[0]
        block = {"stream": torch.cat(streams, dim=1)[0], "heads": torch.cat(outputs, dim=1)[0]}
        block |= {
            "w_o": out.weight.T,
            "b_o": out.bias,
            "gain": norm.weight,
            "bias": norm.bias,
            "w_1": up.weight.T,
        }
        tensors |= {f"layer_{number}.{name}": tensor for name, tensor in block.items()}
        streams = [layer(x) for x in streams]
    return tensors, {"layers": len(network.layers)}
