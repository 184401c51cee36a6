"""Verdicts on random keys and on heads, of models of several widths and pretrained, on tables whose truth is known."""

import numpy as np
import pandas as pd
import pytest
import worlds
from judging import assert_judged, known, verdict_on
from pytest import approx

from layernorm_roles.gaussian_keys import expected_unselectable

# Random keys: shares of matrices with an unselectable key in few dimensions and in many


def random_keys(none=None, layernorm=None, projection=None, undecided=None, expected=1.0, most=15, **world):
    """`undecided`: a norm with ten undecided keys in each cell of many dimensions, of which there are up to `most`.

    `expected`: the exact expectation over the mean of the simulation.
    """
    shares = {"none": none, "layernorm": layernorm, "projection": projection}
    table = worlds.random_keys({norm: share for norm, share in shares.items() if share}, **world)
    open_ = (table.norm == undecided) & (table.d >= 13)
    table["expected_unselectable"] *= expected
    return {"random_keys": table.assign(n_borderline=table.n_borderline.mask(open_, 10))[table.d <= most]}


SOME, NONE = (1.0, 0.0), (0.0, 0.0)
RANDOM = {
    "holds of 100": [(SOME,), (SOME, {"expected": 1.05})],
    "inconclusive of 4: The simulation contradicts": [(SOME, {"expected": 1.2})],
    "holds of 200": [(SOME, {"most": 13, "matrices": 200})],
    "not run here: The run's dimensions end at 8": [(SOME, {"most": 8})],
    "does not hold": [((1.0, 0.5),), (NONE,)],
    "inconclusive": [(SOME, {"matrices": 5}), (SOME, {"undecided": "none"})],
}
AFTER_LAYERNORM = {
    "holds": [(SOME, NONE, SOME)],
    "confounded": [(SOME, NONE, NONE), (NONE, NONE)],
    "does not hold": [(SOME, (0.2, 0.0))],
    "not run here": [(None, NONE)],
    "inconclusive": [(SOME, NONE, SOME, {"undecided": "layernorm"})],
}

# Heads of several widths

LAW = {d: expected_unselectable(1000, d) / 1000 for d in (2, 4, 8, 16, 24)}
LIKE_GAUSSIAN = {d: 0.98 * LAW[d] for d in (2, 4, 8)}


def heads(shares, untrained=None, undecided=0.0, seeds=3, worth=0.5, trained=3):
    """Models named after their d_head with these shares in it, beside gpt_bytes with 32 dimensions a head.

    Of the narrower models `trained` seeds have losses.
    """
    keys, losses = [], []
    for d, share in {32: 0.0, **shares}.items():
        name, place = "gpt_bytes" if d == 32 else f"heads_{d}", ("layernorm", "final", "head")
        places = {place: share, ("layernorm", "final", "after_norm"): 0.0}
        places["layernorm", "initial", "head"] = (untrained or shares).get(d, 0.0)
        keys.append(worlds.keys(places, name, seeds=seeds, undecided={place: undecided}, dimensions=(64, d)))
        table = worlds.losses(0.05, model=name, worth=worth, seeds=seeds)
        own = table[(table.variant == "layernorm") & (table.seed < trained)]
        losses.append(table if name == "gpt_bytes" else own)
    return {"key_selectability": pd.concat(keys), "language_model_metrics": pd.concat(losses)}


def more(width=2, share=LIKE_GAUSSIAN[2], untrained=0.1, **world):
    """Heads like Gaussian keys but at one width; untrained ones have so much of what Gaussian keys have."""
    first = {d: untrained * LAW[d] for d in LIKE_GAUSSIAN}
    return heads(LIKE_GAUSSIAN | {width: share}, first, **world)


