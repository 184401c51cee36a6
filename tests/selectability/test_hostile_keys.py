"""No strict verdict differs from exact arithmetic, however close to the boundary of the hull a key lies."""

from collections import Counter

import numpy as np
import pytest
from jaxtyping import Float
from second_methods import rational

from layernorm_roles.selectability import certify

SMALL = (0.0, 1e-16, 2e-16, 1e-15, 1e-13, 1e-11, 1e-9, 3e-9, 1e-6)
"""Sizes of perturbations: from the last digit of a float64 to beyond the tolerance of a float32."""


def matrix(rng: np.random.Generator) -> Float[np.ndarray, "n d"]:
    """Few keys in few dimensions: on a lattice, a line, a simplex or a sphere, with means and duplicates, perturbed."""
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    match rng.integers(5):
        case 0:
            keys = rng.integers(0, 3, (n, d)).astype(float)
        case 1:
            keys = rng.integers(-3, 4, (n, 1)) * rng.integers(-2, 3, (1, d)).astype(float)
        case 2:
            keys = np.concatenate([np.zeros((1, d)), np.eye(d), rng.integers(0, 2, (n, d)) / 2])
        case 3:
            keys = rng.standard_normal((n, d))
            keys /= np.linalg.norm(keys, axis=1, keepdims=True)
        case _:
            keys = rng.standard_normal((n, d))
    pairs = rng.integers(len(keys), size=(int(rng.integers(1, 4)), 2))
    keys = np.concatenate([keys, keys[pairs].mean(axis=1)])
    # Flat: what projecting leaves behind, and one direction in which all keys nearly agree.
    if rng.random() < 0.5:
        normal = rng.standard_normal(d)
        keys = keys - np.outer(keys @ normal, normal) / (normal @ normal)
    moved = rng.random((len(keys), 1)) < 0.3
    keys = keys + moved * rng.choice(SMALL) * rng.standard_normal(keys.shape)
    keys = (keys + rng.choice([0.0, 0.0, 1.0, 1000.0])) * 2.0 ** rng.integers(-60, 60)
    return keys.astype(np.float32) if rng.random() < 0.2 else keys


def bias(rng: np.random.Generator, keys: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """A bias that is constant, on a lattice, or all but a linear function of the keys, perturbed."""
    n, d = keys.shape
    match rng.integers(3):
        case 0:
            values = np.full(n, 0.1)
        case 1:
            values = rng.integers(0, 3, n) / 2
        case _:
            values = (keys / (abs(keys).max() or 1)).astype(float) @ rng.integers(-2, 3, d)
    return values + (rng.random(n) < 0.3) * rng.choice(SMALL) * rng.standard_normal(n)


KEYS = 2000
"""How many keys are judged; 100,000 were, once."""


@pytest.mark.parametrize("kind", ["plain", "causal", "biased"])
def test_no_strict_verdict_differs_from_exact_arithmetic(kind):
    verdicts, draw = Counter(), 0
    while verdicts.total() < KEYS:
        rng = np.random.default_rng([0, draw])
        keys, added = matrix(rng), None
        if kind == "biased":
            added = bias(rng, keys)
        elif keys.dtype == np.float64:  # exact factors, whose products with keys overflow
            keys = keys * 2.0 ** rng.integers(-700, 900) * 2.0 ** rng.integers(-40, 40, keys.shape[1])
        certificates = certify(keys, added, causal=kind == "causal")
        certificates.verify(keys, added)
        points = keys if added is None else np.column_stack([keys, added])
        inside = rational(points, biased=kind == "biased", causal=kind == "causal")
        wrong = certificates.verdict == np.where(inside, "selectable", "unselectable")
        assert not wrong.any(), (draw, np.flatnonzero(wrong), certificates.verdict[wrong])
        verdicts.update(certificates.verdict.tolist())
        draw += 1
    assert min(verdicts.values()) > 0.05 * KEYS, f"the keys are hostile, and not hopeless: {verdicts}"


@pytest.mark.parametrize("draw,key", [(2319, 4), (2957, 8), (5373, 4), (7570, 8)])
def test_keys_barely_outside_of_a_thin_hull_are_not_called_unselectable(draw, key):
    """The keys that were, when 100,000 were judged exactly as well: rounding used up the room of the tolerance."""
    keys = matrix(np.random.default_rng([0, draw]))
    assert not rational(keys)[key] and certify(keys).verdict[key] == "borderline"


@pytest.mark.parametrize("distance", [1e-16, 1e-15, 1e-13, 1e-10])
def test_a_key_outside_by_less_than_the_search_sees_is_borderline(distance):
    keys = np.array([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5 + distance]])
    expected = "borderline" if keys[2, 1] > 0.5 else "unselectable"
    assert certify(keys).verdict.tolist() == ["selectable", "selectable", expected]
    assert certify(keys, flat=True).verdict[2] == ("unselectable" if distance < 1e-12 else "borderline")
    # Which of these is the larger one is as good as unknown, in the only direction that there is.
    assert not (certify(np.array([[1.0], [1.0 + 2.0**-52]]), flat=True).verdict != "borderline").any()


def test_exactly_flat_keys_are_judged_strictly():
    plane = np.random.default_rng(0).integers(-4, 5, (40, 2)).astype(float)
    for keys in (np.c_[plane, np.full(40, 7.1)], plane @ [[1.0, 2.0, -1.0], [3.0, 0.0, 1.0]]):
        assert (certify(keys).verdict == certify(plane).verdict).all()
