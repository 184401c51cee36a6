"""Verdicts on trained language models, on tables whose truth is known by construction."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import recomputed_language_model
import worlds
from judging import (
    CONFOUNDED,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_REPRODUCED,
    NOT_TESTED,
    OURS,
    PARTIAL,
    REPRODUCED,
    REVERSED,
    verdict_on,
)
from pytest import approx

from layernorm_roles.evidence.analysis.language_model import of_all_lengths
from layernorm_roles.gaussian_keys import expected_unselectable

BY_MODEL = {"": "gpt", "_bytes": "gpt_bytes"}
"""The model that a claim is about, by the end of the claim's name."""

AT_BEST = {"gpt": "gpt_rates", "gpt_bytes": "bytes_rates"}
"""The model with several learning rates that belongs to a model with one."""

VARIANTS = {"none": 0.0, "scale": 0.0, "layernorm_qk": 0.0}


def on(name: str, shares=None, undecided=None, model="gpt", texts="long", losses=None, best=None, **options):
    """The verdict and the row of a claim, for models that use their attention if `losses` does not say other.

    `best` is the gap between the models that have the best rate of each norm, if there are any.
    """
    losses = worlds.losses(0.05, model=model, more=VARIANTS) if losses is None else losses
    if best is not None:
        losses = pd.concat([losses, worlds.losses(best, model=AT_BEST[model], spread=0.002)])
    tables = {"language_model_metrics": losses}
    if shares is not None:
        own = worlds.keys(shares, model, texts, undecided=undecided, **options)
        others = (
            own.model.replace(model, "other"),
            own.texts.replace({"long": "sentences", "sentences": "long"}),
        )
        others = (own.assign(**{column.name: column, "n_unselectable": 500}) for column in others)
        tables["key_selectability"] = pd.concat([own, *others])
    return verdict_on(name, **tables)


# What attention is worth


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("worth", "unigram", "spread", "words", "bytes_"),
    [
        (0.5, 9.0, 0.001, HOLDS, HOLDS),
        (0.1, 9.0, 0.001, HOLDS, DOES_NOT_HOLD),  # worth the paper's gap, but little use
        (0.03, 9.0, 0.001, DOES_NOT_HOLD, DOES_NOT_HOLD),
        (-0.1, 9.0, 0.001, DOES_NOT_HOLD, DOES_NOT_HOLD),
        (0.5, 5.0, 0.001, DOES_NOT_HOLD, DOES_NOT_HOLD),
        (0.5, 9.0, 0.9, NOT_TESTED, NOT_TESTED),
    ],
)
def test_what_attention_is_worth(end, worth, unigram, spread, words, bytes_):
    losses = worlds.losses(0.0, model=BY_MODEL[end], worth=worth, unigram=unigram, spread=spread)
    verdict, row = on(f"attention_worth{end}", losses=losses)
    assert verdict == (bytes_ if end else words)
    assert row.control_measured == approx(unigram - 6, abs=0.4)


def attention_input(without, with_scaling, untrained=None):
    places = [
        ("projection", "after_norm", without),
        ("layernorm", "after_norm", with_scaling),
        ("layernorm", "before_norm", without),
        ("layernorm_qk", "after_norm", with_scaling),
        ("none", "after_norm", without),
    ]
    return {
        (variant, checkpoint, site): without if untrained is None or checkpoint == "final" else untrained
        for variant, site, without in places
        for checkpoint in ("initial", "final")
    } | {("layernorm", "initial", "after_norm"): with_scaling}


HEADS = {
    (variant, checkpoint, "head"): share
    for variant, share in (("projection", 0.7), ("layernorm", 0.6), ("layernorm_qk", 0.0))
    for checkpoint in ("initial", "final")
}

GATED = [
    ("loss_gap", "long", REPRODUCED),
    ("table_1", "long", REPRODUCED),
    ("heads", "long", DOES_NOT_HOLD),
    ("heads_qk_norm", "long", HOLDS),
    ("table_3", "sentences", REPRODUCED),
    ("table_4", "sentences", REPRODUCED),
    ("loss_gap_keys", "long", REPRODUCED),
]