WIDTHS = {
    "holds; untrained models": [{"untrained": 1.0}],
    # of Gaussian keys in 24 dimensions almost none is unselectable
    "holds": [(16, 1.5 * LAW[16]), (8, 0.7 * LAW[8]), (24, 0.008), (24, 0.0, {"undecided": 0.005})],
    # too many, or too few; undecided keys could be too many and are never enough
    "partial": [(16, 2.5 * LAW[16]), (24, 0.03), (8, 0.3 * LAW[8]), (8, 0.3 * LAW[8], {"undecided": 0.4})],
    "inconclusive": [(24, 0.0, {"undecided": 0.03})],
    "not run here: only 1 seed of heads_2": [{"seeds": 1}],
    "inconclusive: No verdict, because trained models (heads_2)": [{"worth": 0.0}, {"trained": 1}],
}
OTHERS = {
    "does not hold": [{"shares": {2: 0.1, 4: 0.1, 8: 0.01}}],
    "not run here: fewer than two widths of heads below that of gpt_bytes.": [{"shares": {8: LAW[8]}}],
}

# Heads of pretrained models


def pretrained_heads(whole=0.0, cut=0.95, bare=None, **world):
    """Shares in whole heads, in those that are cut to two dimensions, None for no such heads, and without the norm."""
    shares = {("head", 32): whole} | ({("head_cut", 2): cut, ("head_cut", 24): 0.0} if cut else {})
    shares |= {} if bare is None else {("head_without_norm", 32): bare}
    keys = worlds.pretrained_keys(shares, **world)
    other, causal = worlds.pretrained_keys({("head", 32): 0.7}, model="other"), keys.assign(causal=True)
    tables = [keys, other, causal.assign(n_unselectable=9)]
    return {"pretrained_keys": pd.concat(tables), "gaussian_law": worlds.gaussian_law()}


def ceilings(used=0.2, without=0.2, **world):
    below = {"as used": used} | ({} if without is None else {"without norm": without})
    pairs = worlds.ceiling_pairs(below, **world)
    return {"attention_ceilings": worlds.ceilings(pairs), "pairs": pairs}


def ones(ratio, untrained, moved):
    """Another model's vectors lie less along the ones vector."""
    shares = [worlds.ones_share(ratio / 1.03, untrained), worlds.ones_share(0.6, 2, model="other")]
    return {"ones_share": pd.concat(shares), "projection_shift": worlds.projection_shift(moved)}


PRACTICAL = {
    "holds": [(0.0,), (0.004,), (0.0, 0.95, 0.5)],
    "holds; the same heads without the norm": [(0.0, 0.95, 0.0)],
    "does not hold": [(0.3,), ((0.0, 0.3),)],  # every layer counts
    "partial": [(0.0, 0.1)],  # then width is not why there are none
    "not run here": [(0.0, None)],
    "inconclusive": [{"undecided": 0.03}],
    # keys are counted once, those that later keys leave out not again
    "holds: The number is 0 of 3,200.": [(0.0,)],
}
ONE = "not run here of 0: The run has one document of minilm: no interval over documents."
CAN = {
    "holds": [
        (0.0, 0.3),
        ((0.0, 0.005), (0.0, 0.3)),
        (0.0, 0.3, {"unknown": 0.005}),  # those whose bounds enclose a half count as if they could not
        (0.0, 0.3, {"anywhere": 0.5}),  # ceilings for any query do not judge
    ],
    "partial": [(0.2, 0.3), ((0.0, 0.2), (0.0, 0.6))],  # it helps, but not every key
    "does not hold": [(0.3, 0.2), ((0.0, 0.4), (0.1, 0.2))],
    "inconclusive": [(0.0, 0.0), (0.0, 0.3, {"unknown": 0.05})],
    ONE: [{"contexts": 1}],
    "not run here of 0: keys “without norm”": [(0.2, None)],
}
DO = {
    # of the keys that get half those count that are known to be able: in the second world none
    "holds": [{"received": 0.05}, (0.0, 0.5, {"received": 0.05, "unknown": 0.05})],
    "does not hold": [{"received": 0.7}],
    "inconclusive": [{"received": 0.4, "contexts": 2}],
    "inconclusive of 4: No key of minilm is certified": [{"unknown": 1.0}],
    ONE: [{"contexts": 1}],
}
IDLE = {
    "holds; untrained models": [(0.3, 0.8, 0.008)],
    "holds": [(0.3, 1.5, 0.001)],
    "partial; untrained models": [(0.3, 0.8, 0.02)],
    "partial": [(1.2, 0.8, 0.008)],
    "does not hold": [(1.2, 0.8, 0.02)],
    "inconclusive": [(1.0, 0.8, 0.008)],
}
KNOWN = [
    *known("random_keys", random_keys, RANDOM),
    *known("random_keys_layernorm", random_keys, AFTER_LAYERNORM),
    *known("head_widths", more, WIDTHS),
    *known("head_widths", heads, OTHERS),
    *known("heads_of_practical_width", pretrained_heads, PRACTICAL),
    *known("norm_lets_keys_win", ceilings, CAN),
    *known("ceilings_not_used", ceilings, DO),
    *known("projections_idle", ones, IDLE),
]


