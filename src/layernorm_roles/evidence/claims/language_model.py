"""Claims about trained language models: quantities that entries compare, two other tests, and a gate.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score, and undecided if the data's precision cannot tell. Of a model with several learning rates
each run counts at the rate that the other half of the seeds chooses, see `analysis.language_model.runs_at_best_rate`.

The gate keeps a claim from a verdict on models that are hardly trained. A variant whose keys are looked at must be
clearly better than the frequencies of tokens and than the model without attention; where losses are compared, one of
the variants must be, since another one may have lost what attention is worth.
"""

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import language_model as models
from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate, span, two_by_two
from layernorm_roles.evidence.analysis.heads import gaussian_percent, narrower
from layernorm_roles.evidence.analysis.majority import arrivals
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.comparison import (
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Question,
    Tables,
    Untestable,
    Value,
    ask,
    require,
    sentences,
)
from layernorm_roles.evidence.claims.quantities import (
    BEFORE_TRAINING,
    UNIGRAM,
    Measured,
    Quantity,
    enough,
    refuse_rate_at_grid_end,
    steps_of,
)
from layernorm_roles.evidence.legends import label, legend_order
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING, VARIANTS

KEYS, LOSSES = "key_selectability", "language_model_metrics"
PER_CENT, POINTS, NATS = " %", " points", " nats"

# Losses


def losses(column: str, tables: Tables, model: str, variants: Sequence[str] = ()) -> Measured:
    """Return a language model's final losses in nats per token: a row for each seed, a column for each variant.

    `column`, train_loss or valid_loss, says which loss. The column "unigram" has the loss of a model that knows only
    the frequencies of tokens; columns that begin with "untrained " have the losses before training. Raises Untestable
    if one of `variants` is missing, or if its best learning rate is the lowest or highest of those tried.
    """
    metrics = tables[LOSSES]
    runs = models.runs_at_best_rate(metrics, model)
    for variant in (name for name in variants if name != UNIGRAM):
        chosen = runs[runs.variant == variant]
        single = ((metrics.model == model) & (metrics.variant == variant)).any()
        few = "only 1 seed, which cannot choose its own learning rate, of" if single else "no"
        require(len(chosen), f"The run has {few} {model} with {variant}.")
        refuse_rate_at_grid_end(chosen.at_end, chosen.base_learning_rate, f"{model} with {label(variant)}")
    before = metrics[(metrics.model == model) & (metrics.step == 0)].merge(runs[models.RUN])
    last, first = (each.pivot(index="seed", columns="variant", values=column) for each in (runs, before))
    last[UNIGRAM] = runs.groupby("seed").unigram_loss.mean()
    return Measured(last.join(first.add_prefix(BEFORE_TRAINING)))


