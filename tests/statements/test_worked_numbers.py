from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import ROOT
from hypothesis import given
from hypothesis import strategies as st

from layernorm_roles import store
from layernorm_roles.statements import worked_numbers as w

KEYS = torch.tensor([[1, 0, 0], [1, 0.5, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
VALUES = torch.cat([KEYS[:1], torch.tensor([[0, 1, 0.5]]), KEYS[2:]])


@pytest.fixture(scope="module")
def table():
    return w.measure()


def recomputed(table, example, quantity):
    part = table[(table.example == example) & table.quantity.str.startswith(quantity)]
    return part.recomputed.to_numpy()


def check(stated, exact, *from_stated, **more):
    return next(w.checks("x", 1, "q", stated, [exact], from_stated, **more))


@given(st.floats(-1e3, 1e3), st.integers(1, 4))
def test_any_number_rounded_correctly_is_right(value, decimals):
    assert w.verdicts([check(f"{value:.{decimals}f}", value)]) == ["right"]


@given(st.floats(-1e3, 1e3), st.integers(1, 4), st.sampled_from([-1, 1]))
def test_two_units_of_the_last_digit_off_are_wrong(value, decimals, sign):
    off = round(value, decimals) + sign * 2 * 10.0**-decimals
    assert w.verdicts([check(f"{off:.{decimals}f}", value)]) == ["wrong"]


@pytest.mark.parametrize(
    ("stated", "exact", "verdict"),
    [
        *((half, Fraction("0.1085"), "right") for half in ("0.108", "0.109")),  # may be rounded either way
        ("0.107", Fraction("0.1085"), "wrong"),
        ("64", 64.2, "wrong"),  # integers are exact
        ("1", 1.4, "wrong"),
        ("-1.33", -1.3363, "rounding"),  # decimals are cut off
        ("1.10", 1.1105, "wrong"),
    ],
)
def test_known_numbers_have_their_verdict(stated, exact, verdict):
    assert w.verdicts([check(stated, exact)]) == [verdict]


def test_what_follows_from_stated_numbers_is_rounding_or_carried_from_a_mistake():
    follows, wrong = check("1.00", 2.0, 0.996), check("1.00", 2.0)
    elsewhere = wrong._replace(example="y")
    assert w.verdicts([follows]) == w.verdicts([elsewhere, follows])[1:] == ["rounding"]
    assert w.verdicts([wrong, follows, follows]) == ["wrong", "carried", "carried"]


def test_a_hedged_number_may_be_off_but_what_follows_from_it_is_not_right():
    hedged, follows = check("0.70", 0.99, hedged=True), check("1.40", 1.98, 1.4)
    assert w.verdicts([hedged, follows]) == ["hedged", "carried"]
    assert w.verdicts([hedged._replace(recomputed=0.7)]) == ["right"]


@pytest.mark.parametrize(
    ("example", "x"),
    [
        ("add and normalise, attention", [1.5, 3.5, -1.5]),
        ("add and normalise, feed-forward", [0.40, 1.86, -2.19]),
        ("pre-norm", [1.0, 2.0, -1.0]),
        ("mean 0 and deviation 1", [1.5, 2.0, -0.5]),
        ("LayerNorm, token 2", [3.0, 1.0, 0.5]),
        ("LayerNorm, token 3", [2.0, -1.0, 1.5]),
        ("BatchNorm, feature 3", [-1.0, 0.5, 1.5]),
    ],
)
def test_normalised_vectors_are_torchs(table, example, x):
    theirs = torch.nn.functional.layer_norm(torch.tensor(x, dtype=torch.float64), (3,), eps=0.0)
    assert np.allclose(recomputed(table, example, "normalised"), theirs)
    assert np.allclose(recomputed(table, example, "variance")[:1], np.var(x))


def test_attention_examples_are_torchs(table):
    attention = torch.nn.functional.scaled_dot_product_attention
    x = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8], [0.9, 1.0, 1.1, 1.2]], dtype=torch.float64)
    matrix = torch.arange(1, 17, dtype=torch.float64).view(4, 4) / 10
    q = x @ matrix
    assert np.allclose(recomputed(table, '"The cat sat", 4 dimensions', "query"), q.flatten())
    theirs = attention(q[None], q[None], q[None], scale=1.0)[0, 0]
    assert np.allclose(recomputed(table, '"The cat sat", 4 dimensions', "weighted sum of the values"), theirs)

    theirs = attention(torch.tensor([[[1.0, 0.0, 1.0]]]), KEYS[None], VALUES[None], scale=1.0)[0, 0]
    ours = [
        recomputed(table, 'attention of "cat", 3 dimensions', f"weighted sum, dimension {i}")[0]
        for i in (1, 2, 3)
    ]
    assert np.allclose(ours, theirs, atol=1e-6)


def test_known_verdicts(table):
    """Numbers that anyone can redo: 12.67 / 3 is not 4.89, and 2.33^2 = 5.43 where (7/3)^2 = 5.44."""
    example = table[table.example == "add and normalise, attention"].set_index("quantity")
    assert example.verdict["variance"] == "wrong"
    assert example.verdict["standard deviation"] == "carried"
    assert example.verdict["squared deviation [2]"] == "rounding"
    assert example.verdict["mean"] == "right"
    cat_sat = table[table.example == '"The cat sat", 4 dimensions']
    weights = cat_sat[cat_sat.quantity.str.startswith("softmax")]
    assert (weights.verdict == "hedged").all()  # "might be [0.02, 0.28, 0.70]"


def test_twice_the_tokens_have_not_twice_the_output(table):
    """The output of attention for the notes' tokens, and for twice them: weights by torch."""
    query = torch.tensor([1.0, 0.0, 1.0])
    once, twice = (torch.softmax((n * KEYS) @ (n * query), 0) @ (n * VALUES) for n in (1, 2))
    found = table[table.quantity.str.startswith("output for twice")]
    assert np.allclose(found.recomputed, twice / once, rtol=1e-6) and (found.verdict == "wrong").all()


def test_the_numbers_are_those_of_the_kept_reproduction(table):
    """The notes do not change: numbers, lines, recomputations and verdicts stand as they were published."""
    kept = store.read(ROOT / "results/published/parquet/worked_numbers.parquet", "worked_numbers")
    pd.testing.assert_frame_equal(table[kept.columns], kept, check_dtype=False)
