"""Queries and keys of a pretrained model of the package transformers, recorded while it computes attention.

`load` gives a model an attention function that stores queries and keys, and then computes their attention under the
masks of transformers' `eager` attention. So all models work whose attention goes through AttentionInterface.
`RecordingModel.check` compares what was recorded with `eager` attention itself. Inputs, norms and weights of attention
are given where they have been checked against the recorded numbers.

>>> model = load(files_at(Path("/models/all-MiniLM-L6-v2"), "path"))
>>> layers = model.record([101, 7592, 2088, 102])
>>> layers[0].keys.shape
(12, 4, 32)
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from layernorm_roles.heads.layer import Layer, LearnedNorm, Rotation
from layernorm_roles.memory import first_line, is_out_of_memory
from layernorm_roles.pretrained.projections import learned_norm, projections
from layernorm_roles.pretrained.source import ModelFiles, refusal
from layernorm_roles.pretrained.unread import refuse_before_loading, refuse_unread_weights
from layernorm_roles.random_streams import seed_torch

_NAME = "recording"
"""Name of the attention function in transformers' AttentionInterface."""
_READ = {"scaling", "dropout", "is_causal", "sliding_window"}
"""Options of attention that a recorded layer has: eager attention ignores the third, and the fourth is in the mask."""
_UNUSED = {
    "position_ids",
    "cache_position",
    "position_embeddings",
    "past_key_values",
    "layer_idx",
    "input_ids",
}
_UNUSED |= {"use_cache", "output_attentions", "output_hidden_states", "return_dict", "output_router_logits"}
"""Arguments of models that reach attention and change nothing there, since no keys are cached."""
TOLERANCE = 1e-6
"""Largest difference allowed between an attention weight and that of transformers' eager attention."""
CHECKED_TOKENS = 256
"""Tokens of a context on which attention is compared: the weights of all heads are held at once."""

NormChange = Callable[[LearnedNorm, np.ndarray], np.ndarray]
"""A function that takes a norm of the residual stream and its input, and returns what replaces the norm's output."""


class Refused(ValueError):
    """A model is not one whose attention can be measured; the message says why, in one line."""