@pytest.mark.parametrize(("name", "texts", "open_gate"), GATED)
def test_models_that_are_not_better_than_both_baselines_get_no_verdict(name, texts, open_gate):
    model = "bert" if name == "table_4" else "gpt"
    shares = attention_input(0.3, 0.0) | HEADS
    world = {"gap": 0.05, "model": model, "more": VARIANTS}
    best = None if model == "bert" else 0.05
    losses = worlds.losses(**world)
    assert on(name, shares, model=model, texts=texts, losses=losses, best=best)[0] == open_gate
    shut = {
        "like no attention": worlds.losses(**world, worth=0.0, spread=0.02),
        "worse than unigram": worlds.losses(**world, unigram=4.0),
        "nobody removed attention": losses[losses.variant != "no_attention"],
        "one seed without attention": losses[(losses.variant != "no_attention") | (losses.seed == 0)],
    }
    for why, table in shut.items():
        verdict, row = on(name, shares, model=model, texts=texts, losses=table, best=best)
        assert verdict == NOT_TESTED, why
        assert "No verdict, because trained models" in row.reason and np.isfinite(row.measured), why


def test_labels_have_no_unigram_loss():
    losses = worlds.losses(0.0, model="bert", more=VARIANTS).assign(unigram_loss=np.nan)
    shares = attention_input(0.3, 0.0)
    assert on("table_4", shares, model="bert", texts="sentences", losses=losses)[0] == REPRODUCED


# Tables 1 and 2

PAPER = {"table_1": (51.0, 32.2, 34.7, 36.8), "table_2": (44.8, 28.5, 22.3, 26.1)}
LAYERS = [
    # shares without scaling, or before the norm, in layers 1 to 4; with scaling; untrained; verdict
    (0.3, 0.0, 0.6, REPRODUCED),
    (0.3, 0.0, 0.0, REPRODUCED),
    ((0.3, 0.3, 0.02, 0.3), 0.0, 0.6, PARTIAL),
    ((0.3, 0.3, 0.0, 0.3), 0.0, 0.6, NOT_REPRODUCED),
    (0.0, 0.0, 0.6, NOT_REPRODUCED),
    (0.3, 0.1, 0.6, NOT_REPRODUCED),
    (0.3, (0.0, 0.0, 0.0, 0.03), 0.6, NOT_REPRODUCED),
]


@pytest.mark.parametrize(("table", "end"), [("table_1", ""), ("table_2", ""), ("table_1", "_bytes")])
@pytest.mark.parametrize(("without", "with_scaling", "untrained", "expected"), LAYERS)
def test_every_layer_is_held_against_the_paper_s_number_for_it(
    table, end, without, with_scaling, untrained, expected
):
    shares = attention_input(without, with_scaling, untrained)
    verdict, row = on(table + end, shares, model=BY_MODEL[end])
    assert verdict == (OURS.get(expected, expected) if end else expected)
    assert row.reported == approx(np.mean(PAPER[table]))
    assert row.control_measured == approx(100 * untrained * 1.02, abs=0.2)
    assert (row.also_passed_by == "untrained models") == (expected == REPRODUCED and untrained > 0)
    place = "layernorm before_norm" if table == "table_2" else "projection after_norm"
    learnt = row.rows[f"{place} minus untrained {place}"]
    assert learnt.estimate == approx(row.measured - row.control_measured, abs=1e-9) and learnt.asked == ""
    for layer, number in enumerate(PAPER[table], start=1):
        assert row.rows[f"{place}, layer {layer}"].asked == f"at least {number / 2:.3g}"


