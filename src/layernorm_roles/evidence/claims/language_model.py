"""Claims about trained language models: what attention is worth, what scaling is worth, which keys are unselectable.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score, and undecided if the data's precision cannot tell. The tests take the name of a model in
the column `model` of the tables first.

A model may have been trained with several learning rates, and for several lengths. Judged are then the longest runs,
each at the rate that the other half of the seeds chooses, see `analysis.language_model.judged_runs`.

Every claim about trained models passes one gate: a variant whose keys are looked at must be clearly better than the
frequencies of tokens and than the same model without attention; where losses are compared, one of the variants must
be, since another one may have lost what attention is worth.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import (
    Estimate,
    difference_of_medians,
    percent_over_seeds,
    span,
)
from layernorm_roles.evidence.analysis.heads import gaussian_percent
from layernorm_roles.evidence.analysis.language_model import (
    POINT,
    Attention,
    attention,
    best_rates,
    ends,
    gain_over_unigram,
    judged_runs,
    losses_without_attention,
    of_all_lengths,
    steps_to_attend,
    worth_of_attention,
)
from layernorm_roles.evidence.analysis.order import legend_order
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOT_THERE,
    NOTHING,
    OPPOSITE,
    THERE,
    Finding,
    Outcome,
    Tables,
    Untestable,
    Verdict,
    above,
    all_of,
    at_most,
    direction,
    effect,
    enough,
    inner,
    over_seeds,
    paired,
    paper_claim,
    statement,
    times,
    untrained_too,
)
from layernorm_roles.evidence.legends import LEGENDS, PAPER_MODEL
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING, VARIANTS

KEYS, LOSSES = "key_selectability", "language_model_metrics"

# What attention is worth, and the gate


class Baselines(NamedTuple):
    """By how many nats per token a trained variant is better than two baselines; NOTHING where there are no pairs."""

    attention: Estimate
    """Better than the model whose layers have no attention."""
    unigram: Estimate
    """Better than the frequencies of the training tokens."""

    @property
    def finding(self) -> Finding:
        """Seen if the whole intervals lie above 0. A task without a unigram loss has one baseline."""
        found = [direction(self.attention)]
        return all_of(*found, *([] if pd.isna(self.unigram.mean) else [direction(self.unigram)]))

    def __str__(self) -> str:
        words = f"attention is worth {self.attention:.3f} nats per token"
        if pd.isna(self.attention.low):
            words = "what attention is worth is not known, for want of two pairs of runs with and without it,"
        below = f" and the loss lies below that of the tokens' frequencies by {self.unigram:.2f}"
        return words + (below if pd.notna(self.unigram.mean) else "")


def baselines(tables: Tables, model: str, variant: str) -> Baselines:
    """What a trained variant gains over both baselines; NOTHING for a baseline with fewer than two equal seeds."""
    gains = (count(tables[LOSSES], model, variant) for count in (worth_of_attention, gain_over_unigram))
    return Baselines(*(Estimate.of_any(gain) for gain in gains))


def gated(
    outcome: Outcome, tables: Tables, model: str, keys_of: Sequence[str] = (), losses_of: Sequence[str] = ()
) -> Outcome:
    """The outcome of a test on trained models, without its verdict unless they are clearly better than both baselines.

    That must be so of all variants `keys_of` whose keys were looked at, and of one at least of those whose losses were
    compared, `losses_of`. The reason says in either case what attention is worth.
    """
    gains = {variant: baselines(tables, model, variant) for variant in dict.fromkeys((*keys_of, *losses_of))}
    worth = "; ".join(f"with {LEGENDS.get(variant, variant)} {gain}" for variant, gain in gains.items())
    better = {variant for variant, gain in gains.items() if gain.finding == Finding.SEEN}
    if better >= set(keys_of) and (not losses_of or better & set(losses_of)):
        return outcome._replace(reason=f"{outcome.reason} After training ({model}): {worth}.")
    shut = (
        f"No verdict, because trained models ({model}) are not clearly better than both baselines: {worth}."
    )
    return outcome._replace(verdict=Verdict.NOT_TESTED, reason=f"{shut} {outcome.reason}")


def attention_worth(model: str, tables: Tables, least: float) -> Outcome:
    """Whether attention lowers the loss of `model` with LayerNorm by `least` nats; the control is the unigram loss."""
    seeds = worth_of_attention(tables[LOSSES], model, "layernorm")
    if len(seeds) < 2:
        raise Untestable(f"The run has fewer than two pairs of {model} with and without attention.")
    at_inner_rates(tables, model, "layernorm")
    gain = baselines(tables, model, "layernorm")
    part = all_of(above(gain.attention, least), gain.finding)
    bare = losses_without_attention(tables[LOSSES], model).mean()
    reason = (
        f"{at_step(tables, model)}, without attention the validation loss is {bare:.3f} nats per token, with it "
        f"{gain.attention:.3f} lower. "
        f"The loss with attention lies below that of the tokens' frequencies by {gain.unigram:.2f}."
    )
    return statement([part], gain.attention, len(seeds), reason, gain.unigram)


# What scaling is worth (Figure 4), and what projection costs


class Gaps(NamedTuple):
    """Losses of one variant minus those of another at the end, nats per token, over seeds that both have."""

    train: Estimate
    valid: Estimate
    untrained: Estimate
    """The difference of the validation losses at step 0."""
    seeds: pd.Series
    """The differences of the validation losses at the end, by seed."""


def at_inner_rates(tables: Tables, model: str, *variants: str, steps: int | None = None) -> pd.DataFrame:
    """The runs of `variants` that are judged; Untestable if a variant is missing or its best rate ends the grid.

    The model without attention is a baseline, which may have its best rate anywhere.
    """
    runs = judged_runs(tables[LOSSES], model, steps)
    for variant in variants:
        chosen = runs[runs.variant == variant]
        if chosen.empty:
            single = ((tables[LOSSES].model == model) & (tables[LOSSES].variant == variant)).any()
            few = "only 1 seed, which cannot choose its own learning rate," if single else "no"
            raise Untestable(
                f"The run has {few} {'of' if single else ''} {model} with {variant}.".replace("  ", " ")
            )
        inner(chosen.at_end, chosen.base_learning_rate, f"{model} with {LEGENDS.get(variant, variant)}")
    return runs[runs.variant.isin(variants)]


def at_step(tables: Tables, model: str, steps: int | None = None, variants: Sequence[str] = ()) -> str:
    """The last step and the learning rates of the runs that are judged, as the beginning of a sentence."""
    runs = judged_runs(tables[LOSSES], model, steps)
    runs = runs[runs.variant.isin(variants or set(runs.variant))]
    rates = runs.groupby("variant").base_learning_rate.agg(
        lambda tried: " or ".join(f"{r:g}" for r in sorted(set(tried)))
    )
    words = f"at a learning rate of {rates.iloc[0]}"
    if rates.nunique() > 1:
        each = ", ".join(
            f"{LEGENDS.get(variant, variant)} {rates[variant]}" for variant in legend_order(rates.index)
        )
        words = f"with each norm at its best learning rate ({each})"
    return f"After {int(runs.steps.max()):,} steps {words}"


def gaps(tables: Tables, model: str, high: str, low: str, steps: int | None = None) -> Gaps:
    """The losses of variant `high` minus those of `low`; Untestable with fewer than two seeds in common."""
    runs = at_inner_rates(tables, model, high, low, steps=steps)

    def differences(column: str, rows: pd.DataFrame) -> pd.Series:
        both = rows.pivot(index="seed", columns="variant", values=column).reindex(columns=[high, low])
        return (both[high] - both[low]).dropna()

    train, valid = (differences(column, runs) for column in ("train_loss", "valid_loss"))
    losses = of_all_lengths(tables[LOSSES], model)
    first = losses[losses.step == 0].merge(runs[["variant", "seed", *POINT]])
    what = f"{model} with {high} beside {low}"
    return Gaps(
        over_seeds(train, what),
        over_seeds(valid, what),
        Estimate.of_any(differences("valid_loss", first)),
        valid,
    )


def paper_gaps() -> tuple[float, float]:
    """The losses without scaling minus those with it in the paper's Figure 4: training, validation (nats)."""
    paper = reported()["language_model"]
    train, valid = (paper["projection"][c] - paper["layernorm"][c] for c in ("train_loss", "valid_loss"))
    return round(train, 3), round(valid, 3)  # as the plot was read


