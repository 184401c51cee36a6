"""The verdict on the law of widths in trained heads, on tables whose truth is known by construction."""

import pandas as pd
import pytest
import worlds
from judging import verdict_on

from layernorm_roles.evidence.analysis.heads import narrower
from layernorm_roles.gaussian_keys import expected_unselectable

N = 1000
"""Keys in a context of worlds.keys."""
LAW = {d: expected_unselectable(N, d) / N for d in (2, 4, 8, 16, 24)}


def tables(shares, untrained=None, undecided=0.0, seeds=3, worth=0.5, widest=32):
    """Models named after their d_head with these shares in it, beside gpt_bytes with `widest` dimensions a head."""
    keys, losses = [], []
    for d, share in {widest: 0.0, **shares}.items():
        name = "gpt_bytes" if d == widest else f"heads_{d}"
        first = (untrained or shares).get(d, 0.0)
        places = {
            ("layernorm", "final", "head"): share,
            ("layernorm", "initial", "head"): first,
            ("layernorm", "final", "after_norm"): 0.0,
        }
        open_ = {("layernorm", "final", "head"): undecided}
        keys.append(worlds.keys(places, name, seeds=seeds, undecided=open_, dimensions=(64, d)))
        table = worlds.losses(0.05, model=name, worth=worth, seeds=seeds)
        losses.append(table if name == "gpt_bytes" else table[table.variant == "layernorm"])
    return {"key_selectability": pd.concat(keys), "language_model_metrics": pd.concat(losses)}


def on(*arguments, **options):
    return verdict_on("head_widths", **tables(*arguments, **options))


LIKE_GAUSSIAN = {d: 0.98 * LAW[d] for d in (2, 4, 8)}


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({}, "holds"),
        ({16: 2.5 * LAW[16]}, "partial"),  # too many
        ({16: 1.5 * LAW[16]}, "holds"),
        ({8: 0.3 * LAW[8]}, "partial"),  # too few
        ({8: 0.7 * LAW[8]}, "holds"),
        ({24: 0.0}, "holds"),  # of Gaussian keys almost none
        ({24: 0.008}, "holds"),
        ({24: 0.03}, "partial"),
        ({2: 0.1, 4: 0.1, 8: 0.01}, "does not hold"),
    ],
)
def test_every_width_is_held_against_gaussian_keys(shares, expected):
    assert on(LIKE_GAUSSIAN | shares)[0] == expected


def test_a_law_needs_two_points_of_two_seeds():
    few = "fewer than two widths of heads below that of gpt_bytes."
    for shares, seeds, words in (({8: LAW[8]}, 3, few), (LIKE_GAUSSIAN, 1, "only 1 seed of heads_2")):
        verdict, row = on(shares, seeds=seeds)
        assert verdict == "not tested" and words in row.reason


def test_the_number_is_what_heads_have_beyond_gaussian_keys():
    _, row = on({4: 0.5, 8: 0.4}, untrained={4: 0.8, 8: 0.6})
    law = 50 * (LAW[4] + LAW[8])
    assert row.n_seeds == 3, "of two widths"
    assert (row.measured, row.control_measured) == pytest.approx((45 * 1.02 - law, 70 * 1.02 - law))
    four, eight = row.rows["d_head = 4"], row.rows["d_head = 8"]
    assert (four.estimate, four.met, eight.met) == (pytest.approx(51), True, True)
    assert four.asked == f"at most {200 * LAW[4]:.3g} and more than {50 * LAW[4]:.3g}"


def test_untrained_models_that_pass_are_named():
    assert on(LIKE_GAUSSIAN)[1].also_passed_by == "untrained models"
    assert on(LIKE_GAUSSIAN, untrained=dict.fromkeys(LIKE_GAUSSIAN, 0.1))[1].also_passed_by is None


def test_undecided_keys_could_be_too_many_and_are_never_enough():
    shares = LIKE_GAUSSIAN | {24: 0.0}
    assert on(shares, undecided=0.005)[0] == "holds"
    assert on(shares, undecided=0.03)[0] == "not tested"
    assert on(LIKE_GAUSSIAN | {8: 0.3 * LAW[8]}, undecided=0.4)[0] == "partial"


def test_the_gate_compares_with_the_widest_model_without_attention():
    assert on(LIKE_GAUSSIAN, worth=0.0)[0] == "not tested"
    world = tables(LIKE_GAUSSIAN)
    losses = world["language_model_metrics"]
    losses = losses[(losses.model == "gpt_bytes") | (losses.seed < 1)]
    verdict, row = verdict_on("head_widths", **{**world, "language_model_metrics": losses})
    assert verdict == "not tested" and row.reason.count("No verdict, because trained models (heads_") == 3


def test_only_models_that_differ_in_the_width_of_heads_alone_are_compared():
    keys = tables(LIKE_GAUSSIAN)["key_selectability"]
    assert narrower(keys, "gpt_bytes") == {2: "heads_2", 4: "heads_4", 8: "heads_8"}
    assert narrower(keys, "heads_4") == {2: "heads_2"} and narrower(keys, "nobody") == {}
    other = keys.copy()
    other.loc[(other.model == "heads_4") & (other.site == "after_norm"), "dimensions"] = 32
    other.loc[other.model == "heads_2", "n_keys"] = 500
    assert narrower(other, "gpt_bytes") == {8: "heads_8"}
