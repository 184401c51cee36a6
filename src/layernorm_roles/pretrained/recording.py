"""Queries and keys of a pretrained model of the package transformers, recorded while it computes attention.

`load` gives a model an attention function that stores queries and keys, and then does what torch's attention does. So
all models work whose attention goes through transformers' AttentionInterface. Inputs, norms and weights of attention
are given where they have been checked against the recorded numbers.

>>> model = load(files_at(Path("/models/all-MiniLM-L6-v2"), "path"))
>>> layers = model.record([101, 7592, 2088, 102])
>>> layers[0].keys.shape
(12, 4, 32)
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from safetensors import safe_open
from torch import Tensor, nn

from layernorm_roles.heads.layer import Layer, LearnedNorm, Rotation
from layernorm_roles.pretrained.projections import learned_norm, projections
from layernorm_roles.pretrained.source import ModelFiles, refusal
from layernorm_roles.random_streams import seed_torch

_NAME = "recording"
"""Name of the attention function in transformers' AttentionInterface."""


NormChange = Callable[[LearnedNorm, np.ndarray], np.ndarray]
"""A function that takes a norm of the residual stream and its input, and returns what replaces the norm's output."""


class RecordingModel:
    """A model of the package transformers that records the queries and keys of every layer while it reads a context."""

    def __init__(self, network: nn.Module):
        """Wrap a model in float64 with the attention function that `load` sets."""
        self.network = network.eval()

    @property
    def longest(self) -> int | None:
        """The largest number of tokens that the model can read at once; None if its configuration does not say."""
        return getattr(self.network.config.get_text_config(), "max_position_embeddings", None)

    @torch.no_grad()
    def record(self, tokens: Sequence[int], change: NormChange | None = None) -> list[Layer]:
        """Run the model on one context, and return the queries, keys and inputs of every layer's attention.

        `tokens` are token ids, including special tokens. If `change` is given, it is called with each LayerNorm or
        RMSNorm of the residual stream and the norm's input, and what it returns replaces the norm's output. Raises
        ValueError if the model cannot read the tokens, or if its attention is not simply a softmax of inner products.
        """
        if self.longest is not None and len(tokens) > self.longest:
            raise ValueError(
                f"a context of {len(tokens)} tokens: expected at most {self.longest}, which the model reads"
            )
        if (last := max(tokens)) >= (entries := self.network.get_input_embeddings().num_embeddings):
            raise ValueError(
                f"token {last} of {entries}, from 0: the tokenizer is that of another model than the weights"
            )
        calls = _Calls()
        # transformers looks the function up by its name whenever attention is computed.
        _register(partial(_attend, calls))
        try:
            with _observed(self.network, calls, change):
                self.network(input_ids=torch.tensor([list(tokens)]), use_cache=False)
        finally:
            _register(_unobserved)
        if not calls.layers:
            raise ValueError("the model's attention does not go through transformers' AttentionInterface")
        return calls.layers

    def untrained(self, seed: int) -> "RecordingModel":
        """A model of the same architecture with random weights, which are drawn as its configuration prescribes.

        `seed` is the random seed of the weights.
        """
        from transformers import AutoModel

        seed_torch(seed)
        config = deepcopy(self.network.config)
        return RecordingModel(
            AutoModel.from_config(
                config, dtype=torch.float64, attn_implementation=_NAME, trust_remote_code=False
            )
        )


