"""Claims about scaling in trained language models: which keys are unselectable, what it does to the loss, and why.

"Without scaling" is `projection`, "with" is `layernorm`. A key is unselectable if a certificate shows that no query
gives it the highest score, and undecided if the data's precision cannot tell. Of a model with several learning rates
each run counts at the rate that the other half of the seeds chooses, see `analysis.language_model.runs_at_best_rate`.

A gate keeps a claim from a verdict on models that are hardly trained. A variant whose keys are looked at must be
clearly better than the frequencies of tokens and than the model without attention; where losses are compared, one of
the variants must be, since another one may have lost what attention is worth.
"""

from collections.abc import Container, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import language_model as models
from layernorm_roles.evidence.analysis.estimate import NOTHING, Estimate, span, two_by_two
from layernorm_roles.evidence.analysis.heads import gaussian_percent, narrower
from layernorm_roles.evidence.analysis.majority import arrivals
from layernorm_roles.evidence.claims import rules, sizes, testing
from layernorm_roles.evidence.claims.rules import (
    ATTENTION,
    ONSET,
    PAIRS,
    QUARTER,
    TRAIN_GAP,
    TRAINS,
    VALID_GAP,
    ZERO,
)
from layernorm_roles.evidence.claims.testing import (
    BEFORE,
    RATIO,
    UNTRAINED,
    Measured,
    Number,
    Question,
    Test,
    enough,
    optional,
    require,
)
from layernorm_roles.evidence.legends import label, legend_order
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING, VARIANTS

claim = partial(
    testing.claim,
    part="scaling",
    target="language_model",
    of="gpt",
    sizes=sizes.losses,
    unit=" nats",
    looks=2,
)
KEYS, LOSSES, ATTENTIONS = "key_selectability", "language_model_metrics", "language_model_attention"
PER_CENT, POINTS, NATS, PAPER = " %", " points", " nats", "Brody, Alon and Yahav 2023, "
UNIGRAM, AT_END = "unigram", "validation loss at the end"
HALF_OF_VALID_GAP, HALF_OF_TRAIN_GAP = VALID_GAP / 2, TRAIN_GAP / 2
PAPER_RATE = "gpt_paper_rate"

# Losses


def losses(test: Test, model: str, *variants: str, column: str = "valid_loss") -> Measured:
    """Return final losses by variant, in nats per token, and by "unigram" that of the tokens' frequencies.

    Columns that begin with "untrained " have the losses before training. Raises Missing if one of `variants` is not
    there, or if its best learning rate is the lowest or highest of those tried.
    """
    metrics = test.table(LOSSES)
    runs = models.runs_at_best_rate(metrics, model)
    for variant in variants:
        chosen = runs[runs.variant == variant]
        single = ((metrics.model == model) & (metrics.variant == variant)).any()
        few = "only 1 seed, which cannot choose its own learning rate, of" if single else "no"
        require(len(chosen), f"The run has {few} {model} with {variant}.")
        rate, what = chosen.base_learning_rate, f"{model} with {label(variant)} is best at a learning rate of"
        words = f"{what} {rate.min():g}, the first or last that was tried: a better one may lie beyond."
        require(not chosen.at_end.any(), words, runs=len(rate))
    before = metrics[(metrics.model == model) & (metrics.step == 0)].merge(runs[models.RUN])
    last, first = (each.pivot(index="seed", columns="variant", values=column) for each in (runs, before))
    last[UNIGRAM] = runs.groupby("seed").unigram_loss.mean()
    words = AT_END if column == "valid_loss" else "training loss at the end"
    return test.measured(last.join(first.add_prefix(BEFORE)), NATS, words)


def of_attention(test: Test, model: str, column: str) -> Measured:
    """Return what the loss increases by at the last step, by variant, if attention is made uniform or constant."""
    table = test.tables.get(ATTENTIONS)
    measured = table is not None and (table.model == model).any()
    require(measured, f"The run did not look at attention in {model}.")
    last = table[(table.model == model) & table.layer.isna() & (table.step == table.steps)]
    words = "loss increase under uniform attention"
    if column == "mean_kept_worth":
        words = "loss increase with attention's mean output"
    frame = last.pivot(index="seed", columns="variant", values=column).dropna(axis=1, thresh=2)
    return test.measured(frame, NATS, words)


def show_attention(test: Test, model: str, *columns: str) -> None:
    """Show what attention is worth to each variant."""
    for column in columns:
        with optional():
            measured = of_attention(test, model, column)
            for variant in measured.frame:
                test.show(measured.one(variant))


def losses_without(test: Test, model: str, variant: str) -> Iterator[Number]:
    """Yield by how much the losses of the model without attention, and of token frequencies, are above a variant's."""
    gains = {NO_ATTENTION_VARIANT: models.worth_of_attention, UNIGRAM: models.gain_over_unigram}
    for baseline, gain in gains.items():
        seeds = gain(test.table(LOSSES), model, variant)
        if len(seeds) or baseline == NO_ATTENTION_VARIANT:
            yield test.mean(seeds, f"{label(baseline)} minus {label(variant)}, {model}", NATS, AT_END)


