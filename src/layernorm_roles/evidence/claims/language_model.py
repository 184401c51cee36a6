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
    percent_over_seeds,
    span,
    two_by_two,
)
from layernorm_roles.evidence.analysis.heads import gaussian_percent, in_heads, narrower
from layernorm_roles.evidence.analysis.language_model import (
    POINT,
    SIZE_AND_SCALING,
    Attention,
    attention,
    ends,
    gain_over_unigram,
    losses_without_attention,
    of_all_lengths,
    runs_at_best_rate,
    steps_to_attend,
    worth_of_attention,
)
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.claims import rules
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
    refuse_rate_at_grid_end,
)
from layernorm_roles.evidence.claims.pairs import BEFORE_TRAINING, UNIGRAM, Measured, Quantity, steps_of
from layernorm_roles.evidence.claims.rules import Finding, all_of
from layernorm_roles.evidence.legends import LEGENDS, label
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING, VARIANTS

KEYS, LOSSES = "key_selectability", "language_model_metrics"
PER_CENT, POINTS, NATS = " %", " points", " nats"

# Losses


def at_inner_rates(tables: Tables, model: str, *variants: str) -> pd.DataFrame:
    """The runs of `variants` that are judged; Untestable if a variant is missing or its best rate ends the grid.

    The model without attention is a baseline, which may have its best rate anywhere.
    """
    runs = runs_at_best_rate(tables[LOSSES], model)
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

    def values(self, high: str, low: str) -> pd.Series:
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
        runs = at_inner_rates(self.tables, self.model, *names)
        if high.startswith(BEFORE_TRAINING):
            first = of_all_lengths(losses, self.model)
            runs = first[first.step == 0].merge(runs[["variant", "seed", *POINT]])
        both = runs.pivot(index="seed", columns="variant", values=self.column).reindex(columns=names)
        return (both[names[0]] - both[names[1]]).dropna()

    def seeds_of(self, *names: str) -> str:
        """What there are too few seeds of, where there are too few."""
        return f"{self.model} with {names[0]} beside {names[1]}"


def losses(column: str, tables: Tables, model: str, variants: Sequence[str] = ()) -> Losses:
    """Losses of a language model at the end of its longest runs."""
    return Losses(pd.DataFrame(), tables=tables, model=model, column=column)


