"""The normalisations that stand before attention: LayerNorm, its steps, and variants that lack or change a step.

LayerNorm is h(g(f(x))): `project` (f) onto the hyperplane orthogonal to the ones vector, `scale` (g) to norm sqrt(d),
`affine` (h) with gain and bias. Variants have no h unless their names say so. Source: Brody et al. 2023, section 2, but
for the variants that are controls, which are this project's.

>>> norm = build("layernorm", dim=8)
>>> norm(torch.randn(5, 8)).norm(dim=-1)        # each sqrt(8)
"""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from layernorm_roles.memory import first_line
from layernorm_roles.variants import SHRUNK, VARIANTS, Variant, maps


def project(x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Subtract from every vector of `x`, shape (..., d), the mean of its entries.

    This is the orthogonal projection I - 11'/d onto the hyperplane of the vectors whose entries sum to 0.
    """
    return x - x.mean(dim=-1, keepdim=True)


def scale(x: Float[Tensor, "*batch d"], eps: float = 0.0) -> Float[Tensor, "*batch d"]:
    """Scale every vector of `x`, shape (..., d), to length sqrt(d).

    `eps` is added to the mean square of the entries before the root is taken, as in torch; it makes vectors shorter.
    """
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps)


def scale_outside(x: Float[Tensor, "*batch d"], eps: float) -> Float[Tensor, "*batch d"]:
    """Scale every vector of `x`, shape (..., d), to about length sqrt(d), with `eps` added outside the root.

    The result is x / (|x| / sqrt(d) + eps), where |x| is the length of a vector x.
    """
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + eps)


def affine(
    x: Float[Tensor, "*batch d"], gain: Float[Tensor, " d"], bias: Float[Tensor, " d"]
) -> Float[Tensor, "*batch d"]:
    """Multiply every vector of `x` by `gain` and add `bias`, entry by entry, as LayerNorm does in its last step."""
    return x * gain + bias


class Norm(nn.Module):
    """A built-in normalisation, such as LayerNorm, as a torch module that maps vectors (..., dim) to (..., dim).

    `variant`, a value of `VARIANTS`, says which steps it takes. `weight`, a gain (dim,) or a scalar, and `bias` (dim,)
    exist only if the variant learns them. `eps` is added to a vector's mean square before the vector is scaled.
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
        """Apply to each vector of `x`, shape (..., d), those steps of a norm that the variant asks for."""
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


class MatchedProjection(nn.Module):
    """A norm that subtracts the mean of each vector and divides all vectors by one running root mean square.

    On average its outputs are as large as LayerNorm's, but they do not all have one length. In training mode, each call
    first moves the running mean square a tenth of the way to the mean square of all entries of its input vectors, after
    their means are subtracted. The mean square starts at 0.0008, as in an untrained GPT-2.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("mean_square", torch.tensor(SHRUNK**2))

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Subtract the mean from each vector of `x`, shape (..., d), and divide all by the running root mean square."""
        x = project(x)
        if self.training:
            self.mean_square.lerp_(x.detach().square().mean(), 0.1)
        return x * torch.rsqrt(self.mean_square)


def build(name: str, dim: int, eps: float = 0.0) -> nn.Module:
    """Build the norm called `name`, as a torch module that maps vectors of size `dim`, (..., dim), to (..., dim).

    `name` is a key of `VARIANTS`, such a key with a constant factor, as in "projection*35.0", or "package.module:Class"
    for a user's own torch.nn.Module. This class is built with `dim` as its argument, and its module is first looked for
    in the working directory. `eps` applies to built-in norms only. Raises ValueError if the name is unknown, or if the
    class cannot be imported or built.
    """
    both = maps(name)
    if both is not None and both[0] == both[1]:
        return Norm(both[0], dim, eps)
    if ":" not in name:
        known = ", ".join(VARIANTS)
        raise ValueError(f"unknown norm {name!r}: expected one of {known}, or 'package.module:Class'")
    return _own(name, dim)


def build_pair(name: str, dim: int, eps: float = 0.0) -> tuple[nn.Module, nn.Module]:
    """Build the two norms of the variant `name`, for vectors of size `dim`: for queries and keys, and for values.

    Both are the same module unless the variant has two norms, as "projected_qk" and "layernorm*0.1@values" have. `name`
    can also be any name that `build` takes. `eps` applies to built-in norms only. Raises ValueError if the name is
    unknown, or if a user's class cannot be imported or built.
    """
    both = maps(name)
    if both is not None and both[0] != both[1]:
        return Norm(both[0], dim, eps), Norm(both[1], dim, eps)
    norm = build(name, dim, eps)
    return norm, norm


ALONE = 12
"""Number of vectors of an input that `probe` also gives to a norm one by one."""

_GLOBAL = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "default device": (torch.get_default_device, torch.set_default_device),
    "recording of gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "precision of products": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "random seed": (torch.initial_seed, torch.manual_seed),
}
"""Names of torch's global settings, each with the function that returns the setting and the one that changes it."""

