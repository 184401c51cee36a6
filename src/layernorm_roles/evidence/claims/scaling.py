"""The paper's claims about scaling that need no training: unselectable keys among random ones.

A key is unselectable if a certificate shows that no query gives it the highest score, and undecided if the data's
precision cannot tell.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.random_keys import share_of_matrices, z_scores
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOTHING,
    Finding,
    Outcome,
    Tables,
    Untestable,
    above,
    all_of,
    at_most,
    paper_claim,
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


def none(cells: pd.DataFrame) -> Finding:
    """Whether no more than ZERO per cent of the matrices have an unselectable key.

    Seen only if that is so with every undecided key counted as unselectable.
    """
    return at_most(share_of_matrices(cells), share_of_matrices(cells, undecided=True))


def in_words(cells: pd.DataFrame) -> str:
    """Per cent of matrices with a key certified unselectable, and the share of all keys that is undecided."""
    share = share_of_matrices(cells)
    words = f"{share:.3g} % of {cells.matrices.sum():,} matrices have an unselectable key"
    if not share.mean:
        words = f"none of {cells.matrices.sum():,} matrices has a key certified unselectable"
    undecided = 100 * cells.n_borderline.sum() / (cells.matrices * cells.n).sum()
    return words + (f", {undecided:.2g} % of the keys are undecided" if undecided else "")


def unselectable_without(tables: Tables) -> Outcome:
    """Figure 1c: Gaussian keys without norm, many in few dimensions and any from HIGH_DIMENSION on."""
    bare = of_norm(tables[RANDOM], "none")
    high = bare[bare.d >= rules.HIGH_DIMENSION]
    if high.empty:
        raise Untestable(
            f"The run's dimensions end at {bare.d.max()}; the paper finds none from {rules.HIGH_DIMENSION} "
            "on."
        )
    most = bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())]
    many = share_of_matrices(most)
    z = z_scores(bare).query("comparable").z.dropna()
    if len(z) and abs(z.mean()) * np.sqrt(len(z)) > rules.CONTRADICTION:
        raise Untestable(
            f"The simulation contradicts the exact expectation (mean z {z.mean():.2f}, {len(z)} cells)."
        )
    own = all_of(above(many, rules.ALL), none(high))
    reason = (
        f"With {most.n.iloc[0]} keys in d = {most.d.iloc[0]}, {in_words(most)}; from d = {rules.HIGH_DIMENSION} on "
        f"{in_words(high)}. The unit of the interval is the matrix."
    )
    if len(z):
        reason += (
            f" Against the exact expectation the {len(z)} comparable cells have z-scores of mean "
            f"{z.mean():.2f} and standard deviation {z.std():.2f}."
        )
    return paper_claim(own, Finding.SEEN, many, int(most.matrices.sum()), reason, reported=ALWAYS)


def unselectable_with(tables: Tables) -> Outcome:
    """Figure 1d: Gaussian keys after LayerNorm, in all cells, beside projection and scaling alone."""
    norms = tables[RANDOM]
    layernorm, bare = of_norm(norms, "layernorm"), of_norm(norms, "none")
    share, before = share_of_matrices(layernorm), share_of_matrices(bare)
    own, isolated = none(layernorm), above(before, rules.ZERO)
    reason = (
        f"After LayerNorm (float64, without eps) {in_words(layernorm)}; before it {before:.1f} % of the same "
        "matrices have one."
    )
    control = NOTHING
    for norm, name in (("projection", "projection alone"), ("scale", "scaling alone")):
        cells = norms[norms.norm == norm]
        if len(cells):
            other = share_of_matrices(cells)
            reason += f" With {name}: {in_words(cells)}."
            found = above(other, rules.ZERO) if norm == "projection" else none(cells)
            isolated = all_of(isolated, found)
            control = other if norm == "projection" else control
    reason += _in_practice(tables)
    return paper_claim(own, isolated, share, int(layernorm.matrices.sum()), reason, control)


def _in_practice(tables: Tables) -> str:
    """A sentence about LayerNorm with an eps in float32; empty if the run has none."""
    if PRECISION not in tables:
        return ""
    practice = tables[PRECISION].query("eps > 0")
    worst = practice[practice.d == practice.d.min()].query("dtype == 'float32'")
    if worst.empty:
        return ""
    return (
        f" As it is used, with eps = {worst.eps.max():g} in float32, {share_of_matrices(worst).mean:.1f} % of the "
        f"matrices at d = {worst.d.min()} have one: the eps leaves short vectors inside the sphere."
    )


TESTS: dict[str, Callable[[Tables], Outcome]] = {
    "random_keys": unselectable_without,
    "random_keys_layernorm": unselectable_with,
}