def gap_of_scaling(model: str, tables: Tables) -> tuple[Gaps, Finding, str]:
    """The losses without scaling minus those with it, whether both gaps of Figure 4 are there, and a sentence on it."""
    gap, paper = gaps(tables, model, *PAPER_SCALING[::-1]), paper_gaps()
    reason = (
        f"{at_step(tables, model, variants=PAPER_SCALING)}, the loss without scaling minus that with it is "
        f"{gap.train:+.3f} nats per token in training and {gap.valid:+.3f} in validation{_of_figure_4(model)}."
    )
    return gap, all_of(*map(effect, (gap.train, gap.valid), paper)), reason


def loss_gap(model: str, tables: Tables, rates: str) -> Outcome:
    """Figure 4 at one learning rate: by how much the final losses without scaling are higher.

    The control is the gap between the models of `rates`, where every variant has the learning rate that is best for it:
    at one rate for all a gap may say how the rate suits either.
    """
    (gap, own, reason), valid = gap_of_scaling(model, tables), paper_gaps()[1]
    passes = effect(gap.untrained, valid) == Finding.SEEN
    if baselines(tables, model, "layernorm").attention.mean < valid:
        reason += " What is sought is more than attention is worth altogether."
    if pd.notna(gap.untrained.mean):
        reason += f" Untrained, the validation losses differ by {gap.untrained.mean:+.3f}."
    control, isolated = NOTHING, Finding.UNDECIDED
    try:
        control = gaps(tables, rates, *PAPER_SCALING[::-1]).valid
        isolated = effect(control, valid)
        reason += f" {at_step(tables, rates, variants=PAPER_SCALING)}, it is {control:+.3f}."
        if own in THERE and isolated in NOT_THERE:
            reason += " So the learning rate makes the gap, not the scaling."
    except Untestable as lack:
        reason += f" At best rates: {lack}"
    outcome = paper_claim(
        own,
        isolated,
        gap.valid,
        len(gap.seeds),
        reason,
        control,
        reported=_per_token(model, valid),
        also_passed_by=untrained_too(passes),
    )
    return gated(outcome, tables, model, losses_of=PAPER_SCALING)