def require_trained(
    test: Test,
    model: str,
    keys_of: Sequence[str] = (),
    losses_of: Sequence[str] = (),
    tables: dict | None = None,
) -> None:
    """Allow no verdict unless all variants in `keys_of`, and one in `losses_of`, are better than both baselines."""
    chosen = test if tables is None else Test(tables, test.kind, test.looks)
    better = {
        variant
        for variant in (*keys_of, *losses_of)
        if all([test.gate(number, more_than=0) for number in losses_without(chosen, model, variant)])
    }
    if not better >= set(keys_of) or (losses_of and not better & set(losses_of)):
        why = f"No verdict, because trained models ({model}) are not clearly better than both baselines."
        test.no_verdict(why)


def worth(test: Test, model: str, least: float) -> None:
    """Compare the loss without attention with that of LayerNorm."""
    found = losses(test, model, "no_attention", "layernorm")
    test.effect(found.minus("no_attention", "layernorm"), above=least)
    with optional():
        test.control(found.minus(UNIGRAM, "layernorm"), part=0, more_than=0)


# Unselectable keys

CAUSAL, MEAN = " causal", ""
SITES = {
    "before_norm": "before the norm",
    "after_norm": "after the norm",
    "after_norm_exact": "after the norm, eps = 0",
    "head": "in the heads",
    "head_exact": "in the heads, eps = 0",
    "head causal": "in the heads, among the keys before",
}


class Place:
    """The percentages of unselectable keys of a variant at a site, by layer and (MEAN) over layers, for each seed.

    Sites are those of SITES, where "head causal" has a key beat only the keys before it. `before` has the shares
    before training, None without; `gaussian` is what is expected of as many Gaussian keys. Raises Missing without
    keys.
    """

    def __init__(self, test: Test, model: str, variant: str, site: str, texts: str = "long") -> None:
        keys = test.table(KEYS)
        keys = keys[(keys.model == model) & (keys.texts == texts) & (keys.variant == variant)]
        keys = keys[(keys.site == site.removesuffix(CAUSAL)) & (keys.causal == site.endswith(CAUSAL))]
        words = f"The run has no key verdicts of: {variant}, {site}, final, {model}, {texts}."
        require((keys.checkpoint == "final").any(), words)
        self.rows, title = keys[keys.checkpoint == "final"], f"{label(variant)} {SITES[site]}"
        statistic = "unselectable keys" + " of the sentences" * (texts == "sentences")
        enough(pd.Series(self.rows.seed.unique()), f"{model} with {variant}")
        self.trained = _shares(test, self.rows, title, statistic)
        before = keys[keys.checkpoint == "initial"]
        self.before = _shares(test, before, f"{title}, untrained", statistic) if len(before) else None
        self.projected = site == "after_norm" and variant in VARIANTS and VARIANTS[variant].projects
        self.mean = self.trained.one(MEAN)
        self.mean_before = None
        with optional():
            self.mean_before = self.before and self.before.one(MEAN)
        self.title = title
        self.sizes = f"Here d_head = {self.rows.dimensions.iloc[0]} and n = {span(self.rows.n_keys)} keys."

    def layers(self) -> Iterator[tuple[int, Number, dict[str, Number | None]]]:
        """Yield each layer, its share, and that before training as `Test.effect` has it under alike."""
        for layer in self.trained.frame:
            if layer != MEAN:
                there = self.before is not None and layer in self.before.frame
                alike = None
                with optional():
                    alike = self.before.one(layer) if there else None
                yield layer, self.trained.one(layer), {UNTRAINED: alike}

    @property
    def gaussian(self) -> float:
        """The percentage of unselectable keys expected among as many Gaussian keys in as many dimensions."""
        return gaussian_percent(self.rows, self.projected)  # projected keys have a dimension less

    def show_gaussian(self, test: Test) -> None:
        """Show what is expected of Gaussian keys."""
        seeds = self.trained.frame.index
        test.show(
            test.mean(
                pd.Series(self.gaussian, index=seeds), f"Gaussian keys, as {self.title}", PER_CENT, "expected"
            )
        )

    def show_change(self, test: Test) -> None:
        """Show the change in training."""
        with optional():
            require(self.before is not None, "")
            change = (self.trained.frame[MEAN] - self.before.frame[MEAN]).dropna()
            words = f"{self.title} minus untrained"
            test.show(test.mean(enough(change, words), words, PER_CENT, self.trained.statistic))


def _shares(test: Test, rows: pd.DataFrame, title: str, statistic: str) -> Measured:
    frames = []
    for hits in (rows.n_unselectable, rows.n_unselectable + rows.n_borderline):
        by_layer = (100 * hits / rows.n_keys).groupby([rows.seed, rows.layer]).mean().unstack("layer")
        by_layer.columns = [f"layer {layer}" for layer in by_layer]
        frames.append(by_layer.assign(**{MEAN: by_layer.mean(axis=1)}))
    cases = rows.groupby("layer").n_keys.sum().add_prefix("layer ").to_dict() | {MEAN: int(rows.n_keys.sum())}
    return test.measured(frames[0], PER_CENT, statistic, title=title, worst=frames[1], cases=cases)


