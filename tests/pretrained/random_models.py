"""Tiny models of transformers with random weights."""

import torch

_SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
_LLAMA = {**_SIZES, "num_key_value_heads": 2, "max_position_embeddings": 64}
_SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_EXPERTS = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}
CONFIGURATIONS = {
    "bert": {**_SIZES, "max_position_embeddings": 64},
    "gpt2": {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 64, **_SPECIAL},
    "llama": _LLAMA,
    "roberta": {**_SIZES, "max_position_embeddings": 64},
    "distilbert": {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 40},
    "mistral": {**_LLAMA, "sliding_window": 5},
    "qwen3": {**_LLAMA, "head_dim": 8},
    "gemma": {**_LLAMA, "head_dim": 6},
    "gemma2": {**_LLAMA, "head_dim": 6},
    "phi3": {**_LLAMA, **_SPECIAL},
    "gpt_neox": {**_SIZES, **_SPECIAL},
    "cohere": {**_LLAMA, **_SPECIAL},
    "bloom": {"hidden_size": 24, "n_layer": 2, "n_head": 4, **_SPECIAL},
    "splinter": {**_SIZES, "max_position_embeddings": 64},
    "albert": {**_SIZES, "embedding_size": 16, "max_position_embeddings": 64},
    "electra": {**_SIZES, "embedding_size": 16, "max_position_embeddings": 64},
    "gemma3_text": {**_LLAMA, "head_dim": 6},
    "olmo2": {**_LLAMA, **_SPECIAL},
    "olmoe": {**_LLAMA, **_SPECIAL, **_EXPERTS},
    "minimax_m2": {**_LLAMA, **_SPECIAL, **_EXPERTS, "head_dim": 6, "rotary_dim": 6},
    "mixtral": {**_LLAMA, **_SPECIAL, **_EXPERTS},
    "lfm2": {**_LLAMA, **_SPECIAL, "layer_types": ["conv", "full_attention"], "block_multiple_of": 8},
    "gpt_oss": {**_LLAMA, **_SPECIAL, **_EXPERTS, "head_dim": 6},
    "mamba": {"hidden_size": 24, "num_hidden_layers": 2, **_SPECIAL},
    "diffllama": {**_LLAMA, **_SPECIAL},
    "mpt": {"d_model": 24, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, **_SPECIAL},
    "t5": {"d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 2, "num_heads": 4},
}
"""Sizes of the model of each architecture: two layers, four heads of 6 coordinates, 24 in the stream."""
VOCABULARY = 60


def random_network(architecture, **more):
    """A model of transformers whose parameters are all random, norms' gains and biases too."""
    from transformers import AutoConfig, AutoModel

    sizes = CONFIGURATIONS[architecture] | more
    config = AutoConfig.for_model(architecture, vocab_size=VOCABULARY, **sizes)
    network = AutoModel.from_config(config)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in network.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator) * 0.3
        is_gain = parameter.ndim == 1 and name.endswith("weight")
        parameter.data = noise + 1 if is_gain else noise
    return network
