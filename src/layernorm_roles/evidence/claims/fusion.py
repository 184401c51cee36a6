"""What a question and its answer say about W_O: when can one matrix do the work of W_O and W_1?

Errors are per cent of the held-out variance that the best single map of the heads misses.
"""

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import fusion_errors
from layernorm_roles.evidence.claims.claim import (
    Asked,
    Comparison,
    Outcome,
    Tables,
    compare,
    more_than,
    no_more_than,
    over_seeds,
    true,
)


def missed(
    fusion: pd.DataFrame, arrangement: str, asked: Asked | None = None, role="effect", part=-1, d: int | None = None
) -> Comparison:
    """Error with random weights of stream width `d`, by default the widest; Untestable with fewer than two seeds."""
    errors = fusion_errors(fusion, arrangement, d)
    n = fusion[fusion.source == "random"].seed.nunique()
    words = f"{arrangement.replace('_', ' and ')}{f', d = {d}' if d else ''}"
    return compare(words, over_seeds(errors, f"the arrangement {arrangement}"), n, asked, role, " %", part=part)


def exact(fusion: pd.DataFrame, rounding: float) -> Comparison:
    """The control: with nothing between the two matrices a single map misses no more than rounding does."""
    high = missed(fusion, "plain").estimate.high
    return missed(fusion, "plain", true(high <= 100 * rounding, f"at most {100 * rounding:g}"), "control")


def in_trained_models(fusion: pd.DataFrame, *arrangements: str) -> list[Comparison]:
    """What the best single map of the heads misses in the trained language models, where there are two seeds."""
    found = {name: fusion_errors(fusion, name, trained=True) for name in arrangements}
    return [
        compare(f"{name}, trained language models", Estimate.of(errors), len(errors), role="context", unit=" %")
        for name, errors in found.items()
        if len(errors) > 1
    ]


def needs_residual(tables: Tables, more_than_per_cent: float, rounding: float) -> Outcome:
    """Whether the residual connection is what makes W_O necessary."""
    fusion = tables["fusion"]
    own = missed(fusion, "residual", more_than(more_than_per_cent))
    return Outcome((own, exact(fusion, rounding), *in_trained_models(fusion, "residual")))


def redundant_without_norm(tables: Tables, zero: float, rounding: float) -> Outcome:
    """Whether the LayerNorm keeps W_O from being redundant, at every width, and nothing else does."""
    fusion = tables["fusion"]
    random = fusion[(fusion.source == "random") & (fusion.d == fusion.d_heads)]
    widths = sorted(random.d.unique().tolist())
    return Outcome(
        (
            missed(fusion, "residual", no_more_than(zero)),
            *(missed(fusion, "norm", more_than(zero), part=1, d=d) for d in widths),
            exact(fusion, rounding),
            missed(fusion, "residual_norm", role="context"),
            *in_trained_models(fusion, "residual", "norm"),
        )
    )


TESTS = {"needs_residual": needs_residual, "redundant_without_norm": redundant_without_norm}