def at_the_largest_gap(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Return a model's validation losses (nats per token) at the step where projection is furthest above layernorm.

    There is a row for each seed and a column for each variant. The mean difference over seeds decides on the step.
    """
    own = tables[LOSSES][tables[LOSSES].model == model]
    wide = own.pivot(index=["step", "seed"], columns="variant", values="valid_loss")
    step = int((wide.projection - wide.layernorm).groupby("step").mean().idxmax())
    return Measured(wide.loc[step], note=f"The mean gap is largest at step {step:,}.")


def size_and_scaling(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Return, by seed, by how many nats per token a small attention input, or no scaling, raises the final loss.

    Columns are size, scaling and interaction, of the validation loss. The variants are layernorm (large) and
    layernorm_shrunk (small) with scaling, and projection_grown (large) and projection (small) without it.
    """
    frame = losses("valid_loss", tables, model, [*chain(*models.SIZE_AND_SCALING)]).frame
    return Measured(two_by_two(-frame, *models.SIZE_AND_SCALING, "scaling"))


def of_attention(column: str, tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Return `column` of table language_model_attention at the last step, by seed (rows) and variant (columns).

    The values are added losses in nats per token, of the whole model. Variants with a single seed are left out. Raises
    Untestable if the table has no rows of `model`.
    """
    table = tables.get("language_model_attention")
    measured = table is not None and (table.model == model).any()
    require(measured, f"The run did not look at attention in {model}.")
    last = table[(table.model == model) & table.layer.isna() & (table.step == table.steps)]
    return Measured(last.pivot(index="seed", columns="variant", values=column).dropna(axis=1, thresh=2))


# The gate


def baselines(tables: Tables, model: str, variant: str) -> Iterator[Comparison]:
    """Yield comparisons which ask whether a trained variant's final loss is lower than that of two baselines.

    The baselines are the model without attention and prediction by the frequencies of the training tokens, left out if
    its loss is unknown. Compared are validation losses in nats per token, the baseline's minus the variant's.
    """
    gains = {NO_ATTENTION_VARIANT: models.worth_of_attention, UNIGRAM: models.gain_over_unigram}
    for baseline, gain in gains.items():
        seeds = gain(tables[LOSSES], model, variant)
        if len(seeds) or baseline == NO_ATTENTION_VARIANT:
            words, better = f"{baseline} minus {variant}, {model}", Value.mean_of(seeds)
            yield Comparison(words, better, ask("positive"), "gate", NATS, _AT_END)


def gated(
    outcome: Outcome, tables: Tables, model: str, keys_of: Sequence[str] = (), losses_of: Sequence[str] = ()
) -> Outcome:
    """Return `outcome`, marked as allowing no verdict unless trained models are clearly better than two baselines.

    The baselines are the model without attention and prediction by token frequencies. A variant is clearly better if
    the 95 % interval of its gain in validation loss lies above 0. All variants in `keys_of` must be better than both
    baselines, and at least one in `losses_of`. The comparisons with the baselines are added to the outcome.
    """
    rows = {v: list(baselines(tables, model, v)) for v in (*keys_of, *losses_of)}
    better = {v for v, own in rows.items() if all(row.met for row in own)}
    outcome = replace(outcome, comparisons=(*outcome.comparisons, *chain(*rows.values())))
    if better >= set(keys_of) and (not losses_of or better & set(losses_of)):
        return outcome
    why = f"No verdict, because trained models ({model}) are not clearly better than both baselines."
    return replace(outcome, not_trained=True, reason=sentences(outcome.reason, why))


# Learning to attend, and learning rates


def require_variants(model: str, variants: Sequence[str], there: Container[str]) -> None:
    """Raise Untestable unless `there`, the names of the variants with results, contains all `variants`.

    The message says which variants are missing; `model` is the name of the model in this message.
    """
    missing = [variant for variant in variants if variant not in there]
    require(not missing, f"The run has no {model} with {' and no '.join(missing)}.")


def scale_of_attention(tables: Tables, model: str) -> models.Attention:
    """Return a model's loss without attention, and by how much attention with LayerNorm lowers it (nats per token).

    Raises Untestable if attention does not lower the loss, or if runs are missing without which this is not known.
    """
    scale = models.attention(tables[LOSSES], model)
    known = "is worth nothing" if pd.notna(scale.worth) else "is not known to be worth anything"
    words = f"In {model} attention {known}, so that no run can be said to have learnt it."
    require(scale.worth > 0, words, runs=len(models.ends(tables[LOSSES], model)))
    return scale


def stability(tables: Tables, model: str, down_to: str, trains: float) -> Outcome:
    """Test whether models with scaling (layernorm) train at larger learning rates than those without (projection).

    For each seed, the largest rates at which the two train are divided. A run trains if its final validation loss is at
    least the share `trains` of the way down from the unigram loss to the loss without attention (`down_to` =
    "no_attention"), or from the loss without attention to LayerNorm's ("layernorm"). As a largest rate is only known to
    lie between two tried ones, the interval covers Student's for the smallest and for the largest possible ratios.
    """
    runs = models.ends(tables[LOSSES], model)
    runs = runs[runs.steps == runs.steps.max()]
    if down_to == NO_ATTENTION_VARIANT:
        bare = models.losses_without_attention(tables[LOSSES], model).mean()
        loss = (1 - trains) * runs.unigram_loss.mean() + trains * bare
    else:
        loss = scale_of_attention(tables, model).learnt(trains)
    require(not np.isnan(loss), f"The run has no {model} without attention.")
    rates = np.array([0.0, *sorted(runs.base_learning_rate.unique()), np.inf])
    runs = runs[runs.variant != NO_ATTENTION_VARIANT]
    runs = runs.assign(rate=runs.base_learning_rate.where(runs.valid_loss <= loss, 0.0))
    largest = runs.pivot_table(index="seed", columns="variant", values="rate", aggfunc="max")
    require_variants(model, PAPER_SCALING, largest)
    both = largest[[*PAPER_SCALING]].dropna()
    enough(both.layernorm, f"{model} with both variants")
    above = both.apply(lambda column: rates[np.searchsorted(rates, column) + 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        known, above = np.log(both), np.log(above)
        ratio = (known.layernorm - known.projection).fillna(0.0)
        least, most = known.layernorm - above.projection, above.layernorm - known.projection
    between = Value(Estimate(ratio.mean(), Estimate.of(least).low, Estimate.of(most).high), len(both))
    rows = [Comparison("layernorm over projection", between, ask("positive", unit=RATIO), unit=RATIO)]
    words = "largest of the rates tried at which all seeds train"
    of_all = runs.groupby(["variant", "base_learning_rate"]).rate.min().groupby("variant").max()
    for variant in legend_order(runs.variant):
        rate = Value(NOTHING._replace(mean=of_all[variant]), runs.seed[runs.variant == variant].nunique())
        rows.append(Comparison(variant, rate, role="context", statistic=words))
    return Outcome(tuple(rows))


def steps_to_attention(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Return the optimiser steps until runs have learnt to attend, by seed (rows) and variant (columns).

    A run has learnt once its loss is half the way (TRAINS) from the loss without attention to LayerNorm's final loss.
    """
    loss = scale_of_attention(tables, model).learnt(rules.TRAINS)
    own = tables[LOSSES][tables[LOSSES].model == model]
    run = ["variant", "seed", "base_learning_rate"]
    runs = arrivals(own[own.steps == own.steps.max()], run, "valid_loss", loss)
    single = runs.base_learning_rate.nunique() < 2
    require(single, f"The runs of {model} have several learning rates; the claim is about one.")
    require_variants(model, variants, set(runs.variant))
    measured = steps_of(runs, variants)
    pairs = len(measured.last_steps[[*variants]].dropna())
    few = f"{pairs} pairs of runs of {' and '.join(variants)}, fewer than {rules.PAIRS}"
    require(pairs < 2 or pairs >= rules.PAIRS, f"The run has {few}.", runs=pairs)  # one pair has no interval
    return measured


# Which keys are unselectable

CAUSAL, GAUSSIAN = " causal", "Gaussian keys, "


def of_place(
    tables: Tables, model: str, variant: str, site: str, texts: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of table key_selectability on a variant's keys at a site, first after training, then before it.

    Each item is a pair: how column names begin ("" after training, "untrained " before it), and the rows. `texts` is
    "long" or "sentences". If `site` ends in " causal", a key has to beat only the keys before it, otherwise all keys of
    its context, as in the paper. Raises Untestable if there are no rows after training.
    """
    keys = tables[KEYS]
    keys = keys[(keys.model == model) & (keys.texts == texts) & (keys.variant == variant)]
    keys = keys[(keys.site == site.removesuffix(CAUSAL)) & (keys.causal == site.endswith(CAUSAL))]
    place = f"{variant}, {site}, final, {model}, {texts}"
    require((keys.checkpoint == "final").any(), f"The run has no key verdicts of: {place}.")
    for before, checkpoint in (("", "final"), (BEFORE_TRAINING, "initial")):
        if len(rows := keys[keys.checkpoint == checkpoint]):
            yield before, rows


def unselectable(texts: str, tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Return, for each seed, the percentage of unselectable keys by variant, site in the model, and layer.

    `texts` is "long" or "sentences". A column "<variant> <site>" is the mean over layers, and "<variant> <site>, layer
    1" is of a single layer; "Gaussian keys, <variant> <site>" is what is expected of equally many Gaussian keys.
    Columns of models before training begin with "untrained ". A site is before_norm, after_norm, head,
    after_norm_exact, head_exact (with eps 0) or "head causal", where a key has to beat only the keys before it.
    """
    frames, worst, cases, specifics = [], [], {}, ""
    for place in dict.fromkeys(name.removeprefix(GAUSSIAN).split(", ")[0] for name in columns):
        variant, site = place.split(" ", 1)
        for before, rows in of_place(tables, model, variant, site, texts):
            name = before + place
            counts = rows.n_unselectable, rows.n_unselectable + rows.n_borderline
            for hits, into in zip(counts, (frames, worst), strict=True):
                by_layer = (100 * hits / rows.n_keys).groupby([rows.seed, rows.layer]).mean().unstack("layer")
                into.append(by_layer.add_prefix(f"{name}, layer ").assign(**{name: by_layer.mean(axis=1)}))
            cases |= rows.groupby("layer").n_keys.sum().add_prefix(f"{name}, layer ").to_dict()
            cases[name] = int(rows.n_keys.sum())
            if not before:  # projected keys have a dimension less
                projected = site == "after_norm" and variant in VARIANTS and VARIANTS[variant].projects
                frames[-1] = frames[-1].assign(**{GAUSSIAN + place: gaussian_percent(rows, projected)})
            if site.removesuffix(CAUSAL) == "head" and not specifics:
                specifics = f"Here d_head = {rows.dimensions.iloc[0]} and n = {span(rows.n_keys)} keys."
    return Measured(pd.concat(frames, axis=1), pd.concat(worst, axis=1), cases, specifics=specifics)


def with_unselectable(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Return, by seed, the percentage of sentences with an unselectable key at the attention input of some layer.

    `columns` names the variants. Columns of models before training begin with "untrained ".
    """
    percents = {}
    for variant in columns:
        for before, rows in of_place(tables, model, variant, "after_norm", "sentences"):
            hit = (rows.n_unselectable > 0).groupby([rows.seed, rows.context]).any()
            percents[before + variant] = 100 * hit.groupby("seed").mean()
    return Measured(pd.DataFrame(percents))


# Heads of several widths

HEAD = "layernorm head"
IN_HEADS = "keys unselectable in the heads, mean over layers and heads"


def head_widths(tables: Tables, model: str, zero: float) -> Outcome:
    """Test whether trained heads have more than half and at most twice as many unselectable keys as Gaussian keys.

    The heads are of models like `model` but with narrower heads; each width is compared by itself. If at most `zero` %
    of Gaussian keys are unselectable, there is no lower limit, and the upper limit is at least `zero` %.
    """
    widths = narrower(tables[KEYS], model)
    require(len(widths) > 1, f"The run has fewer than two widths of heads below that of {model}.")
    heads = {d: unselectable("long", tables, name, [HEAD]) for d, name in widths.items()}
    for d, name in widths.items():
        enough(heads[d].frame[HEAD], name)
    gaussian = {d: float(own.frame[GAUSSIAN + HEAD].iloc[0]) for d, own in heads.items()}

    def compared(before: str = "") -> list[Comparison]:
        beyond = pd.DataFrame({d: own.frame[before + HEAD] - gaussian[d] for d, own in heads.items()})
        points = Value.mean_of(enough(beyond.dropna().mean(axis=1), "every width of heads"))
        words = "heads minus Gaussian keys, mean over widths" + ", before training" * bool(before)
        rows = [Comparison(words, points, None, "control" if before else "effect", POINTS, IN_HEADS)]
        for d, own in heads.items():
            value, asked = own.value(before + HEAD), like_gaussian(gaussian[d], zero)
            rows.append(Comparison(f"d_head = {d}", value, asked, "effect", PER_CENT, IN_HEADS, d))
        return rows

    rows, passed_by = compared(), None
    if all(BEFORE_TRAINING + HEAD in own.frame for own in heads.values()):
        control, *untrained = compared(BEFORE_TRAINING)
        passed_by = UNTRAINED if all(row.met for row in rows[1:] + untrained) else None
        rows.append(control)
    rows += [row for d, name in widths.items() for row in among_keys_before(tables, d, name)]
    outcome = Outcome(tuple(rows), also_passed_by=passed_by)
    losses = tables[LOSSES]  # without attention the width of heads is no difference
    without = losses.variant == NO_ATTENTION_VARIANT
    bare = losses[(losses.model == model) & without]
    losses = pd.concat([losses[~without], *(bare.assign(model=name) for name in widths.values())])
    for name in widths.values():
        outcome = gated(outcome, {**tables, LOSSES: losses}, name, keys_of=["layernorm"])
    return outcome


def among_keys_before(tables: Tables, d: int, model: str) -> Iterator[Comparison]:
    """Yield a comparison: the percentage of unselectable keys in heads if a key has to beat only the keys before it.

    `d` is the width of the heads of `model`. Nothing is yielded if table key_selectability has no rows for it.
    """
    with suppress(Untestable):
        own = unselectable("long", tables, model, [HEAD + CAUSAL]).frame
        gaussian = own[GAUSSIAN + HEAD + CAUSAL].iloc[0]
        words = f"d_head = {d}, among the keys before them; Gaussian keys {gaussian:.3g} %"
        yield Comparison(words, Value.mean_of(own[HEAD + CAUSAL]), None, "context", PER_CENT, IN_HEADS)


def like_gaussian(gaussian: float, zero: float) -> Question:
    """Return the question whether a percentage is above half and at most twice that of unselectable Gaussian keys.

    `gaussian` is the percentage for Gaussian keys. If it is at most `zero`, there is no lower limit, and the upper
    limit is at least `zero`. For the upper limit, keys without a certain verdict count as unselectable.
    """
    most, least = max(2 * gaussian, zero), gaussian / 2 if gaussian > zero else -np.inf
    words = f"at most {most:.3g}" + f" and more than {least:.3g}" * (gaussian > zero)

    def find(estimate: Estimate, _: float, worst: Estimate) -> rules.Finding:
        return rules.all_of(rules.at_most(estimate, most, worst), rules.above(estimate, least))

    return Question(words, find, open_counts=True)


TESTS = {"stability": stability, "head_widths": head_widths}
"""Functions that test claims about language models, by the name under `test` in language_model.yaml."""

_SITES = ("before_norm", "after_norm", "after_norm_exact", "head", "head_exact", "head causal")
_COLUMNS = tuple(f"VARIANT {site}{of}" for site in _SITES for of in ("", ", layer *"))
_COLUMNS += tuple(f"{GAUSSIAN}VARIANT {site}" for site in _SITES)
_AT_END, _OF_SENTENCES = "validation loss at the end", "unselectable keys of the sentences"
_SMALL = f"{_AT_END}, small minus large, without minus with scaling"
_LARGEST, _HALF = "validation loss at the step of the largest gap", "steps to half of what attention is worth"
_KEPT, _ZERO = "loss added by what attention gives on average", "loss added by scores that are 0"
QUANTITIES = {
    "train_loss": Quantity(partial(losses, "train_loss"), NATS, "training loss at the end"),
    "valid_loss": Quantity(partial(losses, "valid_loss"), NATS, _AT_END),
    "valid_loss_at_the_largest_gap": Quantity(at_the_largest_gap, NATS, _LARGEST),
    "size_and_scaling": Quantity(size_and_scaling, NATS, _SMALL, ("size", "scaling", "interaction")),
    "mean_kept_worth": Quantity(partial(of_attention, "mean_kept_worth"), NATS, _KEPT, ("*",)),
    "zero_scores_worth": Quantity(partial(of_attention, "zero_scores_worth"), NATS, _ZERO, ("*",)),
    "steps_to_attention": Quantity(steps_to_attention, RATIO, _HALF, thresholds=("TRAINS", "PAIRS")),
    "unselectable_keys": Quantity(partial(unselectable, "long"), PER_CENT, "unselectable keys", _COLUMNS),
    "unselectable_tokens": Quantity(partial(unselectable, "sentences"), PER_CENT, _OF_SENTENCES, _COLUMNS),
    "sentences": Quantity(with_unselectable, PER_CENT, "sentences with an unselectable key"),
}
"""Quantities of language models that claims can compare, by the names that YAML entries use."""
