"""The queries that a norm allows a head to make: an ellipsoid."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

_NULL = 1e-14  # of the longest axis; shorter ones change scores by less than their rounding


@dataclass(frozen=True)
class QueryEllipsoid:
    """The queries centre + axes u with |u| <= 1, as used in scores q.k: the attention's scale is contained in them.

    In a head q = (W_Q x + b_Q) / sqrt(d_head), with x on a sphere that LayerNorm or RMSNorm (Root Mean Square Layer
    Normalization, Zhang and Sennrich 2019) stretches by its gain. If the sphere has more dimensions than the
    ellipsoid, which d_model > d_head + 1 ensures, every point *within* the ellipsoid is a query as well: two points
    of the sphere, or all of a smaller sphere, lie over it.
    """

    centre: Float[np.ndarray, " d"]
    axes: Float[np.ndarray, "d r"]
    filled: bool = True
    """Whether the points within are queries of the head. If not, only the surface's are: an upper bound over the
    ellipsoid holds for them all the same, and lower bounds are taken on the surface."""

    @classmethod
    def of_layernorm(
        cls,
        w_q: ArrayLike,
        b_q: ArrayLike | None,
        gain: ArrayLike,
        bias: ArrayLike | None,
        scale: float | None = None,
    ) -> "QueryEllipsoid":
        """The queries of a head whose input is LayerNorm's output x = gain sqrt(d_model) v + bias.

        v is any unit vector with entries of sum 0; an eps in the norm makes it shorter, which stays in the filled
        ellipsoid. w_q (d_head, d_model) and b_q (d_head,) make the query, gain and bias (d_model,) belong to the
        norm; None stands for no bias. scale multiplies the scores, 1 / sqrt(d_head) unless given.
        """
        w_q = np.asarray(w_q, dtype=np.float64)
        projected = w_q * np.asarray(gain, dtype=np.float64)
        projected = projected - projected.mean(axis=1, keepdims=True)
        return cls._of_norm(w_q, b_q, projected, bias, scale, w_q.shape[1] - 1)

    @classmethod
    def of_rmsnorm(
        cls, w_q: ArrayLike, b_q: ArrayLike | None, gain: ArrayLike, scale: float | None = None
    ) -> "QueryEllipsoid":
        """The queries of a head whose input is RMSNorm's output x = gain sqrt(d_model) v, with any unit vector v.

        Arguments as of `of_layernorm`.
        """
        w_q = np.asarray(w_q, dtype=np.float64)
        return cls._of_norm(w_q, b_q, w_q * np.asarray(gain, dtype=np.float64), None, scale, w_q.shape[1])

    @classmethod
    def _of_norm(cls, w_q, b_q, stretched, bias, scale, sphere) -> "QueryEllipsoid":
        """The image of a sphere in so many dimensions, of radius sqrt(d_model), under the matrix `stretched`."""
        d_head, d_model = w_q.shape
        scale = 1 / np.sqrt(d_head) if scale is None else scale
        centre = np.zeros(d_head) if b_q is None else np.asarray(b_q, dtype=np.float64)
        if bias is not None:
            centre = centre + w_q @ np.asarray(bias, dtype=np.float64)
        ellipsoid = cls(scale * centre, scale * np.sqrt(d_model) * stretched).principal()
        return cls(ellipsoid.centre, ellipsoid.axes, filled=ellipsoid.axes.shape[1] < sphere)

    def principal(self) -> "QueryEllipsoid":
        """The ellipsoid with orthogonal axes, the longest first, at most d of them; those of length 0 are left out."""
        left, length, _ = np.linalg.svd(np.asarray(self.axes, dtype=np.float64), full_matrices=False)
        kept = max(1, int((length > _NULL * length[:1].sum()).sum()))
        return QueryEllipsoid(
            np.asarray(self.centre, dtype=np.float64), (left * length)[:, :kept], filled=self.filled
        )

    def transformed(self, matrix: Float[np.ndarray, "e d"]) -> "QueryEllipsoid":
        """The ellipsoid of matrix @ q: rotary embedding at one position is such a map."""
        return QueryEllipsoid(matrix @ self.centre, matrix @ self.axes, filled=self.filled)
