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

from layernorm_roles.memory import first_line
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
    """A built-in normalisation, one of `VARIANTS`, of vectors of size `dim`: (..., dim) to (..., dim).

    What it learns, if anything, is `weight` (a gain of shape (dim,), or a scalar) and `bias` (dim,), as
    torch.nn.LayerNorm calls them. `eps` is added to the mean square of a vector before the scaling; a variant that does
    not scale ignores it.
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
        if self.variant.learns == "nothing":
            return x if self.variant.factor == 1 else x * self.variant.factor
        x = x * self.weight
        return x + self.bias if self.variant.learns == "gain and bias" else x

    def extra_repr(self) -> str:
        """What torch prints between the parentheses."""
        return f"{self.variant}, dim={self.dim}, eps={self.eps}"


def build(name: str, dim: int, eps: float = 0.0) -> nn.Module:
    """The normalisation called `name` for vectors of size `dim`.

    `name` is one of `VARIANTS`, or "package.module:Class" for a normalisation of one's own: a torch.nn.Module
    whose constructor takes `dim` and which maps (..., dim) to (..., dim). It is looked up from the working
    directory first, as `python -m` does. `eps` is for the built-in variants; a normalisation of one's own ignores it.
    It must map each vector by itself, without chance, leave its input as it is, have a finite gradient, and keep what
    it remembers of earlier calls in buffers, from which a killed run goes on.

    Raises ValueError if the name is unknown, the class cannot be imported or built, or it is no such map.
    """
    if name in VARIANTS:
        return Norm(VARIANTS[name], dim, eps)
    if ":" not in name:
        known = ", ".join(VARIANTS)
        raise ValueError(f"unknown norm {name!r}: expected one of {known}, or 'package.module:Class'")
    norm = _own(name, dim)
    with torch.random.fork_rng(devices=[]):  # nothing that a model draws later may depend on the probe
        _probe(name, dim)
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


def _probe(name: str, dim: int) -> None:
    """Raise ValueError if the normalisation of one's own called `name` is no map that a run can use."""
    norm, resumed = _own(name, dim), _own(name, dim)
    first, second = torch.randn(2, 3, dim, generator=torch.Generator().manual_seed(0))
    try:
        state = {key: value.clone() for key, value in norm.state_dict().items()}
        batch = _call(norm, first)
        resumed.load_state_dict(norm.state_dict())
        expected, found = _call(norm, second), _call(resumed, second)
        if not torch.equal(expected, found):
            raise _Unfit(
                "goes on differently from a copy of its state_dict: expected no chance, and state in buffers"
            )
        for vector, among in zip(first, batch, strict=True):
            resumed.load_state_dict(state)
            if not torch.allclose(_call(resumed, vector[None])[0], among, rtol=1e-3, atol=1e-5):
                raise _Unfit("maps a vector alone and among others differently: expected each by itself")
        x = first.clone().requires_grad_()
        (norm(x) * second).sum().backward()
        gradients = [x.grad, *(parameter.grad for parameter in norm.parameters())]
        if not all(gradient.isfinite().all() for gradient in gradients if gradient is not None):
            raise _Unfit("has no finite gradient at ordinary vectors")
    except _Unfit as fault:
        raise ValueError(f"norm {name!r} {fault}") from None
    except _FAULTS as error:
        shape = tuple(first.shape)
        raise ValueError(f"norm {name!r} fails on an input of shape {shape}: {_said(error)}") from error


class _Unfit(Exception):
    """What is wrong with a norm, in words that follow its name."""


_FAULTS = (Exception, SystemExit)
"""What code of one's own may raise; an exit would end a workflow as if it had succeeded."""


def _call(norm: nn.Module, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """What `norm` makes of `x`, if that has its shape and dtype, and `x` is as it was."""
    given = x.clone()
    with torch.no_grad():
        out = norm(given)
    if not isinstance(out, Tensor) or out.shape != x.shape or out.dtype != x.dtype:
        got = (tuple(out.shape), out.dtype) if isinstance(out, Tensor) else type(out).__name__
        raise _Unfit(f"maps {tuple(x.shape)}, {x.dtype} to {got}: expected the same")
    if not torch.equal(given, x):
        raise _Unfit("changes its input: expected it untouched")
    return out.clone()


def _own(name: str, dim: int) -> nn.Module:
    module_name, _, class_name = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except _FAULTS as error:
        raise ValueError(f"norm {name!r} cannot be imported: {_said(error)}") from error
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise ValueError(f"norm {name!r} is no torch.nn.Module class")
    try:
        return cls(dim)
    except _FAULTS as error:
        raise ValueError(f"norm {name!r} cannot be built with dim={dim}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """What an error of somebody else's code says, in one line."""
    return f"it calls sys.exit({error.code!r})" if isinstance(error, SystemExit) else first_line(error)