class RecordingModel:
    """A model of the package transformers that records the queries and keys of every layer while it reads a context."""

    def __init__(self, network: nn.Module):
        """Wrap a model in float64 with the attention function that `load` sets."""
        self.network = network.eval()
        self.stream_norms: set[nn.Module] = set()
        """The norms of the residual stream, known once a context has been recorded.

        The input of such a norm is as wide as the stream, and is a sum that the inputs of attention began.
        """

    @property
    def architecture(self) -> str:
        """The name of the model's architecture in transformers, such as llama."""
        return self.network.config.model_type

    @property
    def longest(self) -> int | None:
        """The largest number of tokens that the model can read at once; None if its configuration does not say.

        RoBERTa and its kin number positions from the padding token's number plus one, and so read fewer tokens than
        they have positions.
        """
        longest = getattr(self.network.config.get_text_config(), "max_position_embeddings", None)
        for name, module in self.network.named_modules():
            positions = isinstance(module, nn.Embedding) and name.endswith("position_embeddings")
            if positions and module.padding_idx is not None:
                return module.num_embeddings - module.padding_idx - 1
        return longest if isinstance(longest, int) and longest > 0 else None

    def record(self, tokens: Sequence[int], change: NormChange | None = None) -> list[Layer]:
        """Run the model on one context, and return the queries, keys and inputs of every layer's attention.

        `tokens` are token ids, including special tokens. If `change` is given, it is called with each LayerNorm or
        RMSNorm of the residual stream and the norm's input, and what it returns replaces the norm's output. Raises
        ValueError if the model cannot read the tokens, or if its attention is not simply a softmax of inner products.
        """
        if change is not None and not self.stream_norms:
            self.record(tokens)
        return self._recorded(tokens, change)[0]

    def check(self, tokens: Sequence[int]) -> float:
        """Compare attention with transformers' `eager` attention in float64, and return the largest difference.

        The model reads the first CHECKED_TOKENS of `tokens`, once for each. Raises ValueError, which names the
        architecture, layer and head, if an attention weight differs by more than TOLERANCE, or if other layers were
        recorded than those in which the model's configuration and its eager attention have attention.
        """
        tokens = tokens[:CHECKED_TOKENS]
        layers, modules = self._recorded(tokens, None)
        eager = self._eager(tokens, modules)
        if len(eager) != len(layers):
            self._refuse(
                f"eager attention has {len(eager)} layers with weights", f"{len(layers)}, as recorded"
            )
        largest = 0.0
        for layer, weights in zip(layers, eager, strict=True):
            if weights.shape != (len(layer.queries), len(tokens), len(tokens)):
                found = " x ".join(map(str, weights.shape))
                self._refuse(
                    f"layer {layer.layer}: eager attention weights are {found}", "those of the queries"
                )
            for head, expected in enumerate(weights):
                off = abs(layer.attention(head) - expected.double().numpy()).max()
                if not off <= TOLERANCE:
                    self._refuse(
                        f"layer {layer.layer}, head {head}: attention weights are off by {off:.2g}",
                        f"the softmax of its queries and keys to {TOLERANCE:g}, as eager attention computes it",
                    )
                largest = max(largest, off)
        return float(largest)

    def _refuse(self, found: str, expected: str) -> None:
        raise Refused(f"{self.architecture}, {found}: expected {expected}")

    def _recorded(
        self, tokens: Sequence[int], change: NormChange | None
    ) -> tuple[list[Layer], list[nn.Module]]:
        """The layers in the order of their numbers, and the module whose attention each is."""
        if self.longest is not None and len(tokens) > self.longest:
            raise Refused(
                f"a context of {len(tokens)} tokens: expected at most {self.longest}, which the model reads"
            )
        if (last := max(tokens)) >= (entries := len(self.network.get_input_embeddings().weight)):
            raise Refused(
                f"token {last} of {entries}, from 0: the tokenizer is that of another model than the weights"
            )
        calls = _Calls(len(tokens), change, self.stream_norms)
        # transformers looks the function up by its name whenever attention is computed.
        _register(partial(_attend, calls))
        try:
            self._run(tokens, calls)
        finally:
            _register(_unobserved)
        if change is None:
            self.stream_norms = calls.of_stream - calls.of_branches
        if not calls.layers:
            self._refuse("a model without attention that goes through AttentionInterface", "such attention")
        numbered = zip(self._numbers(calls.modules), calls.layers, calls.modules, strict=True)
        by_number = sorted(numbered, key=lambda one: one[0])
        return [replace(layer, layer=n) for n, layer, _ in by_number], [module for *_, module in by_number]

    def _numbers(self, modules: list[nn.Module]) -> list[int]:
        """The numbers, from 1, of the layers to which attention `modules` belong, in the order of their calls."""
        text = self.network.config.get_text_config()
        total = getattr(text, "num_hidden_layers", None)
        total = total if isinstance(total, int) else None
        kinds = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None)
        names = {module: name for name, module in self.network.named_modules()}
        numbers = [_number(module, names.get(module, "")) for module in modules]
        if len(set(modules)) < len(modules) == total:  # layers that share their weights, as in ALBERT
            return [*range(1, total + 1)]
        if len(set(numbers)) < len(numbers):
            again = next(n for n in numbers if numbers.count(n) > 1)
            self._refuse(
                f"layer {again}: attention is called {numbers.count(again)} times", "one call a layer"
            )
        if total is None:
            return numbers
        expected = {*range(1, total + 1)}
        if isinstance(kinds, list | tuple) and len(kinds) == total:
            softmax = {n for n, kind in enumerate(kinds, 1) if "attention" in kind and "linear" not in kind}
            expected = softmax if softmax else {*numbers}
        if {*numbers} != expected:
            said = ", ".join(map(str, sorted(expected)))
            found = ", ".join(map(str, sorted(numbers)))
            self._refuse(
                f"attention of layers {found} was recorded", f"layers {said}, as in its configuration"
            )
        return numbers

    def _eager(self, tokens: Sequence[int], modules: list[nn.Module]) -> list[Float[Tensor, "heads n n"]]:
        """Weights of transformers' eager attention, those of `modules` in their order, then all that others return."""
        found: dict[nn.Module, list[Tensor]] = {module: [] for module in modules}
        others, seen = [], []

        def keep(module, _, output):
            for part in output if isinstance(output, tuple) else ():
                if not isinstance(part, Tensor) or part.ndim != 4 or part.shape[-2:] != (len(tokens),) * 2:
                    continue
                if not any(part is one for one in seen):  # modules around return the weights again
                    seen.append(part)
                    found.get(module, others).append(part[0])

        calls = _Calls(len(tokens), None, self.stream_norms)
        with ExitStack() as hooks:
            for module in self.network.modules():
                hooks.enter_context(module.register_forward_hook(keep))
            with _quiet():
                self.network.set_attn_implementation("eager")
            try:
                self._run(tokens, calls, output_attentions=True)
            finally:
                with _quiet():
                    self.network.set_attn_implementation(_NAME)
        for module, weights in found.items():
            if not weights:
                name = type(module).__name__
                self._refuse(f"{name} returns no weights of eager attention", "those to compare with")
        in_order = {module: iter(weights) for module, weights in found.items()}
        return [next(in_order[module]) for module in modules] + others

    @torch.no_grad()
    def _run(self, tokens: Sequence[int], calls: "_Calls", **options) -> None:
        takes = inspect.signature(self.network.forward).parameters
        any_name = any(one.kind is one.VAR_KEYWORD for one in takes.values())
        options = {name: value for name, value in options.items() if any_name or name in takes}
        if any_name or "use_cache" in takes:
            options["use_cache"] = False
        try:
            with _observed(self.network, calls), _Exact(calls):
                self.network(input_ids=torch.tensor([list(tokens)]), **options)
        except Refused as error:
            raise Refused(f"{self.architecture}: {error}") from error
        except Exception as error:
            if is_out_of_memory(error):
                raise
            said = f"{type(self.network).__name__} raises {type(error).__name__} ({first_line(error)})"
            raise Refused(
                f"{self.architecture}: {said}: expected a model that reads token ids alone"
            ) from error


