"""No strict verdict differs from exact arithmetic, however close to the boundary of the hull a key lies."""

import os

import hostile_keys
import numpy as np
import pytest
from second_methods import rational

from layernorm_roles.selectability import certify

KEYS = int(os.environ.get("ATTACK_KEYS", "2000"))
"""How many keys are judged; 100,000 were, once."""


@pytest.mark.parametrize("kind", ["plain", "causal", "biased"])
def test_no_strict_verdict_differs_from_exact_arithmetic(kind):
    tried, verdicts, wrong = hostile_keys.wrong(KEYS, kind)
    assert not wrong, wrong[:5]
    assert tried >= KEYS
    assert min(verdicts.values()) > 0.05 * tried, f"the keys are hostile, and not hopeless: {verdicts}"


@pytest.mark.parametrize("draw,key", [(2319, 4), (2957, 8), (5373, 4), (7570, 8)])
def test_keys_barely_outside_of_a_thin_hull_are_not_called_unselectable(draw, key):
    """The keys that were, when 100,000 were judged exactly as well: rounding used up the room of the tolerance."""
    keys = hostile_keys.matrix(np.random.default_rng([0, draw]))
    assert not rational(keys)[key]
    assert certify(keys).verdict[key] == "borderline"


@pytest.mark.parametrize("distance", [1e-16, 1e-15, 1e-13, 1e-10])
def test_a_key_outside_by_less_than_the_search_sees_is_borderline(distance):
    keys = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5 + distance]])
    assert certify(keys).verdict.tolist() == ["selectable", "selectable", "borderline" if keys[2, 1] > 0.5 else
                                              "unselectable"]  # fmt: skip
    assert certify(keys, flat=True).verdict[2] == ("unselectable" if distance < 1e-12 else "borderline")


def test_exactly_flat_keys_are_judged_strictly():
    rng = np.random.default_rng(0)
    plane = rng.integers(-4, 5, (40, 2)).astype(float)
    for keys in (np.c_[plane, np.full(40, 7.1)], plane @ [[1.0, 2.0, -1.0], [3.0, 0.0, 1.0]]):
        assert (certify(keys).verdict == certify(plane).verdict).all()