def _of_figure_4(model: str) -> str:
    """What the paper's figure has, for a model of words; tokens of other kinds have other losses."""
    train, valid = paper_gaps()
    steps = reported()["language_model"]["sizes"]["steps"]
    words = f"; the paper's figure has {train:+.3f} and {valid:+.3f} at step {steps:,}, of one run"
    return words if _per_token(model, valid) else ""


def _per_token(model: str, nats: float) -> float | None:
    """What the paper reports per token, None for a model whose tokens are bytes: the two have no ratio."""
    return nats if model.startswith(PAPER_MODEL) and "bytes" not in model else None


SIZE_FREE = "projection_scalar"
"""The variant without scaling that learns the size of its attention inputs, but does not give them equal lengths."""


def loss_gap_best_rate(model: str, tables: Tables) -> Outcome:
    """By how much the final losses without scaling are higher with each variant at the learning rate best for it.

    The control replaces the variant without scaling by one that may learn the size of its attention inputs.
    """
    (gap, own, reason), valid = gap_of_scaling(model, tables), paper_gaps()[1]
    control, isolated = NOTHING, Finding.SEEN
    try:
        control = gaps(tables, model, SIZE_FREE, "layernorm").valid
        isolated = effect(control, valid)
        reason += f" Where the variant without scaling learns the size of its attention inputs it is {control:+.3f}."
    except Untestable as lack:
        reason += f" Whether a learnt size does as well is not known: {lack}"
    for high, low in (("none", "scale"), ("layernorm_gain_small", "layernorm_gain")):
        try:
            other = gaps(tables, model, high, low).valid
            reason += f" {LEGENDS.get(high, high)} minus {LEGENDS.get(low, low)}: {other:+.3f}."
        except Untestable:
            continue
    number = len(gap.seeds)
    outcome = paper_claim(
        own, isolated, gap.valid, number, reason, control, reported=_per_token(model, valid)
    )
    return gated(outcome, tables, model, losses_of=PAPER_SCALING)


