"""Claims about trained language models: quantities that entries compare, other tests, and the gate of all of them.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score, and undecided if the data's precision cannot tell. Quantities and tests take the name of a
model in the column `model` of the tables.

A model may have been trained with several learning rates, and for several lengths. Judged are then the longest runs,
each at the rate that the other half of the seeds chooses, see `analysis.language_model.runs_at_best_rate`.

Every claim about trained models passes one gate: a variant whose keys are looked at must be clearly better than the
frequencies of tokens and than the same model without attention; where losses are compared, one of the variants must
be, since another one may have lost what attention is worth.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import (
    Estimate,
    difference_of_medians,
    percent_over_seeds,
    span,
)
from layernorm_roles.evidence.analysis.heads import gaussian_percent, in_heads, narrower
from layernorm_roles.evidence.analysis.language_model import (
    POINT,
    Attention,
    attention,
    best_rates,
    ends,
    gain_over_unigram,
    losses_without_attention,
    of_all_lengths,
    runs_at_best_rate,
    steps_to_attend,
    worth_of_attention,
)
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.claims.claim import (
    ASKED,
    RATIO,
    UNTRAINED,
    Asked,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    enough,
    over_seeds,
    paired,
    refuse_rate_at_grid_end,
)
from layernorm_roles.evidence.claims.pairs import BEFORE_TRAINING, UNIGRAM, Measured, Quantity
from layernorm_roles.evidence.claims.rules import Finding, all_of
from layernorm_roles.evidence.legends import LEGENDS, label
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING, VARIANTS

KEYS, LOSSES = "key_selectability", "language_model_metrics"
PER_CENT, POINTS, NATS = " %", " points", " nats"

# Losses


def at_inner_rates(tables: Tables, model: str, *variants: str, steps: int | None = None) -> pd.DataFrame:
    """The runs of `variants` that are judged; Untestable if a variant is missing or its best rate ends the grid.

    The model without attention is a baseline, which may have its best rate anywhere.
    """
    runs = runs_at_best_rate(tables[LOSSES], model, steps)
    for variant in variants:
        chosen = runs[runs.variant == variant]
        if chosen.empty:
            single = ((tables[LOSSES].model == model) & (tables[LOSSES].variant == variant)).any()
            few = "only 1 seed, which cannot choose its own learning rate, of" if single else "no"
            raise Untestable(f"The run has {few} {model} with {variant}.")
        refuse_rate_at_grid_end(chosen.at_end, chosen.base_learning_rate, f"{model} with {label(variant)}")
    return runs[runs.variant.isin(variants)]


@dataclass
class Losses(Measured):
    """Losses of the longest runs of a language model, of each seed at its best rate; nats per token."""

    tables: Tables = field(default_factory=dict)
    model: str = ""
    column: str = "valid_loss"
    steps: int | None = None
    """Length of the runs; the longest if None."""

    def differences(self, high: str, low: str) -> pd.Series:
        """One loss minus another, by seed: of two variants, before training or after, or of a baseline and a variant.

        The baselines are the model without attention and the frequencies of tokens (`UNIGRAM`).
        """
        losses = self.tables[LOSSES]
        if high == NO_ATTENTION_VARIANT:
            at_inner_rates(self.tables, self.model, low)
            return worth_of_attention(losses, self.model, low)
        if high == UNIGRAM:
            return gain_over_unigram(losses, self.model, low)
        names = [name.removeprefix(BEFORE_TRAINING) for name in (high, low)]
        runs = at_inner_rates(self.tables, self.model, *names, steps=self.steps)
        if high.startswith(BEFORE_TRAINING):
            first = of_all_lengths(losses, self.model)
            runs = first[first.step == 0].merge(runs[["variant", "seed", *POINT]])
        both = runs.pivot(index="seed", columns="variant", values=self.column).reindex(columns=names)
        return (both[names[0]] - both[names[1]]).dropna()

    def estimate(self, high: str, low: str) -> tuple[Estimate, int]:
        """The mean of `differences` with its interval, and their number; Untestable with fewer than two."""
        found = self.differences(high, low)
        return over_seeds(found, f"{self.model} with {high} beside {low}"), len(found)


def losses(column: str, tables: Tables, model: str, variants: Sequence[str] = ()) -> Losses:
    """Losses of a language model at the end of its longest runs."""
    return Losses(pd.DataFrame(), tables=tables, model=model, column=column)


# The gate


def baselines(tables: Tables, model: str, variant: str) -> Iterator[Comparison]:
    """By how many nats per token a trained variant is better than two baselines, each to be more than 0.

    The baselines are the model whose layers have no attention, and the frequencies of the training tokens, which a task
    of labels lacks. The number of a baseline with fewer than two equal seeds is NaN.
    """
    for name, gain in ((NO_ATTENTION_VARIANT, worth_of_attention), ("unigram", gain_over_unigram)):
        seeds = gain(tables[LOSSES], model, variant)
        if len(seeds) or name == NO_ATTENTION_VARIANT:
            words = f"{name} minus {variant}, {model}"
            found, statistic = Estimate.of_any(seeds), "validation loss at the end"
            yield compare(words, found, len(seeds), ASKED["positive"](0), "gate", NATS, statistic)


def gated(
    outcome: Outcome, tables: Tables, model: str, keys_of: Sequence[str] = (), losses_of: Sequence[str] = ()
) -> Outcome:
    """The outcome of a test on trained models, which has no verdict unless they are clearly better than both baselines.

    That must be so of all variants `keys_of` whose keys were looked at, and of one at least of those whose losses were
    compared, `losses_of`.
    """
    if not outcome.comparisons:
        return outcome
    rows = {v: list(baselines(tables, model, v)) for v in dict.fromkeys((*keys_of, *losses_of))}
    better = {v for v, own in rows.items() if all_of(*(row.finding for row in own)) == Finding.SEEN}
    outcome = replace(outcome, comparisons=(*outcome.comparisons, *chain(*rows.values())))
    if better >= set(keys_of) and (not losses_of or better & set(losses_of)):
        return outcome
    shut = f"No verdict, because trained models ({model}) are not clearly better than both baselines."
    return replace(outcome, shut=True, reason=f"{outcome.reason} {shut}".strip())


# Losses by length and by rate


def loss_gap_lengths(tables: Tables, model: str, half_of_nats: float, trains: float) -> Outcome:
    """Whether the gap at best rates closes as training goes on: at the shortest length minus at the longest.

    It must close by half of `half_of_nats`. Shorter trainings after which LayerNorm has not learnt to attend, to the
    share `trains` of the longest, are shown and not judged: a gap cannot close before it has opened.
    """
    runs = of_all_lengths(tables[LOSSES], model)
    lengths = sorted(map(int, runs.steps[runs.variant == "layernorm"].unique()))
    if len(lengths) < 2:
        raise Untestable(f"The run has {'a single length' if lengths else 'no runs'} of {model}.")
    worth = {steps: _worth(tables, model, steps) for steps in lengths}
    if not worth[lengths[-1]] > 0:
        words = f"In the longest training of {model} attention is not known to be worth anything."
        raise Untestable(words, runs.seed.nunique())
    learnt = [steps for steps in lengths if worth[steps] >= trains * worth[lengths[-1]]]
    early = " ".join(
        f"After {steps:,} steps attention is worth {worth[steps]:.3f} nats."
        for steps in lengths
        if steps not in learnt
    )
    if len(learnt) < 2:
        few = f"The run has fewer than two lengths after which {model} has learnt to attend."
        raise Untestable(f"{few} {early}".strip(), runs.seed.nunique())
    gaps = {
        steps: Losses(pd.DataFrame(), tables=tables, model=model, steps=steps).differences(
            *PAPER_SCALING[::-1]
        )
        for steps in learnt
    }
    shown = {steps: over_seeds(gap, f"{model} after {steps} steps") for steps, gap in gaps.items()}
    closes, n = paired(gaps[learnt[0]], gaps[learnt[-1]], f"{model} at both lengths")
    words = "projection minus layernorm"
    return Outcome(
        (
            compare(
                f"{words}, first length minus last", closes, n, ASKED["half_of"](half_of_nats), unit=NATS
            ),
            *(
                compare(f"{words}, {steps:,} steps", shown[steps], len(gaps[steps]), None, role, NATS)
                for steps, role in zip(
                    [learnt[-1], *learnt[:-1]], ["control", *["context"] * len(learnt)], strict=False
                )
            ),
        ),
        early,
    )


def _worth(tables: Tables, model: str, steps: int) -> float:
    """What attention is worth to LayerNorm after `steps`, mean over seeds in nats; NaN if it is not known.

    Where no model without attention was trained for as long, the longest training of one stands for it.
    """
    means = runs_at_best_rate(tables[LOSSES], model, steps).groupby("variant").valid_loss.mean()
    bare = means.get(NO_ATTENTION_VARIANT, losses_without_attention(tables[LOSSES], model).mean())
    return bare - means.get("layernorm", np.nan)


def scale_of_attention(tables: Tables, model: str) -> Attention:
    """What attention is worth in `model`; Untestable where that is not known, or nothing."""
    scale = attention(tables[LOSSES], model)
    if not scale.worth > 0:
        known = "is worth nothing" if pd.notna(scale.worth) else "is not known to be worth anything"
        raise Untestable(f"In {model} attention {known}, so that no run can be said to have learnt it.")
    return scale


def stability(tables: Tables, model: str, trains: float) -> Outcome:
    """Whether models with scaling train at larger learning rates: the ratio of the largest rates, by seed."""
    runs, scale = ends(tables[LOSSES], model), scale_of_attention(tables, model)
    runs = runs[runs.steps == runs.steps.max()]
    rates = sorted(runs.base_learning_rate.unique())
    runs = runs.assign(trains=runs.valid_loss <= scale.learnt(trains))
    largest, context = {}, []
    for variant in legend_order(set(runs.variant) - {NO_ATTENTION_VARIANT}):
        own = runs[runs.variant == variant]
        rate = own.base_learning_rate.where(own.trains, 0.0)
        largest[variant] = rate.groupby(own.seed).max()
        all_train = own.groupby("base_learning_rate").trains.all()
        most = Estimate(all_train.index[all_train].max() if all_train.any() else 0.0, np.nan, np.nan)
        words = "largest of the rates tried at which all seeds train"
        context.append(compare(variant, most, own.seed.nunique(), role="context", statistic=words))
    if missing := [variant for variant in PAPER_SCALING if variant not in largest]:
        raise Untestable(f"The run has no {model} with {' and no '.join(missing)}.")
    for variant in PAPER_SCALING:
        what = f"{model} with {label(variant)}"
        refuse_rate_at_grid_end(largest[variant] == rates[-1], largest[variant], what, "trains up to")
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = [np.log(largest[variant]) for variant in PAPER_SCALING]
        ratio, _ = paired(*logarithms, f"{model} with both variants")
    number = len(pd.concat(logarithms, axis=1, join="inner"))
    return Outcome(
        (compare("layernorm over projection", ratio, number, ASKED["positive"](0), unit=RATIO), *context)
    )


def attention_learnt(tables: Tables, model: str, trains: float) -> Outcome:
    """Whether attention is learnt later without scaling: the ratio of the steps, each variant at its fastest rate.

    Runs learn to attend at some step or not at all, so that no mean is taken over them: the estimate is Hodges and
    Lehmann's, for which a run that never does counts as later than all others.
    """
    scale = scale_of_attention(tables, model)
    runs = steps_to_attend(tables[LOSSES], model, scale.learnt(trains))
    chosen = runs.merge(best_rates(runs, "arrival"))
    groups = {}
    for variant in PAPER_SCALING:
        own, what = chosen[chosen.variant == variant], f"{model} with {label(variant)}"
        groups[variant] = np.log(enough(own.arrival, f"{model} with {variant}").clip(lower=1))
        refuse_rate_at_grid_end(own.at_end, own.base_learning_rate, what, "learns to attend soonest")
    later = difference_of_medians(groups["projection"], groups["layernorm"])
    number = min(map(len, groups.values()))
    first = compare("projection over layernorm", later, number, ASKED["positive"](0), unit=RATIO)
    context = [
        compare(
            f"{variant}, {where}",
            Estimate(100 * np.isfinite(own.arrival).mean(), np.nan, np.nan),
            len(own),
            role="context",
            unit=PER_CENT,
            statistic="runs that learn to attend",
        )
        for where, part in (("the rate where it is soonest", chosen), ("all rates", runs))
        for variant in legend_order(set(part.variant) - {NO_ATTENTION_VARIANT})
        for own in [part[part.variant == variant]]
    ]
    return Outcome((first, *context))


# Which keys are unselectable


class Shares(NamedTuple):
    """Per cent of keys that are certified unselectable, and of undecided keys: a row a seed, a column a layer.

    Means over contexts and heads.
    """

    what: str
    certified: pd.DataFrame
    undecided: pd.DataFrame
    keys: pd.Series
    """How many keys were tested in each layer, in all seeds together."""

    @property
    def seeds(self) -> pd.Series:
        """Certified per cent, mean over layers, one value a seed."""
        return self.certified.mean(axis=1)

    def estimate(self, undecided: bool = False) -> Estimate:
        """Certified per cent, or with undecided keys, mean over layers with its interval; Untestable for one seed."""
        percent = (self.certified + self.undecided if undecided else self.certified).mean(axis=1)
        return percent_over_seeds(enough(percent, self.what), int(self.keys.sum()))


def choose(keys: pd.DataFrame, variant: str, site: str, **where: str) -> pd.DataFrame:
    """The rows of one variant and site for which every column of `where` has its value; Untestable if there are none.

    The rivals of a key are all keys of its context, as in the paper; at a site that ends in CAUSAL, the keys before it.
    """
    part = keys[(keys.variant == variant) & (keys.causal == site.endswith(CAUSAL))]
    for column, value in {"site": site.removesuffix(CAUSAL), **where}.items():
        part = part[part[column] == value]
    if part.empty:
        raise Untestable(f"The run has no key verdicts of: {', '.join([variant, site, *where.values()])}.")
    return part


CAUSAL = " causal"


def shares(keys: pd.DataFrame, variant: str, site: str, **where: str) -> Shares:
    """Shares of the rows that `choose` finds."""
    part = choose(keys, variant, site, **where)
    counts = (part.n_unselectable, part.n_borderline)
    percents = (
        (100 * n / part.n_keys).groupby([part.seed, part.layer]).mean().unstack("layer") for n in counts
    )
    return Shares(where.get("model", variant), *percents, part.groupby("layer").n_keys.sum())


def unselectable(texts: str, tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Per cent of unselectable keys of a variant at a site, by layer and in the mean, after training and before.

    A column is named "<variant> <site>" for the mean, with ", layer 1" and so on for a layer. As many Gaussian keys as
    those of a variant and site are in the column "Gaussian keys, <variant> <site>". Sites are those of the table
    key_selectability, with CAUSAL for rivals that come before.
    """
    frames, worst, cases, specifics = [], [], {}, ""
    where = {"model": model, "texts": texts}
    for place in dict.fromkeys(name.removeprefix(GAUSSIAN).split(", ")[0] for name in columns):
        variant, site = place.split(" ", 1)
        for checkpoint, before in (("final", ""), ("initial", BEFORE_TRAINING)):
            try:
                found = shares(tables[KEYS], variant, site, checkpoint=checkpoint, **where)
            except Untestable:
                if before:
                    continue
                raise
            name = f"{before}{place}"
            for percents, into in ((found.certified, frames), (found.certified + found.undecided, worst)):
                by_layer = percents.rename(columns=lambda layer, name=name: f"{name}, layer {layer}")
                into.append(by_layer.assign(**{name: percents.mean(axis=1)}))
            cases |= {f"{name}, layer {layer}": number for layer, number in found.keys.items()}
            cases[name] = found.keys.sum()
        rows = choose(tables[KEYS], variant, site, checkpoint="final", **where)
        projected = (
            site == "after_norm" and variant in VARIANTS and VARIANTS[variant].projects
        )  # they have a dimension less
        frames[-1] = frames[-1].assign(**{GAUSSIAN + place: gaussian_percent(rows, projected)})
        if site == "head" and not specifics:
            heads = choose(tables[KEYS], variant, site, **where)
            specifics = f"Here d_head = {heads.dimensions.iloc[0]} and n = {span(heads.n_keys)} keys."
    frame, worst = (pd.concat(each, axis=1) for each in (frames, worst))
    return Measured(frame, worst, pd.Series(cases), specifics=specifics)