def none_unselectable(test: Test, place: Place) -> None:
    """Ask in each layer whether no key is unselectable."""
    for _, share, alike in place.layers():
        test.effect(share, alike=alike, counted_at_most=ZERO)


def show_site(test: Test, *place: str) -> None:
    """Show the mean share of unselectable keys at a site, if there is one."""
    with optional():
        test.show(Place(test, *place).mean)


def paper_table(
    test: Test,
    name: str,
    model: str,
    variant: str,
    site: str,
    keys_of: Sequence[str],
    losses_of: Sequence[str] = (),
) -> None:
    """Compare unselectable keys with one of the paper's tables, and with those after LayerNorm."""
    own, normed, paper = (
        Place(test, model, variant, site),
        Place(test, model, "layernorm", "after_norm"),
        rules.TABLES[name],
    )
    layers = list(own.layers())
    test.reported = float(np.mean(paper[: len(layers)]))  # of as many layers as there are
    test.effect(own.mean)
    for layer, share, before in layers:
        test.effect(share, alike=before, at_least=paper[int(layer.split()[-1]) - 1] / 2)
    none_unselectable(test, normed)
    if own.mean_before:
        test.control(own.mean_before)
    own.show_change(test)
    own.show_gaussian(test)
    show_site(test, model, "layernorm", "after_norm_exact")
    require_trained(test, model, keys_of, losses_of)


BESIDE = "In a wider model of bytes, which uses its attention"
AT_PAPERS_RATE = "At the paper's learning rate and steps"


@claim(kind="paper", source=PAPER + "Table 1", sizes=sizes.long, unit=PER_CENT, exhibits=["table_1"])
def table_1(test):
    """Without scaling a third to a half of a language model's keys are unselectable; with it none.

    Reported: 51.0, 32.2, 34.7, 36.8 % in layers 1 to 4 without (mean 38.7 %), 0 with
    Setting: The text and tokenizer of the run at hand; the paper tests contexts of SQuAD, its models trained on
        Wikipedia.
    Statistic: keys unselectable at the attention input without scaling, mean over layers, per cent
    Control: the same models untrained; layernorm and projection differ in the scaling alone
    Rule: Without scaling each layer has at least half the paper's number for it, with an interval above 0; with
        scaling each layer has at most {ZERO:g} %, undecided keys counted as unselectable. No verdict unless both
        models (at the paper's rate: one of them) beat unigram and no attention.
    """
    own, both = ("projection", "after_norm"), ("projection", "layernorm")
    test.beside("table_1_bytes", BESIDE, paper_table, "table_1", "gpt_bytes", *own, both, looks=1)
    test.beside("table_1_paper_rate", AT_PAPERS_RATE, paper_table, "table_1", PAPER_RATE, *own, (), both)
    paper_table(test, "table_1", "gpt", *own, both)


@claim(kind="paper", source=PAPER + "Table 2", sizes=sizes.long, unit=PER_CENT, exhibits=["table_2"])
def table_2(test):
    """Keys that would be unselectable before the LayerNorm are all selectable after it.

    Reported: 44.8, 28.5, 22.3, 26.1 % in layers 1 to 4 before (mean 30.4 %), 0 after
    Setting: The text and tokenizer of the run at hand; the paper tests contexts of SQuAD, its models trained on
        Wikipedia.
    Statistic: inputs of the LayerNorm that are unselectable among themselves, mean over layers, per cent
    Control: the same models untrained; input and output of the same LayerNorm
    Rule: Before the LayerNorm each layer has at least half the paper's number for it, with an interval above 0; after
        it each layer has at most {ZERO:g} %, undecided keys counted as unselectable. No verdict unless the model
        beats unigram and no attention.
    """
    own = ("layernorm", "before_norm", ("layernorm",))
    test.beside("table_2_paper_rate", AT_PAPERS_RATE, paper_table, "table_2", PAPER_RATE, *own)
    paper_table(test, "table_2", "gpt", *own)


@claim(kind="paper", source=PAPER + "Table 3", sizes=sizes.in_sentences, unit=PER_CENT, exhibits=["table_3"])
def table_3(test):
    """In single sentences, too, a language model without scaling has unselectable tokens.

    Reported: examples
    Setting: Sentences of the run at hand; the paper tests those of SST-2.
    Statistic: sentences with an unselectable key in some layer, without scaling, per cent
    Control: the same models untrained; layernorm
    Rule: More than {ZERO:g} % of the sentences without scaling; at most {ZERO:g} % of the keys of each layer with it,
        undecided keys counted as unselectable. No verdict unless both models beat unigram and no attention.
    """
    bare = Place(test, "gpt", "projection", "after_norm", "sentences")
    normed = Place(test, "gpt", "layernorm", "after_norm", "sentences")
    keys = test.table(KEYS)
    keys = keys[(keys.model == "gpt") & (keys.variant == "projection") & (keys.texts == "sentences")]
    keys = keys[(keys.site == "after_norm") & ~keys.causal]
    hit = (keys.n_unselectable > 0).groupby([keys.checkpoint, keys.seed, keys.context]).any()
    percent = 100 * hit.groupby(["checkpoint", "seed"]).mean().unstack("checkpoint")
    percent = percent.rename(columns={"final": "projection", "initial": BEFORE + "projection"})
    found, before = test.measured(percent, PER_CENT, "sentences with an unselectable key"), None
    with optional():
        before = found.one(BEFORE + "projection")
    test.effect(found.one("projection"), alike={UNTRAINED: before}, above=ZERO)
    if before:
        test.control(before)
    for _, share, alike in normed.layers():
        test.control(share, alike=alike, counted_at_most=ZERO)
    with optional():
        test.show(found.minus("projection", BEFORE + "projection"))
    test.show(bare.mean)
    require_trained(test, "gpt", ("projection", "layernorm"))


