"""The normalisations before attention: LayerNorm taken apart, and put together again.

LayerNorm is h(g(f(x))): `project` (f) onto the hyperplane orthogonal to the ones vector, `scale` (g) to norm
sqrt(d), `affine` (h) with gain and bias. Variants go without h, but for those that say what they learn:

>>> norm = build("layernorm", dim=8)
>>> norm(torch.randn(5, 8)).norm(dim=-1)        # each sqrt(8)

Source: Brody et al. 2023, section 2; sizes of the controls: this project.
"""

import importlib
import sys
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles.variants import SPLIT_VARIANTS, VARIANTS, Variant


def project(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """f: every vector of x minus its mean, the orthogonal projection I - 11'/d onto the hyperplane sum(x) = 0."""
    return x - x.mean(dim=-1, keepdim=True)


def scale(x: Float[Tensor, "*batch d"], eps: float = 0.0) -> Float[Tensor, "*batch d"]:
    """g: every vector of x scaled to norm sqrt(d). `eps` is added to the mean square, inside the root, as in torch."""
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def scale_outside(x: Float[Tensor, "*batch d"], eps: float) -> Float[Tensor, "*batch d"]:
    """g with `eps` added to the root mean square, outside the root: x / (norm(x) / sqrt(d) + eps)."""
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


def affine(
    x: Float[Tensor, "*batch d"], gain: Float[Tensor, " d"], bias: Float[Tensor, " d"]
) -> Float[Tensor, "*batch d"]:
    """h: the vectors of x times `gain`, plus `bias`, as in an ordinary LayerNorm."""
    return x * gain + bias


class Norm(nn.Module):
    """A built-in variant of the norm that is one map; it maps (..., dim) to (..., dim).

    What a variant learns is `weight`, its gain or scalar, and `bias`, called as in torch.nn.LayerNorm. `eps` is added
    to the mean square of a vector before the scaling; a variant that does not scale ignores it.
    """

    def __init__(self, variant: Variant, dim: int, eps: float = 0.0):
        super().__init__()
        self.variant, self.dim, self.eps = variant, dim, eps
        if variant.learns != "nothing":
            shape = () if variant.learns == "scalar" else (dim,)
            self.weight = nn.Parameter(torch.full(shape, variant.factor))
        if variant.learns == "gain and bias":
            self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Normalise every vector of `x`."""
        if self.variant.projects:
            x = project(x)
        if self.variant.scales:
            x = scale(x, self.eps)
        if self.variant.divides_by_d:
            x = x / self.dim
        match self.variant.learns:
            case "nothing":
                return x if self.variant.factor == 1 else x * self.variant.factor
            case "scalar" | "gain":
                return x * self.weight
            case "gain and bias":
                return affine(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """What torch prints between the parentheses."""
        return f"{self.variant}, dim={self.dim}, eps={self.eps}"


def build(name: str, dim: int, eps: float = 0.0) -> nn.Module:
    """The normalisation called `name` for vectors of size `dim`.

    `name` is one of `VARIANTS`, or "package.module:Class" for a normalisation of one's own: a torch.nn.Module
    whose constructor takes `dim` and which maps (..., dim) to (..., dim). It is looked up from the working
    directory first, as `python -m` does. `eps` is for the built-in variants; a normalisation of one's own ignores it.

    Raises ValueError if the name is unknown, the class cannot be imported or built, or its output has not
    the shape and dtype of its input.
    """
    if name in VARIANTS:
        return Norm(VARIANTS[name], dim, eps)
    if ":" not in name:
        known = ", ".join(VARIANTS)
        raise ValueError(f"unknown norm {name!r}: expected one of {known}, or 'package.module:Class'")
    norm = _own(name, dim)
    probe = torch.linspace(-1.0, 2.0, 3 * dim).reshape(3, dim).square()
    try:
        with torch.no_grad():
            out = norm(probe)
    except Exception as error:
        raise ValueError(f"norm {name!r} fails on an input of shape {tuple(probe.shape)}: {error}") from error
    if not isinstance(out, Tensor) or out.shape != probe.shape or out.dtype != probe.dtype:
        got = (tuple(out.shape), out.dtype) if isinstance(out, Tensor) else type(out).__name__
        raise ValueError(
            f"norm {name!r} maps {tuple(probe.shape)}, {probe.dtype} to {got}: expected the same"
        )
    return norm


def build_pair(name: str, dim: int, eps: float = 0.0) -> tuple[nn.Module, nn.Module]:
    """The norm from which queries and keys are made, and the norm from which values are made, in the variant `name`.

    `name` is one of `SPLIT_VARIANTS`, whose two norms are different modules, or a name for `build`, whose norm comes
    back twice as one module. `dim` and `eps` are those of `build`, which also says what is raised.
    """
    if name in SPLIT_VARIANTS:
        split = SPLIT_VARIANTS[name]
        return build(split.queries_keys, dim, eps), build(split.values, dim, eps)
    norm = build(name, dim, eps)
    return norm, norm


def _own(name: str, dim: int) -> nn.Module:
    module_name, _, class_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"norm {name!r} cannot be imported: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ValueError(f"norm {name!r} is no torch.nn.Module class")
    try:
        return cls(dim)
    except Exception as error:
        raise ValueError(f"norm {name!r} cannot be built with dim={dim}: {error}") from error