def loss_gap_lengths(model: str, tables: Tables) -> Outcome:
    """Whether the gap at best rates closes as training goes on: at the shortest length minus at the longest.

    Shorter trainings after which LayerNorm has not learnt to attend are described and not judged: a gap cannot close
    before it has opened.
    """
    runs = of_all_lengths(tables[LOSSES], model)
    lengths = sorted(map(int, runs.steps[runs.variant == "layernorm"].unique()))
    if len(lengths) < 2:
        raise Untestable(f"The run has {'a single length' if lengths else 'no runs'} of {model}.")
    worth = {steps: _worth(tables, model, steps) for steps in lengths}
    if not worth[lengths[-1]] > 0:
        raise Untestable(f"In the longest training of {model} attention is not known to be worth anything.")
    learnt = [steps for steps in lengths if worth[steps] >= rules.TRAINS * worth[lengths[-1]]]
    early = "".join(
        f" After {steps:,} steps attention is worth {worth[steps]:.3f}."
        for steps in lengths
        if steps not in learnt
    )
    if len(learnt) < 2:
        raise Untestable(
            f"The run has fewer than two lengths after which {model} has learnt to attend.{early}"
        )
    found = {steps: gaps(tables, model, *PAPER_SCALING[::-1], steps=steps) for steps in learnt}
    shortest, *_, longest = found.values()
    closes = paired(shortest.seeds, longest.seeds, f"{model} at both lengths")
    finding = effect(closes, paper_gaps()[1])
    each = "; ".join(f"{gap.valid:+.3f} ({steps:,} steps)" for steps, gap in found.items())
    word = {Finding.REVERSED: "grows", Finding.ABSENT: "stays", Finding.UNDECIDED: "may do either"}
    reason = (
        f"At best rates the validation loss without scaling minus that with it is {each}: from the shortest to the "
        f"longest training it falls by {closes:.3f} nats per token. It {word.get(finding, 'closes')}.{early}"
    )
    number = len((shortest.seeds - longest.seeds).dropna())
    outcome = statement([finding], closes, number, reason, longest.valid)
    return gated(outcome, tables, model, losses_of=PAPER_SCALING)


def _worth(tables: Tables, model: str, steps: int) -> float:
    """What attention is worth to LayerNorm after `steps`, mean over seeds in nats; NaN if it is not known.

    Where no model without attention was trained for as long, the longest training of one stands for it.
    """
    means = judged_runs(tables[LOSSES], model, steps).groupby("variant").valid_loss.mean()
    bare = means.get(NO_ATTENTION_VARIANT, losses_without_attention(tables[LOSSES], model).mean())
    return bare - means.get("layernorm", np.nan)


def scale_of_attention(tables: Tables, model: str) -> Attention:
    """What attention is worth in `model`; Untestable where that is not known, or nothing."""
    found = attention(tables[LOSSES], model)
    if not found.worth > 0:
        known = "is worth nothing" if pd.notna(found.worth) else "is not known to be worth anything"
        raise Untestable(f"In {model} attention {known}, so that no run can be said to have learnt it.")
    return found


def stability(model: str, tables: Tables) -> Outcome:
    """Whether models with scaling train at larger learning rates: the ratio of the largest rates, by seed."""
    runs, scale = ends(tables[LOSSES], model), scale_of_attention(tables, model)
    runs = runs[runs.steps == runs.steps.max()]
    rates = sorted(runs.base_learning_rate.unique())
    runs = runs.assign(trains=runs.valid_loss <= scale.learnt(rules.TRAINS))
    largest, every = {}, []
    for variant in legend_order(set(runs.variant) - {NO_ATTENTION_VARIANT}):
        own = runs[runs.variant == variant]
        rate = own.base_learning_rate.where(own.trains, 0.0)
        largest[variant] = rate.groupby(own.seed).max()
        all_train = own.groupby("base_learning_rate").trains.all()
        most = all_train.index[all_train]
        words = f"up to {most.max():g}" if len(most) else "at no rate"
        every.append(f"{LEGENDS.get(variant, variant)} {words}")
    if missing := [variant for variant in PAPER_SCALING if variant not in largest]:
        raise Untestable(f"The run has no {model} with {' and no '.join(missing)}.")
    for variant in PAPER_SCALING:
        what = f"{model} with {LEGENDS[variant]}"
        inner(largest[variant] == rates[-1], largest[variant], what, "trains up to")
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = [np.log(largest[variant]) for variant in PAPER_SCALING]
        ratio = paired(*logarithms, f"{model} with both variants")
    number = len(pd.concat(logarithms, axis=1, join="inner"))
    reason = (
        f"Of {len(rates)} learning rates from {rates[0]:g} to {rates[-1]:g}, all seeds train with {', '.join(every)}. "
        f"By seed, the largest rate with scaling is {ratio.map(np.exp):.2f} times that without. A run trains if it "
        f"gets {rules.TRAINS:.0%} of the {scale.worth:.3f} nats that attention is worth to LayerNorm at its best rate."
    )
    outcome = statement([direction(ratio)], ratio.map(np.exp), number, reason)
    return gated(outcome, tables, model, losses_of=PAPER_SCALING)


