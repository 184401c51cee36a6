"""The paper's claims about scaling that need no training: unselectable keys among random ones.

A key is unselectable if a certificate shows that no query gives it the highest score, and undecided if the data's
precision cannot tell. Intervals are over matrices of keys.
"""

from collections.abc import Sequence

import numpy as np

from layernorm_roles.evidence.analysis.random_keys import share_of_matrices, z_scores
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.comparison import Tables, Value, require
from layernorm_roles.evidence.claims.quantities import Measured, Quantity

MOST, HIGH, PRACTICE = "most keys in fewest dimensions", "from HIGH_DIMENSION on", "layernorm in practice"
NORMS = ("none", "layernorm", "projection", "scale")


def matrices(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return the percentage of random matrices with an unselectable key, with Clopper and Pearson's 95 % interval.

    There is a column for each norm, over all sizes of matrices. Two more have keys without a norm: the most keys in the
    fewest dimensions, and 13 (HIGH_DIMENSION) dimensions or more. The last has LayerNorm with an eps, in float32, in
    the fewest dimensions. Raises Untestable without keys of the norm none, or if `columns` asks for 13 dimensions and
    there are fewer or the simulation contradicts the exact expectation.
    """
    table = tables["random_keys"]
    cells = {norm: table[table.norm == norm] for norm in NORMS}
    bare = cells["none"]
    require(len(bare), "The run has no random keys with the norm none.")
    if HIGH in columns:
        words = f"The run's dimensions end at {bare.d.max()}; the paper finds none from {rules.HIGH_DIMENSION} on."
        require(bare.d.max() >= rules.HIGH_DIMENSION, words)
        z = z_scores(bare).query("comparable").z.dropna()
        contradicts = abs(z.mean()) * np.sqrt(len(z)) > rules.CONTRADICTION
        words = f"The simulation contradicts the exact expectation (mean z {z.mean():.2f}, {len(z)} cells)."
        require(not contradicts, words, runs=len(z))
    practice = tables.get("random_keys_precision", table.iloc[:0].assign(eps=0.0, dtype="")).query("eps > 0")
    cells |= {
        MOST: bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())],
        HIGH: bare[bare.d >= rules.HIGH_DIMENSION],
        PRACTICE: practice[(practice.d == practice.d.min()) & (practice.dtype == "float32")],
    }
    known = {
        name: Value(share_of_matrices(of), int(of.matrices.sum()), share_of_matrices(of, undecided=True))
        for name, of in cells.items()
        if len(of)
    }
    return Measured(known=known)


_WORDS, _COLUMNS = "matrices with an unselectable key", (MOST, HIGH, PRACTICE, *NORMS)
QUANTITIES = {"matrices": Quantity(matrices, " %", _WORDS, _COLUMNS, ("HIGH_DIMENSION", "CONTRADICTION"))}
"""Quantities of random keys that claims can compare, by the names that YAML entries use."""
