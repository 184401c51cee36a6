"""Measurements on trained language models: which keys a query can select, and how much attention keys can get.

A query selects a key to which it gives the highest score. Also measured is how much LayerNorm's projection removes of
the norms' inputs, and activations are sampled. Models trained in float32 are run in float64: normalised keys then lie
on a sphere to 16 digits, so that rounding does not decide which key lies inside the convex hull of the others.
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
from layernorm_roles.plan import Plan, refuse_other_run
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream
from layernorm_roles.schemas import AS_USED, SCHEMAS

TABLES = {
    "keys": "key_selectability",
    "tokens": "sentence_tokens",
    "ones_share": "language_model_ones_share",
    "ceilings": "language_model_ceilings",
}
"""The name of the Parquet table that gets the rows of each output of `measure_batch`, by the output's name."""


def measure_batch(
    plan: Plan, weights: str, inputs: Mapping[str, str], out: Mapping[str, str], threads: int
) -> None:
    """Measure language models before and after training, and write tables and sampled activations to the paths `out`.

    `plan` lists the trained models and says for each what to measure: `keys` (how many of them no query can select),
    `ceilings` (the largest attention weight that a key can get) and `samples` of activations. It also says on how many
    long texts the latter two are measured: ceiling_contexts and block_contexts. `weights` is a file that
    `train.train_batch` wrote. `inputs` has the path of the text's manifest under "manifest", `out` paths for "keys",
    "tokens", "ones_share", "ceilings" and "samples". A model that diverged is measured before training only. Raises
    ValueError if a file is damaged, if the weights were trained by another plan, or if a model diverged whose samples
    are wanted.
    """
    torch.set_num_threads(threads)
    parameters, facts = checkpoint.load(weights)
    refuse_other_run(weights, facts["identity"], next(iter(plan["made_by"].values())))
    frames: dict[str, list[pd.DataFrame]] = {name: [] for name in TABLES}
    samples, sampled = {}, []
    runs = LanguageModelRun.of_plan(plan, inputs["manifest"])
    for (run, planned), name in product(zip(runs, plan["runs"], strict=True), ("initial", "final")):
        network, contexts = run.restore_model(parameters, name), run.contexts()
        if network is None:
            if not planned["samples"]:
                continue
            raise ValueError(
                f"{weights}: {run.name} diverged, so that there is nothing to record; lower learning_rate of "
                f"language_model.{run.model}"
            )
        network = network.double().eval()
        sites = run.settings.sites(run.variant, run.norm) if planned["keys"] else ()
        bounded = plan["ceiling_contexts"] if planned["ceilings"] else 0
        tables = heads(network, contexts, run.tokenizer, sites, run.prefix, bounded)
        if planned["keys"]:
            first = contexts.iloc[0]
            read = partial(network, torch.tensor([[*run.prefix, *first.tokens.tolist()]]))
            tables["ones_share"] = ones_direction.table(network, read).assign(context=first.context)
        for table, frame in tables.items():
            frames[table].append(frame.assign(**run.columns, checkpoint=name))
        if name == "final" and planned["samples"]:
            tensors = sample(network, contexts, plan["block_contexts"])
            samples |= {f"{run.name}/{part}": tensor for part, tensor in tensors.items()}
            sampled.append({"name": run.name, "variant": run.variant, "seed": run.seed})
            sampled[-1]["layers"] = len(network.layers)
    streams = (*task_type(runs[0].settings).streams, Stream.TEXT_SELECTION)
    origin = provenance(plan, "cpu", *streams, torch=True)
    for name, table in TABLES.items():
        filled = [frame for frame in frames[name] if len(frame)]
        frame = pd.concat(filled) if filled else pd.DataFrame(columns=SCHEMAS[table].names)
        store.write(frame, table, out[table], origin)
    checkpoint.save(samples, out["samples"], {"identity": plan, "runs": sampled})


