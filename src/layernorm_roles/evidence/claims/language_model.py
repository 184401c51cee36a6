"""Claims about trained language models: what attention is worth, what scaling is worth, which keys are unselectable.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score, and undecided if the data's precision cannot tell. The tests take the name of a model in
the column `model` of the tables first.

Every claim about trained models passes a gate: there is no verdict unless the models are clearly better than the
frequencies of tokens and than the same models without attention.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate, span
from layernorm_roles.evidence.analysis.heads import gaussian_percent
from layernorm_roles.evidence.analysis.language_model import (
    final_losses,
    gain_over_unigram,
    of_single_points,
    worth_of_attention,
)
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import (
    NOT_THERE,
    NOTHING,
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
    over_seeds,
    paired,
    paper_claim,
    statement,
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
    outcome: Outcome, tables: Tables, model: str, *variants: str, needed: Callable[..., bool] = all
) -> Outcome:
    """The outcome of a test on trained models, without its verdict unless all `variants` beat both baselines.

    With `needed` = any one variant is enough, for tests that compare losses: a variant may be as bad as no attention.
    The reason says in either case what attention is worth.
    """
    gains = {variant: baselines(tables, model, variant) for variant in variants}
    worth = "; ".join(f"with {LEGENDS.get(variant, variant)} {gain}" for variant, gain in gains.items())
    if needed(gain.finding == Finding.SEEN for gain in gains.values()):
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
    gain = baselines(tables, model, "layernorm")
    part = all_of(above(gain.attention, least), gain.finding)
    bare = final_losses(tables[LOSSES], model)[NO_ATTENTION_VARIANT].mean()
    reason = (
        f"Without attention the validation loss is {bare:.3f} nats per token, with it {gain.attention:.3f} lower. "
        f"The loss with attention lies below that of the tokens' frequencies by {gain.unigram:.2f}."
    )
    return statement([part], gain.attention, len(seeds), reason, gain.unigram)


# What scaling is worth (Figure 4), and what projection costs


class Gaps(NamedTuple):
    """Losses of one variant minus those of another at the last step, nats per token, over seeds that both have."""

    train: Estimate
    valid: Estimate
    untrained: Estimate
    """The difference of the validation losses at step 0."""
    n_seeds: int


def gaps(tables: Tables, model: str, high: str, low: str) -> Gaps:
    """The losses of variant `high` minus those of `low`; Untestable with fewer than two seeds in common."""
    losses = of_single_points(tables[LOSSES][tables[LOSSES].model == model])
    for variant in (high, low):
        if variant not in set(losses.variant):
            raise Untestable(f"The run has no {model} with {variant}.")

    def differences(frame: pd.DataFrame) -> pd.Series:
        both = frame.reindex(columns=[high, low])  # runs may end at different steps
        return (both[high] - both[low]).dropna()

    train, valid = (differences(final_losses(losses, model, c)) for c in ("train_loss", "valid_loss"))
    start = losses[losses.step == 0].pivot(index="seed", columns="variant", values="valid_loss")
    start = differences(start)
    what = f"{model} with {high} beside {low}"
    return Gaps(over_seeds(train, what), over_seeds(valid, what), Estimate.of_any(start), len(valid))


def paper_gaps() -> tuple[float, float]:
    """The losses without scaling minus those with it in the paper's Figure 4: training, validation (nats)."""
    paper = reported()["language_model"]
    train, valid = (paper["projection"][c] - paper["layernorm"][c] for c in ("train_loss", "valid_loss"))
    return round(train, 3), round(valid, 3)  # as the plot was read


