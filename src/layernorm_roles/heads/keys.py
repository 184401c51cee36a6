"""Which keys of a layer some query can select: verdicts with proofs, before and after the norm and in every head."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from layernorm_roles import norms
from layernorm_roles.heads.layer import Layer
from layernorm_roles.selectability.certificates import Certificates
from layernorm_roles.selectability.certify import certify_many

DIGITS = 1
"""Number of significant digits of margins and residuals of certificates in tables, rounded to the side of caution."""

Stack = Float[np.ndarray, "matrices n d"]


def keys_without_norm(layer: Layer) -> Float[np.ndarray, "key_heads n d_head"] | None:
    """The keys that a layer's heads would have if the norm before attention divided all vectors by one number.

    The number gives the normed vectors, before gain and bias, the mean square that they have in the model. A LayerNorm
    subtracts the mean of each vector as before. The result is None if the norm before attention is not known, or if it
    is neither a LayerNorm nor an RMSNorm.
    """
    if layer.norm is None:
        return None
    scaled = layer.norm.standardised(layer.before_norm)
    stream = layer.norm.centred(layer.before_norm)
    stream = stream * np.sqrt(np.square(scaled).mean() / np.square(stream).mean())
    return layer.key_projection(layer.norm.gain * stream + layer.norm.bias)


def cut(keys: Float[np.ndarray, "heads n d"], dimensions: int) -> Float[np.ndarray, "heads n r"]:
    """The keys of each head, minus the head's mean key, as coordinates along the head's first principal components.

    The number r of components is the smallest of `dimensions`, n and d.
    """
    centred = keys - keys.mean(axis=1, keepdims=True)
    components = np.linalg.svd(centred, full_matrices=False).Vh[:, :dimensions]
    return centred @ components.swapaxes(1, 2)


def stacks_at(site: str, layer: Layer, cuts: Sequence[int]) -> list[Stack]:
    """The keys at one place in a layer, as a list of arrays of shape (matrices, n keys, dimensions).

    The place, `site`, is "before_norm" (the residual stream), "after_norm" (the input of attention), "head" (the keys
    of each key head), "head_without_norm" (the keys as `keys_without_norm` computes them), or "head_cut" (the keys
    along their first principal components). "after_norm_exact" and "head_exact" are vectors at "after_norm" and "head",
    scaled to one length. The list is empty if the vectors are not known. It has one array, but for "head_cut" one for
    each number of components in `cuts` that is below n and d_head.
    """
    if site == "head_cut":
        return [cut(layer.keys, d) for d in cuts if d < min(layer.keys.shape[1:])]
    if site == "head_without_norm":
        keys = keys_without_norm(layer)
    else:
        known = {"before_norm": layer.before_norm, "after_norm": layer.attention_input, "head": layer.keys}
        keys = known[site.removesuffix("_exact")]
    if keys is None:
        return []
    if site.endswith("_exact"):  # scaled once more: an eps changes the lengths of keys only
        keys = norms.scale(torch.from_numpy(keys)).numpy()
    return [keys.reshape(-1, *keys.shape[-2:])]


class CertifiedKeys(NamedTuple):
    """The keys at one place in a layer (see `stacks_at`), with proofs of which of them some query can select."""

    layer: int
    site: str
    causal: bool
    """Whether the rivals of a key are only the keys before it, not all keys of the text."""
    keys: Stack
    certificates: Certificates

    def rows(self, context: int) -> Iterator[tuple]:
        """Yield, for each matrix of keys (each head's, for example), how many of its keys no query can select.

        A result is a tuple, a row of the data frame that `table` makes. `context` is the number of the text to which
        the keys belong. Raises ValueError if a certificate does not prove its verdict.
        """
        _, n, d = self.keys.shape
        verified = zip(self.certificates.verdict, *self.certificates.verify(self.keys), strict=True)
        for number, (verdict, margin, residual) in enumerate(verified):
            head = number if self.site.startswith("head") else None
            identity = context, self.layer, self.site, head, self.causal, d
            inside = verdict == "unselectable"
            weakest = min(margin[verdict == "selectable"], default=None)
            furthest = max(residual[inside], default=None)
            proofs = _rounded(weakest, ROUND_FLOOR), _rounded(furthest, ROUND_CEILING)
            yield *identity, n, int(inside.sum()), int((verdict == "borderline").sum()), *proofs


def certified(layer: Layer, sites: Sequence[str], cuts: Sequence[int] = ()) -> Iterator[CertifiedKeys]:
    """Yield the keys at some places in a layer, with proofs of which of them some query can select.

    `sites` lists the places, such as "after_norm" or "head", and `cuts` the dimensions for "head_cut"; see `stacks_at`.
    In a causal layer the keys at "head" come twice; the second time, a key competes only with the keys before it.
    """
    for site in sites:
        for keys in stacks_at(site, layer, cuts):
            for causal in (False, True) if layer.causal and site == "head" else (False,):
                yield CertifiedKeys(layer.layer, site, causal, keys, certify_many(keys, causal, flat=True))


def table(rows: Iterable[tuple]) -> pd.DataFrame:
    """A data frame of the tuples that `CertifiedKeys.rows` yields: how many keys no query can select.

    A row is for the keys of one text (context), layer, place (site) and head. Further columns: causal (whether a key
    competes only with those before it), dimensions, n_keys, n_unselectable, n_borderline, min_margin of selectable keys
    and max_residual of unselectable ones (NaN if there are none). `Certificates` explains margin and residual.
    """
    identity = ["context", "layer", "site", "head", "causal", "dimensions"]
    numbers = ["n_keys", "n_unselectable", "n_borderline", "min_margin", "max_residual"]
    frame = pd.DataFrame(rows, columns=[*identity, *numbers])
    return frame.astype({"head": "Int64", "min_margin": "float64", "max_residual": "float64"})


def _rounded(value: float | None, direction: str) -> float | None:
    """A number with DIGITS significant digits, rounded up or down; None stays None."""
    return None if value is None else float(Context(DIGITS, direction).plus(Decimal(value)))
