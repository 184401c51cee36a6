"""Verdicts on trained language models, on tables whose truth is known by construction."""

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import (
    CONFOUNDED,
    DOES_NOT_HOLD,
    HOLDS,
    NOT_REPRODUCED,
    NOT_TESTED,
    PARTIAL,
    REPRODUCED,
    REVERSED,
    verdict_on,
)
from scipy.spatial import ConvexHull

BY_MODEL = {"": "gpt", "_bytes": "gpt_bytes"}
"""The model that a claim is about, by the end of the claim's name."""

VARIANTS = {"none": 0.0, "scale": 0.0, "layernorm_qk": 0.0}


def on(name: str, shares=None, undecided=None, model="gpt", texts="long", losses=None, **options):
    """The verdict and the row of a claim, for models that use their attention if `losses` does not say other."""
    tables = {
        "language_model_metrics": worlds.losses(0.05, model=model, more=VARIANTS)
        if losses is None
        else losses
    }
    if shares is not None:
        tables["key_selectability"] = worlds.keys(shares, model, texts, undecided=undecided, **options)
    return verdict_on(name, **tables)


# What attention is worth


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("worth", "unigram", "spread", "expected"),
    [
        (0.5, 9.0, 0.001, HOLDS),
        (0.03, 9.0, 0.001, DOES_NOT_HOLD),
        (-0.1, 9.0, 0.001, DOES_NOT_HOLD),
        (0.5, 5.0, 0.001, DOES_NOT_HOLD),
        (0.5, 9.0, 0.9, NOT_TESTED),
    ],
)
def test_what_attention_is_worth(end, worth, unigram, spread, expected):
    losses = worlds.losses(0.0, model=BY_MODEL[end], worth=worth, unigram=unigram, spread=spread)
    verdict, row = on(f"attention_worth{end}", losses=losses)
    assert verdict == expected
    assert spread > 0.1 or row.measured == pytest.approx(worth, abs=0.005)
    assert row.control_measured == pytest.approx(unigram - 6, abs=0.4)


def test_a_tenth_of_a_nat_is_worth_the_paper_s_gap_but_is_little_use():
    assert on("attention_worth", losses=worlds.losses(0.0, worth=0.1))[0] == HOLDS
    assert (
        on("attention_worth_bytes", losses=worlds.losses(0.0, worth=0.1, model="gpt_bytes"))[0]
        == DOES_NOT_HOLD
    )


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
    ("table_2", "long", REPRODUCED),
    ("heads", "long", NOT_REPRODUCED),
    ("heads_qk_norm", "long", HOLDS),
    ("table_3", "sentences", REPRODUCED),
    ("table_4", "sentences", REPRODUCED),
    ("loss_gap_bytes", "long", REPRODUCED),
    ("table_1_bytes", "long", REPRODUCED),
    ("table_2_bytes", "long", REPRODUCED),
    ("heads_bytes", "long", NOT_REPRODUCED),
]


@pytest.mark.parametrize(("name", "texts", "open_gate"), GATED)
def test_models_that_are_not_better_than_both_baselines_get_no_verdict(name, texts, open_gate):
    model = "bert" if name == "table_4" else BY_MODEL["_bytes" if name.endswith("bytes") else ""]
    shares = attention_input(0.3, 0.0) | HEADS
    world = {"gap": 0.05, "model": model, "more": VARIANTS}
    losses = worlds.losses(**world)
    assert on(name, shares, model=model, texts=texts, losses=losses)[0] == open_gate
    shut = {
        "like no attention": worlds.losses(**world, worth=0.0, spread=0.02),
        "worse than unigram": worlds.losses(**world, unigram=4.0),
        "at the unigram loss": worlds.losses(**world, unigram=6.0),
        "nobody removed attention": losses[losses.variant != "no_attention"],
        "one seed without attention": losses[(losses.variant != "no_attention") | (losses.seed == 0)],
    }
    for world, table in shut.items():
        verdict, row = on(name, shares, model=model, texts=texts, losses=table)
        assert verdict == NOT_TESTED, world
        assert row.reason.startswith("No verdict, because trained models"), world
        assert np.isfinite(row.measured), "what was measured is still there"