def test_a_share_of_none_has_a_binomial_bound():
    """None of 3 seeds x 4 contexts x 4 layers x 1,000 keys: 1 - 0.025 ** (1 / 48,000) is the upper end."""
    _, row = on("table_1", attention_input(0.0, 0.0))
    assert (row.measured, row.ci_low) == (0, 0)
    assert row.ci_high == approx(100 * (1 - 0.025 ** (1 / 48_000)))


def test_a_model_whose_initial_weights_were_not_tested_is_judged_without_them():
    shares = {place: share for place, share in attention_input(0.3, 0.0).items() if place[1] == "final"}
    verdict, row = on("table_1", shares)
    assert verdict == REPRODUCED and pd.isna(row.also_passed_by) and np.isnan(row.control_measured)


def test_undecided_keys_are_counted_apart_and_are_no_proof_that_none_is_unselectable():
    after = ("layernorm", "final", "after_norm")
    for undecided, expected, met in ((0.002, REPRODUCED, True), (0.05, NOT_TESTED, None)):
        verdict, row = on("table_1", attention_input(0.3, 0.0), undecided={after: undecided})
        layer = row.rows["layernorm after_norm, layer 1"]
        assert verdict == expected and (layer.estimate, layer.met) == (0, met)


def test_keys_among_the_keys_before_them_are_another_question():
    """Rows of causal verdicts, which all are unselectable here, do not enter the paper's shares."""
    losses = worlds.losses(0.05, more=VARIANTS)
    keys = worlds.keys(attention_input(0.3, 0.0) | HEADS)
    causal = keys[keys.site == "head"].assign(causal=True, n_unselectable=10)
    one, two = (
        verdict_on("heads", language_model_metrics=losses, key_selectability=table)[1]
        for table in (keys, pd.concat([keys, causal]))
    )
    assert (one.measured, one.verdict) == (two.measured, two.verdict)
    assert two.rows["layernorm head causal"].estimate == 1 and "layernorm head causal" not in one.rows


def test_the_share_of_as_many_gaussian_keys_is_shown():
    """Projected keys have a dimension less."""
    shares = attention_input(0.3, 0.0) | HEADS
    places = {
        "heads": ("layernorm head", 2),
        "table_1": ("projection after_norm", 7),
        "table_2": ("layernorm before_norm", 8),
    }
    for name, (place, d) in places.items():
        found = on(name, shares)[1].rows[f"Gaussian keys, {place}"]
        assert found.estimate == approx(expected_unselectable(1000, d) / 10) and found.asked == ""


# Figure 4, at one learning rate


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("gap", "best", "expected"),
    [
        (0.05, 0.06, REPRODUCED),
        (0.01, 0.06, PARTIAL),
        (0.05, 0.01, PARTIAL),
        (0.1, 0.0, CONFOUNDED),
        (0.0, 0.05, NOT_REPRODUCED),
        (-0.05, 0.05, REVERSED),
        (0.05, None, NOT_TESTED),
    ],
)
def test_loss_gap_at_one_rate(gap, best, expected, end):
    """The seeds' own losses differ by far more than the gap: only the paired difference can find it."""
    losses = worlds.losses(gap, model=BY_MODEL[end], worth=1.5)
    verdict, row = on(f"loss_gap{end}", model=BY_MODEL[end], losses=losses, best=best)
    assert verdict == (OURS.get(expected, expected) if end else expected)
    assert row.n_seeds == 3 and pd.isna(row.also_passed_by)
    assert best is None or row.control_measured == approx(best, abs=0.006)
    assert pd.isna(row.reported) if end else row.reported == approx(0.05)  # a byte is no token of the paper
    control = row.rows[f"projection minus layernorm, {AT_BEST[BY_MODEL[end]]}"]
    assert control.role == "control" and (control.met is None) == (best is None)


def test_a_gap_that_untrained_models_have_is_said_to_be_theirs_too():
    _, row = on("loss_gap", losses=worlds.losses(0.05, untrained_gap=0.05), best=0.05)
    assert row.also_passed_by == "untrained models"


