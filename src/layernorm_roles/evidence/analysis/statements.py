"""Numbers of the experiments on what other documents say about LayerNorm, from their tables."""

import numpy as np
import pandas as pd

RUN = ["placement", "depth", "learning_rate", "warmup", "seed"]
"""Columns that name a run of the experiment on pre-norm and post-norm."""


# Geometry


def differences_from_torch(geometry: pd.DataFrame) -> pd.DataFrame:
    """Largest difference between h(g(f(x))) and torch's layer_norm for every input norm: columns dtype, n, value.

    For centred inputs, with eps inside the root as torch has it; infinite where a result is not finite.
    """
    chosen = geometry[
        (geometry.norm == "layernorm")
        & (geometry.eps_placement == "inside")
        & (geometry.offset == 0)
        & (geometry.quantity == "difference_from_torch")
    ]
    return chosen[["dtype", "n", "value"]]


def ellipsoids(geometry: pd.DataFrame, norm: str) -> pd.DataFrame:
    """How far the outputs of `norm` are from the predicted ellipsoid: an index n, a column a quantity.

    Columns rank (of the outputs), axes_deviation, axes_cosine and centre_deviation, among others; float64, no eps.
    """
    chosen = geometry[geometry.input_norm.isna() & (geometry.norm == norm)]
    return chosen.pivot(index="n", columns="quantity", values="value")


def radii(geometry: pd.DataFrame) -> pd.DataFrame:
    """Mean radius of g(f(x)) over sqrt(n), with eps inside the root and outside: columns inside, outside.

    Index n, input_norm. For centred inputs in float64 and the largest eps of the table.
    """
    chosen = geometry[
        (geometry.norm == "layernorm")
        & (geometry.dtype == "float64")
        & (geometry.offset == 0)
        & (geometry.quantity == "radius_mean")
    ]
    chosen = chosen[chosen.eps == chosen.eps.max()]
    return chosen.pivot(index=["n", "input_norm"], columns="eps_placement", values="value")


# One matrix for W_O and W_1


def fusion_errors(
    fusion: pd.DataFrame, arrangement: str, d: int | None = None, trained: bool = False
) -> pd.Series:
    """Per cent of the held-out variance that the best single map of the heads misses, one value a seed.

    For heads that are together as wide as the stream. Random weights of stream width `d`, by default the widest; or
    the layers of the trained language models.
    """
    chosen = fusion[
        (fusion.d == fusion.d_heads) & (fusion.inputs == "heads") & ((fusion.source != "random") == trained)
    ]
    if not trained:
        chosen = chosen[chosen.d == (chosen.d.max() if d is None else d)]
    return 100 * chosen[chosen.arrangement == arrangement].groupby("seed").error.mean()


# Pre-norm and post-norm


def run_ends(placement: pd.DataFrame) -> pd.DataFrame:
    """Columns of RUN, status and loss; a row a run. `loss` is the mean training loss of the last tenth of the steps.

    A loss that is not finite counts as worse than any finite one: the loss of such a run is infinite.
    """
    steps = placement.step.max() + 1
    end = placement[placement.step >= steps - max(1, steps // 10)]
    end = end.assign(loss=end.train_loss.where(np.isfinite(end.train_loss), np.inf))
    return end.groupby([*RUN, "status"], as_index=False).loss.mean()


def final_losses(placement: pd.DataFrame) -> pd.DataFrame:
    """Columns depth, learning_rate, warmup, seed, and the final loss (see `run_ends`) in a column a placement."""
    ends = run_ends(placement).pivot(index=RUN[1:], columns="placement", values="loss")
    return ends.reset_index()


def excess(loss: pd.Series, other: pd.Series) -> pd.Series:
    """`loss` minus `other` where both runs are there; 0 where both are infinite: neither of them is worse."""
    both = loss.notna() & other.notna()
    loss, other = loss[both], other[both]
    return (loss - other).where(np.isfinite(loss) | np.isfinite(other), 0.0)


def gradient_ratios(gradients: pd.DataFrame) -> pd.DataFrame:
    """Columns of RUN, step and decades; a row for each run and logged step.

    `decades` is the decimal logarithm of the first layer's gradient norm over the last layer's. Steps at which a
    gradient is 0 or not finite are left out.
    """
    by = [*RUN, "step"]
    first = gradients[gradients.layer == 1].set_index(by).gradient_norm
    last = gradients[gradients.layer == gradients.depth].set_index(by).gradient_norm
    with np.errstate(divide="ignore", invalid="ignore"):
        decades = np.log10(first / last)
    return decades[np.isfinite(decades)].rename("decades").reset_index()