def test_labels_have_no_unigram_loss():
    losses = worlds.losses(0.0, model="bert", more=VARIANTS).assign(unigram_loss=np.nan)
    assert (
        on("table_4", attention_input(0.3, 0.0), model="bert", texts="sentences", losses=losses)[0]
        == REPRODUCED
    )


@pytest.mark.parametrize("end", BY_MODEL)
def test_the_reason_of_every_verdict_says_what_attention_is_worth(end):
    losses = worlds.losses(0.05, model=BY_MODEL[end], worth=0.321, spread=0.0)
    _, row = on(f"loss_gap{end}", losses=losses)
    assert "attention is worth 0.321" in row.reason


# Tables 1 and 2

PAPER = {"table_1": (51.0, 32.2, 34.7, 36.8), "table_2": (44.8, 28.5, 22.3, 26.1)}
LAYERS = [
    # shares without scaling, or before the norm, in layers 1 to 4; with scaling; verdict
    (0.3, 0.0, REPRODUCED),
    ((0.3, 0.3, 0.02, 0.3), 0.0, PARTIAL),
    ((0.3, 0.3, 0.0, 0.3), 0.0, NOT_REPRODUCED),
    (0.0, 0.0, NOT_REPRODUCED),
    (0.3, 0.1, NOT_REPRODUCED),
    (0.3, (0.0, 0.0, 0.0, 0.03), NOT_REPRODUCED),
]


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize("table", PAPER)
@pytest.mark.parametrize(("without", "with_scaling", "expected"), LAYERS)
def test_every_layer_is_held_against_the_paper_s_number_for_it(table, end, without, with_scaling, expected):
    shares = attention_input(without, with_scaling, untrained=0.6)
    verdict, row = on(table + end, shares, model=BY_MODEL[end])
    assert verdict == expected
    assert row.measured == pytest.approx(100 * np.mean(without) * 1.02, abs=0.2)
    assert row.reported == pytest.approx(np.mean(PAPER[table]))
    assert row.control_measured == pytest.approx(100 * 0.6 * 1.02, abs=0.2)  # untrained
    assert (row.also_passed_by == "untrained models") == (expected == REPRODUCED)
    for number in PAPER[table]:
        assert f"({number})" in row.reason


@pytest.mark.parametrize("table", PAPER)
def test_untrained_models_that_fail_are_not_said_to_pass(table):
    verdict, row = on(table, attention_input(0.3, 0.0, untrained=0.0))
    assert verdict == REPRODUCED and pd.isna(row.also_passed_by)
    assert "training changes the former by +30.6" in row.reason and "pass" not in row.reason


def test_the_reason_says_how_near_training_brings_the_paper_s_numbers():
    paper = tuple(number / 100 for number in PAPER["table_1"])
    _, row = on("table_1", attention_input(paper, 0.0, untrained=tuple(p + 0.1 for p in paper)))
    before, after = (
        float(word) for word in row.reason.split(" goes from ")[1].split(" points")[0].split(" to ")
    )
    assert before == pytest.approx(10 * 1.02 + 0.8, abs=0.3) and after < 1
    assert "equal to it within the interval in 4." in row.reason


def test_a_model_whose_initial_weights_were_not_tested_is_judged_without_them():
    shares = {place: share for place, share in attention_input(0.3, 0.0).items() if place[1] == "final"}
    verdict, row = on("table_1", shares)
    assert verdict == REPRODUCED and pd.isna(row.also_passed_by) and np.isnan(row.control_measured)