def test_a_model_that_loses_all_that_attention_is_worth_is_still_compared():
    """Without scaling the loss is above that without attention: the gap is what was claimed, not a lack of training."""
    verdict, row = on("loss_gap", losses=worlds.losses(0.05, worth=0.03), best=0.05)
    assert verdict == REPRODUCED and row.rows["no_attention minus projection, gpt"].met is False


def test_only_seeds_of_both_variants_are_compared():
    losses = worlds.losses(0.05, seeds=5)
    losses = losses[(losses.variant != "projection") | (losses.seed < 4)]
    assert on("loss_gap", losses=losses)[1].n_seeds == 4


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("best", "share", "expected"),
    [
        (0.1, 0.3, REPRODUCED),
        (0.1, 0.0, CONFOUNDED),
        (0.1, 0.05, PARTIAL),
        (0.0, 0.3, NOT_REPRODUCED),
        (-0.1, 0.3, REVERSED),
    ],
)
def test_unselectable_keys_as_the_cause_of_the_gap_at_best_rates(best, share, expected, end):
    """At one rate the gap is another one."""
    losses = worlds.losses(0.3, model=BY_MODEL[end])
    shares = attention_input(share, 0.0)
    verdict, row = on(f"loss_gap_keys{end}", shares, model=BY_MODEL[end], losses=losses, best=best)
    assert verdict == (OURS.get(expected, expected) if end else expected)
    assert row.rows["projection after_norm"].asked == "at least 19.3" and pd.isna(row.control_measured)


# At best rates, by length, by rate, and when attention is learnt

CURVE = {"layernorm": (0.2, 0.0, 0.3, 0.9), "projection": (0.1, 0.3, 0.9, 0.9)}
"""Losses at four rates, of which projection's best is the first: too low a rate, if it is the grid's end."""
INNER = {"layernorm": (0.4, 0.2, 0.0, 0.9), "projection": (0.3, 0.1, 0.6, 0.9)}
FOUR = (0.001, 0.002, 0.004, 0.008)


def judged(name, model, curves, rates=FOUR, bare=True, **options):
    """The verdict on models with lists; the model at one rate has no attention at a loss 0.5 above LayerNorm's best."""
    base = worlds.losses(0.0, model="gpt_bytes" if model.startswith("bytes") else "gpt", worth=0.5, own=0.01)
    tables = [worlds.losses_by_rate(model, curves, rates, **({"seeds": 6, "own": 0.01} | options))]
    tables += [base[base.variant == "no_attention"]] if bare else []
    return verdict_on(name, language_model_metrics=pd.concat(tables))


@pytest.mark.parametrize(
    ("gap", "free", "expected"),
    [
        (0.1, 0.1, HOLDS),
        (0.1, 0.0, PARTIAL),  # a size that can be learnt does as well as scaling
        (0.01, 0.1, PARTIAL),
        (0.0, 0.0, DOES_NOT_HOLD),
    ],
)
def test_the_gap_at_the_best_rate_of_each_norm(gap, free, expected):
    curves = INNER | {"projection": (0.3, gap, 0.6, 0.9), "projection_scalar": (0.7, 0.6, free, 0.8)}
    verdict, row = judged("loss_gap_best_rate_bytes", "bytes_rates", curves)
    assert verdict == expected
    assert row.control_measured == approx(free, abs=0.003)
    assert row.n_seeds == 6


@pytest.mark.parametrize(
    ("curves", "options", "words"),
    [
        (CURVE, {}, "projection only is best at a learning rate of 0.001, the first"),
        (INNER, {"bare": False}, "No verdict"),
        (INNER, {"seeds": 1}, "only 1 seed"),
    ],
)
def test_an_end_of_the_grid_or_a_shut_gate_makes_no_verdict_at_best_rates(curves, options, words):
    verdict, row = judged("loss_gap_best_rate_bytes", "bytes_rates", curves, **options)
    assert verdict == NOT_TESTED and words in row.reason


