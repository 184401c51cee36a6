"""Verdicts on the heads of pretrained models, on tables whose truth is known by construction."""

import pandas as pd
import pytest
import worlds
from judging import verdict_on
from pytest import approx

WHOLE, CUT, BARE = ("head", 32), ("head_cut", 2), ("head_without_norm", 32)
FEW = {WHOLE: 0.0, CUT: 0.95, ("head_cut", 24): 0.0}


def on_heads(shares, undecided=0.0, contexts=4):
    keys = worlds.pretrained_keys(shares, contexts, undecided)
    others = worlds.pretrained_keys({WHOLE: 0.7}, model="other"), keys.assign(causal=True, n_unselectable=9)
    keys = pd.concat([keys, *others])
    return verdict_on("heads_of_practical_width", pretrained_keys=keys, gaussian_law=worlds.gaussian_law())


@pytest.mark.parametrize(
    ("shares", "undecided", "expected", "passes"),
    [
        (FEW, 0.0, "holds", None),
        (FEW, 0.03, "not tested", None),
        (FEW | {WHOLE: 0.004}, 0.0, "holds", None),
        (FEW | {WHOLE: 0.3}, 0.0, "does not hold", None),
        (FEW | {WHOLE: (0.0, 0.3)}, 0.0, "does not hold", None),  # every layer counts
        (FEW | {CUT: 0.1}, 0.0, "partial", None),  # then width is not why there are none
        ({WHOLE: 0.0}, 0.0, "not tested", None),
        (FEW | {BARE: 0.0}, 0.0, "holds", "the same heads without the norm"),
        (FEW | {BARE: 0.5}, 0.0, "holds", None),
    ],
)
def test_heads_of_practical_width(shares, undecided, expected, passes):
    verdict, row = on_heads(shares, undecided)
    assert (verdict, row.also_passed_by) == (expected, passes)
    layer = row.rows.get("layer 1")
    assert not undecided or (layer.estimate == 0 and layer.met is None)


def on_ceilings(name, used, without, **world):
    pairs = worlds.ceiling_pairs({"as used": used, "without norm": without}, **world)
    return verdict_on(name, attention_ceilings=worlds.ceilings(pairs), pairs=pairs)


@pytest.mark.parametrize(
    ("used", "without", "world", "expected"),
    [
        (0.0, 0.3, {}, "holds"),
        ((0.0, 0.005), (0.0, 0.3), {}, "holds"),
        (0.2, 0.3, {}, "partial"),  # it helps, but not every key
        ((0.0, 0.2), (0.0, 0.6), {}, "partial"),
        (0.3, 0.2, {}, "does not hold"),
        (0.0, 0.0, {}, "not tested"),  # every key can, with and without
        (
            0.0,
            0.3,
            {"unknown": 0.005},
            "holds",
        ),  # those whose bounds enclose a half count as if they could not
        (0.0, 0.3, {"unknown": 0.05}, "not tested"),
        (0.0, 0.3, {"anywhere": 0.5}, "holds"),  # ceilings for any query do not judge
    ],
)
def test_norm_lets_keys_win(used, without, world, expected):
    verdict, row = on_ceilings("norm_lets_keys_win", used, without, **world)
    anywhere = row.rows["queries that no norm confines"]
    assert verdict == expected and anywhere.asked == "" and (anywhere.estimate > 50) == ("anywhere" in world)


@pytest.mark.parametrize(("received", "expected"), [(0.05, "holds"), (0.7, "does not hold")])
def test_ceilings_not_used(received, expected):
    assert on_ceilings("ceilings_not_used", 0.2, 0.2, received=received)[0] == expected


def test_only_keys_that_could_count_as_not_used():
    """In the first context 160 of 200 keys could and 80 do: half of those that could."""
    verdict, row = on_ceilings("ceilings_not_used", 0.2, 0.2, received=0.4, contexts=2)
    first, second = 100 * (160 - 80) / 160, 100 * (158 - 77) / 158
    assert row.measured == approx((first + second) / 2)
    assert verdict == "not tested" and row.rows["able and idle"].met is None


@pytest.mark.parametrize("name", ["norm_lets_keys_win", "ceilings_not_used"])
def test_a_single_document_has_no_interval(name):
    verdict, row = on_ceilings(name, 0.2, 0.2, contexts=1)
    words = "The run has one document of minilm: no interval over documents."
    assert verdict == "not tested" and row.reason == words


def test_a_model_whose_norm_is_not_known_says_so():
    table = worlds.attention_ceilings(below={"as used": 0.2})
    verdict, row = verdict_on("norm_lets_keys_win", attention_ceilings=table)
    assert verdict == "not tested" and "keys “without norm”" in row.reason


@pytest.mark.parametrize(
    ("ratio", "untrained", "moved", "expected"),
    [
        (0.3, 0.8, 0.008, "holds"),
        (0.3, 0.8, 0.02, "partial"),
        (1.2, 0.8, 0.008, "partial"),
        (1.2, 0.8, 0.02, "does not hold"),
        (1.0, 0.8, 0.008, "not tested"),
        (0.3, 1.5, 0.001, "holds"),
    ],
)
def test_projections_are_idle_if_little_lies_along_the_ones_vector_and_attention_stays(
    ratio, untrained, moved, expected
):
    shifts, other = worlds.projection_shift(moved), worlds.ones_share(0.6, 2, model="other")
    shares = pd.concat([worlds.ones_share(ratio / 1.03, untrained), other])
    verdict, row = verdict_on("projections_idle", ones_share=shares, projection_shift=shifts)
    passes = "untrained models" if untrained < 1 and ratio < 1 else None
    assert verdict == expected and row.also_passed_by == passes
    random = row.rows["as much along a random direction"]
    assert random.estimate == approx(30) and row.rows["with the projection changed"].estimate == approx(
        100 * shifts.total_variation.mean()
    )
    assert row.control_measured == approx(untrained * 1.02**1.5)
