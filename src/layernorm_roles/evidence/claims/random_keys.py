"""The paper's claims about scaling that need no training: unselectable keys among random ones.

A key is unselectable if a certificate shows that no query gives it the highest score, and undecided if the data's
precision cannot tell. Intervals are over matrices of keys.
"""

from functools import partial

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.random_keys import share_of_matrices, z_scores
from layernorm_roles.evidence.claims import sizes, testing
from layernorm_roles.evidence.claims.rules import ALL, CONTRADICTION, HIGH_DIMENSION, ZERO
from layernorm_roles.evidence.claims.testing import Number, Test, require
from layernorm_roles.evidence.legends import label

claim = partial(
    testing.claim, kind="paper", part="scaling", target="random_keys", sizes=sizes.random_keys, unit=" %"
)


def share(test: Test, cells: pd.DataFrame, words: str) -> Number:
    """Return the percentage of matrices with an unselectable key, with Clopper and Pearson's interval."""
    statistic = "matrices with an unselectable key"
    found, worst = (share_of_matrices(cells, undecided=each, level=test.level) for each in (False, True))
    return Number(found, int(cells.matrices.sum()), words, " %", statistic, worst)


@claim(source="Brody, Alon and Yahav 2023, Figure 1c", figures=["figure_1c"])
def random_keys(test):
    """Among Gaussian keys some are unselectable: always for many keys in few dimensions, next to never from d = 13
    on.

    Reported: 1 for small d, 0 for d ≥ 13
    Setting: Unselectable keys are found by certificates, not by the heuristic of the released code.
    Statistic: matrices with an unselectable key, most keys in fewest dimensions, per cent
    Control: the exact expectation for Gaussian keys; a certificate for every key
    Rule: Above {ALL:g} % in that cell and at most {ZERO:g} % over all cells from d = {HIGH_DIMENSION} on, by exact
        intervals and with undecided keys counted as unselectable, and no contradiction with the exact expectation.
    """
    table = test.table("random_keys")
    bare = table[table.norm == "none"]
    require(len(bare), "The run has no random keys with the norm none.")
    words = f"The run's dimensions end at {bare.d.max()}; the paper finds none from {HIGH_DIMENSION} on."
    require(bare.d.max() >= HIGH_DIMENSION, words)
    z = z_scores(bare).query("comparable").z.dropna()
    contradicts = abs(z.mean()) * np.sqrt(len(z)) > CONTRADICTION
    words = f"The simulation contradicts the exact expectation (mean z {z.mean():.2f}, {len(z)} cells)."
    require(not contradicts, words, runs=len(z))
    test.reported = 100
    most = bare[(bare.n == bare.n.max()) & (bare.d == bare.d.min())]
    test.effect(share(test, most, "most keys in fewest dimensions"), above=ALL)
    high = bare[bare.d >= HIGH_DIMENSION]
    test.effect(share(test, high, f"from {HIGH_DIMENSION} dimensions on"), counted_at_most=ZERO)


@claim(source="Brody, Alon and Yahav 2023, Figure 1d", figures=["figure_1c"])
def random_keys_layernorm(test):
    """After LayerNorm no Gaussian key is unselectable.

    Reported: 0 everywhere
    Setting: LayerNorm in float64 and without eps.
    Statistic: matrices with an unselectable key after LayerNorm, all cells, per cent
    Control: projection alone; the same matrices without norm, and with scaling alone
    Rule: At most {ZERO:g} % with LayerNorm and with scaling alone (intervals, undecided keys counted as
        unselectable), more without norm and with projection alone.
    """
    table = test.table("random_keys")
    cells = {norm: rows for norm, rows in table.groupby("norm")}
    require("none" in cells, "The run has no random keys with the norm none.")
    require("layernorm" in cells, "The run has no layernorm.")
    of = {norm: share(test, rows, label(norm)) for norm, rows in cells.items()}
    test.effect(of["layernorm"], counted_at_most=ZERO)
    if "projection" in of:
        test.control(of["projection"], above=ZERO)
    test.effect(of["none"], part=testing.CAUSE, above=ZERO)
    if "scale" in of:
        test.control(of["scale"], counted_at_most=ZERO)
    practice = test.tables.get("random_keys_precision", table.iloc[:0].assign(eps=0.0, dtype="")).query(
        "eps > 0"
    )
    practice = practice[(practice.d == practice.d.min()) & (practice.dtype == "float32")]
    if len(practice):
        test.show(share(test, practice, "LayerNorm with its eps, in float32, in fewest dimensions"))
