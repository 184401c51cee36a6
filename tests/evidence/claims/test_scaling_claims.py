"""Verdicts on random keys, on tables whose truth is known by construction."""

import pytest
import worlds
from judging import verdict_on

SOME, NONE = (1.0, 0.0), (0.0, 0.0)
ALL_NORMS = {"none": SOME, "layernorm": NONE, "projection": SOME, "scale": NONE}


@pytest.mark.parametrize(
    ("none", "expected"), [(SOME, "reproduced"), ((1.0, 0.5), "not reproduced"), (NONE, "not reproduced")]
)
def test_random_keys(none, expected):
    assert verdict_on("random_keys", random_keys=worlds.random_keys({"none": none}))[0] == expected


def test_few_matrices_cannot_tell():
    table = worlds.random_keys({"none": SOME}, matrices=5)
    verdict, row = verdict_on("random_keys", random_keys=table)
    assert verdict == "not tested" and row.rows["most keys in fewest dimensions"].met is None


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (ALL_NORMS, "reproduced"),
        (ALL_NORMS | {"projection": NONE}, "confounded"),
        ({"none": NONE, "layernorm": NONE}, "confounded"),
        ({"none": SOME, "layernorm": (0.2, 0.0)}, "not reproduced"),
        ({"layernorm": NONE}, "not tested"),
    ],
)
def test_random_keys_after_layernorm(shares, expected):
    table = worlds.random_keys(shares)
    assert verdict_on("random_keys_layernorm", random_keys=table)[0] == expected


@pytest.mark.parametrize(("norm", "name"), [("layernorm", "random_keys_layernorm"), ("none", "random_keys")])
def test_none_is_shown_only_if_it_holds_with_the_undecided_keys_too(norm, name):
    """40 undecided keys in 400 matrices of d >= 13, none of them certified unselectable."""
    table = worlds.random_keys(ALL_NORMS)
    table.loc[(table.norm == norm) & (table.d >= 13), "n_borderline"] = 10
    verdict, row = verdict_on(name, random_keys=table)
    assert verdict == "not tested"
    found = row.rows["layernorm" if norm == "layernorm" else "from HIGH_DIMENSION on"]
    assert found.asked == "at most 1, undecided keys counted" and (found.estimate, found.met) == (0, None)