def attention_learnt(model: str, tables: Tables) -> Outcome:
    """Whether attention is learnt later without scaling: the ratio of the steps, each variant at its fastest rate.

    Runs learn to attend at some step or not at all, so that no mean is taken over them: the estimate is Hodges and
    Lehmann's, for which a run that never does counts as later than all others.
    """
    scale = scale_of_attention(tables, model)
    runs = steps_to_attend(tables[LOSSES], model, scale.learnt(rules.TRAINS))
    best = best_rates(runs, "arrival")
    chosen = runs.merge(best)
    groups = {}
    for variant in PAPER_SCALING:
        own = chosen[chosen.variant == variant]
        groups[variant] = np.log(enough(own.arrival, f"{model} with {variant}").clip(lower=1))
        inner(
            own.at_end, own.base_learning_rate, f"{model} with {LEGENDS[variant]}", "learns to attend soonest"
        )
    later = difference_of_medians(groups["projection"], groups["layernorm"])

    def listed(runs: pd.DataFrame) -> str:
        return "; ".join(
            f"{LEGENDS.get(variant, variant)} {np.isfinite(own).sum()} of {len(own)}"
            + (f", median step {own.median():,.0f}" if np.isfinite(own.median()) else "")
            for variant, own in (
                (v, runs.arrival[runs.variant == v]) for v in legend_order(set(runs.variant))
            )
            if variant != NO_ATTENTION_VARIANT
        )

    reason = (
        f"At the rates where it is soonest {rules.TRAINS:.0%} of what attention is worth is reached by so many runs: "
        f"{listed(chosen)}. Over all rates: {listed(runs)}. Without scaling it takes {times(later)} times the steps."
    )
    number = min(map(len, groups.values()))
    outcome = statement([direction(later)], later.map(np.exp), number, reason)
    return gated(outcome, tables, model, losses_of=PAPER_SCALING)


def loss_gap_keys(model: str, tables: Tables, rates: str) -> Outcome:
    """Whether scaling lowers the validation loss where, without it, as many keys are unselectable as in the paper.

    The gap is the one that remains at best rates, of the models `rates`; the keys are those of `model`.
    """
    gap, valid = gaps(tables, rates, *PAPER_SCALING[::-1]), paper_gaps()[1]
    where = {"model": model, "texts": "long", "site": "after_norm", "checkpoint": "final"}
    found = shares(tables[KEYS], "projection", **where)
    paper = float(np.mean(reported()["language_model"]["table_1"]["projection"]))
    isolated = effect(found.estimate("projection"), paper)
    reason = (
        f"{at_step(tables, rates, variants=PAPER_SCALING)}, scaling lowers the validation loss by {gap.valid:+.3f} "
        f"nats per token. Of the keys at the attention input of {model} without scaling: {found}; the paper has "
        f"{paper:.1f} %, mean over layers."
    )
    if isolated == Finding.ABSENT and gap.valid.low > 0:
        reason += " Unselectable keys cannot be what scaling removes here."
    outcome = paper_claim(
        effect(gap.valid, valid),
        isolated,
        gap.valid,
        len(gap.seeds),
        reason,
        reported=_per_token(model, valid),
    )
    outcome = gated(outcome, tables, model, keys_of=["projection"])
    return gated(outcome, tables, rates, losses_of=PAPER_SCALING)


def project_keys(model: str, tables: Tables) -> Outcome:
    """Whether projection costs loss, and whether the cost is in the values; the control projects queries and keys."""
    everywhere = gaps(tables, model, "layernorm", "scale")
    keys = gaps(tables, model, "projected_qk", "scale")
    values = gaps(tables, model, "layernorm", "projected_qk")
    parts = [effect(gap.valid, paper_gaps()[1]) for gap in (everywhere, values)]
    reason = (
        f"With scaling everywhere, projecting for queries, keys and values changes the validation loss by "
        f"{everywhere.valid:+.3f} nats per token, projecting for queries and keys alone by {keys.valid:+.3f}; "
        f"projecting the values as well costs {values.valid:+.3f}."
    )
    outcome = statement(parts, everywhere.valid, len(everywhere.seeds), reason, keys.valid)
    return gated(outcome, tables, model, losses_of=["layernorm", "scale", "projected_qk"])


# Which keys are unselectable


