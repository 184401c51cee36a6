"""What lecture notes say about LayerNorm, BatchNorm and the batch."""

from dataclasses import replace

import numpy as np

from layernorm_roles.evidence.analysis.estimate import Estimate, power_law
from layernorm_roles.evidence.claims.claim import Outcome, Tables, Untestable, compare, no_more_than, true
from layernorm_roles.evidence.claims.rules import direction


def independent(tables: Tables) -> Outcome:
    """Whether LayerNorm's output never changes with the batch, and BatchNorm's changes less in larger batches."""
    table = tables["batch_dependence"]
    layernorm = table[table.norm == "layernorm"]
    others = table[(table.norm == "batchnorm") & (table.effect == "others")]
    if layernorm.empty or others.batch_size.nunique() < 2:
        raise Untestable("The run lacks a norm, or has a single batch size.")
    n = others.seed.nunique()
    if n < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    exponent = power_law("batch_size", "change", others)
    largest = Estimate(layernorm.change.max(), np.nan, np.nan)
    falls = replace(no_more_than(0.0), words="less than {}", find=lambda found: direction(found.below(0.0)))
    size = {"unit": " of its size", "statistic": "change of the output"}
    rows = [
        compare("batchnorm", exponent, n, falls, part=1),
        compare("layernorm, largest", largest, n, true(largest.mean == 0, "exactly 0"), **size),
    ]
    means = others.groupby("batch_size").change.mean()
    rows += [
        compare(f"batchnorm, {b} sequences", Estimate(means[b], np.nan, np.nan), n, role="context", **size)
        for b in (means.index[0], means.index[-1])
    ]
    padded = table[(table.norm == "batchnorm") & (table.effect == "padding")]
    padded = padded[padded.padding == padded.padding.max()]
    if len(padded):
        words = f"batchnorm, {padded.padding.max():.0%} of padding"
        change = Estimate(padded.change.mean(), np.nan, np.nan)
        rows.append(compare(words, change, n, role="context", **size))
    return Outcome(tuple(rows))


TESTS = {"independent": independent}