def test_undecided_keys_are_counted_apart_and_are_no_proof_that_none_is_unselectable():
    after = ("layernorm", "final", "after_norm")
    for undecided, expected in ((0.002, REPRODUCED), (0.05, NOT_TESTED)):
        verdict, row = on("table_1", attention_input(0.3, 0.0), undecided={after: undecided})
        assert verdict == expected
        assert (
            f"with scaling: none certified unselectable, {100 * undecided * 1.02:.2g} % undecided"
            in row.reason
        )


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
    assert "Among the keys before them alone: 1 [1, 1] %." in two.reason


def test_the_reason_gives_the_share_of_as_many_gaussian_keys():
    """Drawn here: 1,000 keys in 2 dimensions have about 12 extreme ones, of 1,000 in a hyperplane of 8 most are."""
    shares = attention_input(0.3, 0.0) | HEADS
    in_heads, projected, before = (on(name, shares)[1].reason for name in ("heads", "table_1", "table_2"))
    rng = np.random.default_rng(0)
    corners = np.mean([len(ConvexHull(rng.standard_normal((1000, 2))).vertices) for _ in range(50)])
    found = float(in_heads.split("in 2 dimensions ")[1].split(" %")[0])
    assert found == pytest.approx(100 - corners / 10, abs=0.1)
    assert "Gaussian keys in 7 dimensions" in projected and "Gaussian keys in 8 dimensions" in before
    _, row = on("table_1_bytes", attention_input(0.0, 0.0), model="gpt_bytes", dimensions=(64, 16))
    assert "Gaussian keys in 63 dimensions 0.0 % are" in row.reason


# Figure 4


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("gap", "spread", "expected"),
    [
        (0.05, 0.001, REPRODUCED),
        (0.01, 0.001, PARTIAL),
        (0.0, 0.001, NOT_REPRODUCED),
        (-0.05, 0.001, REVERSED),
        (0.05, 0.2, NOT_TESTED),
    ],
)
def test_loss_gap(gap, spread, expected, end):
    """The seeds' own losses differ by far more than the gap: only the paired difference can find it."""
    losses = worlds.losses(gap, model=BY_MODEL[end], spread=spread, worth=1.5)
    verdict, row = on(f"loss_gap{end}", losses=losses)
    assert verdict == expected
    assert spread > 0.1 or row.measured == pytest.approx(gap, abs=0.005)
    assert row.reported == pytest.approx(0.05) and row.n_seeds == 3
    assert pd.isna(row.also_passed_by)


def test_a_gap_that_untrained_models_have_is_said_to_be_theirs_too():
    verdict, row = on("loss_gap", losses=worlds.losses(0.05, untrained_gap=0.05))
    assert verdict == REPRODUCED and row.also_passed_by == "untrained models"


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("small", "expected"), [(0.0, REPRODUCED), (0.09, PARTIAL), (0.1, CONFOUNDED), (0.15, CONFOUNDED)]
)
def test_a_gap_that_goes_with_the_size_of_the_attention_input_is_not_scaling_s(small, expected, end):
    losses = worlds.losses(0.1, model=BY_MODEL[end], more={"layernorm_shrunk": small})
    verdict, row = on(f"loss_gap{end}", losses=losses)
    assert verdict == expected and row.control_measured == pytest.approx(0.1 - small, abs=0.005)
    assert ("it is their size" in row.reason) == (expected == CONFOUNDED)
    verdict, row = on(f"loss_gap{end}", losses=losses[losses.variant != "layernorm_shrunk"])
    assert verdict == NOT_TESTED and f"no {BY_MODEL[end]} with layernorm_shrunk" in row.reason
    assert row.measured == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize("end", BY_MODEL)