def load(files: ModelFiles) -> RecordingModel:
    """Load the pretrained model in `files`, in float64, so that it records queries and keys; nothing is downloaded.

    Raises ValueError if transformers cannot load it, if weights are missing, not finite or quantised by an unknown
    method, if it has both an encoder and a decoder, or if it has no layers.
    """
    from transformers import AutoModel
    from transformers.utils import logging

    _register(_unobserved)
    options = {"gguf_file": files.gguf} if files.gguf else {"use_safetensors": True}
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what it warns of is raised below
    try:
        with redirect_stderr(StringIO()):  # where bars are drawn; what fails is an exception
            network, report = AutoModel.from_pretrained(
                files.folder,
                dtype=torch.float64,
                attn_implementation=_NAME,
                local_files_only=True,
                trust_remote_code=False,  # with None transformers asks the user, and a yes runs the folder's code
                output_loading_info=True,
                **options,
            )
    except Exception as error:
        raise ValueError(refusal(files.folder, "model", error)) from error
    finally:
        logging.set_verbosity(verbosity)
    # BERT's pooler comes after the last layer, and many files have none.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise ValueError(f"{files.folder}: {len(missing)} weights are missing, the first {missing[0]}")
    if hasattr(network.config, "quantization_config") and not hasattr(network, "hf_quantizer"):
        raise ValueError(
            f"{files.folder}/config.json: quantization_config = {network.config.quantization_config}: expected a "
            "method that transformers knows, since codes would be taken for weights"
        )
    if not (hasattr(network.config, "quantization_config") or files.gguf):
        _refuse_weights_that_are_no_floats(files, tuple(name for name, _ in network.named_parameters()))
    if bad := [name for name, weights in network.named_parameters() if not weights.isfinite().all()]:
        raise ValueError(f"{files.folder}: {bad[0]} has weights that are not finite")
    if getattr(network.config, "is_encoder_decoder", False):
        kind = type(network).__name__
        raise ValueError(f"{files.folder}: {kind} has an encoder and a decoder: expected one of them alone")
    layers = getattr(network.config, "num_hidden_layers", None)
    if layers is not None and layers < 1:
        raise ValueError(f"{files.folder}: expected a model with layers")
    return RecordingModel(network)


def _refuse_weights_that_are_no_floats(files: ModelFiles, names: tuple[str, ...]) -> None:
    """Raise ValueError if a parameter in `names` is not stored as floats: transformers would convert it silently."""
    for path in files.weights:
        with safe_open(path, "np") as tensors:
            for key in tensors.keys():
                dtype = tensors.get_slice(key).get_dtype()
                if key.endswith(names) and not dtype.startswith(("F", "BF")):
                    raise ValueError(f"{path}: {key} is of type {dtype}: expected floating-point weights")


@dataclass
class _Calls:
    """What is noted in one forward pass: the layers of attention, and the inputs of modules and norms."""

    layers: list[Layer] = field(default_factory=list)
    inputs: dict[nn.Module, tuple[tuple, dict[str, Any]]] = field(default_factory=dict)
    """Positional and named arguments of the modules that are running."""
    norms: deque[tuple[nn.Module, LearnedNorm, Tensor, Tensor]] = field(
        default_factory=lambda: deque(maxlen=8)
    )
    """The last norms that ran, with input and output: between attention's norm and attention there are few."""


def _register(function) -> None:
    """Make `function` transformers' attention function called _NAME, with the masks that torch's own attention gets."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(_NAME, function)
    AttentionMaskInterface.register(_NAME, sdpa_mask)


def _unobserved(*arguments, **options):
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(*arguments, **options)


def _attend(calls: _Calls, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask, **options):
    """Attention that stores queries and keys of one context in `calls`, and computes what torch's own computes."""
    for name in ("position_bias", "softcap", "s_aux"):
        if options.get(name) is not None:
            raise ValueError(
                f"{type(module).__name__} has {name}: expected attention that is a softmax of inner products"
            )
    calls.layers.append(_recorded(calls, module, query, key, mask, options))
    return _unobserved(module, query, key, value, mask, **options)


