"""Claims about trained language models that compare more than pairs of variants, and the gate of all of them.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score, and undecided if the data's precision cannot tell. The tests take the tables and the name
of a model in their column `model`.

A model may have been trained with several learning rates, and for several lengths. Judged are then the longest runs,
each at the rate that the other half of the seeds chooses, see `analysis.language_model.runs_at_best_rate`.

Every claim about trained models passes one gate: a variant whose keys are looked at must be clearly better than the
frequencies of tokens and than the same model without attention; where losses are compared, one of the variants must
be, since another one may have lost what attention is worth.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, difference_of_medians, span
from layernorm_roles.evidence.analysis.heads import gaussian_percent
from layernorm_roles.evidence.analysis.language_model import (
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
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.claim import (
    RATIO,
    UNTRAINED,
    Comparison,
    Outcome,
    Tables,
    Untestable,
    compare,
    counted,
    enough,
    half_of,
    more_than,
    no_more_than,
    noted,
    over_seeds,
    paired,
    positive,
    refuse_rate_at_grid_end,
)
from layernorm_roles.evidence.claims.quantities import LOSSES, Losses, Shares, choose, shares
from layernorm_roles.evidence.claims.rules import NOT_THERE, THERE, Finding, all_of
from layernorm_roles.evidence.legends import label
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING, VARIANTS

KEYS = "key_selectability"
PER_CENT, POINTS, NATS = " %", " points", " nats"

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
            yield compare(words, found, len(seeds), positive(), "gate", NATS, statistic)


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
    return noted(replace(outcome, shut=True), shut)


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
        raise Untestable(f"In the longest training of {model} attention is not known to be worth anything.")
    learnt = [steps for steps in lengths if worth[steps] >= trains * worth[lengths[-1]]]
    early = " ".join(
        f"After {steps:,} steps attention is worth {worth[steps]:.3f} nats."
        for steps in lengths
        if steps not in learnt
    )
    if len(learnt) < 2:
        few = f"The run has fewer than two lengths after which {model} has learnt to attend."
        raise Untestable(f"{few} {early}".strip())
    gaps = {
        steps: Losses(pd.DataFrame(), tables=tables, model=model, steps=steps).differences(*PAPER_SCALING[::-1])
        for steps in learnt
    }
    shown = {steps: over_seeds(gap, f"{model} after {steps} steps") for steps, gap in gaps.items()}
    closes, n = paired(gaps[learnt[0]], gaps[learnt[-1]], f"{model} at both lengths")
    words = "projection minus layernorm"
    return Outcome(
        (
            compare(f"{words}, first length minus last", closes, n, half_of(half_of_nats), unit=NATS),
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
    return Outcome((compare("layernorm over projection", ratio, number, positive(), unit=RATIO), *context))


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
    first = compare("projection over layernorm", later, number, positive(), unit=RATIO)
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


def few(name: str, found: Shares, zero: float, what: str, role: str = "effect", part=-1) -> list[Comparison]:
    """A comparison for each layer: no more than `zero` per cent of the keys, undecided ones counted."""
    return [
        compare(
            f"{name}, layer {layer}",
            found.estimate(what, layer),
            len(found.seeds),
            counted(found.estimate(what, layer, undecided=True), zero),
            role,
            PER_CENT,
            part=part,
        )
        for layer in found.certified
    ]


def shown(name: str, keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> list[Comparison]:
    """A comparison of which nothing is asked: certified per cent, mean over layers; none if the run lacks the keys."""
    try:
        seeds = shares(keys, variant, causal, **where).seeds
    except Untestable:
        return []
    return [compare(name, Estimate.of_any(seeds), len(seeds), role="context", unit=PER_CENT)]


def gaussian(keys: pd.DataFrame, fewer: int = 0) -> Comparison:
    """What is expected of as many Gaussian keys as each row of `keys` has, of as many dimensions less `fewer`."""
    expected = Estimate(gaussian_percent(keys, fewer), np.nan, np.nan)
    words = f"as many Gaussian keys in {int(keys.dimensions.iloc[0]) - fewer} dimensions"
    return compare(words, expected, None, role="context", unit=PER_CENT, statistic="unselectable keys, expected")


def by_layer(tables: Tables, model: str, paper: str, places: Sequence[Sequence[str]], zero: float) -> Outcome:
    """Tables 1 and 2: shares of unselectable keys at one place and at another, each layer against the paper's.

    `places` are both places, each a variant and a site of its keys; `paper` names the paper's table and its row for the
    first. The control is untrained.
    """
    table, row = paper.split(".")
    numbers = dict(enumerate(reported()["language_model"][table][row], start=1))
    keys, where = tables[KEYS], {"model": model, "texts": "long"}
    (variant, site), (other, other_site) = places
    name, other_name = (f"{v} {s.replace('_', ' ')}" for v, s in places)

    def look(checkpoint: str) -> tuple[Shares, list[Comparison]]:
        many = shares(keys, variant, site=site, checkpoint=checkpoint, **where)
        rest = shares(keys, other, site=other_site, checkpoint=checkpoint, **where)
        rows = [
            compare(
                f"{name}, layer {layer}",
                many.estimate(variant, layer),
                len(many.seeds),
                half_of(numbers[layer]),
                unit=PER_CENT,
            )
            for layer in many.certified
            if layer in numbers
        ]
        return many, rows + few(other_name, rest, zero, other)

    many, rows = look("final")
    n, passes, control = len(many.seeds), None, []
    mean = compare(f"{name}, mean over layers", many.estimate(variant), n, unit=PER_CENT)
    try:
        before, untrained = look("initial")
        start = before.estimate(variant)
        words = f"{name}, mean over layers, before training"
        control = [compare(words, start, len(before.seeds), role="control", unit=PER_CENT)]
        if {row.finding for row in untrained + rows} == {Finding.SEEN}:
            passes = UNTRAINED
        learnt = paired(many.seeds, before.seeds, variant)
        control.append(compare(f"{name}, after minus before training", *learnt, role="context", unit=POINTS))
    except Untestable:
        pass
    fewer = site == "after_norm" and VARIANTS[variant].projects  # projected keys have a dimension less
    context = [gaussian(choose(keys, variant, site=site, checkpoint="final", **where), fewer)]
    exact = {"site": "after_norm_exact", "checkpoint": "final", **where}
    context += shown("layernorm after norm, eps = 0", keys, "layernorm", **exact)
    inside = [numbers[layer] for layer in many.certified if layer in numbers]
    return Outcome((mean, *rows, *control, *context), "", float(np.mean(inside)), passes)


def sentences(tables: Tables, model: str, without: str, zero: float) -> Outcome:
    """Tables 3 (gpt, projection) and 4 (bert, none): sentences with an unselectable key in some layer."""
    keys, where = tables[KEYS], {"model": model, "texts": "sentences", "site": "after_norm"}

    def look(checkpoint: str) -> tuple[pd.Series, Comparison, list[Comparison]]:
        here = {"checkpoint": checkpoint, **where}
        part = choose(keys, without, **here)
        hit = (part.n_unselectable > 0).groupby([part.seed, part.context]).any()
        hit = 100 * hit.groupby("seed").mean()
        own = compare(without, over_seeds(hit, without), len(hit), more_than(zero), unit=PER_CENT)
        kept = shares(keys, "layernorm", **here)
        control = few("layernorm, keys", kept, zero, "layernorm", "control")
        return hit, own, [replace(row, statistic="keys unselectable at the attention input") for row in control]

    hit, own, control = look("final")
    start, passes = [], None
    try:
        before, first, kept = look("initial")
        start.append(replace(first, comparison=f"{without}, before training", asked="", finding=None, role="control"))
        if own.there and {row.finding for row in (first, *kept)} == {Finding.SEEN}:
            passes = UNTRAINED
        learnt = paired(hit, before, without)
        start.append(compare(f"{without}, after minus before training", *learnt, role="context", unit=POINTS))
    except Untestable:
        pass
    return Outcome((own, *start, *control), also_passed_by=passes)


def heads(tables: Tables, model: str, variant: str, control: str, zero: float) -> Outcome:
    """Keys in the heads, after W_K, of the models with `variant`, beside those of the models with `control`.

    Where keys are unselectable, those certified in the same heads with eps = 0 are a part of their own: eps alone may
    be why. (There a norm leaves keys so near to each other that some stay undecided.)
    """
    keys, where = tables[KEYS], {"model": model, "texts": "long"}
    name = f"{variant} heads"

    def look(checkpoint: str) -> tuple[Shares, list[Comparison], Comparison]:
        here = {"site": "head", "checkpoint": checkpoint, **where}
        mine, others = shares(keys, variant, **here), shares(keys, control, **here)
        # Without unselectable keys in the control's heads there would be nothing for the norm to eliminate.
        words, n = f"{control} heads, mean over layers", len(others.seeds)
        cause = compare(words, others.estimate(control), n, more_than(zero), "control", PER_CENT)
        return mine, few(name, mine, zero, variant), cause

    mine, rows, cause = look("final")
    final, passes, context = {"checkpoint": "final", **where}, None, []
    try:
        before, untrained, first = look("initial")
        context += shown(f"{name}, before training", keys, variant, site="head", checkpoint="initial", **where)
        if {row.finding for row in (*untrained, first, *rows, cause)} == {Finding.SEEN}:
            passes = UNTRAINED
    except Untestable:
        pass
    exact = []
    if all_of(*(row.finding for row in rows)) in NOT_THERE:
        try:
            found = shares(keys, variant, site="head_exact", **final)
            exact = [
                compare(
                    f"{name}, eps = 0, layer {layer}",
                    found.estimate(variant, layer),
                    len(found.seeds),
                    no_more_than(zero),
                    unit=PER_CENT,
                    part=1,
                )
                for layer in found.certified
            ]
        except Untestable:
            pass
    context += shown(f"{variant} at the attention input", keys, variant, site="after_norm", **final)
    context += shown(f"{name}, eps = 0", keys, variant, site="head_exact", **final)
    context += shown(f"{name}, among the keys before them", keys, variant, True, site="head", **final)
    context.append(gaussian(choose(keys, variant, site="head", **final)))
    mean = compare(f"{name}, mean over layers", mine.estimate(variant), len(mine.seeds), unit=PER_CENT)
    of_heads = choose(keys, variant, site="head", **where)
    sizes = f"Here d_head = {of_heads.dimensions.iloc[0]} and n = {span(of_heads.n_keys)} keys."
    return Outcome((mean, *rows, *exact, cause, *context), also_passed_by=passes, specifics=sizes)


TESTS: dict[str, Callable[..., Outcome]] = {
    function.__name__: function
    for function in (loss_gap_lengths, stability, attention_learnt, by_layer, sentences, heads)
}
"""The functions that entries of language_model.yaml name under `test`."""
