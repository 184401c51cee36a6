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
    """The keys that a layer's heads would have if its norm divided all vectors by one number; None if unknown.

    The norm is the one before attention, which divides each vector by a different number. Here the residual stream,
    projected for a LayerNorm, is multiplied by a single number, so that its mean square equals the mean square of the
    normed stream. The norm's gain and bias, W_K, b_K and the rotary embedding follow as in the model.
    """
    if layer.norm is None:
        return None
    scaled = layer.norm.standardised(layer.before_norm)
    stream = layer.norm.centred(layer.before_norm)
    stream = stream * np.sqrt(np.square(scaled).mean() / np.square(stream).mean())
    return layer.key_projection(layer.norm.gain * stream + layer.norm.bias)


def cut(keys: Float[np.ndarray, "heads n d"], dimensions: int) -> Float[np.ndarray, "heads n r"]:
    """The keys of each head, minus the head's mean key, as coordinates along the head's first principal components.

    The number r of components is `dimensions`, or the smaller of n and d if that is less.
    """
    centred = keys - keys.mean(axis=1, keepdims=True)
    components = np.linalg.svd(centred, full_matrices=False).Vh[:, :dimensions]
    return centred @ components.swapaxes(1, 2)


def stacks_at(site: str, layer: Layer, cuts: Sequence[int]) -> list[Stack]:
    """The matrices of keys of a layer at a site: one in the residual stream, or one for each key head.

    The list holds one array; it holds none if the keys are unknown, and for "head_cut" one for each usable number in
    `cuts`. Sites are "before_norm" (the residual stream), "after_norm" (the input of attention), "head" (the heads'
    keys), "head_without_norm" (the heads' keys if the norm divided all vectors by one number), "head_cut" (the heads'
    keys in as many principal components as a number in `cuts`, if it is below n and d_head), "after_norm_exact" and
    "head_exact" (as a norm with eps = 0 would give them).
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
    """The keys of one layer at one site, such as "head", with certificates of whether a query can select each key."""

    layer: int
    site: str
    causal: bool
    """Whether the rivals of a key are only the keys before it, not all keys of the text."""
    keys: Stack
    certificates: Certificates

    def rows(self, context: int) -> Iterator[tuple]:
        """Yield, for each matrix of keys, a row for `table` that says how many keys no query can select.

        `context` is the number of the text to which the keys belong. Raises ValueError if a certificate does not prove
        its verdict.
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
    """Yield the keys of a layer at each of `sites`, with certificates of whether a query can select each key.

    The sites, such as "after_norm" or "head", are listed in `stacks_at`; `cuts` are the dimensions for "head_cut". In a
    causal layer the keys at "head" are yielded twice, the second time with only the keys before a key as its rivals.
    """
    for site in sites:
        for keys in stacks_at(site, layer, cuts):
            for causal in (False, True) if layer.causal and site == "head" else (False,):
                yield CertifiedKeys(layer.layer, site, causal, keys, certify_many(keys, causal, flat=True))


def table(rows: Iterable[tuple]) -> pd.DataFrame:
    """A data frame of the rows that `CertifiedKeys.rows` yields: how many keys of each matrix no query can select.

    Columns: context, layer, site, head, causal, dimensions, n_keys, n_unselectable, n_borderline, min_margin (smallest
    margin of the selectable keys, NaN without any) and max_residual (largest residual of the unselectable keys, NaN
    without any). `Certificates` explains margin and residual.
    """
    identity = ["context", "layer", "site", "head", "causal", "dimensions"]
    numbers = ["n_keys", "n_unselectable", "n_borderline", "min_margin", "max_residual"]
    frame = pd.DataFrame(rows, columns=[*identity, *numbers])
    return frame.astype({"head": "Int64", "min_margin": "float64", "max_residual": "float64"})


def _rounded(value: float | None, direction: str) -> float | None:
    """A number with DIGITS significant digits, rounded up or down; None stays None."""
    return None if value is None else float(Context(DIGITS, direction).plus(Decimal(value)))