@claim(
    kind="ours",
    source="our question, from the paper's argument (section 4), taken to the heads",
    sizes=sizes.long,
    unit=PER_CENT,
    figures=["figure_heads", "heads_by_width"],
)
def heads(test):
    """LayerNorm eliminates unselectable keys where attention happens: in each head, after W_K, among the keys that a
    query sees.

    Reported: not measured; the text says that no key is unselectable
    Setting: The paper does not look at the heads.
    Statistic: keys unselectable in the heads among those up to their own position, layernorm, mean over layers and
        heads, per cent
    Control: heads without scaling; the attention input of the same models; untrained models; all keys of a context as
        rivals
    Rule: Among the keys up to their own position, which is all that a query may see: at most {ZERO:g} % in the heads
        of each layer, undecided keys counted as unselectable, and more in the heads without scaling. No verdict
        unless both models beat unigram and no attention. In models of bytes with narrower heads the width counts if
        at every width at least half and at most twice as many keys are unselectable as of Gaussian keys.
    """
    widths = "Heads of bytes have as many unselectable keys as Gaussian keys have"
    test.beside("head_widths", widths, head_widths, "gpt_bytes", looks=1)
    own, bare = (Place(test, "gpt", variant, "head causal") for variant in ("layernorm", "projection"))
    normed = Place(test, "gpt", "layernorm", "after_norm")
    test.specifics.append(own.sizes)
    test.effect(own.mean)
    none_unselectable(test, own)
    test.control(bare.mean, alike={UNTRAINED: bare.mean_before}, above=ZERO)
    test.show(normed.mean)
    if own.mean_before:
        test.show(own.mean_before)
    own.show_gaussian(test)
    show_site(test, "gpt", "layernorm", "head")
    require_trained(test, "gpt", ("layernorm", "projection"))


@claim(
    kind="ours",
    source="our question, from the paper's argument",
    sizes=sizes.long,
    unit=PER_CENT,
    figures=["figure_heads"],
)
def heads_qk_norm(test):
    """A norm of each head's queries and keys (QK-norm) eliminates the unselectable keys in the heads.

    Setting: A question of ours.
    Statistic: keys unselectable in the heads, layernorm_qk, mean over layers and heads, per cent
    Control: heads of the models with LayerNorm alone; untrained models; eps = 0
    Rule: At most {ZERO:g} % in the heads of each layer, undecided keys counted as unselectable, and more in the heads
        with LayerNorm alone. Partial if those have no more either, or if it is so, of certified keys, at eps = 0
        alone. No verdict unless both models beat unigram and no attention.
    """
    own, plain = (Place(test, "gpt", variant, "head") for variant in ("layernorm_qk", "layernorm"))
    normed = Place(test, "gpt", "layernorm_qk", "after_norm")
    test.specifics.append(own.sizes)
    test.effect(own.mean)
    none_unselectable(test, own)
    with optional():
        for _, share, _ in Place(test, "gpt", "layernorm_qk", "head_exact").layers():
            test.effect(share, part=1, at_most=ZERO)
    test.control(plain.mean, alike={UNTRAINED: plain.mean_before}, above=ZERO)
    test.show(normed.mean)
    if own.mean_before:
        test.show(own.mean_before)
    show_site(test, "gpt", "layernorm_qk", "head causal")
    own.show_gaussian(test)
    require_trained(test, "gpt", ("layernorm_qk", "layernorm"))