def loss_gap(model: str, tables: Tables) -> Outcome:
    """Figure 4: by how much the final losses without scaling are higher.

    The control is the gap to a LayerNorm whose attention inputs are at first as small as those without scaling.
    """
    gap, (train, valid) = gaps(tables, model, *PAPER_SCALING[::-1]), paper_gaps()
    own = all_of(effect(gap.train, train), effect(gap.valid, valid))
    passes = effect(gap.untrained, valid) == Finding.SEEN
    last = int(tables[LOSSES].query("model == @model").step.max())
    reason = (
        f"At step {last:,}, of the same seed, the loss without scaling minus that with it is "
        f"{gap.train:+.3f} nats per token in training and {gap.valid:+.3f} in validation; "
        f"the paper's figure has {train:+.3f} and {valid:+.3f} at step "
        f"{reported()['language_model']['sizes']['steps']:,}, of one run."
    )
    if baselines(tables, model, "layernorm").attention.mean < valid:
        reason += " What is sought is more than attention is worth altogether."
    if pd.notna(gap.untrained.mean):
        reason += f" Untrained, the validation losses differ by {gap.untrained.mean:+.3f}."
    control, isolated = NOTHING, Finding.UNDECIDED
    try:
        control = gaps(tables, model, "projection", "layernorm_shrunk").valid
        isolated = effect(control, valid)
        reason += (
            " It is "
            f"{control:+.3f} if scaling leaves the attention inputs as small as they are at first without it."
        )
        if own in THERE and isolated in NOT_THERE:
            reason += " So it is their size that lowers the loss, not the equal length that scaling gives all of them."
    except Untestable as lack:
        reason += f" {lack}"
    try:
        other = gaps(tables, model, "none", "scale")
        reason += f" Without projection, scaling lowers the validation loss by {other.valid:.3f}."
    except Untestable:
        pass
    outcome = paper_claim(
        own,
        isolated,
        gap.valid,
        gap.n_seeds,
        reason,
        control,
        reported=valid,
        also_passed_by=untrained_too(passes),
    )
    return gated(outcome, tables, model, *PAPER_SCALING, needed=any)


def loss_gap_keys(model: str, tables: Tables) -> Outcome:
    """Whether scaling lowers the validation loss where, without it, as many keys are unselectable as in the paper."""
    gap, valid = gaps(tables, model, *PAPER_SCALING[::-1]), paper_gaps()[1]
    where = {"model": model, "texts": "long", "site": "after_norm", "checkpoint": "final"}
    found = shares(tables[KEYS], "projection", **where)
    paper = float(np.mean(reported()["language_model"]["table_1"]["projection"]))
    isolated = effect(over_seeds(found.seeds, "projection"), paper)
    reason = (
        f"Scaling lowers the validation loss by {gap.valid:+.3f} nats per token. Of the keys at the attention input "
        f"without scaling: {found}; the paper has {paper:.1f} %, mean over layers."
    )
    if isolated == Finding.ABSENT and gap.valid.low > 0:
        reason += " Unselectable keys cannot be what scaling removes here."
    outcome = paper_claim(effect(gap.valid, valid), isolated, gap.valid, gap.n_seeds, reason, reported=valid)
    return gated(outcome, tables, model, *PAPER_SCALING, needed=any)


def loss_gap_widths(tables: Tables) -> Outcome:
    """Whether scaling lowers the validation loss at the paper's width and in a model that uses its attention."""
    found = {model: gaps(tables, model, *PAPER_SCALING[::-1]) for model in (PAPER_MODEL, "gpt_bytes")}
    valid = paper_gaps()[1]
    parts = {model: effect(gap.valid, valid) for model, gap in found.items()}
    worth = {model: baselines(tables, model, "layernorm").attention for model in found}
    reason = " ".join(
        f"Scaling lowers the validation loss of {model} by {gap.valid:.3f} nats, attention by {worth[model].mean:.3f}."
        for model, gap in found.items()
    )
    lower = [model for model, part in parts.items() if part in THERE]
    if lower == [PAPER_MODEL]:
        reason += " Scaling lowers the loss nowhere but at the paper's width."
    reason += " The two models differ in width, vocabulary and context length."
    wide = found["gpt_bytes"]
    outcome = statement(
        [*parts.values()], wide.valid, wide.n_seeds, reason, found[PAPER_MODEL].valid, reported=valid
    )
    for model in found:
        outcome = gated(outcome, tables, model, *PAPER_SCALING, needed=any)
    return outcome


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
    outcome = statement(parts, everywhere.valid, everywhere.n_seeds, reason, keys.valid)
    return gated(outcome, tables, model, "layernorm", "scale", "projected_qk", needed=any)


# Which keys are unselectable