@pytest.mark.parametrize(("name", "world", "expected"), KNOWN)
def test_known_worlds(name, world, expected):
    assert_judged(name, world(), expected)


def test_a_layer_of_a_pretrained_model_has_its_own_number_of_keys():
    rows = verdict_on("heads_of_practical_width", **pretrained_heads())[1].rows
    assert rows["layer 1"].statistic == "unselectable keys in the heads, 0 of 1,600"


def test_what_is_asked_of_a_width_are_half_and_twice_the_gaussian_keys():
    asked = verdict_on("head_widths", **more())[1].rows["d_head = 4"].asked
    assert asked == f"at most {200 * LAW[4]:.3g} and more than {50 * LAW[4]:.3g}, undecided keys counted"


def test_keys_of_heads_are_also_among_those_before_them_beside_as_many_gaussian_keys():
    keys = more()["key_selectability"]
    before = keys[keys.site == "head"].assign(causal=True, n_unselectable=70)
    rows = verdict_on("head_widths", **more() | {"key_selectability": pd.concat([keys, before])})[1].rows
    law = 100 * expected_unselectable(1000, 4, True) / 1000
    assert rows[f"d_head = 4, among the keys before them; Gaussian keys {law:.3g} %"].estimate == approx(7)


def test_what_stands_beside_ceilings_and_is_not_judged():
    rows = verdict_on("norm_lets_keys_win", **ceilings((0.2, 0.1), (0.4, 0.3), anywhere=0.05))[1].rows
    shown = {"queries that no norm confines": 5, "a tenth, last layer": 5}
    shown |= {"a tenth, last layer, without the norm": 15, "without the norm minus with it": 20}
    growth = np.mean([1.0, 1.04, 1.08, 1.12])  # of the shares, from one context to the next
    for name, percent in shown.items():
        assert rows[name].estimate == approx(percent * growth, abs=0.3)
    rows = verdict_on("ceilings_not_used", **ceilings(received=0.05))[1].rows
    assert rows["never get a tenth"].estimate == approx(95, abs=0.5)
    rows = verdict_on("projections_idle", **ones(0.3, 0.8, 0.008))[1].rows
    assert rows["as much along a random direction"].estimate == approx(30)


def test_layernorm_in_practice_has_an_eps_in_float32_and_keys_of_the_fewest_dimensions():
    places = {"n": (10, 60), "d": (3, 8), "dtype": ("float32", "float64"), "eps": (0.0, 1e-5)}
    table = worlds.combinations(norm="layernorm", **places, matrices=100, n_borderline=0)
    here = (table.d == 3) & (table.dtype == "float32") & (table.eps > 0)
    table["any_unselectable"] = np.where(here, table.n / 100, 0.9)
    tables = random_keys(SOME, NONE, SOME) | {"random_keys_precision": table}
    row = verdict_on("random_keys_layernorm", **tables)[1].rows[
        "LayerNorm with its eps, in float32, in fewest dimensions"
    ]
    assert (row.estimate, row.n_runs) == (approx(35), 200)