_FAULTS = (Exception, SystemExit, KeyboardInterrupt)
"""The exceptions to catch from a user's code; SystemExit could end the workflow as if it had succeeded."""


def probe(name: str, shape: Sequence[int]) -> None:
    """Raise ValueError unless the user's own norm `name`, "package.module:Class", can be used in training.

    Inputs have the shape `shape`, (..., dim). The norm must map each vector without regard to the others or randomness,
    have finite gradients, leave torch's global state unchanged, and keep its own state in buffers.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7_640_891_576_956_012_809)  # no norm seeds with this, so that seeding is noticed
        before = {setting: get() for setting, (get, _) in _GLOBAL.items()}
        try:
            fault = _fault_in_training(name, shape)
        finally:
            changed = [setting for setting, (get, _) in _GLOBAL.items() if get() != before[setting]]
            for setting in changed:
                _GLOBAL[setting][1](before[setting])
    if changed:  # also where that has made the norm fail
        fault = f"changes torch's {', '.join(changed)}: expected its global state untouched"
    if fault:
        raise ValueError(f"norm {name!r} {fault}")


def _fault_in_training(name: str, shape: Sequence[int]) -> str | None:
    """What is wrong with a norm of the user, as the rest of a sentence after its name, or None."""
    norm, copy = _own(name, shape[-1]), _own(name, shape[-1])
    generator = torch.Generator().manual_seed(0)
    x, slopes = (torch.randn(shape, generator=generator, device="cpu") for _ in range(2))
    rows = x.reshape(-1, shape[-1])
    try:
        for _ in range(3):
            out = norm(x)
        if not isinstance(out, Tensor) or out.shape != x.shape or out.dtype != x.dtype:
            got = (tuple(out.shape), out.dtype) if isinstance(out, Tensor) else type(out).__name__
            return f"maps {tuple(x.shape)}, {x.dtype} to {got}: expected the same"
        copy.load_state_dict(norm.state_dict())
        if not torch.equal(norm(x), copy(x)):
            return "goes on differently from a copy of its state_dict: expected state in buffers, and no randomness"
        state = {key: value.clone() for key, value in norm.state_dict().items()}
        among = norm(x).reshape(rows.shape)
        for row in torch.linspace(0, len(rows) - 1, min(ALONE, len(rows))).long():
            copy.load_state_dict(state)
            alone = copy(rows[row].reshape(*[1] * (x.ndim - 1), -1)).flatten()
            if not torch.allclose(alone, among[row], rtol=1e-3, atol=1e-5):
                return "maps a vector alone and among others differently: expected row by row"
        x = x.requires_grad_()
        (norm(x) * slopes).sum().backward()
        gradients = [x.grad, *(parameter.grad for parameter in norm.parameters())]
        if not all(gradient.isfinite().all() for gradient in gradients if gradient is not None):
            return "has no finite gradient at ordinary vectors"
    except _FAULTS as error:
        return f"fails on an input of shape {tuple(shape)}: {_said(error)}"


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
    """One line on an exception in a user's code: that it calls sys.exit, or the first line of its message."""
    return f"it calls sys.exit({error.code!r})" if isinstance(error, SystemExit) else first_line(error)