def test_a_rate_at_which_runs_diverge_is_not_the_best():
    curves = {name: (*curve[:3], np.nan) for name, curve in INNER.items()}
    assert judged("loss_gap_best_rate_bytes", "bytes_rates", curves)[0] == HOLDS


@pytest.mark.parametrize(
    ("closes", "expected"),
    [(0.04, {HOLDS}), (0.005, {PARTIAL, DOES_NOT_HOLD}), (0.0, {DOES_NOT_HOLD}), (-0.04, {DOES_NOT_HOLD})],
)
def test_the_gap_by_length(closes, expected):
    lengths = {"lengths": (250, 1000, 4000), "closes": closes, "spread": 0.003}
    verdict, row = judged("loss_gap_lengths_bytes", "bytes_lengths", INNER, **lengths)
    assert verdict in expected
    assert row.control_measured == approx(0.1 - 2 * closes, abs=0.006)
    one = judged("loss_gap_lengths_bytes", "bytes_lengths", INNER, lengths=(250,))
    two = judged("loss_gap_lengths_bytes", "bytes_lengths", CURVE, **lengths)
    assert "a single length" in one[1].reason and "the first or last" in two[1].reason


@pytest.mark.parametrize("early", [0.0, 0.6])
def test_a_gap_is_followed_from_the_first_length_after_which_attention_is_learnt(early):
    """A model of several rates lends the length between two others; before attention is learnt no gap can close."""

    options = {"seeds": 6, "own": 0.01, "spread": 0.001}

    def rows(gap, steps, shift):
        curves = {"layernorm": (shift,), "projection": (shift + gap,)}
        return worlds.losses_by_rate("bytes_lengths", curves, (0.004,), (steps,), **options)

    curves = {"layernorm": (0.9, 0.3, 0.0, 0.4), "projection": (0.9, 0.09, 0.4, 0.9)}
    rates = worlds.losses_by_rate("bytes_rates", curves, FOUR, (1000,), **options)
    bare = worlds.losses(0.0, model="gpt_bytes", worth=0.5, own=0.01).query("variant == 'no_attention'")
    losses = pd.concat([rows(0.01, 250, early), rows(0.02, 4000, -0.2), rates, bare])
    verdict, row = verdict_on("loss_gap_lengths_bytes", language_model_metrics=losses)
    assert row.control_measured == approx(0.02, abs=0.004)
    assert verdict == (HOLDS if early else DOES_NOT_HOLD)
    assert ("After 250 steps attention is worth -0." in row.reason) == (early > 0)


def test_a_model_of_several_lengths_borrows_one_that_it_lacks_and_no_other():
    lengths = {"bytes_lengths": (250, 4000), "bytes_rates": (250, 1000), "gpt_bytes": (1000, 4000, 9000)}
    runs = [worlds.losses(0.05, model=name, steps=steps) for name in lengths for steps in lengths[name]]
    for own in (True, False):
        losses = pd.concat(runs)
        losses = losses[(losses.model != "bytes_rates") | (losses.variant != "no_attention") | own]
        expected = recomputed_language_model.rows({"language_model_metrics": losses}, "bytes_lengths")
        found, expected = (
            frame.drop(columns="model").sort_values([*frame.columns[1:]], ignore_index=True)
            for frame in (of_all_lengths(losses, "bytes_lengths"), expected)
        )
        pd.testing.assert_frame_equal(found, expected)


def test_what_attention_is_worth_in_the_longest_training():
    lengths = {"lengths": (250, 1000, 4000), "closes": 0.05}
    assert judged("attention_worth_bytes_lengths", "bytes_lengths", INNER, **lengths)[0] == HOLDS