def at_the_largest_gap(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Validation losses at the step at which the mean of projection minus layernorm is largest, by variant."""
    own = tables[LOSSES][tables[LOSSES].model == model]
    wide = own.pivot_table(index=["step", "seed"], columns="variant", values="valid_loss")
    if lacking := [variant for variant in PAPER_SCALING if variant not in wide]:
        raise Untestable(f"The run has no {model} with {lacking[0]}.")
    step = int((wide.projection - wide.layernorm).groupby("step").mean().idxmax())
    return Measured(wide.loc[step], note=f"The mean gap is largest at step {step:,}.")


def size_and_scaling(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """What a small size, and leaving scaling out, add to the validation loss at the end: effects of `two_by_two`."""
    cells = [*SIZE_AND_SCALING[0], *SIZE_AND_SCALING[1]]
    runs = at_inner_rates(tables, model, *cells)
    effects = two_by_two(-runs.pivot(index="seed", columns="variant", values="valid_loss"), *SIZE_AND_SCALING)
    return Measured(pd.DataFrame(dict(zip(("size", "scaling", "interaction"), effects, strict=True))))


def of_attention(column: str, tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """A column of table language_model_attention on the whole model at the end, by variant; nats per token."""
    table = tables.get("language_model_attention")
    if table is None or column not in table or not (table.model == model).any():
        raise Untestable(f"The run did not look at attention in {model}.")
    ends = table[(table.model == model) & table.layer.isna() & (table.step == table.steps)]
    return Measured(ends.pivot(index="seed", columns="variant", values=column))


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


# Learning to attend, and learning rates


def scale_of_attention(tables: Tables, model: str) -> Attention:
    """What attention is worth in `model`; Untestable where that is not known, or nothing."""
    scale = attention(tables[LOSSES], model)
    if not scale.worth > 0:
        known = "is worth nothing" if pd.notna(scale.worth) else "is not known to be worth anything"
        raise Untestable(f"In {model} attention {known}, so that no run can be said to have learnt it.")
    return scale


def stability(tables: Tables, model: str, down_to: str, trains: float) -> Outcome:
    """Whether models with scaling train at larger learning rates: the ratio of the largest rates, by seed.

    A run trains if it ends the share `trains` of the way from one loss down to another. With `down_to` "no_attention"
    these are the loss of the tokens' frequencies and the one without attention; with "layernorm" the one without
    attention and LayerNorm's at its best rate. The largest rate of a seed is known up to the next one of the grid, so
    that the ratio is too: the interval goes from the lower end of Student's of the smallest ratios that the grid leaves
    open to the upper end of that of the largest ones.
    """
    runs = ends(tables[LOSSES], model)
    if down_to == NO_ATTENTION_VARIANT:
        bare = losses_without_attention(tables[LOSSES], model).mean()
        loss = (1 - trains) * runs.unigram_loss.mean() + trains * bare
    else:
        loss = scale_of_attention(tables, model).learnt(trains)
    if np.isnan(loss):
        raise Untestable(f"The run has no {model} without attention.")
    rates = np.array(sorted(runs.base_learning_rate.unique()))
    beyond = pd.Series([*rates, np.inf], index=[0.0, *rates])
    runs = runs.assign(trains=runs.valid_loss <= loss)
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
    both = pd.concat(
        [largest[variant] for variant in PAPER_SCALING], axis=1, join="inner", keys=PAPER_SCALING
    )
    enough(both.layernorm, f"{model} with both variants")
    next_ = both.apply(lambda rates: rates.map(beyond))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, least, most = (
            np.log(high) - np.log(low)
            for high, low in (
                (both.layernorm, both.projection),
                (both.layernorm, next_.projection),
                (next_.layernorm, both.projection),
            )
        )
    found = Estimate(ratio.fillna(0.0).mean(), Estimate.of(least).low, Estimate.of(most).high)
    first = compare("layernorm over projection", found, len(both), ASKED["positive"](0), unit=RATIO)
    return Outcome((first, *context))


def steps_to_attention(tables: Tables, model: str, variants: Sequence[str]) -> Measured:
    """Steps until a run is the share TRAINS of the way from the loss without attention down to LayerNorm's."""
    runs = steps_to_attend(tables[LOSSES], model, scale_of_attention(tables, model).learnt(rules.TRAINS))
    if runs.base_learning_rate.nunique() > 1:
        raise Untestable(f"The runs of {model} have several learning rates; the claim is about one.")
    for variant in variants:
        if variant not in set(runs.variant):
            raise Untestable(f"The run has no {model} with {variant}.")
    return steps_of(runs, variants, rules.PAIRS)


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
        if site.removesuffix(CAUSAL) == "head" and not specifics:
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
    "valid_loss_at_the_largest_gap": Quantity(
        at_the_largest_gap, NATS, "validation loss at the step of the largest gap"
    ),
    "size_and_scaling": Quantity(
        size_and_scaling,
        NATS,
        "validation loss at the end, small minus large, without minus with scaling",
        ("size", "scaling", "interaction"),
    ),
    "mean_kept_worth": Quantity(
        partial(of_attention, "mean_kept_worth"),
        NATS,
        "loss added by what attention gives on average",
        ("*",),
    ),
    "zero_scores_worth": Quantity(
        partial(of_attention, "zero_scores_worth"), NATS, "loss added by scores that are 0", ("*",)
    ),
    "steps_to_attention": Quantity(
        steps_to_attention, RATIO, "steps to half of what attention is worth", thresholds=("TRAINS", "PAIRS")
    ),
    "unselectable_keys": Quantity(partial(unselectable, "long"), PER_CENT, "unselectable keys", _COLUMNS),
    "unselectable_tokens": Quantity(
        partial(unselectable, "sentences"), PER_CENT, "unselectable keys of the sentences", _COLUMNS
    ),
    "sentences": Quantity(sentences, PER_CENT),
}
"""The quantities of language models that entries name."""

TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function for function in (stability, head_widths)
}
"""The functions that entries of language_model.yaml name under `test`."""