class Shares(NamedTuple):
    """Per cent of keys that are certified unselectable, and of undecided keys: a row a seed, a column a layer.

    Means over contexts and heads.
    """

    certified: pd.DataFrame
    undecided: pd.DataFrame
    keys: pd.Series
    """How many keys were tested in each layer, in all seeds together."""

    @property
    def seeds(self) -> pd.Series:
        """Certified per cent, mean over layers, one value a seed."""
        return self.certified.mean(axis=1)

    def estimate(self, what: str, layer: int | None = None, undecided: bool = False) -> Estimate:
        """Certified per cent with its interval, of a layer or the mean over layers; Untestable for a single seed.

        With `undecided` the keys that cannot be decided count as well. `what` names the models.
        """
        percent = self.certified + self.undecided if undecided else self.certified
        percent = percent.mean(axis=1) if layer is None else percent[layer]
        number = self.keys.sum() if layer is None else self.keys[layer]
        return percent_over_seeds(enough(percent, what), int(number))

    def __str__(self) -> str:
        """Certified per cent with its interval over seeds (of one seed alone), and what is undecided."""
        seeds, undecided = self.seeds, self.undecided.to_numpy().mean()
        words = "none certified unselectable"
        if seeds.any():
            words = f"{self.estimate(''):.3g} %" if len(seeds) > 1 else f"{seeds.mean():.3g} % (one seed)"
        return words + (f", {undecided:.2g} % undecided" if undecided else "")


