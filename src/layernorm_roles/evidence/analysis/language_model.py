"""Numbers of the language models: losses over seeds, shares of unselectable keys, tokens and sentences."""

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from layernorm_roles.evidence.analysis.estimate import t_interval

PAPER_VARIANTS = ("layernorm", "projection")
"""The two models that the paper compares: with scaling, without scaling."""

CHECKPOINTS = ("initial", "final")
"""The weights whose keys are tested: before training and after."""


def over_seeds(metrics: pd.DataFrame, column: str) -> pd.DataFrame:
    """Mean of `column` over the seeds with its 95 % interval: columns low, high, mean; a row a step.

    `metrics` has one row for each step and seed. Steps that a seed lacks are left out.
    """
    values = metrics.pivot(index="step", columns="seed", values=column).dropna()
    intervals = [t_interval(row) for row in values.to_numpy()]
    return pd.DataFrame(intervals, columns=["low", "high"], index=values.index).assign(
        mean=values.mean(axis=1)
    )


def paired_difference(metrics: pd.DataFrame, column: str) -> pd.DataFrame:
    """`column` of projection minus that of layernorm, at each step and for each seed that both variants have.

    Columns step, seed, difference.
    """
    both = metrics[metrics.variant.isin(["projection", "layernorm"])]
    values = both.pivot(index=["step", "seed"], columns="variant", values=column).dropna()
    return (values["projection"] - values["layernorm"]).rename("difference").reset_index()


def contexts_and_seeds_interval(
    shares: Float[np.ndarray, "seeds contexts"], level: float = 0.95
) -> tuple[float, float]:
    """Ends of an interval for the mean over seeds and contexts, both taken as samples of more.

    Student's half-widths over the means of the seeds and over the means of the contexts are added in quadrature. One
    seed says nothing about others; the interval is then over contexts alone.
    """
    halves = [0.0]
    for means in (shares.mean(axis=1), shares.mean(axis=0)):
        if len(means) > 1:
            halves.append(
                stats.t.ppf((1 + level) / 2, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means))
            )
    half = float(np.hypot.reduce(halves))
    return shares.mean() - half, shares.mean() + half


def unselectable_shares(keys: pd.DataFrame, **where: str) -> pd.DataFrame:
    """Per cent of unselectable keys, for each variant, site, checkpoint and layer of the chosen keys.

    `where` names columns of the table key_selectability and the value that each must have. Columns variant, site,
    checkpoint, layer, percent (mean over seeds, contexts and heads), low, high (95 % interval over seeds and
    contexts), seeds, contexts (their numbers), borderline_percent (keys that the data's precision cannot decide).
    """
    for column, value in where.items():
        keys = keys[keys[column] == value]
    rows = []
    for group, part in keys.groupby(["variant", "site", "checkpoint", "layer"], sort=False):
        percent = 100 * part.n_unselectable / part.n_keys
        shares = percent.groupby([part.seed, part.context]).mean().unstack("context").to_numpy()
        low, high = contexts_and_seeds_interval(shares)
        borderline = 100 * part.n_borderline.sum() / part.n_keys.sum()
        rows.append((*group, shares.mean(), low, high, *shares.shape, borderline))
    columns = ["variant", "site", "checkpoint", "layer", "percent", "low", "high", "seeds", "contexts"]
    return pd.DataFrame(rows, columns=[*columns, "borderline_percent"])


def without_scaling(tokens: pd.DataFrame) -> pd.DataFrame:
    """The rows of table sentence_tokens of Table 3's model (gpt, projection), with a column `unselectable`."""
    chosen = tokens[(tokens.model == "gpt") & (tokens.variant == "projection")]
    return chosen.assign(unselectable=chosen.verdict == "unselectable")


def token_shares(tokens: pd.DataFrame) -> pd.DataFrame:
    """How often each token of the sentences is unselectable in the model without scaling: the numbers of Table 3.

    Columns token, occurrences (in all sentences, layers and seeds), initial_percent and final_percent (of the
    occurrences, before training and after); the tokens that are unselectable most often come first.
    """
    counts = (
        without_scaling(tokens)
        .groupby(["token", "checkpoint"])
        .unselectable.agg(["size", "mean"])
        .unstack("checkpoint")
    )
    shares = pd.DataFrame(
        {
            "token": counts.index,
            "occurrences": counts["size", "final"].to_numpy(),
            "initial_percent": 100 * counts["mean", "initial"].to_numpy(),
            "final_percent": 100 * counts["mean", "final"].to_numpy(),
        }
    )
    return shares.sort_values(["final_percent", "occurrences", "token"], ascending=[False, False, True])


def marked_sentences(tokens: pd.DataFrame, number: int = 8) -> list[list[tuple[str, bool]]]:
    """The sentences with most unselectable tokens in the model without scaling, at most `number` of them.

    Looked at are the first seed, the trained weights and the first layer. A sentence is a list of its tokens in
    order, each a pair: the token's text, and whether it is unselectable. Sentences without one are left out.
    """
    chosen = without_scaling(tokens)
    chosen = chosen[
        (chosen.seed == chosen.seed.min())
        & (chosen.checkpoint == "final")
        & (chosen.layer == chosen.layer.min())
    ]
    counts = chosen.groupby("context").unselectable.sum().sort_values(ascending=False, kind="stable")
    sentences = []
    for context in counts.head(number).index[counts.head(number) > 0]:
        sentence = chosen[chosen.context == context].sort_values("position")
        sentences.append(list(zip(sentence.token, map(bool, sentence.unselectable), strict=True)))
    return sentences
