"""`Certificates`: for each key whether it can get the strictly highest score, with proofs that can be checked alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.sparse import csr_array

from layernorm_roles.selectability.arrays import double, largest_magnitude, row_blocks
from layernorm_roles.selectability.leads import leads
from layernorm_roles.selectability.threads import one_thread_a_product

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = np.array(["borderline", "selectable", "unselectable"])
"""What is proved of a key: that some query gives it the strictly highest score ('selectable'), that none does
('unselectable'), or neither ('borderline'). `Certificates.code` holds indices into this array."""
BORDERLINE, SELECTABLE, UNSELECTABLE = range(3)

# The distance below which data of a precision cannot tell keys apart, relative to the largest magnitude in a column.
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-6}

# Of the largest score that a query can make. Beyond, products lose digits or overflow, and a lead would mean nothing.
_SMALLEST_SIZE, _LARGEST_SIZE = 2.0**-1000, 2.0**1020


@dataclass(frozen=True, repr=False)
class Certificates:
    """Verdicts on n keys of size d, with proofs: whether some query gives a key the strictly highest score.

    `certify` makes them for one matrix of keys, `certify_many` for a stack of matrices, the first axis of all arrays.
    Key i is k_i, with bias b_i; s_c is the largest magnitude in column c of the keys, and s_b that of the biases.

    * `margin`: the lead of key i over the best other key under its stored query q, divided by the largest score that
      entries of this size can make, min_j (q.(k_i - k_j) + b_i - b_j) / (sum_c |q_c| s_c + s_b). The key stays
      selectable while no entry in a column c changes by margin/2 times s_c. NaN if no query is stored.
    * `residual`: how far key i is from the mean of other keys with the stored convex weights w, max_c |k_i - sum_j w_j
      k_j|_c / s_c or, if larger, max(0, b_i - sum_j w_j b_j) / s_b. NaN without stored weights.

    A key cannot have a margin above its residual (weak duality), so a proof of either kind excludes the other. The
    verdicts, with a tolerance of 1e-9 for float64 and 1e-6 for float32 keys, are:

    * selectable: there is a query with margin > tolerance;
    * unselectable: there are weights with residual <= tolerance, and the key is in the convex hull of the others even
      after it is moved by the tolerance (in units of s) straight away from the mean of all keys. In causal
      certificates, and if all keys nearly agree in some direction, rounding could use up this safety; there the key
      must be proved to lie in the interior of a simplex of other keys. A key exactly on the boundary of the hull is
      unselectable, too, because a tie is not the highest score. This is proved if the key is an exact duplicate or, in
      up to 16 dimensions and in rational arithmetic, a weighted mean of other keys;
    * borderline: neither was shown. A change in the last digits of the entries could change the verdict.

    In causal certificates only the keys before key i count as other keys, also in the mean; s is taken over all keys.
    Key 0 has an infinite margin. Later queries of a text see more keys, so no query of the text puts an unselectable
    key first. The query at the key's own position can put a selectable key first.

    No search is possible along a direction in which all keys agree to within rounding (a standard deviation below 1e-12
    s for float64, 3e-7 s for float32), such as the one that LayerNorm's projection removes. A key that is in the hull
    by the other directions is then borderline, unless the keys agree exactly in this direction or rational arithmetic
    proves the key unselectable. With the option `flat` of `certify` such a key is unselectable.
    """

    code: Int8[np.ndarray, "*stack n"]  # index into VERDICTS
    margin: Float[np.ndarray, "*stack n"]
    residual: Float[np.ndarray, "*stack n"]
    duplicate: Bool[np.ndarray, "*stack n"]  # another key (with the same bias) is exactly equal
    # zero where there is none; of float32 keys they are float32, unless that would lose a verdict
    queries: Float[np.ndarray, "*stack n d"]
    support: Int[np.ndarray, "*stack n m"]  # the other keys that are averaged; unused entries have weight 0
    weights: Float[np.ndarray, "*stack n m"]
    tolerance: float
    causal: bool = False  # whether only the keys before a key are its rivals

    @property
    def verdict(self) -> np.ndarray:
        """An array of verdicts: for each key 'selectable', 'unselectable' or, if neither is proved, 'borderline'."""
        return VERDICTS[self.code]

    @property
    def duplicates(self) -> int:
        """The number of keys that equal another key exactly, so that no query gives them the strictly highest score.

        In causal certificates the other key must stand before the key. If keys have biases, these must be equal, too.
        """
        return int(self.duplicate.sum())

    def __repr__(self) -> str:
        *stack, n = self.code.shape
        matrices = f"{int(np.prod(stack)):,} matrices of " if stack else ""
        numbers = ", ".join(f"{number:,} {verdict}" for verdict, number in self.counts().items())
        among = ", each among the keys before it" if self.causal else ""
        return f"Certificates({matrices}{n:,} keys of size {self.queries.shape[-1]}{among}: {numbers})"

    def counts(self) -> dict[str, int]:
        """The number of keys with each verdict, in all matrices together, as a dict by verdict."""
        return {str(verdict): int((self.verdict == verdict).sum()) for verdict in VERDICTS[[1, 2, 0]]}

    def columns(self, rows: slice = slice(None)) -> dict[str, Any]:
        """The verdicts and proofs of one matrix as a dict of columns, each a sequence with an entry for each key.

        Columns: key (its row), verdict, margin, residual, duplicate, query, support (indices of averaged keys) and
        weights. Only the keys in `rows` are included. Raises ValueError for certificates of a stack of matrices.
        """
        if self.code.ndim != 1:
            raise ValueError(f"certificates of a stack {self.code.shape[:-1]}: expected those of one matrix")
        keys = range(len(self.code))[rows]
        combinations = [self.combination(i) for i in keys]
        return {
            "key": np.array(keys),
            "verdict": self.verdict[rows],
            "margin": self.margin[rows],
            "residual": self.residual[rows],
            "duplicate": self.duplicate[rows],
            "query": [self.query(i) for i in keys],
            "support": [None if pair is None else pair[0] for pair in combinations],
            "weights": [None if pair is None else pair[1] for pair in combinations],
        }

    def to_frame(self) -> pd.DataFrame:
        """The verdicts and proofs of one matrix as a pandas table with a row for each key.

        Columns: key, verdict, margin, residual, duplicate, query, support (indices of averaged keys) and weights.
        """
        import pandas as pd  # here, because its start takes longer than most certificates

        return pd.DataFrame(self.columns())

    def count(self, verdict: str) -> np.int64 | Int[np.ndarray, "*stack"]:
        """The number of keys with `verdict`, such as "selectable".

        For certificates of a stack of matrices, it is an array with a number for each matrix.
        """
        return (self.verdict == verdict).sum(axis=-1)

    def query(self, i: int) -> Float[np.ndarray, " d"] | None:
        """A query (float64) that gives key i of one matrix the strictly highest score; None unless i is selectable."""
        return double(self.queries[i]) if self.code[i] == SELECTABLE else None

    def combination(self, i: int) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"]] | None:
        """The indices of other keys, and the convex weights with which their mean is key i.

        Returns None unless key i is unselectable. The certificates must be of one matrix, not of a stack.
        """
        if self.code[i] != UNSELECTABLE:
            return None
        used = self.weights[i] > 0
        return self.support[i][used], self.weights[i][used]

    def verify(self, keys, bias=None) -> tuple[np.ndarray, np.ndarray]:
        """Check every proof against `keys` and `bias`; return margins and residuals, computed anew in float64.

        Raises ValueError if a proof does not show its verdict for these keys; the message names the first such row.
        """
        keys = np.asarray(keys)
        keys = keys if keys.dtype in TOLERANCE else keys.astype(np.float64)
        if keys.shape[:-1] != self.code.shape or keys.shape[-1] != self.queries.shape[-1]:
            raise ValueError(f"keys have {_rows(keys)}: these certificates are for {_rows(self.queries)}")
        bias = None if bias is None else np.asarray(bias, dtype=np.float64).reshape(self.code.shape)
        with one_thread_a_product():
            margin, residual = evaluate(keys, bias, self.queries, self.support, self.weights, self.causal)
        convex = self.weights.any(axis=-1)
        *_, own = given = np.nonzero(convex)
        support, weights, own = self.support[given], self.weights[given], own[:, None]
        no_rival = (support >= own if self.causal else support == own) | (support < 0)
        no_rival |= support >= keys.shape[-2]  # there is no such key
        improper = (weights < 0) | ((weights > 0) & no_rival)
        convex[given] = ~improper.any(axis=-1) & (abs(weights.sum(axis=-1) - 1) < 1e-12)
        selectable, unselectable = self.code == SELECTABLE, self.code == UNSELECTABLE
        wrong = selectable & ~(margin > self.tolerance) | unselectable & ~(
            convex & (residual <= self.tolerance)
        )
        if wrong.any():
            where = tuple(int(k) for k in np.argwhere(wrong)[0])
            of = f"row {where[-1]}" + (f" of matrix {', '.join(map(str, where[:-1]))}" if where[1:] else "")
            more = f"; {int(wrong.sum()) - 1:,} more rows do not" if wrong.sum() > 1 else ""
            raise ValueError(
                f"the certificate of {of} does not hold: {self.verdict[where]}, margin {margin[where]:.3g}, "
                f"residual {residual[where]:.3g}, tolerance {self.tolerance:g}{more}"
            )
        return margin, residual


def _rows(array: np.ndarray) -> str:
    *stack, n, d = array.shape
    return f"{n:,} rows of size {d}" + (f" in each of {int(np.prod(stack)):,} matrices" if stack else "")


def evaluate(keys, bias, queries, support, weights, causal) -> tuple[np.ndarray, np.ndarray]:
    """Compute the margin of each key's query and the residual of each key's convex weights, as two arrays.

    `Certificates` defines both, and has fields like `queries`, `support` and `weights`. A margin is NaN without a
    query, inf without a rival. A residual is NaN without weights. Invalid indices in `support` are clipped.
    """
    *stack, n, d = keys.shape
    keys, queries = keys.reshape(-1, n, d), queries.reshape(-1, n, d)
    bias = None if bias is None else bias.reshape(-1, n)
    s = double(largest_magnitude(keys, axis=1))
    s_b = np.zeros(len(keys)) if bias is None else largest_magnitude(bias, axis=1)
    if n == 1:
        margin = np.full((len(keys), 1), np.inf)  # nobody to beat
    else:
        blocks = row_blocks(n, keys[:, 0].size)
        size = np.concatenate([abs(double(queries[:, rows])) @ s[:, :, None] for rows in blocks], axis=1)
        size = size[:, :, 0] + s_b[:, None]
        lead, _ = leads(keys, np.arange(n), queries, queries.any(axis=2), causal, bias)
        precise = (size > _SMALLEST_SIZE) & (size < _LARGEST_SIZE)
        margin = np.divide(lead, size, out=np.full_like(lead, np.nan), where=precise)
        if causal:
            margin[:, 0] = np.inf

    residual = np.full(len(keys) * n, np.nan)
    weights = weights.reshape(-1, weights.shape[-1])
    rows, terms = weights.nonzero()
    if len(rows):
        given, first = np.unique(rows, return_index=True)
        matrix = given // n
        mixing = csr_array(
            (
                weights[rows, terms],
                support.reshape(weights.shape)[rows, terms].clip(0, n - 1) + rows // n * n,
                np.append(first, len(rows)),
            ),
            (len(given), len(residual)),
        )
        flat, s = keys.reshape(-1, d), np.where(s > 0, s, 1)
        residual[given] = 0
        for columns in row_blocks(d, len(flat)):
            some = double(flat[:, columns])
            distance = (abs(some[given] - mixing @ some) / s[matrix, columns]).max(axis=1)
            residual[given] = np.maximum(residual[given], distance)
        if bias is not None:
            short = np.maximum(bias.ravel()[given] - mixing @ bias.ravel(), 0)
            residual[given] = np.maximum(residual[given], short / np.where(s_b > 0, s_b, 1)[matrix])
    return margin.reshape(*stack, n), residual.reshape(*stack, n)
