"""Tiny random models of transformers' architectures, measured one after another: docs/architectures.md."""

import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
from transformers.utils import logging

from layernorm_roles.pretrained import recording
from layernorm_roles.pretrained.source import files_at

LANGUAGE = {**MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, **MODEL_FOR_MASKED_LM_MAPPING_NAMES, "splinter": None}
ARCHITECTURES = sorted({*LANGUAGE} & {*MODEL_MAPPING_NAMES} & {*CONFIG_MAPPING})
"""Architectures of language models, for which AutoModel has a class."""
TOKENS = [3, 11, 41, 59, 12, 6, 53, 15, 8, 9]
WIDTH, HEADS, LAYERS, VOCABULARY, EXPERTS = 32, 4, 2, 64, 4
SIZES = {
    ("hidden_size", "n_embd", "d_model", "dim", "emb_dim", "n_embed"): WIDTH,
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"): HEADS,
    ("decoder_attention_heads",): HEADS,
    ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"): 2,
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"): LAYERS,
    (
        "intermediate_size",
        "n_inner",
        "ffn_dim",
        "d_ff",
        "hidden_dim",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
    ): 48,
    ("ffn_hidden_size", "moe_intermediate_size", "shared_expert_intermediate_size"): 48,
    ("vocab_size", "n_vocab"): VOCABULARY,
    ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length"): 64,
    ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"): EXPERTS,
    ("num_experts_per_tok", "moe_topk", "top_k_experts"): 2,
    ("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"): 1,
    ("head_dim", "kv_channels", "attention_head_dim"): WIDTH // HEADS,
    ("q_lora_rank", "kv_lora_rank"): 16,
    ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"): 8,
    ("embedding_size",): 24,
    ("word_embed_proj_dim",): WIDTH,
    ("pad_token_id", "bos_token_id", "eos_token_id"): 0,
    ("vocab_size_per_layer_input",): VOCABULARY,
    ("hidden_size_per_layer_input",): 8,
    ("rotary_dim",): 4,
    ("mamba_n_heads", "mamba_num_heads"): 8,
    ("mamba_d_head", "mamba_head_dim"): 8,
    ("mamba_n_groups", "n_groups"): 1,
    ("linear_num_key_heads", "linear_num_value_heads"): 2,
    ("linear_key_head_dim", "linear_value_head_dim"): 8,
    ("lru_width",): WIDTH,
    ("index_n_heads",): 2,
    ("index_head_dim",): 16,
    ("index_topk",): 4,
}


OWN = {
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "mamba_n_heads": 8, "mamba_d_head": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "roc_bert": {"pronunciation_vocab_size": 64, "shape_vocab_size": 64},
    "luke": {"entity_vocab_size": 64, "entity_emb_size": 16},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
}
"""What a configuration of two layers needs besides, by architecture."""


def tiny(architecture):
    """A configuration of two layers of `architecture`, 32 wide; a text model within it gets these sizes."""
    default = AutoConfig.for_model(architecture)
    return AutoConfig.for_model(architecture, **_sizes(default) | OWN.get(architecture, {}))


def _sizes(default):
    plain = dict.fromkeys(getattr(default, "attribute_map", {})) | default.to_dict()
    sizes = {name: size for names, size in SIZES.items() for name in names if name in plain}
    if "kv_lora_rank" in plain:  # latent attention has no groups of heads
        sizes["num_key_value_heads"] = HEADS
    for name, kinds in plain.items():
        if name in ("layer_types", "layers_block_type", "mlp_layer_types") and isinstance(kinds, list):
            # As many layers as there are kinds, so that a hybrid has all of them.
            sizes[name] = [*dict.fromkeys(kinds)] if len({*kinds}) > 1 else [*kinds][:LAYERS]
    if lists := [sizes[name] for name in sizes if isinstance(sizes[name], list)]:
        length = max(map(len, lists))
        for name in sizes:
            if isinstance(sizes[name], list):
                sizes[name] = (sizes[name] * length)[:length]
            elif name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
                sizes[name] = length
    if "text_config" in default.sub_configs and default.text_config is not None:
        sizes = {"text_config": {**default.text_config.to_dict(), **_sizes(default.text_config)}}
    return sizes


def random_network(config):
    """A model whose parameters are all random; gains of norms are near 1."""
    torch.manual_seed(0)
    network = AutoModel.from_config(config)
    for name, parameter in network.named_parameters():
        noise = torch.randn(parameter.shape) * 0.3
        parameter.data = noise + 1 if parameter.ndim == 1 and name.endswith("weight") else noise
    return network


def measured(architecture):
    """ "measured", "heads alone", "refused" or "not built", with the difference from eager attention or a reason."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            config = tiny(architecture)
            with torch.device("meta"):
                size = sum(parameter.numel() for parameter in AutoModel.from_config(config).parameters())
            if size > 10_000_000:
                raise ValueError(f"it has {size:,} parameters")
            network = random_network(config)
            if not config.is_encoder_decoder:
                network.eval()(input_ids=torch.tensor([TOKENS]))
            network.save_pretrained(folder)
        except Exception as error:
            return "not built", f"{type(error).__name__}: {error}".partition("\n")[0]
        del network
        try:
            model = recording.load(files_at(Path(folder), "path"))
            off = model.check(TOKENS)
            layers = model.record(TOKENS)
        except ValueError as error:
            assert "\n" not in str(error), error
            return "refused", str(error).replace(folder, "FOLDER")
        known = sum(layer.norm is not None for layer in layers)
        bound = f"below {10.0 ** max(-12, int(np.ceil(np.log10(max(off, 1e-300))))):.0e}"
        of = (
            ""
            if known in (0, len(layers))
            else f"; heads alone in {len(layers) - known} of {len(layers)} layers"
        )
        return "measured" if known else "heads alone", bound + of


HEAD = """# Architectures of pretrained models

Written by `python tests/pretrained/architectures.py` with transformers {version}, and compared by
`pytest -m long tests/pretrained/test_architectures.py`. Each architecture of a language model is built tiny, with
random weights, saved, loaded and measured as a user's model is; its attention weights are compared with those of
transformers' own `eager` attention in float64. `measured`: queries and keys are traced to the norm of the residual
stream and to W_Q and W_K; `heads alone`: they are measured as the heads use them. The last column has the largest
difference, or why a model is refused in one line; `not built`: no such small model could be configured, or none runs.

{counts}.

| architecture | | largest difference, or reason |
|---|---|---|
"""


def table():
    """The text of docs/architectures.md and, by architecture, what became of it."""
    found = {architecture: measured(architecture) for architecture in ARCHITECTURES}
    return document(found), found


def document(found):
    """The text of docs/architectures.md, from results of `measured` by architecture."""
    counted = Counter(kind for kind, _ in found.values())
    counts = ", ".join(
        f"{counted[kind]} {kind}" for kind in ("measured", "heads alone", "refused", "not built")
    )
    rows = [f"| {name} | {kind} | {said.replace('|', '/')} |\n" for name, (kind, said) in found.items()]
    head = HEAD.format(version=transformers.__version__, counts=counts)
    return head + "".join(rows)


if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs/architectures.md").write_text(table()[0])