def head_widths(test: Test, model: str) -> None:
    """Ask in narrower heads than those of `model` for half to twice as many unselectable keys as of Gaussian keys."""
    widths = narrower(test.table(KEYS), model)
    require(len(widths) > 1, f"The run has fewer than two widths of heads below that of {model}.")
    places = {d: Place(test, name, "layernorm", "head") for d, name in widths.items()}
    statistic = "keys unselectable in the heads, mean over layers and heads"

    def compared(before: bool) -> tuple[Number, dict[int, Number]]:
        shares = {d: place.before if before else place.trained for d, place in places.items()}
        require(all(share is not None for share in shares.values()), "The run has no untrained heads.")
        beyond = pd.DataFrame({d: share.frame[MEAN] - places[d].gaussian for d, share in shares.items()})
        beyond = enough(beyond.dropna().mean(axis=1), "every width of heads")
        words = "heads minus Gaussian keys, mean over widths" + ", before training" * before
        return test.mean(beyond, words, POINTS, statistic), {
            d: share.one(MEAN) for d, share in shares.items()
        }

    beyond, shares = compared(before=False)
    first, untrained = None, {}
    with optional():
        first, untrained = compared(before=True)
    test.effect(beyond)
    for d, share in shares.items():
        asked = like_gaussian(places[d].gaussian)
        row = share._replace(words=f"d_head = {d}", statistic=statistic)
        test.effect(row, part=d, alike={UNTRAINED: untrained.get(d)}, asked=asked)
    if first:
        test.control(first)
    for d, name in widths.items():
        with optional():
            causal = Place(test, name, "layernorm", "head causal")
            words = f"d_head = {d}, among the keys before them; Gaussian keys {causal.gaussian:.3g} %"
            test.show(causal.mean._replace(statistic=statistic), words)
    metrics = test.table(LOSSES)  # without attention the width of heads is no difference
    without = metrics.variant == NO_ATTENTION_VARIANT
    bare = metrics[(metrics.model == model) & without]
    metrics = pd.concat([metrics[~without], *(bare.assign(model=name) for name in widths.values())])
    for name in widths.values():
        require_trained(test, name, ["layernorm"], tables={LOSSES: metrics})


def like_gaussian(gaussian: float) -> Question:
    """Return the question whether a percentage is above half and at most twice that of Gaussian keys.

    If at most ZERO % of these are unselectable, there is no lower limit, and the upper limit is at least ZERO %.
    """
    most, least = max(2 * gaussian, ZERO), gaussian / 2 if gaussian > ZERO else -np.inf
    words = (
        f"at most {most:.3g}" + f" and more than {least:.3g}" * (gaussian > ZERO) + ", undecided keys counted"
    )

    def find(estimate: Estimate, _: float, worst: Estimate) -> rules.Finding:
        return rules.all_of(rules.at_most(estimate, most, worst), rules.above(estimate, least))

    return Question(words, find)


# The gap of Figure 4


def gap_in(test: Test, model: str, *controls: str, per: float = 1.0) -> None:
    """Compare the losses without and with scaling, and the validation losses of the variants `controls`."""
    valid = losses(test, model, "projection", "layernorm")
    train = losses(test, model, "projection", "layernorm", column="train_loss")
    untrained = None
    with optional():
        untrained = valid.minus(BEFORE + "projection", BEFORE + "layernorm")
    test.reported = VALID_GAP if per == 1.0 else None
    alike = {UNTRAINED: untrained} if model in ("gpt", PAPER_RATE) else {}
    test.effect(valid.minus("projection", "layernorm"), alike=alike, at_least=HALF_OF_VALID_GAP / per)
    test.effect(train.minus("projection", "layernorm"), at_least=HALF_OF_TRAIN_GAP / per)
    for variant in controls:
        with optional():
            gap = losses(test, model, variant, "layernorm").minus(variant, "layernorm")
            test.control(gap, at_least=HALF_OF_VALID_GAP / per)


def gap_at_best_rates(test: Test, model: str, per: float = 1.0) -> None:
    """Compare the losses at the best rates, in nats per token or, with `per`, in nats per byte."""
    gap_in(test, model, "projection_scalar", per=per)
    if per == 1.0:
        for pair in (("none", "scale"), ("layernorm_gain_small", "layernorm_gain")):
            with optional():
                test.show(losses(test, model, *pair).minus(*pair))
    require_trained(test, model, losses_of=("layernorm", "projection"))


def gap_of_short_training(test: Test) -> None:
    """Compare the losses of a short training at one large rate, with those at the best rates as control."""
    gap_in(test, "gpt")
    words = f"{label('projection')} minus {label('layernorm')}, at the best learning rates"
    best = Number(NOTHING, None, words, NATS, AT_END)
    with optional():
        best = losses(test, "gpt_rates", "projection", "layernorm").minus("projection", "layernorm")
    test.control(best, words=words, at_least=HALF_OF_VALID_GAP)
    require_trained(test, "gpt", losses_of=("layernorm", "projection"))


def size_or_scaling(test: Test) -> None:
    """Compare the effects of size and scaling on the loss, from four variants."""
    cells = [*chain(*models.SIZE_AND_SCALING)]
    frame = losses(test, PAPER_RATE, *cells).frame
    words = f"{AT_END}, small minus large, without minus with scaling"
    effects = test.measured(two_by_two(-frame, *models.SIZE_AND_SCALING, "scaling"), NATS, words)
    test.effect(effects.one("size"), at_least=HALF_OF_VALID_GAP)
    test.control(effects.one("scaling"), part=1, no_further_than=QUARTER * VALID_GAP)
    test.show(effects.one("interaction"))
    require_trained(
        test, PAPER_RATE, losses_of=("layernorm", "projection_grown", "layernorm_shrunk", "projection")
    )


