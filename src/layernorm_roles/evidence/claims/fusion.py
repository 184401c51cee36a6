"""What a question and its answer say about W_O: when can one matrix do the work of W_O and W_1?

Errors are per cent of the held-out variance that the best single map of the heads misses.
"""

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import fusion_errors
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    OPPOSITE,
    Finding,
    Outcome,
    Tables,
    above,
    all_of,
    over_seeds,
    statement,
    true,
)


def missed(fusion: pd.DataFrame, arrangement: str, d: int | None = None) -> Estimate:
    """Error with random weights of stream width `d`, by default the widest; Untestable with fewer than two seeds."""
    return over_seeds(fusion_errors(fusion, arrangement, d), f"the arrangement {arrangement}")


def in_trained_models(fusion: pd.DataFrame, arrangement: str) -> str:
    """The end of a sentence on what the best single map of the heads misses in the trained language models.

    It starts with a semicolon and gives per cent of the variance, for one of the `arrangement`s of table fusion. It is
    empty with fewer than two seeds.
    """
    errors = fusion_errors(fusion, arrangement, trained=True)
    return f"; {Estimate.of(errors):.1f} % in the trained language models" if len(errors) > 1 else ""


def exact(error: Estimate) -> Finding:
    """Whether a single map misses no more than rounding does."""
    return true(error.high <= 100 * rules.ROUNDING)


def seeds(fusion: pd.DataFrame) -> int:
    """How many draws of random weights the run has."""
    return fusion[fusion.source == "random"].seed.nunique()


def needs_residual(tables: Tables) -> Outcome:
    """Whether the residual connection is what makes W_O necessary."""
    fusion = tables["fusion"]
    residual, plain = missed(fusion, "residual"), missed(fusion, "plain")
    both = fusion[
        (fusion.d == fusion.d_heads)
        & (fusion.arrangement == "residual")
        & (fusion.inputs == "stream_and_heads")
    ]
    reason = (
        f"With a residual and no LayerNorm the best single map of the heads misses {residual:.1f} % of the "
        f"variance{in_trained_models(fusion, 'residual')}; with nothing between the two matrices it misses "
        f"{plain.mean:.0e} %."
    )
    if len(both):
        ratio = (both.parameters_single / both.parameters_pair).median()
        reason += (
            f" A single map of stream and heads misses {100 * both.error.max():.0e} %, but has {ratio:.2g} times "
            "the pair's entries, and the next layer still needs the sum."
        )
    square = fusion[
        (fusion.d == fusion.d_heads) & (fusion.arrangement == "plain") & (fusion.inputs == "heads")
    ]
    for sizes in square.sort_values("d").tail(1).itertuples():
        saved = 1 - sizes.parameters_single / sizes.parameters_pair
        massive = "would" if saved > rules.MASSIVE else "would not"
        reason += (
            f" Without a residual a single map would have {saved:.0%} fewer entries than the pair (d = {sizes.d}, "
            f"feed-forward part {sizes.d_ff / sizes.d:g} times as wide): it {massive} save the question's “massive "
            "amount of compute”."
        )
    parts = [above(residual, rules.ZERO)]
    return statement(parts, residual, seeds(fusion), reason, plain, cause=exact(plain))


def redundant_without_norm(tables: Tables) -> Outcome:
    """Whether the LayerNorm keeps W_O from being redundant, at every width, and nothing else does."""
    fusion = tables["fusion"]
    dropped, plain = missed(fusion, "residual"), missed(fusion, "plain")
    both = missed(fusion, "residual_norm")
    random = fusion[(fusion.source == "random") & (fusion.d == fusion.d_heads)]
    by_width = {d: missed(fusion, "norm", d) for d in sorted(random.d.unique().tolist())}
    listed = " and ".join(f"{error:.2f} % at d = {d}" for d, error in by_width.items())
    reason = (
        f"With the LayerNorm dropped and the residual kept, a single map of the heads misses {dropped:.1f} "
        f"% of the variance{in_trained_models(fusion, 'residual')}; with both kept, {both:.1f} %. A LayerNorm "
        f"without a residual makes it miss {listed} (random weights){in_trained_models(fusion, 'norm')}: vectors of "
        "many random entries have nearly equal norms, and dividing by a constant is linear. With nothing between the "
        f"two matrices it misses {plain.mean:.0e} %: the residual is the reason."
    )
    alone = all_of(*(above(error, rules.ZERO) for error in by_width.values()))
    parts = [OPPOSITE[above(dropped, rules.ZERO)], alone]
    return statement(parts, dropped, seeds(fusion), reason, plain, cause=exact(plain))


TESTS = {"fusion_residual": needs_residual, "fusion_norm": redundant_without_norm}
