"""Does the residual stream of a transformer encode a token's position? A linear probe before each layer reads it off.

The probe is a ridge regression from the stream, and a constant, to the position's indicator, fitted on some windows of
a text and tested on others. Causal attention tells early positions from late ones even without positional encoding, so
networks without residual connections, and untrained ones, are the controls.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.statements.transformer import Matrices, Tokens, TransformerShape, losses

WINDOWS = 128
"""Number of windows of a text on which a linear probe of positions is fitted; as many others test it."""
RIDGE = 1e-6
"""Ridge of a linear probe: this share of the mean diagonal of its second moments is added to their diagonal."""


def probe_windows(tokens: Tokens, context_length: int, seed: int) -> Int[Tensor, "2 windows length"]:
    """Draw random windows of context_length + 1 tokens, 128 to fit a linear probe and 128 to test it.

    Result [0] has the windows for fitting, from the first half of `tokens`; [1] has those for testing, from the second.
    """
    rng, half = generator(Stream.POSITION_PROBE, seed), len(tokens) // 2
    starts = rng.integers(half - context_length, size=(2, WINDOWS)) + np.array([[0], [half]])
    return torch.from_numpy(tokens[starts[:, :, None] + np.arange(context_length + 1)])


def position_accuracy(
    shape: TransformerShape, matrices: Matrices, windows: Int[Tensor, "2 windows length"]
) -> Float[np.ndarray, "runs depth"]:
    """The share of tokens whose position a linear probe recognises, for each transformer and each layer.

    `matrices` has the parameters of several transformers, called runs. The probe reads the residual stream before the
    layer; it is fitted on windows[0] and tested on windows[1]. The share is NaN for a transformer that diverged.
    """
    fitted, judged = (_streams(shape, matrices, part) for part in windows)
    layers = zip(fitted, judged, strict=True)
    return np.stack([_named(*each, shape.context_length) for each in layers], axis=1)


def _streams(
    shape: TransformerShape, matrices: Matrices, windows: Int[Tensor, "windows length"]
) -> list[Float[Tensor, "runs tokens d"]]:
    """The residual stream before each layer, for all transformers, in float64; tokens of all windows are joined."""
    seen: list[Tensor] = []
    with torch.no_grad():
        of_runs = windows.expand(len(matrices[0]), -1, -1)
        losses(shape, matrices, of_runs, lambda stream: seen.append(stream.double()))
    return seen


def _named(
    fitted: Float[Tensor, "runs tokens d"], judged: Float[Tensor, "runs tokens d"], positions: int
) -> Float[np.ndarray, " runs"]:
    places = torch.arange(fitted.shape[1]) % positions
    x, y = (torch.cat([part, torch.ones_like(part[..., :1])], dim=-1) for part in (fitted, judged))
    finite = (x.isfinite() & y.isfinite()).all(dim=(1, 2))
    x, y = x[finite], y[finite]
    moments = x.mT @ x
    ridge = RIDGE * moments.diagonal(dim1=1, dim2=2).mean(dim=1)
    moments += ridge[:, None, None] * torch.eye(x.shape[-1], dtype=x.dtype)
    weights = torch.linalg.solve(moments, x.mT @ one_hot(places, positions).to(x.dtype))
    share = np.full(len(finite), np.nan)
    share[finite.numpy()] = ((y @ weights).argmax(dim=-1) == places).double().mean(dim=1).numpy()
    return share
