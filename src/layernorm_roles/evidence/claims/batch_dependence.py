"""What lecture notes say about LayerNorm, BatchNorm and the batch."""

from layernorm_roles.evidence.analysis.estimate import power_law
from layernorm_roles.evidence.claims.rules import Outcome, Tables, Untestable, direction, statement, true


def independent(tables: Tables) -> Outcome:
    """Whether LayerNorm's output never changes with the batch, and BatchNorm's changes less in larger batches."""
    table = tables["batch_dependence"]
    layernorm = table[table.norm == "layernorm"]
    others = table[(table.norm == "batchnorm") & (table.effect == "others")]
    if layernorm.empty or others.batch_size.nunique() < 2:
        raise Untestable("The run lacks a norm, or has a single batch size.")
    if others.seed.nunique() < 2:
        raise Untestable("The run has only 1 seed: no interval over seeds.")
    exponent = power_law("batch_size", "change", others)
    sizes = others.groupby("batch_size").change.mean()
    parts = [true(layernorm.change.max() == 0), direction(exponent.below(0.0))]
    reason = (
        f"LayerNorm's output changes by exactly {layernorm.change.max():g} when the other sequences, the mode or "
        f"the padding change. BatchNorm's changes by {sizes.iloc[0]:.2f} of its size with {sizes.index[0]} "
        f"sequences and {sizes.iloc[-1]:.3f} with {sizes.index[-1]}: as the batch size to the power "
        f"{exponent:.2f}."
    )
    padded = table[(table.norm == "batchnorm") & (table.effect == "padding")]
    if len(padded):
        padded = padded[padded.padding == padded.padding.max()]
        reason += (
            f" With {padded.padding.max():.0%} of padding in the statistics a real token's changes by "
            f"{100 * padded.change.mean():.0f} % of its size."
        )
    return statement(parts, exponent, others.seed.nunique(), reason)


TESTS = {"batch_dependence": independent}