@pytest.mark.parametrize(
    ("projection", "expected"),
    [((0.1, 0.6, 0.9, 0.9), HOLDS), ((0.1, 0.1, 0.1, 0.9), NOT_TESTED), ((0.6, 0.6, 0.6, 0.1), NOT_TESTED)],
)
def test_the_largest_rate_at_which_models_train(projection, expected):
    """LayerNorm trains up to 0.004; half of the 0.5 nats of attention is needed."""
    curves = {"layernorm": (0.2, 0.1, 0.0, 0.9), "projection": projection}
    verdict, row = judged("stability_bytes", "bytes_rates", curves, spread=0.0)
    assert verdict == expected
    if expected == HOLDS:
        some = {**curves, "projection": (0.1, 0.25, 0.9, 0.9)}  # at .002 some of the seeds train
        at_some = judged("stability_bytes", "bytes_rates", some, spread=0.1)[1]
        assert at_some.rows["projection"].estimate == 0.001 and at_some.measured < row.measured
        assert (row.rows["layernorm"].estimate, row.rows["projection"].estimate) == (0.004, 0.001)
        reversed_ = dict(zip(curves, list(curves.values())[::-1], strict=True))
        assert judged("stability_bytes", "bytes_rates", reversed_ | {"none": projection})[0] == DOES_NOT_HOLD


