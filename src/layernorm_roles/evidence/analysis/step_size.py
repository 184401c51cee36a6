"""The size of attention's input as a factor on the learning rate of W_Q and W_K, as docs/step_size.md has it.

f is the size of what queries and keys are made from, over LayerNorm's; r (query_key_rate) is the factor on the rate.
"""

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from layernorm_roles.evidence.analysis.estimate import LEVEL, Estimate
from layernorm_roles.evidence.analysis.language_model import RUN, ends

SMALL = 1 / 35.355339
SIZES = {"layernorm": 1.0, "qk_316": 10**-0.5, "qk_100": 0.1, "shrunk_qk": SMALL, "layernorm_shrunk": SMALL}
"""f by norm variant."""

PRODUCTS = (10**0.5, 1.0, 10**-0.5, 0.1)
"""The levels of f r that are met by several cells of f and r."""

ARMS = {
    "LayerNorm": (1.0, 1.0),
    "slow LayerNorm": (1.0, SMALL),
    "small": (SMALL, SMALL),
    "restored": (SMALL, 1.0),
}
"""f and f r of the four arms."""

BYTES, PAPER = "step_size_bytes", "step_size_paper"
"""How the names of the models begin."""


def _same(one: pd.Series | float, other: float) -> pd.Series | bool:
    return np.abs(np.log(one / other)) < 0.01


def runs(metrics: pd.DataFrame, attention: pd.DataFrame, models: str = BYTES) -> pd.DataFrame:
    """Return a row for each training run of the models whose names begin with `models`.

    Arguments are the tables language_model_metrics and language_model_attention. Columns: model, variant, size (f),
    query_key_rate (r), product (f r), level (the one of PRODUCTS that f r is, NaN for another), seed, loss (validation
    loss at the last step, infinite for a run that diverged) and worth (loss increase under uniform attention at the
    last step), in nats per token. Variants without a size in SIZES are left out.
    """
    key = ["model", *RUN]
    own = metrics[metrics.model.str.startswith(models) & metrics.variant.isin(SIZES)]
    last = pd.concat([ends(own, model) for model in own.model.unique()] or [own])
    whole = attention[attention.layer.isna() & (attention.step == attention.steps)]
    last = last.merge(whole[[*key, "zero_scores_worth"]], on=key, how="left")
    size = last.variant.map(SIZES).astype(float)
    product = size * last.query_key_rate
    level = sum(np.where(_same(product, each), each, 0.0) for each in PRODUCTS)
    names = {"valid_loss": "loss", "zero_scores_worth": "worth"}
    last = last.assign(size=size, product=product, level=np.where(level > 0, level, np.nan)).rename(
        columns=names
    )
    columns = ["model", "variant", "size", "query_key_rate", "product", "level", "seed", "loss", "worth"]
    return last[columns].reset_index(drop=True)


def law(metrics: pd.DataFrame, attention: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each cell of f and r in the models of bytes, for runs of seeds that all these cells have.

    Columns: size, query_key_rate, product and level as in `runs`, variant, seeds (their number), and loss, loss_low,
    loss_high, worth, worth_low and worth_high (mean and 95 % interval over seeds).
    """
    rows, of_cells = [], of_common_seeds(runs(metrics, attention))
    for place, cell in of_cells.groupby(["size", "query_key_rate", "product", "variant"], sort=False):
        estimates = (*Estimate.of_any(cell.loss), *Estimate.of_any(cell.worth))
        rows.append((*place, cell.level.iloc[0], cell.seed.nunique(), *estimates))
    columns = ["size", "query_key_rate", "product", "variant", "level", "seeds"]
    columns += [name + end for name in ("loss", "worth") for end in ("", "_low", "_high")]
    return pd.DataFrame(rows, columns=columns).sort_values(["size", "query_key_rate"], ignore_index=True)


def of_common_seeds(of_runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `of_runs` on seeds that each cell of f and r has."""
    cells = of_runs[["size", "query_key_rate"]].drop_duplicates()
    counts = of_runs.groupby("seed").size()
    return of_runs[of_runs.seed.isin(counts.index[counts == len(cells)])]


def arm(of_runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows on one of ARMS, with the seed as index; none if it was not run."""
    size, product = ARMS[name]
    return of_runs[_same(of_runs["size"], size) & _same(of_runs["product"], product)].set_index("seed")


def worth_by_step(attention: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    """Return the loss increase under uniform attention by step (rows) and seed (columns), of the runs in `own`."""
    place = own.reset_index()[["model", "variant", "query_key_rate", "seed"]]
    rows = attention[attention.layer.isna()].merge(place)
    return rows.pivot(index="step", columns="seed", values="zero_scores_worth")


def pairs(cells: pd.DataFrame, level: float = LEVEL) -> dict[tuple, Estimate]:
    """Return the difference of every two columns of `cells`, which has a row for each seed, with its interval.

    The interval's width comes from the residual variance of the two-way table without interaction, with (cells - 1)
    (seeds - 1) degrees of freedom.
    """
    residuals = cells.sub(cells.mean(axis=1), axis=0).sub(cells.mean() - cells.to_numpy().mean())
    freedom = (cells.shape[0] - 1) * (cells.shape[1] - 1)
    error = np.sqrt(2 * (residuals.to_numpy() ** 2).sum() / freedom / len(cells))
    half = float(stdtrit(freedom, (1 + level) / 2) * error)
    means = cells.mean()
    found = {(a, b): float(means[a] - means[b]) for a, b in combinations(cells, 2)}
    return {pair: Estimate(mean, mean - half, mean + half) for pair, mean in found.items()}
