"""Verdicts on trained language models, on tables whose truth is known by construction."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import assert_judged, assert_pairs_are_counted, known, verdict_on
from plain import interval
from pytest import approx

PAPER_RATE = "gpt_paper_rate"
MORE = {"none": 0.0, "scale": 0.0, "layernorm_qk": 0.0}
SHUT = "inconclusive: No verdict, because trained models"


def models(gap=0.05, model="gpt", best=None, lack=None, **world):
    """Losses, see worlds.losses; with `best` also models that have the best rate of each norm, and this gap.

    `lack`: a variant that is left out, or a pair of a variant and the number of seeds that it has.
    """
    table = worlds.losses(gap, model=model, **{"more": MORE} | world)
    if best is not None:
        table = pd.concat([table, worlds.losses(best, model="gpt_rates", spread=0.002)])
    variant, seeds = (lack, 0) if isinstance(lack, str) else lack or ("", 0)
    return {"language_model_metrics": table[(table.variant != variant) | (table.seed < seeds)]}


def keys(shares, model="gpt", texts="long", undecided=0.0, before=0.9):
    """Unselectable keys; of another model and of other texts all are, and `undecided` of LayerNorm's, at both sites.

    `before`: how much of the share of a head's keys is unselectable among the keys before them, a number or one by
    variant.
    """
    open_ = {("layernorm", "final", site): undecided for site in ("after_norm", "head")}
    own = worlds.keys(shares, model, texts, undecided=open_)
    if before:
        heads = own[own.site == "head"].assign(causal=True)
        part = before if isinstance(before, float) else heads.variant.map(before)
        heads["n_unselectable"] = (part * heads.n_unselectable).round().astype(int)
        own = pd.concat([own, heads])
    texts = own.texts.replace({"long": "sentences", "sentences": "long"})
    others = (own.assign(n_unselectable=500, **other) for other in ({"model": "other"}, {"texts": texts}))
    return {"key_selectability": pd.concat([own, *others])}


def at_input(without=0.3, with_scaling=0.0, untrained=None, shrunk=None):
    """Shares of unselectable keys, before training those of after training where `untrained` does not say others."""
    places = [("projection", "after_norm"), ("none", "after_norm"), ("layernorm", "before_norm")]
    shares = {(variant, "final", site): without for variant, site in places}
    shares |= {(variant, "final", "after_norm"): with_scaling for variant in ("layernorm", "layernorm_qk")}
    first = {(variant, "initial", site): share for (variant, _, site), share in shares.items()}
    first = first if untrained is None else dict.fromkeys(first, untrained)
    first[("layernorm", "initial", "after_norm")] = with_scaling
    return shares | first | ({} if shrunk is None else {("layernorm_shrunk", "final", "after_norm"): shrunk})


def in_heads(projection=0.7, layernorm=0.6, qk=0.0, exact=None, first=None):
    """Shares of unselectable keys in heads and at the input; `first`: those in heads before training, by variant."""
    heads = {"projection": projection, "layernorm": layernorm, "layernorm_qk": qk}
    shares = {(variant, "final", "head"): share for variant, share in heads.items()}
    shares |= {(variant, "initial", "head"): share for variant, share in (first or {}).items()}
    return at_input() | shares | ({} if exact is None else {("layernorm_qk", "final", "head_exact"): exact})


def with_keys(
    *shares, make=at_input, model="gpt", texts="long", undecided=0.0, before=0.9, keys_of=None, **losses
):
    """Models with the keys that `make` makes of `shares`; `keys_of`: its options."""
    shares = make(*shares, **keys_of or {})
    return models(model=model, **losses) | keys(shares, model, texts, undecided, before)


# What attention is worth, and the gate

WORTH = {
    "holds": [(0.5,), (0.1,), (0.5, {"unigram": np.nan})],
    "does not hold": [(0.03,), (-0.1,), (0.5, {"unigram": 5.0})],
    "inconclusive": [(0.5, {"spread": 0.9})],
}
WORTH_BYTES = WORTH | {"holds": [(0.5,)], "does not hold": [(0.1,), *WORTH["does not hold"]]}
NO_BETTER = [{"worth": 0.0, "spread": 0.02}, {"unigram": 4.0}]
NO_BETTER += [{"lack": "no_attention"}, {"lack": ("no_attention", 1)}]
LIKE_NONE = {"worth": 0.03}  # without scaling the loss is above that without attention
SHUT_OR_NOT = {SHUT: NO_BETTER, "holds": [LIKE_NONE, {"unigram": np.nan}]}


def worth_of(worth, model="gpt", **world):
    return models(0.0, model, worth=worth, **world)


GATE = [
    *known("attention_worth", worth_of, WORTH),
    *known("attention_worth_bytes", partial(worth_of, model="gpt_bytes"), WORTH_BYTES),
    *known("table_1", partial(with_keys, keys_of={"untrained": 0.0}), {SHUT: [*NO_BETTER, LIKE_NONE]}),
    *known("loss_gap_short", partial(models, best=0.05), SHUT_OR_NOT),
    *known("table_3", partial(with_keys, texts="sentences", keys_of={"untrained": 0.0}), {SHUT: [LIKE_NONE]}),
]

# Tables 1, 2 and 3: shares without scaling or before the norm, one or one a layer; with scaling; untrained

LAYERS = {
    "holds; untrained models: geometry": [(0.3, 0.0, 0.6), (0.3, 0.0, 0.3, {"undecided": 0.002})],
    "holds": [(0.3, 0.0, 0.0)],
    "partial": [((0.3, 0.3, 0.02, 0.3), 0.0, 0.6)],
    # one layer without such keys, or one with them after the norm, is enough
    "does not hold": [((0.3, 0.3, 0.0, 0.3), 0.0, 0.6), (0.3, (0.0, 0.0, 0.0, 0.03), 0.6)],
    "inconclusive": [(0.3, 0.0, 0.0, {"undecided": 0.05})],
}
OURS = {"holds; untrained models": [(0.3, 0.0, 0.6)], "does not hold": [(0.0, 0.0, 0.6)]}
SENTENCES = {
    "holds; untrained models": [(0.2, 0.0, 0.2)],
    "holds": [(0.2, 0.0, 0.0), ((0.0, 0.0, 0.2, 0.0), 0.0, 0.0)],
    "confounded": [(0.2, 0.3, 0.2)],
    "does not hold": [(0.0, 0.0, 0.0)],
    "inconclusive": [(0.2, 0.0, 0.0, {"undecided": 0.1})],
}
ONLY_TRAINED = {place: share for place, share in at_input().items() if place[1] == "final"}
TABLES = [
    *known("table_1", with_keys, LAYERS),
    *known("table_2", with_keys, LAYERS),
    *known("table_1_bytes", partial(with_keys, model="gpt_bytes"), OURS),
    *known("table_1_paper_rate", partial(with_keys, model=PAPER_RATE, worth=0.03), OURS),
    *known("table_2_paper_rate", partial(with_keys, model=PAPER_RATE), OURS),
    *known("table_3", partial(with_keys, texts="sentences"), SENTENCES),
    ("table_1", partial(with_keys, make=lambda: ONLY_TRAINED), "holds"),
]

# Heads: shares without scaling, with it, with a norm of queries and keys, and that with an eps of 0

ONE_LAYER = (0.0, 0.0, 0.0, 0.2)
ALL_CAN = {"layernorm": 0.0, "layernorm_qk": 0.0, "projection": 0.3}
HEADS = {
    "does not hold": [(0.7, 0.6), {"keys_of": {"first": {"layernorm": 0.0, "projection": 0.7}}}],
    # among all keys most cannot win; among those that a query sees, in all heads but the unscaled, all can
    "holds: The number is 0 of 96,000.": [(0.7, 0.0), (0.7, 0.6, {"before": ALL_CAN})],
    "partial": [(0.0, 0.0)],
    "inconclusive: The number is 0 of 96,000.": [(0.7, 0.0, {"undecided": 0.05})],
    "not run here: layernorm, head causal": [{"before": None}],
}
QK_NORM = {
    "holds": [(0.7, 0.6, 0.0, 0.0), {"keys_of": {"first": {"layernorm": 0.6, "layernorm_qk": 0.5}}}],
    "partial": [(0.7, 0.0, 0.0, 0.0), (0.7, 0.6, 0.2, 0.0)],  # in the second eps is why
    "does not hold": [(0.7, 0.6, 0.6, 0.6), (0.7, 0.6, ONE_LAYER, ONE_LAYER)],
    "holds; untrained models": [{"keys_of": {"first": {"layernorm": 0.6, "layernorm_qk": 0.0}}}],
}
IN_HEADS = [
    *known("heads", partial(with_keys, make=in_heads), HEADS),
    *known("heads_qk_norm", partial(with_keys, make=in_heads), QK_NORM),
]

# Figure 4, at the paper's learning rate and at a larger one


def paper_rate(gap=0.05, shrunk=0.05, grown=0.0, seeds=5, worth=0.05, **world):
    """Losses at the paper's rate, by how much is lost; the seeds' own differ by far more than any of the variants."""
    more = {"projection_grown": grown, "layernorm_shrunk": shrunk, "shrunk_qk": 0.05, "shrunk_v": 0.0}
    return models(gap, PAPER_RATE, more=more, seeds=seeds, worth=worth, **world)


ALONE = "layernorm_qk"


def scores(*worth, names):
    """What scores of 0 add to the loss at the last step, for the variants `names`; earlier and in a layer it is 9.

    There is another model, and a variant with a single run.
    """
    run = {"model": (PAPER_RATE, "gpt"), "seed": range(5), "variant": (*names, ALONE), "step": (500, 1000)}
    rows = worlds.combinations(**run, layer=(1, None)).assign(steps=1000, mean_kept_worth=7.0)
    rows = rows[(rows.variant != ALONE) | (rows.seed == 0)]
    jitter = np.random.default_rng(5).normal(0, 0.002, len(rows))
    at_end = rows.variant.map(dict(zip(names, worth, strict=True))).fillna(0.5) + jitter
    rows["zero_scores_worth"] = at_end.where(rows.layer.isna() & (rows.step == 1000), 9.0)
    return paper_rate() | {"language_model_attention": rows}


def gap_of_keys(at_equal_size, *shares):
    """A gap of .1, and at equal size; unselectable keys without scaling, and with a small LayerNorm."""
    shares = keys(at_input(shares[0], shrunk=shares[1]), PAPER_RATE)
    return paper_rate(0.1, 0.1 - at_equal_size, worth=0.3) | shares


# the gap, and at equal size or at best rates
GAPS = {
    "holds": [(0.05, 0.06)],
    "partial": [(0.01, 0.06), (0.05, 0.01)],
    "confounded": [(0.1, 0.0)],
    "does not hold": [(0.0, 0.05), (-0.05, 0.05)],
}
# what projection_grown, layernorm_shrunk and projection lose
EFFECTS = {
    "holds": [(0.0, 0.05, 0.05), (0.01, 0.05, 0.06)],  # scaling within a quarter of 0.05
    # in the second world scaling harms, in the last there is nothing to explain, and scaling does nothing
    "partial": [(0.02, 0.05, 0.07), (-0.02, 0.05, 0.03), (0.0, 0.02, 0.02), (0.0, 0.0, 0.06), (0.0,) * 3],
    "does not hold": [(0.05, 0.0, 0.05)],
}
NO_GROWN = {"not run here: with projection_grown.": [{"lack": "projection_grown"}]}
# what projection and layernorm_shrunk lose where no attention loses 0.05
NO_GAP = "inconclusive: No verdict, because no attention minus LayerNorm is not known to be more than 0."
AS_WITHOUT = {
    "holds": [(0.05, 0.05), (0.042, 0.058)],  # within a quarter
    "does not hold": [(0.03, 0.05), (0.05, 0.03), (0.07, 0.05), (0.05, 0.07), (0.0, 0.0)],
    "holds: The mean gap is largest at step 0.": [(0.05, 0.05, {"untrained_gap": 0.2})],
    NO_GAP: [(0.0, 0.0, {"worth": 0.0}), (-0.1, 0.0, {"worth": -0.02})],
    "inconclusive": [(0.05, 0.05, {"spread": 0.02})],
    "not run here: The run has no gpt_paper_rate with layernorm_shrunk.": [{"lack": "layernorm_shrunk"}],
}
# what scores are worth to these variants; those that are small must not attend, those that are large must
FOUR_SIZES = ("layernorm", "layernorm_shrunk", "projection_grown", "projection")
SIZES = {
    "holds": [(0.09, 0.0, 0.2, 0.001)],
    "does not hold": [
        (0.09, 0.0, 0.09, 0.02),
        (0.09, 0.02, 0.2, 0.0),
        (0.09, 0.0, 0.01, 0.0),
        (0.01, 0.0, 0.2, 0.0),
    ],
}
PARTS = ("layernorm", "layernorm_shrunk", "shrunk_qk", "shrunk_v")
THROUGH = {
    "holds": [(0.09, 0.0, 0.0, 0.09), (0.09, 0.01, 0.03, 0.07)],
    "does not hold": [(0.09, 0.0, 0.09, 0.0)],
    "partial": [(0.09, 0.0, 0.0, 0.0), (0.09, 0.0, 0.09, 0.09)],
    "inconclusive: LayerNorm minus LayerNorm × 0.028 is not known": [(0.0, 0.0, 0.0, 0.0)],
}
OF_KEYS = {
    "holds": [(0.05, 0.3, 0.0)],
    "confounded": [(0.05, 0.0, 0.0), (0.05, 0.3, 0.3)],  # the small LayerNorm has such keys, too
    "partial": [(0.05, 0.17, 0.0)],  # between half of Table 2's share and half of Table 1's
    "does not hold": [(0.0, 0.3, 0.0), (-0.05, 0.3, 0.0)],  # the gap is that of the size
}
# losses of scale and projected_qk minus LayerNorm's
PROJECTED = {
    "holds": [(-0.1, -0.1)],
    "partial": [(-0.1, 0.0), (-0.01, -0.01)],
    "does not hold": [(0.0, 0.0), (0.1, 0.1)],
    "not run here: The run has no gpt_bytes with projected_qk.": [(0.0, 0.0, {"lack": "projected_qk"})],
}


def trained_alike():
    """The gap is there in validation alone."""
    losses = paper_rate(0.05, -0.01, worth=0.3)["language_model_metrics"]
    gap = 0.05 * (losses.variant == "projection")
    return {"language_model_metrics": losses.assign(train_loss=losses.valid_loss - gap)}


def projected(scale, qk, **world):
    return models(0.0, "gpt_bytes", more={"scale": scale, "projected_qk": qk}, **world)


# without scaling a model may lose more than attention is worth: that is what was claimed, not a lack of training
PAPER_GAP = {
    "holds": [(0.06, 0.0)],
    "holds; untrained models": [(0.06, 0.0, {"untrained_gap": 0.05})],
    SHUT: [(0.06, {"worth": -0.01})],
    "not run here: The run has no gpt_paper_rate with projection.": [{"lack": "projection"}],
}
FIGURE_4 = [
    *known("loss_gap", lambda gap, other: paper_rate(gap, gap - other, worth=0.3), GAPS),
    *known("loss_gap", paper_rate, PAPER_GAP),
    ("loss_gap", trained_alike, "does not hold"),
    *known("loss_gap_short", lambda gap, other: models(gap, best=other, worth=1.5), GAPS),
    *known("loss_gap_short", models, {"inconclusive": [(0.05, {"worth": 1.5})]}),
    *known("size_or_scaling", lambda grown, shrunk, gap: paper_rate(gap, shrunk, grown, worth=0.3), EFFECTS),
    *known("size_or_scaling", paper_rate, NO_GROWN),
    *known("gap_is_attention", paper_rate, AS_WITHOUT),
    *known("attention_needs_size", partial(scores, names=FOUR_SIZES), SIZES),
    *known("size_in_scores", partial(scores, names=PARTS), THROUGH),
    *known("loss_gap_keys", gap_of_keys, OF_KEYS),
    *known("project_keys_bytes", projected, PROJECTED),
]

# At best rates, by rate, and when attention is learnt

FOUR = (0.001, 0.002, 0.004, 0.008)


def at_rates(gap, free, layernorm=(0.4, 0.2, 0.0, 0.9), last=0.9, bare=True, seeds=6):
    """Models of bytes at four rates, with the gap at the best, and that to a variant whose size can be learnt.

    `bare`: whether the model at one rate has no attention, at a loss 0.5 above LayerNorm's best.
    """
    curves = {"layernorm": layernorm, "projection": (0.3, gap, 0.6, last)}
    curves |= {"projection_scalar": (0.7, 0.6, free, 0.8)}
    tables = []
    for rate, *above in zip(FOUR, *curves.values(), strict=True):
        more = dict(zip(curves, above, strict=True))
        runs = worlds.losses(0.0, seeds, model="bytes_rates", rate=rate, more=more, own=0.01)
        tables.append(runs[runs.variant.isin(curves)])
    base = worlds.losses(0.0, model="gpt_bytes", worth=0.5, own=0.01).query("variant == 'no_attention'")
    return {"language_model_metrics": pd.concat([*tables, base] if bare else tables)}


BEST = {
    # half of 0.05 nats a token of 4.1 bytes are 0.006 a byte; a rate at which runs diverge is not the best
    "holds": [(0.1, 0.1), (0.01, 0.1), (0.1, 0.1, {"layernorm": (0.4, 0.2, 0.0, np.nan), "last": np.nan})],
    "confounded": [(0.1, 0.0)],  # a size that can be learnt does as well as scaling
    "partial": [(0.004, 0.1)],
    "does not hold": [(0.0, 0.0)],
    "inconclusive of 6: projection only is best at a learning rate of 0.001, the first": [(0.7, 0.1)],
    "inconclusive: No verdict": [(0.1, 0.1, {"bare": False})],
    "not run here: only 1 seed": [(0.1, 0.1, {"seeds": 1})],
}


SHORT, AGAIN = {"steps": 500, "valid_loss": 0.0}, {"base_learning_rate": 0.02}


def learning(layernorm, projection=(), worth=0.5, bare=True, beside=None):
    """Runs that leave the loss without attention at a step, one for each seed; infinite: never.

    `beside`: what further runs have in some columns, such as shorter ones, which have left it at once.
    """
    base = worlds.losses(0.0, model="gpt_bytes", worth=worth, seeds=10, own=0.01, spread=0.0)
    tables = [base[base.variant == "no_attention"]] * bare
    last = base[(base.variant == "layernorm") & (base.step > 0)].set_index("seed", drop=False)
    for variant, arrivals in (("layernorm", layernorm), ("projection", projection)):
        runs = last.loc[range(len(arrivals))].assign(variant=variant)
        for step in range(0, 1001, 50):
            higher = 0.5 * (step < np.array(arrivals))
            tables.append(runs.assign(step=step, valid_loss=runs.valid_loss + higher))
            tables += [tables[-1].assign(**beside)] if beside else []
    return {"language_model_metrics": pd.concat(tables, ignore_index=True)}


EARLY = (100, 120, 140, 160, 180, 110, 130, 150, 170, 190)
LATE = (300, 400, 350, 420, 600, 310, 330, 350, 370, 700)
LEARNT = {
    "holds": [(EARLY, LATE), (EARLY, LATE, {"beside": SHORT})],
    "not run here: gpt_bytes have several learning rates": [(EARLY, LATE, {"beside": AGAIN})],
    "holds: 1 of 10 runs of projection only do not get there in 1,000 steps: their ratio is a bound": [
        (EARLY, (*LATE[:9], np.inf))
    ],
    "inconclusive of 30: In gpt_bytes attention is worth nothing": [(EARLY, LATE, {"worth": -0.1})],
    "inconclusive of 20: attention is not known to be worth anything": [(EARLY, LATE, {"bare": False})],
    "does not hold": [(LATE, EARLY)],
    "inconclusive": [(EARLY, EARLY[::-1])],
    "inconclusive of 9: 9 pairs of runs of projection and layernorm, fewer than 10": [(EARLY[:9], LATE)],
    "not run here: The run has no gpt_bytes with projection.": [(EARLY,)],
}
BY_RATE = [*known("loss_gap_best_rate_bytes", at_rates, BEST), *known("attention_learnt", learning, LEARNT)]
KNOWN = GATE + TABLES + IN_HEADS + FIGURE_4 + BY_RATE


@pytest.mark.parametrize(("name", "world", "expected"), KNOWN)
def test_known_worlds(name, world, expected):
    assert_judged(name, world(), expected)


def stable(level):
    """Of six seeds, how many train up to each rate; those that are left train at none."""
    apart = np.exp(interval(np.log([1, 1, 1, 2, 2, 2]), level)[2]) / 2**0.5
    return [
        ((0, 0, 6, 0), (6, 0, 0, 0), "holds", (4, 2, 8)),
        ((0, 6, 0, 0), (6, 0, 0, 0), "inconclusive", (2, 1, 4)),  # the next rate of the grid
        ((6, 0, 0, 0), (0, 0, 6, 0), "does not hold", (1 / 4, 1 / 8, 1 / 2)),
        ((0, 0, 0, 6), (6, 0, 0, 0), "holds", (8, 4, np.inf)),
        ((0, 0, 6, 0), (0, 0, 0, 6), "inconclusive", (1 / 2, 0, 1)),
        ((0, 0, 6, 0), (0, 0, 0, 0), "holds", (np.inf, 4, np.inf)),
        # three seeds train up to another rate
        ((0, 3, 3, 0), (6, 0, 0, 0), "inconclusive", (2**1.5, 2**0.5 / apart, 2**2.5 * apart)),
        ((0, 0, 0, 0), (0, 0, 0, 0), "inconclusive", (1, 0, np.inf)),
    ]


STABLE = [("stability", *world) for world in stable(0.975)]  # after two looks
STABLE += [("stability_bytes", *world) for world in stable(0.95)[:7]]


@pytest.mark.parametrize(("name", "layernorm", "projection", "expected", "interval"), STABLE)
def test_the_largest_rate_at_which_models_train(name, layernorm, projection, expected, interval):
    """The ratio is known as far as the grid tells: up to the next rate on both sides."""
    model, base = ("gpt_rates", "gpt") if name == "stability" else ("bytes_rates", "gpt_bytes")
    tables = [worlds.losses(0.0, model=base, worth=0.5, own=0.0).query("variant == 'no_attention'")]
    seeds = {"layernorm": layernorm, "projection": projection, "none": (3, 3, 0, 0)}
    for i, rate in enumerate(FOUR):
        world = {"model": model, "rate": rate, "seeds": 6, "own": 0.0, "spread": 0.0, "unigram": 7.5}
        table = worlds.losses(0.0, more={"none": 0.0}, **world)
        table = table[table.variant.isin(seeds)]
        fails = table.seed >= table.variant.map({name: sum(numbers[i:]) for name, numbers in seeds.items()})
        tables.append(table.assign(valid_loss=table.valid_loss.mask(fails & (table.step > 0), 7.2)))
        tables.append(table.assign(step=table.step // 2, steps=500))  # shorter runs, all of which train
    verdict, row = verdict_on(name, language_model_metrics=pd.concat(tables))
    assert (row.measured, row.ci_low, row.ci_high) == approx(interval), row.reason
    assert verdict == expected and row.n_seeds == 6 and row.rows["no norm"].estimate == 0.001


def test_a_table_is_held_against_the_paper_s_mean_over_as_many_layers_as_there_are():
    few = with_keys()
    few["key_selectability"] = few["key_selectability"].query("layer <= 2")
    assert verdict_on("table_1", **few)[1].reported == approx((51.0 + 32.2) / 2)


def test_comparisons_say_what_is_asked_of_a_layer_and_what_is_taken_away():
    rows = verdict_on("table_1", **with_keys())[1].rows
    asked = [rows[f"projection only after the norm, layer {layer}"].asked for layer in (1, 2, 3, 4)]
    assert asked == [f"at least {share / 2:.3g}" for share in (51.0, 32.2, 34.7, 36.8)]
    rows = verdict_on("gap_is_attention", **paper_rate())[1].rows
    words = "no attention minus projection only, {} 0.25 times (no attention minus LayerNorm)".format
    assert rows[words("less")].estimate < 0 < rows[words("plus")].estimate


def test_no_key_at_all_has_the_exact_interval_of_as_many_keys():
    row = verdict_on("heads", **with_keys(0.7, 0.0, make=in_heads))[1]
    assert row.statement.endswith("Here d_head = 2 and n = 1,000 keys.")
    rows, heads = row.rows, "LayerNorm in the heads, among the keys before"
    for place, n in ((heads, 96_000), (f"{heads}, layer 1", 24_000)):
        assert rows[place].ci_high == approx(100 * (1 - 0.0125 ** (1 / n)))  # after two looks
        assert rows[place].statistic == f"unselectable keys, 0 of {n:,}"
    rows = verdict_on("table_1", **with_keys())[1].rows  # a difference of 0 is not of keys that were counted
    none = rows["projection only after the norm minus untrained"]
    assert none.statistic == "unselectable keys"


def test_undecided_keys_are_counted_of_those_seeds_alone_that_a_variant_has():
    tables = with_keys(0.7, 0.6, 0.0, 0.0, make=in_heads)
    keys = tables["key_selectability"]
    tables["key_selectability"] = keys[(keys.variant != "layernorm_qk") | (keys.seed != 0)]
    assert verdict_on("heads_qk_norm", **tables)[0] == "holds"


COMPARED = {
    "loss_gap": "projection layernorm",
    "size_or_scaling": "projection_grown layernorm_shrunk",
    "gap_is_attention": "projection no_attention",
    "loss_gap_best_rate_bytes": "projection",
}


@pytest.mark.parametrize(("name", "variants"), COMPARED.items())
def test_a_claim_has_as_many_runs_as_there_are_pairs(name, variants):
    assert_pairs_are_counted(name, KNOWN, *variants.split())