GAUSSIAN = "Gaussian keys, "


def sentences(tables: Tables, model: str, columns: Sequence[str]) -> Measured:
    """Per cent of the sentences with an unselectable key at the attention input in some layer, by variant."""
    where, found = {"model": model, "texts": "sentences"}, {}
    for variant in columns:
        for checkpoint, before in (("final", ""), ("initial", BEFORE_TRAINING)):
            try:
                part = choose(tables[KEYS], variant, "after_norm", checkpoint=checkpoint, **where)
            except Untestable:
                if before:
                    continue
                raise
            hit = (part.n_unselectable > 0).groupby([part.seed, part.context]).any()
            found[before + variant] = 100 * hit.groupby("seed").mean()
    return Measured(pd.DataFrame(found))


# Heads of several widths


class Width(NamedTuple):
    """The heads of one width, with the weights of one checkpoint."""

    model: str
    found: Shares
    gaussian: float
    """Per cent of as many Gaussian keys in as many dimensions that are expected to be unselectable."""

    def comparison(self, d: int, zero: float) -> Comparison:
        """Whether at least half as many keys are unselectable as of Gaussian keys, and at most twice as many.

        Where Gaussian keys have at most `zero` per cent there is no least number, and `zero` is the most in any case.
        Undecided keys count as unselectable where it is asked whether there are too many.
        """
        worst = self.found.estimate(undecided=True)
        most, least = max(2 * self.gaussian, zero), self.gaussian / 2
        bounds = [ASKED["counted"](most)] + [ASKED["more_than"](least)] * (self.gaussian > zero)
        words = f"at most {most:.3g}" + f" and more than {least:.3g}" * (self.gaussian > zero)
        asked = Asked(words, lambda *found: all_of(*(bound.find(*found) for bound in bounds)))
        estimate, n = self.found.estimate(), len(self.found.seeds)
        return compare(
            f"d_head = {d}", estimate, n, asked, unit=PER_CENT, statistic=IN_HEADS, part=d, worst=worst
        )


