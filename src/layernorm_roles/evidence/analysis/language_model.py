"""Numbers of the language models: losses over seeds, baselines, shares of unselectable keys, tokens and sentences."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, half_width, rates_chosen_by_others
from layernorm_roles.evidence.legends import PAPER_MODEL, legend_order
from layernorm_roles.variants import NO_ATTENTION_VARIANT

POINT = ["base_learning_rate", "steps"]
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
    """Last row of each run of a model in language_model_metrics; losses are infinite if it diverged or ended early."""
    runs = metrics[metrics.model == model]
    last = runs.sort_values("step").groupby(RUN).tail(1)
    lost = (last.step < last.steps) | ~np.isfinite(last.valid_loss)
    return last.assign(**{column: last[column].mask(lost, np.inf) for column in ("train_loss", "valid_loss")})


def runs_at_best_rate(metrics: pd.DataFrame, model: str) -> pd.DataFrame:
    """The last row of a model's longest runs, for each variant and seed the run at the best learning rate.

    For each seed the other half of the seeds chooses the rate, by its fewest failed runs, then by its lowest mean
    validation loss. The column at_end says that the rate is the lowest or the highest of three or more.
    """
    runs = ends(metrics, model)
    runs = runs[runs.steps == runs.steps.max()]
    if runs.base_learning_rate.nunique() == 1:
        return runs.assign(at_end=False)
    return runs.merge(rates_chosen_by_others(runs, "valid_loss", inside=3))


def final_losses(metrics: pd.DataFrame, model: str, column: str = "valid_loss") -> pd.DataFrame:
    """`column` of language_model_metrics at the end of a model's runs at their best rate, by seed and variant."""
    return runs_at_best_rate(metrics, model).pivot(index="seed", columns="variant", values=column)


class Attention(NamedTuple):
    """A model's loss without attention, and how far attention lowers it with LayerNorm at its best learning rate."""

    bare: float
    """Mean validation loss of the model without attention, in nats per token."""
    worth: float
    """How far, in nats per token, the mean validation loss with LayerNorm and attention is below that without."""

    def learnt(self, share: float) -> float:
        """Return the validation loss (nats per token) without attention minus `share` (0..1) of `worth`."""
        return self.bare - share * self.worth


def attention(metrics: pd.DataFrame, model: str) -> Attention:
    """A model's validation loss without attention, and how far attention with LayerNorm lowers it, in its longest runs.

    NaN if the table language_model_metrics lacks LayerNorm or runs without attention.
    """
    bare = losses_without_attention(metrics, model).mean()
    return Attention(bare, bare - losses_of(metrics, model, "layernorm").mean())