@pytest.mark.parametrize(
    ("gap", "share", "expected"),
    [
        (0.1, 0.3, REPRODUCED),
        (0.1, 0.0, CONFOUNDED),
        (0.1, 0.05, PARTIAL),
        (0.01, 0.3, PARTIAL),
        (0.0, 0.3, NOT_REPRODUCED),
        (-0.1, 0.3, REVERSED),
    ],
)
def test_unselectable_keys_as_the_cause_of_the_gap(gap, share, expected, end):
    losses = worlds.losses(gap, model=BY_MODEL[end])
    verdict, row = on(f"loss_gap_keys{end}", attention_input(share, 0.0), model=BY_MODEL[end], losses=losses)
    assert verdict == expected and row.measured == pytest.approx(gap, abs=0.005)
    assert ("cannot be what scaling removes" in row.reason) == (expected == CONFOUNDED)


def test_a_model_that_loses_all_that_attention_is_worth_is_still_compared():
    """Without scaling the loss is above that without attention: the gap is what was claimed, not a lack of training."""
    verdict, row = on("loss_gap", losses=worlds.losses(0.05, worth=0.03))
    assert verdict == REPRODUCED and "with projection only attention is worth -0.0" in row.reason


@pytest.mark.parametrize("worth", [0.03, 0.3])
def test_the_reason_says_if_the_gap_is_more_than_attention_is_worth(worth):
    _, row = on("loss_gap", losses=worlds.losses(0.0, worth=worth))
    assert ("more than attention is worth altogether" in row.reason) == (worth < 0.05)


def test_only_seeds_of_both_variants_are_compared():
    losses = worlds.losses(0.05, seeds=5)
    losses = losses[(losses.variant != "projection") | (losses.seed < 4)]
    assert on("loss_gap", losses=losses)[1].n_seeds == 4


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        (0.05, 0.05, HOLDS),
        (0.05, 0.0, PARTIAL),
        (0.0, 0.05, PARTIAL),
        (0.0, 0.0, DOES_NOT_HOLD),
        (-0.1, -0.1, REVERSED),
    ],
)
def test_scaling_at_two_widths(narrow, wide, expected):
    losses = pd.concat([worlds.losses(narrow), worlds.losses(wide, model="gpt_bytes")])
    verdict, row = on("loss_gap_widths", losses=losses)
    assert verdict == expected
    assert row.measured == pytest.approx(wide, abs=0.005) and row.control_measured == pytest.approx(
        narrow, abs=0.005
    )
    assert ("nowhere but at the paper's width" in row.reason) == (narrow == 0.05 and wide == 0.0)


@pytest.mark.parametrize(
    ("scale", "projected_qk", "expected"),
    [
        # losses minus LayerNorm's
        (-0.1, -0.1, HOLDS),
        (-0.1, 0.0, PARTIAL),
        (0.0, 0.0, DOES_NOT_HOLD),
        (0.1, 0.1, REVERSED),
        (-0.01, -0.01, PARTIAL),
    ],
)
def test_projecting_keys_or_values(scale, projected_qk, expected):
    losses = worlds.losses(0.0, model="gpt_bytes", more={"scale": scale, "projected_qk": projected_qk})
    verdict, row = on("project_keys_bytes", losses=losses)
    assert verdict == expected
    assert row.measured == pytest.approx(-scale, abs=0.005)
    assert row.control_measured == pytest.approx(projected_qk - scale, abs=0.005)


def test_a_run_without_a_variant_says_which():
    verdict, row = on("project_keys_bytes", losses=worlds.losses(0.0, model="gpt_bytes", more={"scale": 0.0}))
    assert verdict == NOT_TESTED and row.reason == "The run has no gpt_bytes with projected_qk."
    verdict, row = on("loss_gap_bytes", losses=worlds.losses(0.0))
    assert verdict == NOT_TESTED and row.reason == "The run has no gpt_bytes with projection."


# Tables 3 and 4


