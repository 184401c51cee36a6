"""The paper's claims about scaling that need no training: unselectable keys among random ones.

A key is unselectable if a certificate shows that no query gives it the highest score, and undecided if the data's
precision cannot tell. The unit of the intervals is the matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.random_keys import share_of_matrices, z_scores
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import Tables, Untestable
from layernorm_roles.evidence.claims.pairs import Measured, Quantity


@dataclass
class Matrices(Measured):
    """Per cent of the matrices of some cells that have an unselectable key."""

    cells: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Rows of random_keys by the name of what is compared."""

    def names(self, name: str) -> list[str]:
        """A list of `name` alone, if there are cells of that name; otherwise raises Untestable."""
        if self.cells[name].empty:
            raise Untestable(f"The run has no random keys with the norm {name}.")
        return [name]

    def estimate(self, *names: str) -> tuple[Estimate, int]:
        """The share with Clopper and Pearson's interval, and the number of matrices."""
        cells = self.cells[self.names(names[0])[0]]
        return share_of_matrices(cells), int(cells.matrices.sum())

    def with_all_open(self, name: str) -> Estimate:
        """The share of matrices with an unselectable key, with every undecided key counted as unselectable."""
        return share_of_matrices(self.cells[name], undecided=True)


MOST, HIGH, PRACTICE = "most keys in fewest dimensions", "from HIGH_DIMENSION on", "layernorm in practice"


def matrices(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Per cent of random matrices with an unselectable key.

    Of all cells of a norm; of norm none in the cell with most keys in fewest dimensions, and from HIGH_DIMENSION on. In
    practice LayerNorm has an eps and is in float32, here in the fewest dimensions. Untestable if the simulation
    contradicts the exact expectation.
    """
    table = tables["random_keys"]
    cells = {norm: table[table.norm == norm] for norm in ("none", "layernorm", "projection", "scale")}
    bare = cells["none"]
    if bare.empty:
        raise Untestable("The run has no random keys with the norm none.")
    z = z_scores(bare).query("comparable").z.dropna()
    if HIGH in columns:
        if bare.d.max() < rules.HIGH_DIMENSION:
            end = f"The run's dimensions end at {bare.d.max()}"
            raise Untestable(f"{end}; the paper finds none from {rules.HIGH_DIMENSION} on.")
        if len(z) and abs(z.mean()) * np.sqrt(len(z)) > rules.CONTRADICTION:
            cells_of = f"mean z {z.mean():.2f}, {len(z)} cells"
            raise Untestable(f"The simulation contradicts the exact expectation ({cells_of}).", runs=len(z))
    cells[MOST] = bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())]
    cells[HIGH] = bare[bare.d >= rules.HIGH_DIMENSION]
    practice = tables.get("random_keys_precision", table.iloc[:0].assign(eps=0.0, dtype="")).query("eps > 0")
    cells[PRACTICE] = practice[(practice.d == practice.d.min()) & (practice.dtype == "float32")]
    return Matrices(pd.DataFrame(), cells=cells)


QUANTITIES = {
    "matrices": Quantity(
        matrices,
        " %",
        "matrices with an unselectable key",
        columns=(MOST, HIGH, PRACTICE, "none", "layernorm", "projection", "scale"),
        thresholds=("HIGH_DIMENSION", "CONTRADICTION"),
    )
}
TESTS: dict = {}
