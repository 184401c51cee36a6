"""The law of widths: numbers of keys that are just enough."""

import pytest

from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.random_keys import law
from layernorm_roles.settings.random_keys import Law


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("share", "d"), [(0.01, 2), (0.5, 2), (0.1, 3), (0.5, 5), (0.01, 8)])
def test_counting_up_finds_the_same_number(share, d, causal):
    n = 1
    while expected_unselectable(n, d, causal) / n < share:
        n += 1
    assert law.keys_for(share, d, causal, largest=10**6) == n


@pytest.mark.parametrize(("share", "d"), [(0.01, 16), (0.5, 10), (0.1, 20)])
def test_a_large_number_is_just_enough(share, d):
    n = law.keys_for(share, d, False, largest=10**9)
    assert expected_unselectable(n, d) / n >= share > expected_unselectable(n - 1, d) / (n - 1)


def test_the_largest_number_that_is_tried_counts():
    assert law.keys_for(0.5, 2, False, largest=12) == 12
    assert law.keys_for(0.5, 2, False, largest=11) is None
    assert law.keys_for(0.01, 64, True, largest=1000) is None


def test_the_table_has_every_dimension_and_grows_with_it():
    table = law.table(Law(dimensions=(2, 6), shares=(0.1, 0.5), largest=300))
    assert len(table) == 5 * 2 * 2
    found = table.pivot(index=["causal", "share"], columns="d", values="n")
    # Half of the keys in five dimensions and in six, among the keys before.
    assert found.isna().sum().sum() == 2
    assert (found.diff(axis=1).iloc[:, 1:].fillna(1) > 0).all().all()
    assert (found.loc[True].fillna(1e9) >= found.loc[False]).all().all()