def _number(module: nn.Module, name: str) -> int:
    """The number of the layer, from 1, of an attention module with this path."""
    index = getattr(module, "layer_idx", None)
    if not isinstance(index, int):
        index = next((int(part) for part in name.split(".") if part.isdigit()), 0)
    return index + 1


def untrained(config: Any, seed: int) -> RecordingModel:
    """A model with random weights, which are drawn with random seed `seed` as the configuration `config` prescribes."""
    from transformers import AutoModel

    seed_torch(seed)
    _register(_unobserved)
    options = {"dtype": torch.float64, "attn_implementation": _NAME, "experts_implementation": "eager"}
    with _quiet():
        return RecordingModel(AutoModel.from_config(deepcopy(config), trust_remote_code=False, **options))


def load(files: ModelFiles) -> RecordingModel:
    """Load the pretrained model in `files`, in float64, so that it records queries and keys; nothing is downloaded.

    Raises ValueError if transformers cannot load it, if weights are missing, not finite, quantised (but in GGUF files)
    or not read, if it has both an encoder and a decoder, or if it has no layers.
    """
    from transformers import AutoModel

    _register(_unobserved)
    refuse_before_loading(files)
    options = {"gguf_file": files.gguf} if files.gguf else {"use_safetensors": True}
    try:
        with _quiet():
            network, report = AutoModel.from_pretrained(
                files.folder,
                dtype=torch.float64,
                attn_implementation=_NAME,
                experts_implementation="eager",  # torch's grouped products know no float64
                local_files_only=True,
                trust_remote_code=False,  # with None transformers asks the user, and a yes runs the folder's code
                output_loading_info=True,
                **options,
            )
    except Exception as error:
        if is_out_of_memory(error):
            raise
        if isinstance(error, KeyError) and error.args == (_NAME,):
            raise ValueError(
                f"{files.folder}: this architecture has attention of its own: expected one with AttentionInterface"
            ) from error
        raise ValueError(refusal(files.folder, "model", error)) from error
    # BERT's pooler comes after the last layer, and many files have none.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise ValueError(f"{files.folder}: {len(missing)} weights are missing, the first {missing[0]}")
    if getattr(network.config, "is_encoder_decoder", False):
        kind = type(network).__name__
        raise ValueError(f"{files.folder}: {kind} has an encoder and a decoder: expected one of them alone")
    layers = getattr(network.config, "num_hidden_layers", None)
    if layers is not None and layers < 1:
        raise ValueError(f"{files.folder}: expected a model with layers")
    refuse_unread_weights(files, network, report["unexpected_keys"])
    if bad := [name for name, weights in network.named_parameters() if not weights.isfinite().all()]:
        raise ValueError(f"{files.folder}: {bad[0]} has weights that are not finite")
    return RecordingModel(network)


