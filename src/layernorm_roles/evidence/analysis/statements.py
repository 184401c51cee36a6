"""Numbers that claims and figures share, of the experiments on what other documents say about LayerNorm."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate

RUN = ["placement", "depth", "learning_rate", "seed"]
"""Columns of table placement that tell the training runs of pre-norm and post-norm networks apart."""


def final_losses(placement: pd.DataFrame) -> pd.DataFrame:
    """Return the final loss of every run of the experiment on pre-norm and post-norm networks, from table placement.

    Columns: placement, depth, learning_rate, seed and loss. The loss is the mean training loss over the last tenth of
    the steps, in nats per token; it is infinite if the loss of any of these steps is not finite.
    """
    steps = placement.step.max() + 1
    end = placement[placement.step >= steps - max(1, steps // 10)]
    loss = end.train_loss.where(np.isfinite(end.train_loss), np.inf)
    return end.assign(loss=loss).groupby(RUN, as_index=False).loss.mean()


def position_accuracies(probe: pd.DataFrame) -> pd.DataFrame:
    """Return the percentage of tokens whose position a linear probe of the residual stream names correctly.

    `probe` is the table position_probe; its deepest networks are taken. Columns: placement (of LayerNorm), residual
    (whether there are residual connections), trained (False before training), layer (before which the stream is
    probed), seed, percent (mean over the seed's runs that did not diverge).
    """
    deep = probe[probe.depth == probe.depth.max()]
    deep = deep.assign(trained=deep.step > 0, percent=100 * deep.position_accuracy).dropna(subset="percent")
    place = ["placement", "residual", "trained", "layer", "seed"]
    return deep.groupby(place, as_index=False).percent.mean()


def exponents(table: pd.DataFrame, x: str, y: str) -> pd.Series:
    """Return, for each seed, the exponent p of y ~ x^p, where `x` and `y` name columns of positive numbers.

    It is the slope of the least-squares line of log y over log x.
    """
    by_seed = table.groupby("seed")
    covariances = {seed: np.cov(np.log(part[x]), np.log(part[y]), bias=True) for seed, part in by_seed}
    return pd.Series({seed: matrix[0, 1] / matrix[0, 0] for seed, matrix in covariances.items()})


def batch_and_scores(batch_dependence: pd.DataFrame, score_scale: pd.DataFrame) -> pd.DataFrame:
    """Return what the arithmetic of lecture notes comes to: how norms depend on the batch, and scores on d_k.

    Columns: quantity, mean, low and high (95 % interval over seeds) and seeds (their number).
    """
    norms = {norm: rows for norm, rows in batch_dependence.groupby("norm")}
    others = norms["batchnorm"].query("effect == 'others'")
    ones = score_scale.query("source == 'normal_mean_1' and not divided")
    normal = score_scale.query("source == 'normal' and d_k == d_k.max()")
    found = {
        "LayerNorm's largest change with the batch": norms["layernorm"].groupby("seed").change.max(),
        "exponent of BatchNorm's change over the batch size": exponents(others, "batch_size", "change"),
        "exponent of the scores' mean over d_k": exponents(ones, "d_k", "score_mean"),
        "exponent of the scores' standard deviation over d_k": exponents(ones, "d_k", "score_std"),
    }
    for divided, words in ((False, "scores as they are"), (True, "scores divided by √d_k")):
        own = normal[normal.divided == divided].groupby("seed")
        found[f"entropy of attention over the largest, {words}"] = own.entropy_share.mean()
        found[f"trace of the softmax's Jacobian, {words}"] = own.gradient.mean()
    rows = [(name, *Estimate.of_any(values), len(values)) for name, values in found.items()]
    return pd.DataFrame(rows, columns=["quantity", "mean", "low", "high", "seeds"])