def _recorded(calls: _Calls, module: nn.Module, query: Tensor, key: Tensor, mask, options) -> Layer:
    if query.shape[2] != key.shape[2]:
        raise ValueError(
            f"{type(module).__name__} has {query.shape[2]} queries for {key.shape[2]} keys: expected as many"
        )
    queries, keys = query[0].numpy().copy(), key[0].numpy().copy()
    scaling = options.get("scaling")
    maps = norm = before = None
    x = _attention_input(calls, module)
    if x is not None:
        head_norms = tuple(_norm_of(calls, getattr(module, name, None)) for name in ("q_norm", "k_norm"))
        maps = projections(module, x[0].numpy(), queries, keys, head_norms, _rotation(calls, module))
    if maps is not None:
        ran = ((n, x_of_n) for _, n, x_of_n, y in reversed(calls.norms) if y is x or torch.equal(y, x))
        norm, before = next(ran, (None, None))
    return Layer(
        layer=len(calls.layers) + 1,
        queries=queries,
        keys=keys,
        scaling=queries.shape[-1] ** -0.5 if scaling is None else float(scaling),
        visible=_visible(module, mask, query.shape[2], options.get("is_causal")),
        attention_input=x[0].numpy().copy() if maps else None,
        before_norm=before[0].numpy().copy() if norm else None,
        norm=norm,
        query_projection=maps[0] if maps else None,
        key_projection=maps[1] if maps else None,
    )


def _visible(module: nn.Module, mask: Tensor | None, n: int, causal: bool | None) -> Bool[np.ndarray, "n n"]:
    """A mask of the keys (columns) that each query (row) may attend to, as in transformers' sdpa_attention_forward."""
    if mask is None:
        causal = getattr(module, "is_causal", True) if causal is None else causal
        return np.tril(np.ones((n, n), bool)) if causal else np.ones((n, n), bool)
    masks = mask[0] if mask.dtype == torch.bool else mask[0] == 0
    least = torch.finfo(torch.float32).min / 2  # what hides a key is added to its score, and lies far below
    adds = mask.dtype != torch.bool and bool((mask[0][~masks] > least).any())
    if adds or bool((masks != masks[0]).any()):
        raise ValueError(
            f"{type(module).__name__} adds numbers to scores: expected a mask that all heads share"
        )
    return masks[0].expand(n, n).numpy().copy()


def _attention_input(calls: _Calls, module: nn.Module) -> Float[Tensor, "1 n d"] | None:
    """The vectors that the running attention module was called with; None if they are not one tensor (1, n, d)."""
    positional, named = calls.inputs.get(module, ((), {}))
    x = named.get("hidden_states", positional[0] if positional else None)
    return x if isinstance(x, Tensor) and x.ndim == 3 and len(x) == 1 else None


def _rotation(calls: _Calls, module: nn.Module) -> Rotation | None:
    """The rotary embedding that the running attention module was given, if any."""
    positional, named = calls.inputs[module]
    for pair in (*positional, *named.values()):
        if isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, Tensor) for part in pair):
            cos, sin = (part[0].double().numpy() for part in pair)
            return Rotation(cos, sin) if cos.ndim == 2 and cos.shape == sin.shape else None
    return None


def _norm_of(calls: _Calls, module: nn.Module | None) -> LearnedNorm | None:
    return next((norm for ran, norm, _, _ in reversed(calls.norms) if ran is module), None)


@contextmanager
def _observed(network: nn.Module, calls: _Calls, change: NormChange | None) -> Iterator[None]:
    """While the block runs, note modules' arguments in `calls`; norms compute in float64, or as `change` says."""

    def enter(module, positional, named):
        calls.inputs[module] = positional, named

    def leave(module, positional, output):
        calls.inputs.pop(module, None)
        x = positional[0] if positional else None
        if "Norm" not in type(module).__name__ or not isinstance(x, Tensor) or not isinstance(output, Tensor):
            return None
        norm = learned_norm(module, x.numpy(), output.numpy()) if x.shape == output.shape else None
        if norm is None:
            return None
        # transformers rounds an RMSNorm to float32, even in a model in float64.
        of_stream = x.ndim == 3  # the norms of queries and keys have an axis more, the heads
        exact = torch.from_numpy(change(norm, x.numpy()) if change and of_stream else norm(x.numpy()))
        calls.norms.append((module, norm, x, exact))
        return exact

    with ExitStack() as hooks:
        for module in network.modules():
            hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(leave))
        yield