@contextmanager
def _quiet() -> Iterator[None]:
    """While the block runs, transformers prints neither warnings nor bars: what is wrong is raised here."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)


@dataclass
class _Calls:
    """What is noted in one forward pass: the layers of attention, the inputs of modules, and the residual stream."""

    n: int
    change: NormChange | None
    changed: set[nn.Module]
    """The norms whose outputs `change` replaces."""
    layers: list[Layer] = field(default_factory=list)
    modules: list[nn.Module] = field(default_factory=list)
    """The modules whose attention `layers` are."""
    inputs: dict[nn.Module, tuple[tuple, dict[str, Any]]] = field(default_factory=dict)
    """Positional and named arguments of the modules that are running."""
    attended: set[nn.Module] = field(default_factory=set)
    """Running modules that have called attention."""
    norms: deque[tuple[nn.Module, LearnedNorm, Tensor, Tensor]] = field(
        default_factory=lambda: deque(maxlen=8)
    )
    """The last norms that ran, with input and output: between attention's norm and attention there are few."""
    within_norms: int = 0
    """Number of running modules that are norms."""
    stream: deque[Tensor] = field(default_factory=lambda: deque(maxlen=12))
    """The last states of the residual stream: inputs of attention and of its norm, and sums that these began."""
    of_stream: set[nn.Module] = field(default_factory=set)
    of_branches: set[nn.Module] = field(default_factory=set)
    """Norms whose input is a state of the stream, and those with another input."""

    def is_stream(self, x: object) -> bool:
        return any(x is state for state in self.stream)


class _Exact(TorchFunctionMode):
    """Norms and softmaxes compute in float64 where transformers has float32; sums with the stream are noted."""

    def __init__(self, calls: _Calls):
        super().__init__()
        self.calls = calls

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        if name == "softmax" and kwargs.get("dtype") == torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        if self.calls.within_norms:
            if name == "float":
                function = torch.Tensor.double
            args = tuple(torch.float64 if arg is torch.float32 else arg for arg in args)
            kwargs = {key: torch.float64 if arg is torch.float32 else arg for key, arg in kwargs.items()}
        begun = name in _SUMS and any(self.calls.is_stream(arg) for arg in args)
        result = function(*args, **kwargs)
        if begun and isinstance(result, Tensor) and result.shape == self.calls.stream[-1].shape:
            self.calls.stream.append(result)
        return result


_SUMS = {"add", "__add__", "__radd__", "add_", "__iadd__"}


def _register(function) -> None:
    """Make `function` transformers' attention function called _NAME, with the masks that eager attention gets."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register(_NAME, function)
    AttentionMaskInterface.register(_NAME, eager_mask)


def _unobserved(module, query, key, value, attention_mask, scaling=None, **options):
    """Attention under the mask alone, as eager attention, which does not ask a module whether it is causal."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(
        module, query, key, value, attention_mask, scaling=scaling, is_causal=False, dropout=0.0
    )


