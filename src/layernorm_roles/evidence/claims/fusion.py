"""What a question and its answer say about W_O: when can one matrix do the work of W_O and W_1?

Errors are per cent of the held-out variance that the best single map of the heads misses.
"""

import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate
from layernorm_roles.evidence.analysis.statements import fusion_errors
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOTHING,
    OPPOSITE,
    Finding,
    Outcome,
    Tables,
    above,
    over_seeds,
    statement,
    true,
)


def missed(fusion: pd.DataFrame, arrangement: str, d: int | None = None) -> Estimate:
    """Error with random weights of stream width `d`, by default the widest; Untestable with fewer than two seeds."""
    return over_seeds(fusion_errors(fusion, arrangement, d), f"the arrangement {arrangement}")


def in_trained_models(fusion: pd.DataFrame, arrangement: str) -> str:
    """The error in the trained language models, to follow a semicolon; empty with fewer than two seeds."""
    errors = fusion_errors(fusion, arrangement, trained=True)
    return f"; {Estimate.of(errors):.1f} % in the trained language models" if len(errors) > 1 else ""


def exact(error: Estimate) -> Finding:
    """Whether a single map misses no more than rounding does."""
    return true(error.high <= 100 * rules.ROUNDING)


def seeds(fusion: pd.DataFrame) -> int:
    """How many draws of random weights the run has."""
    return fusion[fusion.source == "random"].seed.nunique()


def one_matrix(tables: Tables) -> Outcome:
    """Whether a single map is exact with nothing between W_O and W_1."""
    fusion = tables["fusion"]
    plain, residual = missed(fusion, "plain"), missed(fusion, "residual")
    everywhere = fusion[(fusion.arrangement == "plain") & (fusion.inputs == "heads")]
    sizes = everywhere[everywhere.d == everywhere.d_heads].sort_values("d").iloc[-1]
    largest = 100 * everywhere.error.max()
    reason = (
        f"The best single map of the heads misses at most {largest:.0e} % of the variance, which is rounding. It "
        f"has {1 - sizes.parameters_single / sizes.parameters_pair:.0%} fewer entries than the pair (heads together "
        f"as wide as the stream, feed-forward part {sizes.d_ff / sizes.d:g} times as wide). With a residual it "
        f"misses {residual:.1f} %."
    )
    parts = [true(largest <= 100 * rules.ROUNDING)]
    return statement(parts, plain, seeds(fusion), reason, residual)


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
    parts = [above(residual, rules.ZERO)]
    return statement(parts, residual, seeds(fusion), reason, plain, cause=exact(plain))


def redundant_without_norm(tables: Tables) -> Outcome:
    """Whether W_O is redundant if the LayerNorm is dropped and the residual kept."""
    fusion = tables["fusion"]
    dropped, plain = missed(fusion, "residual"), missed(fusion, "plain")
    norm, kept = missed(fusion, "norm"), missed(fusion, "residual_norm")
    reason = (
        f"With the LayerNorm dropped and the residual kept, a single map of the heads misses {dropped:.1f} "
        f"% of the variance{in_trained_models(fusion, 'residual')}; with both kept, {kept:.1f} %. A LayerNorm "
        f"without a residual makes it miss {norm:.2f} %, nothing between them {plain.mean:.0e} %: the residual is "
        "the reason."
    )
    parts = [OPPOSITE[above(dropped, rules.ZERO)]]
    return statement(parts, dropped, seeds(fusion), reason, plain, cause=exact(plain))


def needed_by_norm(tables: Tables) -> Outcome:
    """Whether a LayerNorm alone, without a residual, makes W_O necessary: a part for each width of the stream."""
    fusion = tables["fusion"]
    random = fusion[(fusion.source == "random") & (fusion.d == fusion.d_heads)]
    by_width = {d: missed(fusion, "norm", d) for d in sorted(random.d.unique().tolist())}
    plain = missed(fusion, "plain")
    told = " and ".join(f"{error:.2f} % at d = {d}" for d, error in by_width.items())
    reason = (
        f"LayerNorm alone makes the best single map of the heads miss {told} (random weights)"
        f"{in_trained_models(fusion, 'norm')}: vectors of many random entries have nearly equal norms, and dividing "
        "by a constant is linear."
    )
    parts = [above(error, rules.ZERO) for error in by_width.values()]
    widest = by_width[max(by_width)]
    return statement(parts, widest, seeds(fusion), reason, plain, cause=exact(plain))


def needed_by_sizes(tables: Tables) -> Outcome:
    """Whether the residual sum is impossible without W_O: a part for each layout of stream and heads."""
    layouts = tables["fusion"].drop_duplicates(["d", "d_heads"])
    square = layouts[layouts.d == layouts.d_heads].sort_values("d")
    reason = (
        f"In {len(layouts) - len(square)} of {len(layouts)} layouts the heads together are not as wide as the "
        "stream, and the sum needs W_O."
    )
    for widest in square.tail(1).itertuples():
        reason += (
            f" In the usual layout they are, and W_O is square, of rank {widest.rank_w_o} at d = {widest.d}: the sum "
            "is possible without it, and then each head would write to its own coordinates only."
        )
    parts = [true(d != d_heads) for d, d_heads in zip(layouts.d, layouts.d_heads, strict=True)]
    measured = NOTHING._replace(mean=100 * (1 - len(square) / len(layouts)))
    return statement(parts, measured, 1, f"{reason} Nothing is random but the weights.")


TESTS = {
    "fusion_plain": one_matrix,
    "fusion_residual": needs_residual,
    "fusion_norm": redundant_without_norm,
    "fusion_norm_alone": needed_by_norm,
    "fusion_sizes": needed_by_sizes,
}
