"""`QueryEllipsoid`: the queries that an attention head can compute from the outputs of a LayerNorm or RMSNorm."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from layernorm_roles.selectability.arrays import checked

_NULL = 1e-14  # of the longest axis; shorter ones change scores by less than their rounding


@dataclass(frozen=True, repr=False)
class QueryEllipsoid:
    """The set of queries q = centre + axes u with |u| <= 1, scaled so that the attention score of a key k is q.k.

    It is made for heads whose input x is the output of LayerNorm or RMSNorm (Zhang and Sennrich 2019). Then x lies on a
    sphere, stretched by the norm's gain, and q = (W_Q x + b_Q) / sqrt(d_head) lies in an ellipsoid. If d_model > d_head
    + 1, every point in this ellipsoid is a query of the head, not only points on its surface.
    """

    centre: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "d r"]
    filled: bool = True
    """Whether the points inside the ellipsoid are queries of the head. If only those on its surface are, upper
    bounds over the ellipsoid hold for them, and lower bounds are taken on the surface."""

    @classmethod
    def of_layernorm(
        cls,
        w_q: ArrayLike,
        b_q: ArrayLike | None,
        gain: ArrayLike | None,
        bias: ArrayLike | None,
        scale: float | None = None,
    ) -> "QueryEllipsoid":
        """The queries of an attention head whose input is LayerNorm's output x = gain sqrt(d_model) v + bias.

        v is any unit vector whose entries sum to 0; an eps in the norm makes v shorter, which moves the query inside
        the ellipsoid. A query is scale (w_q x + b_q), with `w_q` (d_head, d_model) and `b_q` (d_head,). `gain` and
        `bias` (d_model,) are parameters of the norm. None stands for a gain of 1, a bias of 0, or a `scale` of 1 /
        sqrt(d_head).
        """
        return cls._of_norm(w_q, b_q, gain, bias, scale, projected=True)

    @classmethod
    def of_rmsnorm(
        cls, w_q: ArrayLike, b_q: ArrayLike | None, gain: ArrayLike | None, scale: float | None = None
    ) -> "QueryEllipsoid":
        """The queries of an attention head whose input is RMSNorm's output x = gain sqrt(d_model) v.

        v is any unit vector. A query is scale (w_q x + b_q), with `w_q` (d_head, d_model) and `b_q` (d_head,); `gain`
        (d_model,) is the norm's. None stands for a bias of 0, a gain of 1, or a `scale` of 1 / sqrt(d_head).
        """
        return cls._of_norm(w_q, b_q, gain, None, scale, projected=False)

    @classmethod
    def _of_norm(cls, w_q, b_q, gain, bias, scale, projected) -> "QueryEllipsoid":
        """The queries for x = gain sqrt(d_model) v + bias, v any unit vector, with entries of sum 0 if `projected`."""
        w_q = checked(w_q, "w_q", dimensions=2).astype(np.float64)
        d_head, d_model = w_q.shape
        gain = _vector(np.ones(d_model) if gain is None else gain, "gain", d_model)
        bias = _vector(bias, "bias", d_model)
        scale = 1 / np.sqrt(d_head) if scale is None else scale
        stretched = w_q * gain
        if projected:
            stretched -= stretched.mean(axis=1, keepdims=True)
        centre = _vector(b_q, "b_q", d_head) + w_q @ bias
        ellipsoid = cls(scale * centre, scale * np.sqrt(d_model) * stretched).principal()
        return replace(ellipsoid, filled=ellipsoid.axes.shape[1] < d_model - projected)

    def __repr__(self) -> str:
        d, r = self.axes.shape
        return f"QueryEllipsoid({r} axes in {d} dimensions, {'filled' if self.filled else 'surface alone'})"

    def principal(self) -> "QueryEllipsoid":
        """The same ellipsoid in float64 with orthogonal axes, the longest first, and without axes of length 0."""
        left, length, _ = np.linalg.svd(np.asarray(self.axes, dtype=np.float64), full_matrices=False)
        rank = max(1, int((length > _NULL * length[:1].sum()).sum()))
        return QueryEllipsoid(
            np.asarray(self.centre, dtype=np.float64), (left * length)[:, :rank], filled=self.filled
        )


def _vector(values: ArrayLike | None, name: str, size: int) -> Float[np.ndarray, " size"]:
    """`values` in float64, zeros for None; raises ValueError unless they are `size` finite numbers."""
    if values is None:
        return np.zeros(size)
    vector = checked(values, name, dimensions=1).astype(np.float64)
    if len(vector) != size:
        raise ValueError(
            f"{name} has {len(vector)} entries: expected {size}, for w_q of shape (d_head, d_model); torch.nn.Linear "
            "has it so, and GPT-2's Conv1D transposed"
        )
    return vector