def _attend(
    calls: _Calls, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask, **options
):
    """Attention that stores queries and keys of one context in `calls`, and computes what `_unobserved` computes."""
    kind = type(module).__name__
    for name, value_of in options.items():
        given = value_of is not None and value_of is not False
        if (given and name not in _READ | _UNUSED) or (name == "dropout" and value_of):
            raise Refused(f"{kind} has {name}: expected attention that is a softmax of inner products")
    if module in calls.attended:
        raise Refused(f"{kind} calls attention more than once: expected one call a module")
    if query.shape[0] != 1 or not query.shape[2] == key.shape[2] == calls.n:
        raise Refused(
            f"{kind} has {query.shape[2]} queries for {key.shape[2]} keys: expected as many as the {calls.n} tokens"
        )
    if module in calls.inputs:
        calls.attended.add(module)
    calls.layers.append(_recorded(calls, module, query, key, attention_mask, options.get("scaling")))
    calls.modules.append(module)
    return _unobserved(module, query, key, value, attention_mask, **options)


def _recorded(calls: _Calls, module: nn.Module, query: Tensor, key: Tensor, mask, scaling) -> Layer:
    queries, keys = query[0].double().numpy().copy(), key[0].double().numpy().copy()
    maps = norm = before = None
    x = _attention_input(calls, module)
    if x is not None:
        ran = ((m, n, x_of_n) for m, n, x_of_n, y in reversed(calls.norms) if y is x or torch.equal(y, x))
        source, norm, before = next(ran, (None, None, None))
        if not calls.stream:
            calls.stream.extend((x, x) if before is None else (before, x))
            calls.of_stream |= {source} - {None}
            calls.of_branches -= {source}
        elif norm and not calls.is_stream(before):
            norm = None
    if norm is not None:
        head_norms = tuple(_norm_of(calls, getattr(module, name, None)) for name in ("q_norm", "k_norm"))
        maps = projections(module, x[0].numpy(), queries, keys, head_norms, _rotation(calls, module))
    known = norm is not None and maps is not None
    return Layer(
        layer=len(calls.layers) + 1,
        queries=queries,
        keys=keys,
        scaling=queries.shape[-1] ** -0.5 if scaling is None else float(scaling),
        visible=_visible(module, mask, query.shape[2]),
        attention_input=x[0].numpy().copy() if known else None,
        before_norm=before[0].numpy().copy() if known else None,
        norm=norm if known else None,
        query_projection=maps[0] if known else None,
        key_projection=maps[1] if known else None,
    )


def _visible(module: nn.Module, mask: Tensor | None, n: int) -> Bool[np.ndarray, "n n"]:
    """The keys (columns) that each query (row) may attend to, by the mask that eager attention adds to the scores."""
    if mask is None:
        return np.ones((n, n), bool)
    masks = mask[0] if mask.dtype == torch.bool else mask[0] == 0
    least = torch.finfo(torch.float32).min / 2  # what hides a key is added to its score, and lies far below
    adds = mask.dtype != torch.bool and bool((mask[0][~masks] > least).any())
    if adds or bool((masks != masks[0]).any()):
        raise Refused(f"{type(module).__name__} adds numbers to scores: expected a mask that all heads share")
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
def _observed(network: nn.Module, calls: _Calls) -> Iterator[None]:
    """While the block runs, note modules' arguments and norms in `calls`, and change norms if it says so."""

    def enter(module, positional, named):
        calls.inputs[module] = positional, named
        calls.within_norms += "Norm" in type(module).__name__

    def leave(module, positional, named, output):
        calls.inputs.pop(module, None)
        calls.attended.discard(module)
        if "Norm" not in type(module).__name__:
            return None
        calls.within_norms -= 1
        x = next((x for x in (*positional, *named.values()) if isinstance(x, Tensor)), None)
        if x is None or not isinstance(output, Tensor) or x.shape != output.shape:
            return None
        norm = learned_norm(module, x.double().numpy(), output.double().numpy())
        if norm is None:
            return None
        of_stream = calls.is_stream(x)
        (calls.of_stream if of_stream else calls.of_branches).add(module)
        y = output
        if calls.change and module in calls.changed:
            y = torch.from_numpy(calls.change(norm, x.numpy()))
        calls.norms.append((module, norm, x, y))
        if of_stream:
            calls.stream.append(y)
        return y

    with ExitStack() as hooks:
        for module in network.modules():
            hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(leave, with_kwargs=True))
        yield