def gap_is_attention(test: Test) -> None:
    """Ask whether models without scaling, or of small input, end where the model without attention does."""
    small, bare = ("projection", "layernorm_shrunk"), "no_attention"
    found = losses(test, PAPER_RATE, bare, "layernorm", *small)
    own = test.table(LOSSES).query("model == @PAPER_RATE")
    wide = own.pivot(index=["step", "seed"], columns="variant", values="valid_loss")
    step = int((wide.projection - wide.layernorm).groupby("step").mean().idxmax())
    test.note(f"The mean gap is largest at step {step:,}.")
    for variant in small:
        quarter = {"than": (bare, "layernorm")}
        test.effect(found.minus(bare, variant, less=QUARTER, **quarter), less_than=0)
        test.effect(found.minus(bare, variant, less=-QUARTER, **quarter), more_than=0)
    if not test.gate(found.minus(bare, "layernorm"), more_than=0):
        test.no_verdict(f"No verdict, because {test.rows[-1].number.words} is not known to be more than 0.")
    test.show(found.minus("projection", "layernorm"))
    for variant in small:
        test.show(found.minus(bare, variant))
    largest = test.measured(wide.loc[step], NATS, "validation loss at the step of the largest gap")
    for variant in ("layernorm", *small):
        test.show(largest.minus(bare, variant))
    show_attention(test, PAPER_RATE, "mean_kept_worth", "zero_scores_worth")
    require_trained(test, PAPER_RATE, losses_of=("layernorm", *small))


@claim(
    kind="paper",
    source=PAPER + "Figure 4",
    of=PAPER_RATE,
    figures=["figure_4_paper_rate", "figure_4a", "figure_4b"],
)
def loss_gap(test):
    """With scaling the language model's training and test loss are lower.

    Reported: 0.04 nats (training), 0.05 (test), read off the figure
    Setting: The paper's learning rate and steps. Batches of one window where the paper has sixteen; a small text,
        read many times, and a tokenizer of its own, of 8,192 entries, where the paper has Wikipedia.
    Statistic: validation loss at the last step, projection minus layernorm of the same seed, nats per token
    Control: projection minus layernorm_shrunk, both of the size that the unscaled stream has before training; the
        same models untrained
    Rule: Both gaps are at least half the paper's with intervals above 0, and so is the validation gap at equal size.
        Confounded if that gap is not there: then the size is the cause. No verdict unless one of the two models beats
        unigram and no attention. In the short training the control is the gap at best rates, and there the gap to a
        variant that learns its size; a best rate that is the first or the last that was tried is inconclusive. Per
        byte the paper's gap is divided by {BYTES_A_TOKEN:g} bytes a token. Size is the cause if its effect is at
        least half the paper's gap and the interval of scaling's at equal size within a quarter of it. The gap is what
        attention is worth if models without scaling, and with a small LayerNorm, end no further from no attention
        than a quarter of LayerNorm's worth.
    """
    short = "In a short training at 200 times the paper's rate"
    test.beside("loss_gap_short", short, gap_of_short_training)
    best, of_bytes = "At the best learning rates", "At the best learning rates, in a model of bytes"
    test.beside("loss_gap_best_rate", best, gap_at_best_rates, "gpt_rates", primary=True)
    per = rules.BYTES_A_TOKEN
    test.beside(
        "loss_gap_best_rate_bytes", of_bytes, gap_at_best_rates, "bytes_rates", per, primary=True, looks=1
    )
    test.beside("size_or_scaling", "Size makes the gap, not scaling", size_or_scaling, kind="ours")
    test.beside("gap_is_attention", "The gap is what attention is worth", gap_is_attention, kind="ours")
    test.beside("attention_worth", "Attention is worth the gap", worth_at_papers_width, kind="ours")
    uses = f"In a model of bytes attention is worth {ATTENTION} nats"
    test.beside("attention_worth_bytes", uses, worth, "gpt_bytes", ATTENTION, kind="ours", looks=1)
    gap_in(test, PAPER_RATE)
    valid = losses(test, PAPER_RATE, "projection", "layernorm", "layernorm_shrunk", "no_attention")
    test.control(valid.minus("projection", "layernorm_shrunk"), at_least=HALF_OF_VALID_GAP)
    test.show(valid.minus("no_attention", "layernorm"))
    with optional():
        grown = losses(test, PAPER_RATE, "projection_grown", "layernorm")
        test.show(grown.minus("projection_grown", "layernorm"))
    require_trained(test, PAPER_RATE, losses_of=("layernorm", "projection"))


def worth_at_papers_width(test: Test) -> None:
    """Ask whether attention is worth the paper's gap to the short training."""
    worth(test, "gpt", VALID_GAP)