IN_HEADS = "keys unselectable in the heads, mean over layers and heads"


def head_widths(tables: Tables, model: str, zero: float) -> Outcome:
    """The outcome for whether trained heads have about as many unselectable keys as equally many Gaussian keys have.

    Each width of heads below that of the model named `model` is judged by `Width.comparison`.
    """
    keys = tables[KEYS]
    models = narrower(keys, model)
    if len(models) < 2:
        raise Untestable(f"The run has fewer than two widths of heads below that of {model}.")
    trained = _widths(keys, models, "final")
    rows = [width.comparison(d, zero) for d, width in trained.items()]
    beyond = _beyond(trained)
    measured = over_seeds(beyond, "every width of heads")
    first = compare("heads minus Gaussian keys, mean over widths", measured, len(beyond), unit=POINTS)
    control, passes = [], None
    try:
        untrained = _widths(keys, models, "initial")
        before = _beyond(untrained)
        words = "heads minus Gaussian keys, mean over widths, before training"
        control.append(compare(words, Estimate.of_any(before), len(before), role="control", unit=POINTS))
        if (
            {row.finding for row in rows}
            == {w.comparison(d, zero).finding for d, w in untrained.items()}
            == {Finding.SEEN}
        ):
            passes = UNTRAINED
    except Untestable:
        pass
    outcome = Outcome((first, *rows, *control, *_causal(keys, models)), also_passed_by=passes)
    losses = tables[LOSSES]
    for name in models.values():
        own = {**tables, LOSSES: _with_baseline(losses, name, model)}
        outcome = gated(outcome, own, name, keys_of=["layernorm"])
    return outcome