class Shares(NamedTuple):
    """Per cent of keys that are certified unselectable, and of undecided keys: a row a seed, a column a layer.

    Means over contexts and heads.
    """

    certified: pd.DataFrame
    undecided: pd.DataFrame

    @property
    def seeds(self) -> pd.Series:
        """Certified per cent, mean over layers, one value a seed."""
        return self.certified.mean(axis=1)

    def __str__(self) -> str:
        """Certified per cent with its interval over seeds (of one seed alone), and what is undecided."""
        seeds, undecided = self.seeds, self.undecided.to_numpy().mean()
        words = "none certified unselectable"
        if seeds.any():
            words = f"{Estimate.of(seeds):.3g} %" if len(seeds) > 1 else f"{seeds.mean():.3g} % (one seed)"
        return words + (f", {undecided:.2g} % undecided" if undecided else "")


def shares(keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> Shares:
    """Shares of the rows that `choose` finds."""
    part = choose(keys, variant, causal, **where)
    place = [part.seed, part.layer]
    counts = (part.n_unselectable, part.n_borderline)
    return Shares(*((100 * n / part.n_keys).groupby(place).mean().unstack("layer") for n in counts))


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
    """Whether no more than ZERO per cent of the keys are unselectable, in each layer.

    Seen only if that is so with all undecided keys counted as unselectable; not there if the certified ones are more.
    """
    worst = found.certified + found.undecided
    return all_of(
        *(
            at_most(over_seeds(found.certified[layer], what), over_seeds(worst[layer], what))
            for layer in worst
        )
    )


def some(found: Shares, what: str) -> Finding:
    """Whether more than ZERO per cent of the keys are certified unselectable, mean over layers."""
    return above(over_seeds(found.seeds, what), rules.ZERO)


def optional(sentence: str, keys: pd.DataFrame, variant: str, causal: bool = False, **where: str) -> str:
    """A sentence with the shares filled in, about a control that the run may leave out; then empty."""
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
            layer: effect(over_seeds(many.certified[layer], unselectable.variant), numbers[layer])
            for layer in many.certified
            if layer in numbers
        }
        return many, few, layers, all_of(*layers.values(), none(few, selectable.variant))

    many, few, layers, own = look("final")
    estimates = {layer: Estimate.of(many.certified[layer]) for layer in layers}
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
        passes, start = untrained == own == Finding.SEEN, Estimate.of(before.seeds)
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
        over_seeds(seeds, unselectable.variant),
        len(seeds),
        reason,
        start,
        reported=float(pd.Series(numbers)[list(layers)].mean()),
        also_passed_by=untrained_too(passes),
    )
    return gated(outcome, tables, model, *dict.fromkeys((unselectable.variant, selectable.variant)))


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
        own,
        isolated,
        measured,
        len(hit),
        reason,
        start,
        also_passed_by=untrained_too(passes),
    )
    return gated(outcome, tables, model, without, "layernorm")


def heads(model: str, tables: Tables, variant: str, control: str) -> Outcome:
    """Keys in the heads, after W_K, of the models with `variant`, beside those of the models with `control`.

    What the paper says of its own variants is a claim of the paper; that of another is a question of ours.
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
    judge = paper_claim if variant in PAPER_SCALING else _question
    outcome = judge(
        zero,
        isolated,
        over_seeds(mine.seeds, variant),
        len(mine.seeds),
        reason,
        over_seeds(others.seeds, control),
        also_passed_by=untrained_too(passes),
    )
    outcome = outcome._replace(specifics=_head_sizes(choose(keys, variant, site="head", **where)))
    return gated(outcome, tables, model, variant, control)


def _question(part: Finding, cause: Finding, *numbers, also_passed_by: str | None) -> Outcome:
    return statement([part], *numbers, cause=cause, also_passed_by=also_passed_by)


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
    "loss_gap": loss_gap,
    "loss_gap_keys": loss_gap_keys,
    "loss_gap_widths": loss_gap_widths,
    "project_keys_bytes": project_keys,
    "table_3": partial(sentences, without="projection"),
    "table_4": partial(sentences, without="none"),
    "heads": partial(heads, variant="layernorm", control="projection"),
    "heads_qk_norm": partial(heads, variant="layernorm_qk", control="layernorm"),
}
"""The test of each entry of language_model.yaml, by the entry's name."""