@pytest.mark.parametrize(
    ("name", "model", "without"), [("table_3", "gpt", "projection"), ("table_4", "bert", "none")]
)
def test_sentences(name, model, without):
    def shares(share, untrained, kept=0.0):
        return {
            (without, "final", "after_norm"): share,
            (without, "initial", "after_norm"): untrained,
            ("layernorm", "final", "after_norm"): kept,
            ("layernorm", "initial", "after_norm"): 0.0,
        }

    def judged(*values, undecided=None):
        return on(name, shares(*values), model=model, texts="sentences", undecided=undecided)

    verdict, row = judged(0.2, 0.2)
    assert verdict == REPRODUCED and row.also_passed_by == "untrained models" and row.measured == 100
    verdict, row = judged(0.2, 0.0)
    assert verdict == REPRODUCED and pd.isna(row.also_passed_by) and row.control_measured == 0
    assert judged(0.2, 0.2, 0.3)[0] == CONFOUNDED
    verdict, row = judged(0.0, 0.0)
    assert verdict == NOT_REPRODUCED and pd.isna(row.also_passed_by)
    assert judged(0.2, 0.2, undecided={("layernorm", "final", "after_norm"): 0.1})[0] == NOT_TESTED


# Heads


@pytest.mark.parametrize(
    ("layernorm", "qk", "expected", "expected_qk"),
    [
        (0.6, 0.0, NOT_REPRODUCED, HOLDS),
        (0.0, 0.0, REPRODUCED, PARTIAL),
        (0.6, 0.6, NOT_REPRODUCED, DOES_NOT_HOLD),
    ],
)
def test_heads(layernorm, qk, expected, expected_qk):
    shares = attention_input(0.3, 0.0) | {
        ("projection", "final", "head"): 0.7,
        ("layernorm", "final", "head"): layernorm,
        ("layernorm_qk", "final", "head"): qk,
    }
    assert on("heads", shares)[0] == expected
    verdict, row = on("heads_qk_norm", shares)
    assert verdict == expected_qk and row.control_measured == pytest.approx(100 * layernorm * 1.02, abs=0.2)
    table = worlds.keys(shares)
    one = table[(table.variant != "layernorm_qk") | (table.seed == 0)]
    losses = worlds.losses(0.05, more=VARIANTS)
    verdict, row = verdict_on("heads_qk_norm", key_selectability=one, language_model_metrics=losses)
    assert verdict == NOT_TESTED and "only 1 seed of layernorm_qk" in row.reason


@pytest.mark.parametrize("end", BY_MODEL)
def test_the_statement_on_heads_names_the_sizes_of_the_run(end):
    sizes = {"": (8, 2), "_bytes": (64, 16)}[end]
    _, row = on(f"heads{end}", attention_input(0.3, 0.0) | HEADS, model=BY_MODEL[end], dimensions=sizes)
    assert row.statement.endswith(f"after W_K. Here d_head = {sizes[1]} and n = 1,000 keys.")
    assert f"d_model = {sizes[0]}; 1,000 steps" in row.setting


def test_untrained_models_without_unselectable_keys_in_their_heads_pass_too():
    shares = attention_input(0.3, 0.0) | HEADS | {("layernorm", "final", "head"): 0.6}
    assert on("heads_qk_norm", shares)[1].also_passed_by == "untrained models"
    assert pd.isna(on("heads_qk_norm", shares | {("layernorm_qk", "initial", "head"): 0.5})[1].also_passed_by)
    assert pd.isna(on("heads", shares)[1].also_passed_by)  # it fails in trained models already


def test_one_layer_with_unselectable_keys_in_its_heads_refutes():
    shares = attention_input(0.3, 0.0) | HEADS | {("layernorm_qk", "final", "head"): (0.0, 0.0, 0.0, 0.2)}
    assert on("heads_qk_norm", shares)[0] == DOES_NOT_HOLD


def test_the_setting_names_the_sizes_of_the_run_beside_those_of_the_paper():
    _, row = on("table_1", attention_input(0.3, 0.0))
    assert (
        "d_model = 8; 1,000 steps of 100 tokens, 3 runs of each variant (the paper: d_model = 8"
        in row.setting
    )
    assert "Keys of 4 contexts of 1,000 tokens." in row.setting
