"""What a pretrained model's files hold and transformers does not read, or reads as something else, is refused."""

import json
import re
from collections.abc import Iterable

from safetensors import safe_open
from torch import nn

from layernorm_roles.pretrained.source import ModelFiles

_DTYPES = {"F16", "BF16", "F32", "F64"}
_OF_SHAPES = {
    "attention.key_length",
    "attention.value_length",
    "attention.head_count",
    "rope.dimension_count",
}
"""Metadata of GGUF files that say again what shapes of weights say."""


def refuse_before_loading(files: ModelFiles) -> None:
    """Raise ValueError for what can be refused before any weights are loaded: quantised weights, a GGUF's rotations."""
    if files.gguf:
        _refuse_gguf_metadata(files)
        return
    try:
        config = json.loads((files.folder / "config.json").read_bytes())
    except (ValueError, RecursionError):
        return  # transformers says what is wrong with it
    for part in (config, *config.values()) if isinstance(config, dict) else ():
        if isinstance(part, dict) and part.get("quantization_config"):
            raise ValueError(
                f"{files.folder}/config.json: quantization_config = {part['quantization_config']}: expected weights "
                "that are not quantised, or a GGUF file"
            )


def refuse_unread_weights(files: ModelFiles, network: nn.Module, unexpected: Iterable[str]) -> None:
    """Raise ValueError if the files hold weights of the model that it has not read, or parameters that are no floats.

    `unexpected` are the names of tensors that transformers had no place for. Those of modules that the model has not,
    such as the head of a language model, are not needed.
    """
    if files.gguf:
        _refuse_gguf_tensors(files, network)
        return
    modules = dict(network.named_modules())
    lists = [name for name, module in modules.items() if isinstance(module, nn.ModuleList)]
    for key in sorted(unexpected):
        name = key.removeprefix(f"{network.base_model_prefix}.")
        parent = name.rpartition(".")[0]
        if (parent and parent in modules) or any(name.startswith(f"{one}.") for one in lists):
            raise ValueError(
                f"{files.folder}: {key} is in the weights, and {network.config.model_type} with this config.json "
                "has no place for it: expected weights that are all read"
            )
    names = tuple(name for name, _ in network.named_parameters())
    for path in files.weights:
        with safe_open(path, "np") as tensors:
            for key in tensors.keys():
                dtype = tensors.get_slice(key).get_dtype()
                if key.endswith(names) and dtype not in _DTYPES:
                    raise ValueError(f"{path}: {key} is of type {dtype}: expected floating-point weights")


def _refuse_gguf_metadata(files: ModelFiles) -> None:
    """Raise ValueError if transformers leaves out metadata of attention or rotations that a GGUF file has."""
    from gguf import GGUFReader
    from transformers.integrations.ggml import GGUF_CONFIG_MAPPING

    path = files.weights[0]
    try:
        reader = GGUFReader(path)
        values = {name: field.contents() for name, field in reader.fields.items()}
    except Exception:
        return  # transformers says what is wrong with it
    architecture = str(values.get("general.architecture"))
    read = GGUF_CONFIG_MAPPING.get(architecture, {}) | GGUF_CONFIG_MAPPING.get(
        architecture.replace("-", "_"), {}
    )
    unscaled = values.get(f"{architecture}.rope.scaling.type", "none") == "none"
    for name, value in values.items():
        of_model = name.removeprefix(f"{architecture}.")
        if (
            not re.match(r"(attention|rope)\.|attn_logit|.*swa", of_model)
            or of_model in read
            or of_model in _OF_SHAPES
        ):
            continue
        if of_model == "rope.scaling.type" and unscaled:
            continue
        if of_model == "rope.scaling.factor" and unscaled and value in (0.0, 1.0):
            continue
        raise ValueError(f"{path}: {name} = {value!r}: expected none, since transformers does not read it")
    for tensor in reader.tensors:
        if tensor.name.startswith("rope_freqs"):
            raise ValueError(f"{path}: {tensor.name}: expected none, since transformers does not read it")


def _refuse_gguf_tensors(files: ModelFiles, network: nn.Module) -> None:
    """Raise ValueError if a GGUF file has tensors of attention or norms that `network` has not read."""
    from gguf import GGUFReader
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
    )

    reader = GGUFReader(files.weights[0])
    architecture = reader.fields["general.architecture"].contents()
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=network.config.to_dict())
    read = get_gguf_hf_weights_map(network, processor)
    for tensor in reader.tensors:
        if re.search("attn|norm", tensor.name) and tensor.name not in read:
            raise ValueError(
                f"{files.weights[0]}: {tensor.name}: expected weights that are all read, and "
                f"{network.config.model_type} has no place for it in transformers"
            )