def shares(keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> Shares:
    """Shares of the rows that `choose` finds."""
    part = choose(keys, variant, causal, **where)
    cell = [part.seed, part.layer]
    counts = (part.n_unselectable, part.n_borderline)
    percents = ((100 * n / part.n_keys).groupby(cell).mean().unstack("layer") for n in counts)
    return Shares(*percents, part.groupby("layer").n_keys.sum())


def choose(keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> pd.DataFrame:
    """The rows of one variant for which every column of `where` has its value; Untestable if there are none.

    The rivals of a key are all keys of its context, as in the paper; with `causal`, the keys before it.
    """
    part = keys[(keys.variant == variant) & (keys.causal == causal)]
    for column, value in where.items():
        part = part[part[column] == value]
    if part.empty:
        raise Untestable(f"The run has no key verdicts of: {', '.join([variant, *where.values()])}.")
    return part


def none(found: Shares, what: str) -> Finding:
    """Whether no more than ZERO per cent of the keys are unselectable, in each layer; see `rules.at_most`."""
    return all_of(
        *(
            at_most(found.estimate(what, layer), found.estimate(what, layer, undecided=True))
            for layer in found.certified
        )
    )


def some(found: Shares, what: str) -> Finding:
    """Whether more than ZERO per cent of the keys are certified unselectable, mean over layers."""
    return above(found.estimate(what), rules.ZERO)


def optional(sentence: str, keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> str:
    """A sentence about a control, with the shares of unselectable keys in place of `{}`; empty if the run lacks them.

    The other arguments are those of `shares`, which finds the keys of the control in the table `keys`.
    """
    try:
        return " " + sentence.format(shares(keys, variant, causal, **where))
    except Untestable:
        return ""


def gaussian(keys: pd.DataFrame, fewer: int = 0) -> str:
    """A sentence on as many Gaussian keys as each row of `keys` has, of as many dimensions less `fewer`."""
    dimensions, percent = int(keys.dimensions.iloc[0]) - fewer, gaussian_percent(keys, fewer)
    return f" Of as many Gaussian keys in {dimensions} dimensions {percent:.1f} % are expected to be unselectable."


class Place(NamedTuple):
    """Keys of which the paper reports shares by layer: those of a variant of the norm, at a site."""

    variant: str
    site: str

    @property
    def projected(self) -> bool:
        """Whether the keys lie in a hyperplane, and so have a dimension less than their vectors."""
        return self.site == "after_norm" and VARIANTS[self.variant].projects


def by_layer(
    model: str, tables: Tables, unselectable: Place, selectable: Place, paper: str, words: Sequence[str]
) -> Outcome:
    """Tables 1 and 2: shares of unselectable keys at one place and at another, each layer against the paper's.

    `paper` names the paper's table and the row of it that `unselectable` has, `words` what a reader calls the two
    places. The control is untrained.
    """
    table, row = paper.split(".")
    numbers = dict(enumerate(reported()["language_model"][table][row], start=1))
    keys, where = tables[KEYS], {"model": model, "texts": "long"}

    def look(checkpoint: str) -> tuple[Shares, Shares, dict[int, Finding], Finding]:
        here = {"checkpoint": checkpoint, **where}
        many, few = (shares(keys, p.variant, site=p.site, **here) for p in (unselectable, selectable))
        layers = {
            layer: effect(many.estimate(unselectable.variant, layer), numbers[layer])
            for layer in many.certified
            if layer in numbers
        }
        return many, few, layers, all_of(*layers.values(), none(few, selectable.variant))

    many, few, layers, own = look("final")
    estimates = {layer: many.estimate(unselectable.variant, layer) for layer in layers}
    inside = [layer for layer, e in estimates.items() if e.low <= numbers[layer] <= e.high]
    seen = [layer for layer, finding in layers.items() if finding == Finding.SEEN]
    reason = (
        f"{words[0]}: {many} (mean over layers); {words[1]}: {few}. By layer, with the paper's number in parentheses: "
        + ", ".join(f"{e:.1f} ({numbers[layer]:.1f})" for layer, e in estimates.items())
        + f". At least half the paper's number in {len(seen)} of {len(layers)} layers, equal to it within the "
        f"interval in {len(inside)}."
    )
    start, passes = NOTHING, False
    try:
        before, before_few, _, untrained = look("initial")
        passes, start = untrained == own == Finding.SEEN, before.estimate(unselectable.variant)
        learnt = paired(many.seeds, before.seeds, unselectable.variant)
        distance = [
            (shown.certified.mean()[list(layers)] - pd.Series(numbers)[list(layers)]).abs().mean()
            for shown in (before, many)
        ]
        reason += (
            f" Untrained models have {before} there and {before_few} here: training changes the former by "
            f"{learnt:+.1f} points, and the mean distance of a layer from the paper's number goes from "
            f"{distance[0]:.1f} to {distance[1]:.1f} points."
        )
        if passes:
            reason += " Untrained models pass the test too: the shares come from geometry, not from learning."
    except Untestable:
        pass
    place = choose(keys, unselectable.variant, site=unselectable.site, checkpoint="final", **where)
    reason += gaussian(place, fewer=unselectable.projected)
    exact = {"site": "after_norm_exact", "checkpoint": "final", **where}
    reason += optional("With LayerNorm's eps set to 0: {}.", keys, "layernorm", **exact)
    seeds = many.seeds
    outcome = paper_claim(
        own,
        Finding.SEEN,
        many.estimate(unselectable.variant),
        len(seeds),
        reason,
        start,
        reported=float(pd.Series(numbers)[list(layers)].mean()),
        also_passed_by=untrained_too(passes),
    )
    return gated(outcome, tables, model, keys_of=[unselectable.variant, selectable.variant])


def sentences(model: str, tables: Tables, without: str) -> Outcome:
    """Tables 3 (gpt, projection) and 4 (bert, none): sentences with an unselectable key in some layer."""
    keys, where = tables[KEYS], {"model": model, "texts": "sentences", "site": "after_norm"}

    def look(checkpoint: str) -> tuple[pd.Series, Finding, Finding]:
        here = {"checkpoint": checkpoint, **where}
        part = choose(keys, without, **here)
        hit = (part.n_unselectable > 0).groupby([part.seed, part.context]).any()
        hit = 100 * hit.groupby("seed").mean()
        kept = none(shares(keys, "layernorm", **here), "layernorm")
        return hit, above(over_seeds(hit, without), rules.ZERO), kept

    hit, own, isolated = look("final")
    measured = Estimate.of(hit)
    final, initial = ({"checkpoint": c, **where} for c in ("final", "initial"))
    reason = (
        f"{measured:.1f} % of the sentences have an unselectable key in some layer; of the keys "
        f"{shares(keys, without, **final)}. With LayerNorm, of the keys: {shares(keys, 'layernorm', **final)}."
    )
    start, passes = NOTHING, False
    try:
        before, *found = look("initial")
        start = Estimate.of_any(before)
        passes = own in THERE and all_of(*found) == Finding.SEEN
        learnt = paired(hit, before, without)
        reason += (
            f" Untrained, {start:.1f} % of the sentences have one (of the keys: {shares(keys, without, **initial)}); "
            f"training changes this by {learnt:+.1f} points."
        )
        if passes:
            reason += " Untrained models pass the test too."
    except Untestable:
        pass
    outcome = paper_claim(
        own, isolated, measured, len(hit), reason, start, also_passed_by=untrained_too(passes)
    )
    return gated(outcome, tables, model, keys_of=[without, "layernorm"])


def heads(model: str, tables: Tables, variant: str, control: str) -> Outcome:
    """Keys in the heads, after W_K, of the models with `variant`, beside those of the models with `control`.

    Where keys are unselectable, those certified in the same heads with eps = 0 are a part of their own: eps alone may
    be why. (There a norm leaves keys so near to each other that some stay undecided.)
    """
    keys, where = tables[KEYS], {"model": model, "texts": "long"}

    def look(checkpoint: str) -> tuple[Shares, Shares, Finding, Finding]:
        here = {"site": "head", "checkpoint": checkpoint, **where}
        mine, others = shares(keys, variant, **here), shares(keys, control, **here)
        # Without unselectable keys in the control's heads there would be nothing for the norm to eliminate.
        return mine, others, none(mine, variant), some(others, control)

    mine, others, zero, isolated = look("final")
    at_input = shares(keys, variant, site="after_norm", checkpoint="final", **where)
    names = {"projection": "without scaling", "layernorm": "with LayerNorm alone"}
    reason = (
        f"In the heads, after W_K: {mine}; at the attention input of the same models: {at_input}. In the heads of "
        f"the models {names[control]}: {others}."
    )
    final = {"checkpoint": "final", **where}
    reason += gaussian(choose(keys, variant, site="head", **final))
    reason += optional("With eps = 0: {}.", keys, variant, site="head_exact", **final)
    reason += optional("Among the keys before them alone: {}.", keys, variant, True, site="head", **final)
    passes = False
    try:
        before, _, *untrained = look("initial")
        passes = all_of(*untrained) == all_of(zero, isolated) == Finding.SEEN
        reason += f" Untrained: {before}." + " Untrained models pass the test too." * passes
    except Untestable:
        pass
    parts = [zero]
    try:
        exact = shares(keys, variant, site="head_exact", **final)
        parts.append(
            all_of(*(OPPOSITE[above(exact.estimate(variant, i), rules.ZERO)] for i in exact.certified))
        )
    except Untestable:
        pass
    outcome = statement(
        parts if zero in NOT_THERE else [zero],
        mine.estimate(variant),
        len(mine.seeds),
        reason,
        others.estimate(control),
        isolated,
        also_passed_by=untrained_too(passes),
    )
    outcome = outcome._replace(specifics=_head_sizes(choose(keys, variant, site="head", **where)))
    return gated(outcome, tables, model, keys_of=[variant, control])


def _head_sizes(heads_keys: pd.DataFrame) -> str:
    return f"Here d_head = {heads_keys.dimensions.iloc[0]} and n = {span(heads_keys.n_keys)} keys."


BEFORE, AFTER = Place("layernorm", "before_norm"), Place("layernorm", "after_norm")

TESTS: dict[str, Callable[..., Outcome]] = {
    "attention_worth": partial(attention_worth, least=paper_gaps()[1]),
    "attention_worth_bytes": partial(attention_worth, least=rules.ATTENTION),
    "table_1": partial(
        by_layer,
        unselectable=Place("projection", "after_norm"),
        selectable=AFTER,
        paper="table_1.projection",
        words=("At the attention input without scaling", "with scaling"),
    ),
    "table_2": partial(
        by_layer,
        unselectable=BEFORE,
        selectable=AFTER,
        paper="table_2.before_norm",
        words=("Inputs of the LayerNorm, taken as keys", "its outputs"),
    ),
    "loss_gap": partial(loss_gap, rates="gpt_rates"),
    "loss_gap_bytes": partial(loss_gap, rates="bytes_rates"),
    "loss_gap_best_rate": loss_gap_best_rate,
    "loss_gap_lengths": loss_gap_lengths,
    "stability": stability,
    "attention_learnt": attention_learnt,
    "loss_gap_keys": partial(loss_gap_keys, rates="gpt_rates"),
    "loss_gap_keys_bytes": partial(loss_gap_keys, rates="bytes_rates"),
    "project_keys_bytes": project_keys,
    "table_3": partial(sentences, without="projection"),
    "table_4": partial(sentences, without="none"),
    "heads": partial(heads, variant="layernorm", control="projection"),
    "heads_qk_norm": partial(heads, variant="layernorm_qk", control="layernorm"),
}
"""The test of each entry of language_model.yaml, by the entry's name."""