def size_in_scores(test: Test) -> None:
    """Ask whether a small input keeps a model from attending through its queries and keys, not its values."""
    half = {"less": 0.5, "than": ("layernorm", "layernorm_shrunk")}
    increase = of_attention(test, PAPER_RATE, "zero_scores_worth")
    valid = losses(test, PAPER_RATE, "layernorm", "shrunk_qk", "shrunk_v")
    test.effect(increase.minus("layernorm", "shrunk_qk", **half), more_than=0)
    test.effect(increase.minus("layernorm", "shrunk_v", **half), part=1, less_than=0)
    if not test.gate(increase.minus("layernorm", "layernorm_shrunk"), more_than=0):
        test.no_verdict(f"No verdict, because {test.rows[-1].number.words} is not known to be more than 0.")
    for variant in ("shrunk_qk", "shrunk_v"):
        test.show(valid.minus(variant, "layernorm"))
    require_trained(test, PAPER_RATE, losses_of=("layernorm", "layernorm_shrunk", "shrunk_qk", "shrunk_v"))


@claim(
    kind="ours",
    source="our question, from Figure 4",
    primary=True,
    of=PAPER_RATE,
    figures=["figure_4_paper_rate"],
)
def attention_needs_size(test):
    """At the paper's learning rate a model learns to attend where the input of its attention is large, with scaling
    or without, and does not where it is small.

    Setting: The paper's learning rate and steps. Batches of one window where the paper has sixteen; a small text,
        read many times, and a tokenizer of its own, of 8,192 entries, where the paper has Wikipedia.
    Statistic: loss increase under uniform attention after training, projection_grown (projection times 35.36, of
        LayerNorm's size before training) minus projection of the same seed, nats per token
    Control: the same of layernorm minus layernorm_shrunk, which is as small as projection is before training
    Rule: At the last step uniform attention (scores of 0) adds more to the loss with a large input than with a small
        one by more than {ONSET} nats, with scaling and without, and with a small input it adds a quarter of that at
        most, with scaling and without, all by intervals. No verdict unless one of the four models beats unigram and
        no attention. Queries and keys are what matters if making them small costs at least half, and making values
        small at most half, of what a small input costs.
    """
    through = "Through queries and keys, not through values"
    test.beside("size_in_scores", through, size_in_scores, primary=True)
    variants = ("layernorm", "projection", "layernorm_shrunk", "projection_grown")
    test.table(LOSSES)
    increase = of_attention(test, PAPER_RATE, "zero_scores_worth")
    test.effect(increase.minus("projection_grown", "projection"), above=ONSET)
    test.effect(increase.minus("layernorm", "layernorm_shrunk"), above=ONSET)
    for variant in ("projection", "layernorm_shrunk"):
        test.effect(increase.one(variant), at_most=QUARTER * ONSET)
    for variant in increase.frame:
        if variant not in ("projection", "layernorm_shrunk"):
            test.show(increase.one(variant))
    show_attention(test, PAPER_RATE, "mean_kept_worth")
    require_trained(test, PAPER_RATE, losses_of=variants)


@claim(
    kind="paper",
    source=PAPER + "section 4, on Figure 4",
    of=PAPER_RATE,
    figures=["figure_4_paper_rate"],
    exhibits=["table_1"],
)
def loss_gap_keys(test):
    """Scaling lowers the loss because it leaves no key unselectable.

    Reported: 0.05 nats, where 38.7 % of the keys are unselectable without scaling
    Setting: The paper's learning rate and steps. Batches of one window where the paper has sixteen; a small text,
        read many times, and a tokenizer of its own, of 8,192 entries, where the paper has Wikipedia.
    Statistic: validation loss at the last step, projection minus layernorm_shrunk of the same seed, nats per token:
        two inputs of one size, one with unselectable keys and one without
    Control: unselectable keys at the attention input of both
    Rule: At equal size the model of whose keys some are unselectable has the higher loss, by at least half the
        paper's gap with an interval above 0; its share of unselectable keys is at least half the paper's, and that of
        layernorm_shrunk at most {ZERO:g} % in each layer. Does not hold if at equal size the gap is not there;
        confounded if it is, where the keys are not so. No verdict unless LayerNorm or projection beats unigram and no
        attention.
    """
    valid = losses(test, PAPER_RATE, "projection", "layernorm_shrunk", "layernorm")
    keys = Place(test, PAPER_RATE, "projection", "after_norm")
    test.reported = VALID_GAP
    test.effect(valid.minus("projection", "layernorm_shrunk"), at_least=HALF_OF_VALID_GAP)
    test.control(keys.mean, at_least=float(np.mean(rules.TABLES["table_1"])) / 2)
    with optional():
        for _, share, _ in Place(test, PAPER_RATE, "layernorm_shrunk", "after_norm").layers():
            test.control(share, counted_at_most=ZERO)
    test.show(valid.minus("projection", "layernorm"))
    require_trained(test, PAPER_RATE, losses_of=("layernorm", "projection"))


def project_keys(test: Test) -> None:
    """Ask whether projection costs loss in the values of a language model, and nothing in queries and keys."""
    variants = ("layernorm", "scale", "projected_qk")
    valid = losses(test, "gpt_bytes", *variants)
    test.effect(valid.minus("layernorm", "scale"), at_least=HALF_OF_VALID_GAP)
    test.effect(valid.minus("layernorm", "projected_qk"), part=1, at_least=HALF_OF_VALID_GAP)
    test.control(valid.minus("projected_qk", "scale"))
    require_trained(test, "gpt_bytes", losses_of=variants)


