"""Numbers that claims and figures share, of the experiments on what other documents say about LayerNorm."""

import numpy as np
import pandas as pd

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