def learning(steps: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Runs that leave the loss without attention at a step, one for each seed; infinite: never. Best at 0.002."""
    base = worlds.losses(0.0, model="gpt_bytes", worth=0.5, seeds=8, own=0.01)
    tables = [base[base.variant == "no_attention"]]
    for variant, arrivals in steps.items():
        for (seed, arrival), slower in product(enumerate(arrivals), (1.5, 1.0, 2.0)):
            rate = {1.5: 0.001, 1.0: 0.002, 2.0: 0.003}[slower]
            when = arrival * slower * (1 + 0.01 * seed)
            own = worlds.losses(0.0, model="bytes_rates", rate=rate, seeds=seed + 1, own=0.01)
            row = own[(own.variant == "layernorm") & (own.seed == seed)].iloc[-1:].assign(variant=variant)
            bare = base[base.variant == "no_attention"].valid_loss.iloc[-1]
            for step in range(0, 1001, 50):
                tables.append(row.assign(step=step, valid_loss=bare - 0.5 * (step >= when)))
    return pd.concat(tables, ignore_index=True)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({"layernorm": (100, 120, 140, 160, 180), "projection": (300, 400, 350, 420, np.inf)}, HOLDS),
        ({"layernorm": (300, 400, 350, 420, np.inf), "projection": (100, 120, 140, 160, 180)}, DOES_NOT_HOLD),
        ({"layernorm": (100, 400, 140, 300, 180), "projection": (110, 150, 350, np.inf, 190)}, NOT_TESTED),
    ],
)
def test_when_attention_is_learnt(steps, expected):
    verdict, row = verdict_on("attention_learnt", language_model_metrics=learning(steps))
    assert verdict == expected, row.reason
    if expected != NOT_TESTED:
        never = max(steps, key=lambda variant: max(steps[variant]))
        shown = {variant: row.rows[f"{variant}, the rate where it is soonest"].estimate for variant in steps}
        assert shown == {variant: 80 if variant == never else 100 for variant in steps}


@pytest.mark.parametrize(
    ("scale", "projected_qk", "expected"),
    [
        # losses minus LayerNorm's
        (-0.1, -0.1, HOLDS),
        (-0.1, 0.0, PARTIAL),
        (0.0, 0.0, DOES_NOT_HOLD),
        (0.1, 0.1, DOES_NOT_HOLD),
        (-0.01, -0.01, PARTIAL),
    ],
)
def test_projecting_keys_or_values(scale, projected_qk, expected):
    losses = worlds.losses(0.0, model="gpt_bytes", more={"scale": scale, "projected_qk": projected_qk})
    verdict, row = on("project_keys_bytes", losses=losses)
    assert verdict == expected
    assert row.control_measured == approx(projected_qk - scale, abs=0.005)


@pytest.mark.parametrize(("name", "lacking"), [("project_keys", "projected_qk"), ("loss_gap", "projection")])
def test_a_run_without_a_variant_says_which(name, lacking):
    losses = worlds.losses(0.0, model="gpt_bytes", more={"scale": 0.0})
    verdict, row = on(f"{name}_bytes", losses=losses[losses.variant != lacking])
    assert verdict == NOT_TESTED and row.reason == f"The run has no gpt_bytes with {lacking}."


# Tables 3 and 4


@pytest.mark.parametrize(
    ("name", "model", "without"), [("table_3", "gpt", "projection"), ("table_4", "bert", "none")]
)
def test_sentences(name, model, without):
    after = ("layernorm", "final", "after_norm")

    def judged(share, untrained, kept=0.0, undecided=None):
        shares = {(without, "final", "after_norm"): share, (without, "initial", "after_norm"): untrained}
        shares |= {after: kept, ("layernorm", "initial", "after_norm"): 0.0}
        return on(name, shares, model=model, texts="sentences", undecided=undecided)

    verdict, row = judged(0.2, 0.2)
    assert (verdict, row.also_passed_by) == (REPRODUCED, "untrained models")
    verdict, row = judged(0.2, 0.0)
    assert (verdict, row.also_passed_by, row.control_measured) == (REPRODUCED, None, 0)
    assert judged(0.2, 0.2, 0.3)[0] == CONFOUNDED
    verdict, row = judged(0.0, 0.0)
    assert (verdict, row.also_passed_by) == (NOT_REPRODUCED, None)
    assert judged(0.2, 0.2, undecided={after: 0.1})[0] == NOT_TESTED


# Heads

ONE_LAYER = (0.0, 0.0, 0.0, 0.2)


@pytest.mark.parametrize(
    ("layernorm", "qk", "exact", "expected", "expected_qk"),
    [
        (0.6, 0.0, 0.0, DOES_NOT_HOLD, HOLDS),
        (0.0, 0.0, 0.0, HOLDS, PARTIAL),
        (0.6, 0.6, 0.6, DOES_NOT_HOLD, DOES_NOT_HOLD),
        (0.6, 0.2, 0.0, DOES_NOT_HOLD, PARTIAL),  # eps is why
        (0.6, ONE_LAYER, ONE_LAYER, DOES_NOT_HOLD, DOES_NOT_HOLD),
    ],
)
def test_heads(layernorm, qk, exact, expected, expected_qk):
    shares = attention_input(0.3, 0.0) | {
        ("projection", "final", "head"): 0.7,
        ("layernorm", "final", "head"): layernorm,
        ("layernorm_qk", "final", "head"): qk,
        ("layernorm_qk", "final", "head_exact"): exact,
    }
    verdict, row = on("heads", shares, dimensions=(8, 2))
    assert verdict == expected and row.statement.endswith("after W_K. Here d_head = 2 and n = 1,000 keys.")
    assert row.rows["layernorm after_norm"].estimate == 0
    verdict, row = on("heads_qk_norm", shares)
    assert verdict == expected_qk and row.control_measured == approx(100 * layernorm * 1.02, abs=0.2)
    table = worlds.keys(shares)
    one = table[(table.variant != "layernorm_qk") | (table.seed == 0)]
    losses = worlds.losses(0.05, more=VARIANTS)
    verdict, row = verdict_on("heads_qk_norm", key_selectability=one, language_model_metrics=losses)
    assert verdict == NOT_TESTED and "only 1 seed of layernorm_qk" in row.reason


def test_untrained_models_without_unselectable_keys_in_their_heads_pass_too():
    shares = attention_input(0.3, 0.0) | HEADS | {("layernorm", "final", "head"): 0.6}
    assert on("heads_qk_norm", shares)[1].also_passed_by == "untrained models"
    assert pd.isna(on("heads_qk_norm", shares | {("layernorm_qk", "initial", "head"): 0.5})[1].also_passed_by)
    assert pd.isna(on("heads", shares)[1].also_passed_by)  # it fails in trained models already
