"""Verdicts on the heads of pretrained models, on tables whose truth is known by construction."""

import pytest
import worlds
from judging import DOES_NOT_HOLD, HOLDS, NOT_TESTED, PARTIAL, verdict_on

WHOLE, CUT, BARE = ("head", 32), ("head_cut", 2), ("head_without_norm", 32)
FEW = {WHOLE: 0.0, CUT: 0.95, ("head_cut", 24): 0.0}


def on_heads(shares, undecided=0.0, contexts=4):
    keys = worlds.pretrained_keys(shares, contexts, undecided)
    return verdict_on("heads_of_practical_width", pretrained_keys=keys, gaussian_law=worlds.gaussian_law())


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (FEW, HOLDS),
        (FEW | {WHOLE: 0.004}, HOLDS),
        (FEW | {WHOLE: 0.3}, DOES_NOT_HOLD),
        (FEW | {WHOLE: (0.0, 0.3)}, DOES_NOT_HOLD),  # every layer counts
        (FEW | {CUT: 0.1}, PARTIAL),  # then width is not why there are none
        ({WHOLE: 0.0}, NOT_TESTED),
    ],
)
def test_heads_of_practical_width(shares, expected):
    assert on_heads(shares)[0] == expected


def test_the_width_is_that_of_the_fewest_dimensions_that_heads_are_cut_to():
    verdict, row = on_heads(FEW | {("head_cut", 2): 0.9, ("head_cut", 24): 0.5})
    assert verdict == HOLDS and row.control_measured == pytest.approx(92.75)
    assert "first 2 principal components, 92.8" in row.reason
    assert "Gaussian keys in 32 dimensions 1 % are unselectable from 8,856 keys on" in row.reason


def test_undecided_keys_do_not_make_none():
    verdict, row = on_heads(FEW, undecided=0.03)
    assert verdict == NOT_TESTED and "none is certified unselectable, 3 % undecided" in row.reason


@pytest.mark.parametrize(("bare", "passes"), [(0.0, "the same heads without the norm"), (0.5, None)])
def test_heads_that_need_no_norm_are_named(bare, passes):
    verdict, row = on_heads(FEW | {BARE: bare})
    assert verdict == HOLDS and row.also_passed_by == passes


def on_ceilings(name="norm_lets_keys_win", contexts=4, **world):
    table = worlds.attention_ceilings(contexts=contexts, **world)
    return verdict_on(name, attention_ceilings=table)


@pytest.mark.parametrize(
    ("used", "without", "expected"),
    [
        (0.0, 0.3, HOLDS),
        ((0.0, 0.005), (0.0, 0.3), HOLDS),
        (0.2, 0.3, PARTIAL),  # it helps, but not every key
        ((0.0, 0.2), (0.0, 0.6), PARTIAL),
        (0.3, 0.2, DOES_NOT_HOLD),
        (0.0, 0.0, NOT_TESTED),  # every key can, with and without
    ],
)
def test_norm_lets_keys_win(used, without, expected):
    verdict, row = on_ceilings(below={"as used": used, "without norm": without})
    assert verdict == expected
    assert "From queries that no norm confines, half is out of reach for none." in row.reason


def test_pairs_whose_bounds_enclose_a_half_count_as_if_they_could_not():
    below = {"as used": 0.0, "without norm": 0.3}
    assert on_ceilings(below=below, unknown=0.005)[0] == HOLDS
    assert on_ceilings(below=below, unknown=0.05)[0] == NOT_TESTED


def test_ceilings_for_any_query_do_not_judge():
    below = {"as used": 0.0, "without norm": 0.3}
    verdict, row = on_ceilings(below=below, anywhere=0.5)
    assert verdict == HOLDS and "out of reach for 5" in row.reason.rpartition("no norm confines")[2]


@pytest.mark.parametrize(("received", "expected"), [(0.05, HOLDS), (0.7, DOES_NOT_HOLD)])
def test_ceilings_not_used(received, expected):
    below = {"as used": 0.2, "without norm": 0.2}
    assert on_ceilings("ceilings_not_used", below=below, received=received)[0] == expected


def test_only_keys_that_could_count_as_not_used():
    """In the first context 160 of 200 keys could and 80 do: half of those that could."""
    verdict, row = on_ceilings("ceilings_not_used", below={"as used": 0.2}, received=0.4, contexts=2)
    first, second = 100 * (160 - 80) / 160, 100 * (158 - 77) / 158
    assert row.measured == pytest.approx((first + second) / 2)
    assert verdict == NOT_TESTED and "too wide" in row.reason


@pytest.mark.parametrize("name", ["norm_lets_keys_win", "ceilings_not_used"])
def test_a_single_document_has_no_interval(name):
    verdict, row = on_ceilings(name, contexts=1, below={"as used": 0.2, "without norm": 0.2})
    assert (
        verdict == NOT_TESTED
        and row.reason == "The run has one document of minilm: no interval over documents."
    )


def test_a_model_whose_norm_is_not_known_says_so():
    table = worlds.attention_ceilings(below={"as used": 0.2})
    verdict, row = verdict_on("norm_lets_keys_win", attention_ceilings=table)
    assert verdict == NOT_TESTED and "keys “without norm”" in row.reason


def test_the_setting_names_documents_and_heads():
    _, row = on_heads(FEW)
    assert "minilm: 4 documents of 200 tokens, 2 layers of 2 heads of 32 dimensions." in row.setting


@pytest.mark.parametrize(
    ("ratio", "moved", "expected"),
    [
        (0.3, 0.008, HOLDS),
        (0.3, 0.02, PARTIAL),
        (1.2, 0.008, PARTIAL),
        (1.2, 0.02, DOES_NOT_HOLD),
        (1.0, 0.008, NOT_TESTED),
    ],
)
def test_projections_are_idle_if_little_lies_along_the_ones_vector_and_attention_stays(
    ratio, moved, expected
):
    shares, shifts = worlds.ones_share(ratio / 1.03, 0.8), worlds.projection_shift(moved)
    verdict, row = verdict_on("projections_idle", ones_share=shares, projection_shift=shifts)
    assert verdict == expected and row.also_passed_by == "untrained models"
    means = shifts.groupby("layer").total_variation.mean()
    assert (
        f"from {100 * means[1]:.2g} % to {100 * means[2]:.2g} % by layer; as much along a random direction moves 30 %"
        in row.reason
    )
    assert row.control_measured == pytest.approx(0.8 * 1.02**1.5)


def test_untrained_projections_may_be_busy():
    tables = {"ones_share": worlds.ones_share(0.3, 1.5), "projection_shift": worlds.projection_shift(0.001)}
    verdict, row = verdict_on("projections_idle", **tables)
    assert verdict == HOLDS and row.also_passed_by is None