def of_single_points(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows of table language_model_metrics of the models whose runs have one learning rate and one length."""
    points = metrics.drop_duplicates(["model", *POINT]).model.value_counts()
    return metrics[metrics.model.map(points) == 1]


def losses_of(metrics: pd.DataFrame, model: str, variant: str) -> pd.Series:
    """Final validation losses, by seed, of a variant of a model at its best rate; empty if the table lacks it."""
    return final_losses(metrics, model).get(variant, pd.Series(dtype=float)).dropna()


def losses_without_attention(metrics: pd.DataFrame, model: str) -> pd.Series:
    """Final validation losses, by seed, of a model without attention, or else of its stand-in in BASELINES."""
    own = losses_of(metrics, model, NO_ATTENTION_VARIANT)
    return own if len(own) else losses_of(metrics, BASELINES.get(model, model), NO_ATTENTION_VARIANT)


def worth_of_attention(metrics: pd.DataFrame, model: str, variant: str) -> pd.Series:
    """By how many nats per token attention lowers the final validation loss of a variant, one value a seed.

    It is the loss without attention minus that of `variant`, of equal seeds. Models in BASELINES are compared with the
    mean loss without attention, which hardly differs between seeds. Empty if the table lacks one of the two.
    """
    bare, losses = losses_without_attention(metrics, model), losses_of(metrics, model, variant)
    return ((bare.mean() if model in BASELINES else bare) - losses).dropna()


def gain_over_unigram(metrics: pd.DataFrame, model: str, variant: str) -> pd.Series:
    """By how many nats per token the final validation loss of a variant is below the unigram loss, one value a seed.

    Empty if the table lacks the variant, or if the model's task has no unigram loss.
    """
    runs = runs_at_best_rate(metrics, model).set_index("seed").sort_index()
    runs = runs[runs.variant == variant]
    return (runs.unigram_loss - runs.valid_loss).dropna()


def baselines(metrics: pd.DataFrame) -> pd.DataFrame:
    """Final validation losses by variant beside two baselines (nats per token), of models with one rate and length.

    Columns model, variant, seeds, step, valid_loss, unigram_loss, no_attention_loss (means over seeds; NaN if missing),
    gain_over_unigram, worth_of_attention (differences of equal seeds); valid_loss and the last two also with endings
    _low and _high (95 % interval over seeds; NaN for fewer than two).
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


def losses_by_rate(metrics: pd.DataFrame, share: float) -> pd.DataFrame:
    """The final losses of models with several learning rates or lengths, a row for each length, variant and rate.

    Columns model, steps, variant, base_learning_rate, runs, diverged (how many), learnt (how many are below the loss
    without attention by at least `share` of what LayerNorm is), train_loss and valid_loss (nats per token, means over
    runs that did not diverge), valid_loss_low and valid_loss_high (95 % interval; NaN for fewer than two runs).
    """
    single, rows, place = set(of_single_points(metrics).model), [], ["steps", "variant", "base_learning_rate"]
    for model, own in metrics[~metrics.model.isin(single)].groupby("model", sort=False):
        scale = attention(metrics, model)
        if np.isnan(scale.worth):
            scale = attention(metrics, BASELINES.get(model, model))
        for here, runs in ends(own, model).groupby(place):
            sound = runs[np.isfinite(runs.valid_loss)]
            learnt = int((runs.valid_loss <= scale.learnt(share)).sum())
            counts = (len(runs), len(runs) - len(sound), learnt)
            valid = Estimate.of_any(sound.valid_loss)
            rows.append((model, *here, *counts, sound.train_loss.mean(), *valid))
    columns = ["model", *place, "runs", "diverged", "learnt", "train_loss"]
    return pd.DataFrame(rows, columns=[*columns, "valid_loss", "valid_loss_low", "valid_loss_high"])


def unselectable_shares(keys: pd.DataFrame, causal: bool = False, **where: str) -> pd.DataFrame:
    """Per cent of unselectable keys, for each model, variant, site, checkpoint and layer of the chosen keys.

    `where` names columns of table key_selectability and their values. A key's rivals are all keys of its context; with
    `causal`, those before it. Columns model, variant, site, checkpoint, layer, percent (mean over seeds, contexts and
    heads), low, high (95 % interval), seeds, contexts (numbers), borderline_percent (keys that the data's precision
    cannot decide). For the interval Student's half-widths over the means of seeds and over the means of contexts, of
    both of which there could be more, are added in quadrature; with a single seed it is over contexts alone.
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
    """The rows of table sentence_tokens of Table 3's model (gpt, projection), with a column `unselectable`."""
    chosen = tokens[(tokens.model == PAPER_MODEL) & (tokens.variant == "projection")]
    return chosen.assign(unselectable=chosen.verdict == "unselectable")


def token_shares(tokens: pd.DataFrame) -> pd.DataFrame:
    """How often each token of the sentences is unselectable in the model without scaling: the numbers of Table 3.

    Columns token, occurrences (in all sentences, layers and seeds), initial_percent and final_percent (of occurrences,
    before training and after); the tokens that are unselectable most often come first.
    """
    groups = without_scaling(tokens).groupby(["token", "checkpoint"]).unselectable
    numbers, means = groups.size().unstack("checkpoint"), 100 * groups.mean().unstack("checkpoint")
    columns = {"occurrences": numbers.final, "initial_percent": means.initial, "final_percent": means.final}
    shares = pd.DataFrame(columns).reset_index()
    return shares.sort_values(["final_percent", "occurrences", "token"], ascending=[False, False, True])


def marked_sentences(tokens: pd.DataFrame) -> list[list[tuple[str, bool]]]:
    """The sentences, at most eight, with most unselectable tokens (at least one) in the model without scaling.

    A sentence is a list of pairs, one for each token in order: the token's text, and whether its key is unselectable,
    by the first seed, the trained weights and the first layer.
    """
    chosen = without_scaling(tokens)
    first = (chosen.seed == chosen.seed.min()) & (chosen.layer == chosen.layer.min())
    chosen = chosen[first & (chosen.checkpoint == "final")].sort_values("position", kind="stable")
    counts = chosen.groupby("context").unselectable.sum().sort_values(ascending=False, kind="stable").head(8)
    sentences = (chosen[chosen.context == context] for context in counts.index[counts > 0])
    return [list(zip(each.token, map(bool, each.unselectable), strict=True)) for each in sentences]