def _widths(keys: pd.DataFrame, models: dict[int, str], checkpoint: str) -> dict[int, Width]:
    """The heads of each model, by their width; Untestable if a model lacks them."""
    where = {"texts": "long", "checkpoint": checkpoint}
    return {
        d: Width(
            name,
            shares(keys, "layernorm", "head", model=name, **where),
            gaussian_percent(choose(keys, "layernorm", "head", model=name, **where)),
        )
        for d, name in models.items()
    }


def _beyond(widths: dict[int, Width]) -> pd.Series:
    """By how many points the certified per cent exceeds that of Gaussian keys, mean over widths: one value a seed."""
    points = {d: width.found.seeds - width.gaussian for d, width in widths.items()}
    return pd.DataFrame(points).dropna().mean(axis=1)


def _causal(keys: pd.DataFrame, models: dict[int, str]) -> list[Comparison]:
    """Per cent of trained keys that are unselectable among those before, by width, as far as the run has them."""
    here = in_heads(keys)
    here, rows = here[(here.checkpoint == "final") & here.causal], []
    for d, name in models.items():
        own = here[here.model == name]
        percent = (100 * own.n_unselectable / own.n_keys).groupby(own.seed).mean()
        if len(percent):
            words = f"d_head = {d}, among the keys before them; Gaussian keys {gaussian_percent(own):.3g} %"
            found = Estimate.of_any(percent)
            rows.append(
                compare(words, found, len(percent), role="context", unit=PER_CENT, statistic=IN_HEADS)
            )
    return rows