# Learning rates, and learning to attend


def require_variants(model: str, variants: Sequence[str], there: Container[str]) -> None:
    """Raise Missing unless `there` contains all `variants`."""
    missing = [variant for variant in variants if variant not in there]
    require(not missing, f"The run has no {model} with {' and no '.join(missing)}.")


def loss_of_learnt(test: Test, model: str) -> float:
    """Return the loss half the way from that without attention to LayerNorm's; raises Missing if that is no way."""
    scale = models.attention(test.table(LOSSES), model)
    known = "is worth nothing" if pd.notna(scale.worth) else "is not known to be worth anything"
    words = f"In {model} attention {known}, so that no run can be said to have learnt it."
    require(scale.worth > 0, words, runs=len(models.ends(test.table(LOSSES), model)))
    return scale.learnt(TRAINS)


def largest_rates(test: Test, model: str, down_to: str) -> None:
    """Compare the largest rates at which layernorm and projection train.

    A run trains if its final validation loss is half the way down from the unigram loss to the loss without attention
    (`down_to` = "no_attention"), or from the loss without attention to LayerNorm's ("layernorm"). As a largest rate
    is only known to lie between two tried ones, the interval covers Student's for the smallest and for the largest
    ratios.
    """
    metrics = test.table(LOSSES)
    runs = models.ends(metrics, model)
    runs = runs[runs.steps == runs.steps.max()]
    if down_to == NO_ATTENTION_VARIANT:
        bare = models.losses_without_attention(metrics, model).mean()
        loss = (1 - TRAINS) * runs.unigram_loss.mean() + TRAINS * bare
    else:
        loss = loss_of_learnt(test, model)
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
    ends = Estimate.of(least, test.level).low, Estimate.of(most, test.level).high
    words = f"{label('layernorm')} over {label('projection')}"
    test.effect(Number(Estimate(ratio.mean(), *ends), len(both), words, RATIO), more_than=1)
    of_all = runs.groupby(["variant", "base_learning_rate"]).rate.min().groupby("variant").max()
    for variant in legend_order(runs.variant):
        seeds, words = (
            runs.seed[runs.variant == variant].nunique(),
            "largest of the rates tried at which all seeds train",
        )
        test.show(Number(NOTHING._replace(mean=of_all[variant]), seeds, label(variant), "", words))
    require_trained(test, model, losses_of=PAPER_SCALING)


def attention_learnt(test: Test, model: str) -> None:
    """Compare after how many steps half of what attention is worth is reached."""
    loss, metrics = loss_of_learnt(test, model), test.table(LOSSES)
    own = metrics[metrics.model == model]
    run = ["variant", "seed", "base_learning_rate"]
    runs = arrivals(own[own.steps == own.steps.max()], run, "valid_loss", loss)
    single = runs.base_learning_rate.nunique() < 2
    require(single, f"The runs of {model} have several learning rates; the claim is about one.")
    require_variants(model, PAPER_SCALING, set(runs.variant))
    steps = test.steps(runs, PAPER_SCALING, "steps to half of what attention is worth")
    pairs = len(steps.last_steps[[*PAPER_SCALING]].dropna())
    few = f"{pairs} pairs of runs of {' and '.join(reversed(PAPER_SCALING))}, fewer than {PAIRS}"
    require(pairs < 2 or pairs >= PAIRS, f"The run has {few}.", runs=pairs)  # one pair has no interval
    test.effect(steps.over("projection", "layernorm"), more_than=1)
    require_trained(test, model, losses_of=PAPER_SCALING)


@claim(
    kind="ours",
    source="our question, from Figure 4",
    of="gpt_rates",
    unit=RATIO,
    figures=["language_model_losses"],
)
def stability(test):
    """Models with scaling train at larger learning rates than models without.

    Setting: A model trained at several learning rates.
    Statistic: largest learning rate at which a seed trains, layernorm over projection, geometric mean
    Control: the largest rates at which all seeds of other variants train
    Rule: A run trains if it ends at least {TRAINS:.0%} of the way from the loss of the tokens' frequencies down to
        the loss without attention; in the model of bytes it learns to attend if it ends below the loss without
        attention by at least {TRAINS:.0%} of what attention is worth to LayerNorm at its best rate. The largest rate
        of a seed is known up to the next one of the grid: the interval has all ratios that the grid leaves open.
        Holds if it lies above 1. No verdict unless one of the two models beats unigram and no attention. Steps to
        that half are compared with at least {PAIRS} pairs of runs; runs that never get there make the ratio a bound.
    """
    learns = "In a model of bytes they learn to attend at larger rates"
    test.beside("stability_bytes", learns, largest_rates, "bytes_rates", "layernorm", looks=1)
    sooner = "In a model of bytes they learn to attend in fewer steps"
    test.beside("attention_learnt", sooner, attention_learnt, "gpt_bytes", looks=1)
    largest_rates(test, "gpt_rates", NO_ATTENTION_VARIANT)
