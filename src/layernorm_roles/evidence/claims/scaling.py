"""The paper's claims about scaling that need no training: unselectable keys among random ones.

A key is unselectable if a certificate shows that no query gives it the highest score, and undecided if the data's
precision cannot tell. The unit of the intervals is the matrix.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.random_keys import share_of_matrices, z_scores
from layernorm_roles.evidence.claims.claim import (
    Asked,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    counted,
    more_than,
)

RANDOM, PRECISION = "random_keys", "random_keys_precision"

ALWAYS = 100.0
"""Per cent of the matrices that the paper's Figure 1c has for many keys in few dimensions."""


def of_norm(table: pd.DataFrame, norm: str) -> pd.DataFrame:
    """The cells of one norm; Untestable if there are none."""
    part = table[table.norm == norm]
    if part.empty:
        raise Untestable(f"The run has no random keys with the norm {norm}.")
    return part


def none(cells: pd.DataFrame, zero: float) -> Asked:
    """No more than `zero` per cent of the matrices, with every undecided key counted as unselectable."""
    return counted(share_of_matrices(cells, undecided=True), zero)


def of_cells(name: str, cells: pd.DataFrame, asked: Asked | None = None, role: str = "effect") -> Comparison:
    """Per cent of the matrices of all cells with a key certified unselectable, as a comparison."""
    return compare(name, share_of_matrices(cells), int(cells.matrices.sum()), asked, role, " %")


def unselectable_without(
    tables: Tables, always: float, zero: float, high_dimension: int, contradiction: float
) -> Outcome:
    """Figure 1c: Gaussian keys without norm, many in few dimensions and any from `high_dimension` on."""
    bare = of_norm(tables[RANDOM], "none")
    high = bare[bare.d >= high_dimension]
    if high.empty:
        raise Untestable(
            f"The run's dimensions end at {bare.d.max()}; the paper finds none from {high_dimension} on."
        )
    most = bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())]
    z = z_scores(bare).query("comparable").z.dropna()
    if len(z) and abs(z.mean()) * np.sqrt(len(z)) > contradiction:
        raise Untestable(
            f"The simulation contradicts the exact expectation (mean z {z.mean():.2f}, {len(z)} cells)."
        )
    words = f"{most.n.iloc[0]} keys in d = {most.d.iloc[0]}"
    rows = [
        of_cells(words, most, more_than(always)),
        of_cells(f"all keys from d = {high_dimension} on", high, none(high, zero)),
    ]
    if len(z):
        scores = Estimate(z.mean(), np.nan, np.nan)
        statistic = "z-score against the exact expectation, mean over comparable cells"
        rows.append(compare("simulation", scores, len(z), role="context", statistic=statistic))
    return Outcome(tuple(rows), reported=ALWAYS)


def unselectable_with(tables: Tables, zero: float) -> Outcome:
    """Figure 1d: Gaussian keys after LayerNorm, in all cells, beside projection and scaling alone."""
    norms = tables[RANDOM]
    layernorm, _ = of_norm(norms, "layernorm"), of_norm(norms, "none")
    rows = [of_cells("layernorm", layernorm, none(layernorm, zero))]
    for norm in ("projection", "none", "scale"):
        cells = norms[norms.norm == norm]
        if len(cells):
            asked = none(cells, zero) if norm == "scale" else more_than(zero)
            rows.append(of_cells(norm, cells, asked, "control"))
    return Outcome(tuple(rows + _in_practice(tables)))


def _in_practice(tables: Tables) -> list[Comparison]:
    """LayerNorm with an eps in float32, in the fewest dimensions; none if the run has none."""
    if PRECISION not in tables:
        return []
    practice = tables[PRECISION].query("eps > 0")
    worst = practice[practice.d == practice.d.min()].query("dtype == 'float32'")
    words = f"layernorm with eps = {worst.eps.max():g} in float32, d = {worst.d.min()}"
    return [of_cells(words, worst, role="context")] if len(worst) else []


TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function for function in (unselectable_without, unselectable_with)
}
"""The functions that entries of scaling.yaml name under `test`."""
