"""Numbers of the experiments on what other documents say about LayerNorm, from their tables."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import cross_fitted

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
    """Mean length of LayerNorm's outputs without gain and bias, divided by sqrt(n), which it is where eps is 0.

    Column inside: eps inside the root, as in torch; column outside: eps added to the root. Index n (size of a vector)
    and input_norm (length of the inputs). For inputs of mean 0 in float64 and the largest eps of the table `geometry`.
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


def tuned(ends: pd.DataFrame, depth: int) -> pd.DataFrame:
    """The run of each placement and seed at the learning rate and warm-up that the other half of the seeds chooses.

    `ends` is that of `run_ends`; `estimate.cross_fitted` says how the halves choose. Columns placement, seed,
    learning_rate, loss, and at_end: whether the rate is the smallest or the largest that was tried.
    """
    rows = []
    for placement, runs in ends[ends.depth == depth].groupby("placement"):
        runs = runs.assign(setting=list(zip(runs.learning_rate, runs.warmup, strict=True)))
        losses = runs.pivot(index="seed", columns="setting", values="loss")
        rates = runs.learning_rate.min(), runs.learning_rate.max()
        for seed, setting in cross_fitted(losses).items():
            rows.append((placement, seed, setting[0], losses.at[seed, setting], setting[0] in rates))
    return pd.DataFrame(rows, columns=["placement", "seed", "learning_rate", "loss", "at_end"])


_SMALLEST_NORM = float(np.finfo(np.float32).smallest_subnormal) ** 0.5  # of gradients; its square is not 0


def measurable(norms: pd.Series) -> pd.Series:
    """Gradient norms, of which one of 0, that has vanished below what float32 can square, is the smallest it can."""
    return norms.clip(lower=_SMALLEST_NORM)


def gradient_slopes(gradients: pd.DataFrame) -> pd.DataFrame:
    """Columns of RUN, step and slope; a row for each run and logged step.

    `slope` is by how many decades the gradient norm grows from one layer to the next, away from the embedding: the
    slope of the least-squares line through its decimal logarithms. Where a gradient has vanished (see `measurable`) it
    grows by at least so much. Steps at which a gradient is not finite, and networks of one layer, are left out.
    """
    decades = np.log10(measurable(gradients.gradient_norm))
    rows = gradients.assign(decades=decades, product=decades * gradients.layer, square=gradients.layer**2)
    means = rows.groupby([*RUN, "step"])[["layer", "decades", "product", "square"]].agg("mean")
    # A sum with an infinite logarithm is infinite or NaN, and so is the slope.
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (means["product"] - means.layer * means.decades) / (means.square - means.layer**2)
    return slope[np.isfinite(slope)].rename("slope").reset_index()


def scale_ratios(scales: pd.DataFrame, column: str) -> pd.DataFrame:
    """Columns of RUN, step and ratio: the largest over the smallest root mean square in a network.

    `column` is a column of the table placement_scales: input_rms, of what the parts of the layers receive, or
    stream_rms, of the residual stream before them. Infinite where a run diverged.
    """
    sizes = scales.groupby([*RUN, "step"])[column]
    ratio = sizes.max() / sizes.min()
    return ratio.fillna(np.inf).rename("ratio").reset_index()


# Residual connections


def first_layer_change(gradients: pd.DataFrame) -> pd.DataFrame:
    """Columns placement, residual, seed and decades, from the table untrained_gradients.

    `decades` is the decimal logarithm of the first layer's gradient in the deepest networks over that in the
    shallowest ones: negative where gradients vanish with depth, positive where they explode, infinite where they
    leave the range of float32.
    """
    first = gradients[gradients.layer == 1].set_index(["placement", "residual", "seed"])
    deep = first[first.depth == first.depth.max()].gradient_norm
    shallow = first[first.depth == first.depth.min()].gradient_norm
    with np.errstate(divide="ignore"):
        return np.log10(deep / shallow).rename("decades").reset_index()


def position_accuracies(probe: pd.DataFrame) -> pd.DataFrame:
    """Per cent of the tokens whose position a linear probe names in the residual stream, from table position_probe.

    Columns placement, residual, trained (after training, or before), layer (before which), seed, and percent: mean over
    learning rates and warm-ups of the runs that did not diverge, of the deepest networks that were probed.
    """
    deep = probe[probe.depth == probe.depth.max()]
    deep = deep.assign(trained=deep.step > 0, percent=100 * deep.position_accuracy).dropna(subset="percent")
    place = ["placement", "residual", "trained", "layer", "seed"]
    return deep.groupby(place, as_index=False).percent.mean()


# Scores and the batch


def exponent(x: pd.Series, y: pd.Series) -> float:
    """The exponent p of y ~ x^p: the slope of the least-squares line of log y over log x; both are positive."""
    covariance = np.cov(np.log(x), np.log(y), bias=True)
    return covariance[0, 1] / covariance[0, 0]
