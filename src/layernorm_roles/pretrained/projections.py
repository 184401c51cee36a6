"""Finds what turns a pretrained model's residual stream into queries and keys: norm, linear maps, rotary embedding.

Names of modules only suggest it: nothing is returned that does not give the numbers that the model computed.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles.heads.layer import LearnedNorm, Projection, Rotation

_NAMES = [("query", "key"), ("q_proj", "k_proj"), ("q_lin", "k_lin"), ("q", "k")]
"""Attributes of an attention module that hold W_Q and W_K, in BERT, Llama, DistilBERT, MPNet and their kin."""
_FUSED = ["c_attn", "qkv_proj"]
"""Attributes that hold W_Q, W_K and W_V one below the other, in GPT-2, Phi-3 and their kin."""


def learned_norm(
    module: nn.Module, x: Float[np.ndarray, "*n d"], y: Float[np.ndarray, "*n d"]
) -> LearnedNorm | None:
    """The LayerNorm or RMSNorm, with parameters of `module`, that maps the vectors x to y; None if neither does.

    It has to give y to 1e-9 of y's largest entry.
    """
    eps = next(
        (v for n in ("eps", "variance_epsilon", "epsilon") if (v := getattr(module, n, None)) is not None),
        0.0,
    )
    weight, bias = (_vector(getattr(module, name, None), x.shape[-1]) for name in ("weight", "bias"))
    for kind in ("layernorm", "rmsnorm"):
        # Gemma stores the gain less 1, and OLMo has none, which counts as 0.
        for gain in (weight, 1 + weight):
            norm = LearnedNorm(kind, gain, bias, float(eps))
            if _agree(norm(x), y, 1e-9):
                return norm
    return None


def projections(
    module: nn.Module,
    x: Float[np.ndarray, "n d"],
    queries: Float[np.ndarray, "heads n d_head"],
    keys: Float[np.ndarray, "key_heads n d_head"],
    norms: tuple[LearnedNorm | None, LearnedNorm | None],
    rotation: Rotation | None,
) -> tuple[Projection, Projection] | None:
    """The two maps from the input x of an attention module to its `queries` and `keys`; None if none are found.

    A map is linear, with the weights of `module`, and is followed by a norm and by the rotary embedding `rotation` if
    they are not None; `norms` has one for queries and one for keys. The weights are read in several ways until one
    gives the queries and keys to within 1e-9 of their largest entry.
    """
    heads, _, d_head = queries.shape
    if any(norm is not None and norm.gain.size != d_head for norm in norms):
        return None  # one norm of all heads together, as in OLMo 2
    for weights in _linear_maps(module, heads * d_head, len(keys) * d_head):
        if any(weight.shape[1] != x.shape[1] for weight, _ in weights):
            continue
        # Some layers of some models are given a rotation and do not use it.
        for turn in [rotation] if rotation is None else [rotation, None]:
            read = tuple(
                Projection(weight.reshape(-1, d_head, x.shape[1]), bias.reshape(-1, d_head), norm, turn)
                for (weight, bias), norm in zip(weights, norms, strict=True)
            )
            if all(_agree(f(x), computed, 1e-9) for f, computed in zip(read, (queries, keys), strict=True)):
                return read
    return None


def _linear_maps(module: nn.Module, query_size: int, key_size: int) -> Iterator[list[tuple]]:
    """Yield each way to split the weights of `module` into [(W_Q, b_Q), (W_K, b_K)]; a matrix has a row an output."""
    for names in _NAMES:
        maps = [_linear_map(getattr(module, name, None)) for name in names]
        if None not in maps and [len(weight) for weight, _ in maps] == [query_size, key_size]:
            yield maps
    for name in _FUSED:
        fused = _linear_map(getattr(module, name, None))
        if fused is not None and len(fused[0]) >= query_size + key_size:
            parts = [np.split(array, [query_size, query_size + key_size])[:2] for array in fused]
            yield list(zip(*parts, strict=True))


def _linear_map(module: nn.Module | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Weight (out, in) and bias of a linear layer; transformers' Conv1D, which GPT-2 has, stores (in, out)."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        return None
    matrix = weight.detach().double().numpy()
    matrix = matrix.T if type(module).__name__ == "Conv1D" else matrix
    return matrix, _vector(getattr(module, "bias", None), len(matrix))


def _vector(parameter: object, size: int) -> Float[np.ndarray, " size"]:
    """The parameter of a module as a vector of `size` numbers; zeros if the module has no such parameter."""
    if not isinstance(parameter, Tensor) or parameter.shape != (size,):
        return np.zeros(size)
    return parameter.detach().double().numpy()


def _agree(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> bool:
    return ours.shape == theirs.shape and bool(abs(ours - theirs).max() <= tolerance * abs(theirs).max())