def heads(
    network: nn.Module,
    contexts: pd.DataFrame,
    tokenizer: Tokenizer,
    sites: Sequence[str],
    prefix: tuple[int, ...] = (),
    ceiling_contexts: int = 0,
) -> dict[str, pd.DataFrame]:
    """Test, on the texts in `contexts`, which keys of a model some query can select by giving them the highest score.

    The result has data frames without columns that name the model. "keys": how many keys no query can select, by text,
    layer, place in `sites` (see `GPTSettings.sites`) and head. "tokens": for each token of the sentences, whether a
    query can select its vector after the norm; no rows if `sites` has "after_norm_exact", because the norm then puts
    all vectors on a sphere, where a query can select each of them. "ceilings", if `ceiling_contexts` is above 0: how
    much attention the keys of so many long texts can get. `prefix` has token ids that are put before each text. Raises
    ValueError if the proof of a key's verdict does not hold.
    """

    def spell(token: int) -> str:
        return tokenizer.decode([token]) if token < tokenizer.get_vocab_size() else "[CLS]"

    verdicts, tokens, pairs = [], [], []
    for texts, part in contexts.groupby("texts", sort=False):
        ids = {row.context: [*prefix, *row.tokens.tolist()] for row in part.itertuples()}
        bounded = [*ids][:ceiling_contexts] if texts == "long" else []
        read = ids if sites else {context: ids[context] for context in bounded}
        rows, listed = [], texts == "sentences" and "after_norm_exact" not in sites
        for context, layer in layers(network, read, f"heads ({texts})"):
            for certified in keys.certified(layer, sites):
                rows += certified.rows(context)
                if listed and certified.site == "after_norm":
                    words = zip(map(spell, ids[context]), certified.certificates.verdict[0], strict=True)
                    tokens += [(context, layer.layer, position, *word) for position, word in enumerate(words)]
            if context in bounded:
                pairs.append(ceilings.pairs(layer, [AS_USED]).assign(context=context))
        verdicts.append(keys.table(rows).assign(texts=texts))
    columns = ["context", "layer", "position", "token", "verdict"]
    tables = {"keys": pd.concat(verdicts, ignore_index=True), "tokens": pd.DataFrame(tokens, columns=columns)}
    return tables | ({"ceilings": ceilings.summary(pd.concat(pairs, ignore_index=True))} if pairs else {})


@torch.no_grad()
def sample(network: GPT, contexts: pd.DataFrame, block_contexts: int) -> dict[str, Tensor]:
    """Activations and weights of the layers of a trained GPT, on the first `block_contexts` long texts of `contexts`.

    With them `statements.fusion` tests how well one matrix can replace W_O and W_1. The result maps names to tensors.
    For each layer l from 1 they are as follows; `tokens` counts the tokens of all texts, one text after another.

            layer_l.stream  (tokens, d)           the residual stream before attention
            layer_l.heads   (tokens, d_heads)     the concatenated outputs of the heads
            layer_l.w_o, .b_o                     (d_heads, d) and (d,), attention's output matrix W_O and its bias
            layer_l.gain, .bias, .w_1             (d,), (d,) and (d, d_ff), of ln_2 and the feed-forward network
    """
    texts = contexts[contexts.texts == "long"].tokens.tolist()
    tensors, streams = {}, [network.embed(torch.tensor(tokens)[None]) for tokens in texts[:block_contexts]]
    for number, layer in enumerate(network.layers, start=1):
        outputs = [layer.attention.attended(*layer.normed(x)) for x in streams]
        out, norm, up = layer.attention.out, layer.ln_2, layer.feed_forward[0]
        block = {"stream": torch.cat(streams, dim=1)[0], "heads": torch.cat(outputs, dim=1)[0]}
        block |= {"w_o": out.weight.T, "b_o": out.bias}
        block |= {"gain": norm.weight, "bias": norm.bias, "w_1": up.weight.T}
        tensors |= {f"layer_{number}.{name}": tensor for name, tensor in block.items()}
        streams = [layer(x) for x in streams]
    return tensors
