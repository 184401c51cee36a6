"""Numbers of the language models: losses over seeds, baselines, shares of unselectable keys, tokens and sentences."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, half_width, rates_chosen_by_others
from layernorm_roles.evidence.legends import PAPER_MODEL, legend_order
from layernorm_roles.variants import NO_ATTENTION_VARIANT

POINT = ["base_learning_rate", "query_key_rate", "steps"]
"""Columns in which a variant's runs with one seed differ, where a model has several learning rates or lengths."""

RUN = ["variant", "seed", *POINT]
"""Columns of table language_model_metrics that tell the training runs of one model apart."""

CHECKPOINTS = ("initial", "final")
"""Names of the checkpoints whose keys are tested: before training and after."""

BASELINES = {"gpt_rates": "gpt", "bytes_rates": "gpt_bytes", "bytes_rates_small": "gpt_bytes"}
"""For models that are not trained without attention, the model whose runs without attention are their baseline."""

SIZE_AND_SCALING = (("layernorm", "projection_grown"), ("layernorm_shrunk", "projection"))
"""Pairs of variants, with and without scaling: at LayerNorm's size, and at that of unscaled inputs before training."""


def ends(metrics: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the last row of each training run of a model in the table language_model_metrics.

    The columns train_loss and valid_loss are infinite for a run that diverged or ended early.
    """
    runs = metrics[metrics.model == model]
    last = runs.sort_values("step").groupby(RUN).tail(1)
    lost = (last.step < last.steps) | ~np.isfinite(last.valid_loss)
    return last.assign(**{column: last[column].mask(lost, np.inf) for column in ("train_loss", "valid_loss")})


def runs_at_best_rate(metrics: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return the last row of each of a model's longest runs at the best learning rate: one for each variant and seed.

    `metrics` is the table language_model_metrics. The best rate for a seed is found in the half of the variant's seeds
    without it: the rate with the fewest failed runs and, among several such rates, the lowest mean validation loss. The
    column at_end says whether the rate is the lowest or the highest of three or more.
    """
    runs = ends(metrics, model)
    runs = runs[runs.steps == runs.steps.max()]
    if runs.base_learning_rate.nunique() == 1:
        return runs.assign(at_end=False)
    return runs.merge(rates_chosen_by_others(runs, "valid_loss", inside=3))


def final_losses(metrics: pd.DataFrame, model: str, column: str = "valid_loss") -> pd.DataFrame:
    """Return a model's final losses at the best learning rates: a row for each seed, a column for each variant.

    `column` is the loss (nats per token) in `metrics`, the table language_model_metrics; see `runs_at_best_rate`.
    """
    return runs_at_best_rate(metrics, model).pivot(index="seed", columns="variant", values=column)


class Attention(NamedTuple):
    """The validation loss (nats per token) without attention, and by how much attention with LayerNorm lowers it."""

    bare: float
    """Mean validation loss of the model without attention, in nats per token."""
    worth: float
    """How far, in nats per token, the mean validation loss with LayerNorm and attention is below that without."""

    def learnt(self, share: float) -> float:
        """Return the validation loss (nats per token) of a run that gains a share of what attention is worth.

        It is the loss without attention minus `share` (0..1) times the amount by which attention lowers it.
        """
        return self.bare - share * self.worth


def attention(metrics: pd.DataFrame, model: str) -> Attention:
    """Return a model's validation loss without attention, and by how much attention with LayerNorm lowers it.

    Both are means over seeds, in nats per token, from the runs with the most steps. A number is NaN if the table
    language_model_metrics (`metrics`) lacks the runs that it is computed from.
    """
    bare = losses_without_attention(metrics, model).mean()
    return Attention(bare, bare - losses_of(metrics, model, "layernorm").mean())


def of_single_points(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of table language_model_metrics for models with one learning rate and one training length."""
    points = metrics.drop_duplicates(["model", *POINT]).model.value_counts()
    return metrics[metrics.model.map(points) == 1]


def losses_of(metrics: pd.DataFrame, model: str, variant: str) -> pd.Series:
    """Return the final validation losses of one variant of a model, by seed, at its best learning rate.

    They are in nats per token. The result is empty if the table language_model_metrics lacks the variant.
    """
    return final_losses(metrics, model).get(variant, pd.Series(dtype=float)).dropna()


def losses_without_attention(metrics: pd.DataFrame, model: str) -> pd.Series:
    """Return the final validation losses of a model without attention, by seed, in nats per token.

    If the model has no such runs, those of its stand-in in the constant BASELINES are taken, if there are any.
    """
    own = losses_of(metrics, model, NO_ATTENTION_VARIANT)
    return own if len(own) else losses_of(metrics, BASELINES.get(model, model), NO_ATTENTION_VARIANT)


def worth_of_attention(metrics: pd.DataFrame, model: str, variant: str) -> pd.Series:
    """Return, for each seed, by how many nats per token attention lowers the final validation loss of a variant.

    The value is the loss without attention minus the loss of `variant` with an equal seed. For a model in BASELINES,
    which is not trained without attention, the mean loss of another model without attention stands in. The result is
    empty if the table language_model_metrics (`metrics`) lacks either loss.
    """
    bare, losses = losses_without_attention(metrics, model), losses_of(metrics, model, variant)
    return ((bare.mean() if model in BASELINES else bare) - losses).dropna()


def gain_over_unigram(metrics: pd.DataFrame, model: str, variant: str) -> pd.Series:
    """Return, for each seed, by how many nats per token a variant's final validation loss is below the unigram loss.

    The unigram loss is the loss of predicting tokens by their frequencies alone. The result is empty if `metrics`, the
    table language_model_metrics, lacks the variant, or if the model's task has no unigram loss.
    """
    runs = runs_at_best_rate(metrics, model).set_index("seed").sort_index()
    runs = runs[runs.variant == variant]
    return (runs.unigram_loss - runs.valid_loss).dropna()


def baselines(metrics: pd.DataFrame) -> pd.DataFrame:
    """Return the final validation losses of models and variants beside two baselines, in nats per token.

    `metrics` is the table language_model_metrics; models with a single learning rate and number of steps are taken.
    Columns: model, variant, seeds, step (the last), valid_loss, unigram_loss and no_attention_loss (means over seeds),
    gain_over_unigram, worth_of_attention (the first and second baseline minus valid_loss, for equal seeds). valid_loss
    and the last two have columns ending in _low and _high, too (95 % interval over seeds).
    """
    rows = []
    for model, losses in of_single_points(metrics).groupby("model", sort=False):
        unigram = final_losses(metrics, model, "unigram_loss")
        bare = losses_of(metrics, model, NO_ATTENTION_VARIANT)
        for variant in legend_order(losses.variant):
            own = losses_of(metrics, model, variant)
            worth = worth_of_attention(metrics, model, variant)
            row = {"model": model, "variant": variant, "seeds": len(own), "step": int(losses.step.max())}
            row |= {"no_attention_loss": bare.mean(), "unigram_loss": unigram[variant].mean()}
            estimated = {"valid_loss": own, "gain_over_unigram": gain_over_unigram(metrics, model, variant)}
            estimated["worth_of_attention"] = worth[:0] if variant == NO_ATTENTION_VARIANT else worth
            for name, values in estimated.items():
                row |= zip((name, f"{name}_low", f"{name}_high"), Estimate.of_any(values), strict=True)
            rows.append(row)
    return pd.DataFrame(rows)


def unselectable_shares(keys: pd.DataFrame, causal: bool = False, **where: str) -> pd.DataFrame:
    """Return the percentage of unselectable keys for each model, variant, site, checkpoint and layer.

    `keys` is the table key_selectability; only rows with the value `where[column]` in each column of `where` are taken.
    A key has to beat all keys of its context or, with `causal`, those before it. Columns: model, variant, site (which
    vectors of the model are tested as keys, such as "after_norm" or "head"), checkpoint, layer, percent (mean over
    seeds, contexts and heads), low, high (95 % interval), seeds and contexts (numbers), borderline_percent (keys that
    the data's precision cannot decide). The half-width of the interval is sqrt(a² + b²). Here a is the half-width of
    Student's interval over seeds, and b that over contexts; either is 0 if there is only one seed or context.
    """
    keys = keys[keys.causal == causal]
    for column, value in where.items():
        keys = keys[keys[column] == value]
    groups = ["model", "variant", "site", "checkpoint", "layer"]
    rows = []
    for group, part in keys.groupby(groups, sort=False):
        percent = 100 * part.n_unselectable / part.n_keys
        shares = percent.groupby([part.seed, part.context]).mean().unstack("context").to_numpy()
        over_each = (shares.mean(axis=1), shares.mean(axis=0))
        half = float(np.hypot.reduce([half_width(means) for means in over_each if len(means) > 1]))
        percent = (shares.mean(), shares.mean() - half, shares.mean() + half)
        borderline = 100 * part.n_borderline.sum() / part.n_keys.sum()
        rows.append((*group, *percent, *shares.shape, borderline))
    columns = ["percent", "low", "high", "seeds", "contexts", "borderline_percent"]
    return pd.DataFrame(rows, columns=[*groups, *columns])


def without_scaling(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table sentence_tokens on the GPT without scaling, the subject of the paper's Table 3.

    They have model gpt and variant projection. The column `unselectable` is added: the verdict as a boolean.
    """
    chosen = tokens[(tokens.model == PAPER_MODEL) & (tokens.variant == "projection")]
    return chosen.assign(unselectable=chosen.verdict == "unselectable")


def token_shares(tokens: pd.DataFrame) -> pd.DataFrame:
    """Return how often the key of each token is unselectable in the GPT without scaling (the paper's Table 3).

    `tokens` is the table sentence_tokens. Columns: token, occurrences (in all sentences, layers and seeds),
    initial_percent and final_percent (percentage of occurrences whose key is unselectable, before training and after
    it). Tokens with the highest final_percent come first.
    """
    groups = without_scaling(tokens).groupby(["token", "checkpoint"]).unselectable
    numbers, means = groups.size().unstack("checkpoint"), 100 * groups.mean().unstack("checkpoint")
    columns = {"occurrences": numbers.final, "initial_percent": means.initial, "final_percent": means.final}
    shares = pd.DataFrame(columns).reset_index()
    return shares.sort_values(["final_percent", "occurrences", "token"], ascending=[False, False, True])


def marked_sentences(tokens: pd.DataFrame) -> list[list[tuple[str, bool]]]:
    """Return up to eight sentences with the most unselectable tokens in the GPT without scaling (variant projection).

    `tokens` is the table sentence_tokens. A sentence is a list of pairs, one for each token in order: the token's text,
    and whether its key is unselectable in the first layer of the first seed's trained model. Sentences without an
    unselectable token are left out.
    """
    chosen = without_scaling(tokens)
    first = (chosen.seed == chosen.seed.min()) & (chosen.layer == chosen.layer.min())
    chosen = chosen[first & (chosen.checkpoint == "final")].sort_values("position", kind="stable")
    counts = chosen.groupby("context").unselectable.sum().sort_values(ascending=False, kind="stable").head(8)
    sentences = (chosen[chosen.context == context] for context in counts.index[counts > 0])
    return [list(zip(each.token, map(bool, each.unselectable), strict=True)) for each in sentences]