def _with_baseline(losses: pd.DataFrame, name: str, model: str) -> pd.DataFrame:
    """The losses of a model, and those of `model` without attention: without it the width of heads is no difference."""
    bare = losses[(losses.model == model) & (losses.variant == NO_ATTENTION_VARIANT)]
    own = losses[(losses.model == name) & (losses.variant != NO_ATTENTION_VARIANT)]
    return pd.concat([own, bare.assign(model=name)], ignore_index=True)


_SITES = ("before_norm", "after_norm", "after_norm_exact", "head", "head_exact", "head causal")
_PLACES = tuple(f"{variant} {site}" for variant in LEGENDS for site in _SITES)
_COLUMNS = (*_PLACES, *(f"{place}, layer *" for place in _PLACES))
_COLUMNS += (*(BEFORE_TRAINING + name for name in _COLUMNS), *(GAUSSIAN + place for place in _PLACES))
QUANTITIES = {
    "train_loss": Quantity(partial(losses, "train_loss"), NATS, "training loss at the end"),
    "valid_loss": Quantity(partial(losses, "valid_loss"), NATS, "validation loss at the end"),
    "unselectable_keys": Quantity(partial(unselectable, "long"), PER_CENT, "unselectable keys", _COLUMNS),
    "unselectable_tokens": Quantity(
        partial(unselectable, "sentences"), PER_CENT, "unselectable keys of the sentences", _COLUMNS
    ),
    "sentences": Quantity(sentences, PER_CENT),
}
"""The quantities of language models that entries name."""

TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function for function in (loss_gap_lengths, stability, attention_learnt, head_widths)
}
"""The functions that entries of language_model.yaml name under `test`."""
