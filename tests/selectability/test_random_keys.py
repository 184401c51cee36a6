"""The random-keys experiment: its tables, what they say about LayerNorm, and its figures."""

import numpy as np
import pytest

from layernorm_roles import store
from layernorm_roles.evidence import random_keys as figures
from layernorm_roles.selectability import certify, expected_unselectable, random_keys

SETTINGS = {
    "keys": [3, 12],
    "dimensions": [3, 4],
    "matrices": 20,
    "seed": 0,
    "precision": {"dimensions": [3, 3], "eps": [0, 1e-5], "dtypes": ["float64", "float32"]},
}
NORMS = {name: name for name in ("none", "layernorm", "projection", "scale")}


@pytest.fixture(scope="module")
def table():
    return random_keys.table(SETTINGS, NORMS)


@pytest.fixture(scope="module")
def precision():
    return random_keys.precision_table({**SETTINGS, "keys": [50, 60], "matrices": 50})


def test_the_tables_have_their_schemas_and_repeat_byte_for_byte(table, precision, tmp_path):
    about = store.provenance(SETTINGS, "cpu", random_keys.SEED_RULE)
    again = random_keys.table(SETTINGS, NORMS)
    for name, frame in [("a", table), ("b", again)]:
        store.write(frame, "random_keys", tmp_path / name, about)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    store.write(precision, "random_keys_precision", tmp_path / "c", about)
    assert len(table) == 2 * 10 * 4


def test_rows_are_what_single_matrices_give(table):
    row = table[(table.norm == "none") & (table.n == 12) & (table.d == 3)].iloc[0]
    rng = np.random.default_rng([0, random_keys.RANDOM_KEYS, 12, 3])
    keys = rng.standard_normal((20, 12, 3))
    counts = np.array([(certify(matrix).verdict == "unselectable").sum() for matrix in keys])
    assert row.any_unselectable == (counts > 0).mean()
    assert row.mean_unselectable == counts.mean()
    assert row.expected_unselectable == expected_unselectable(12, 3)


def test_scaling_leaves_no_key_unselectable(table):
    by_norm = table.groupby("norm").mean_unselectable.max()
    assert by_norm["layernorm"] == by_norm["scale"] == 0
    assert by_norm["projection"] > by_norm["none"] > 0
    assert table[table.norm == "none"].min_margin.min() > 1e-9
    assert table.max_residual.max() < 1e-12


def test_eps_moves_keys_off_the_sphere(precision):
    by_eps = precision[precision.dtype == "float64"].groupby("eps").any_unselectable.mean()
    assert by_eps[0.0] == 0 and by_eps[1e-5] > 0.3
    assert precision[precision.eps == 0].any_unselectable.max() == 0


def test_an_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="unknown norm 'batchnorm'"):
        random_keys.table(SETTINGS, {"batchnorm": "batchnorm"})


@pytest.mark.parametrize(
    "name", ["1c", "1d", "random_keys_norms", "random_keys_exact", "random_keys_precision"]
)
def test_figures_are_drawn(name, table, precision, tmp_path):
    figures.style.save(figures.draw(name, table, precision), tmp_path / "f.png", tmp_path / "f.pdf")
    assert (tmp_path / "f.png").stat().st_size > 5000


def test_z_scores_need_enough_keys(table):
    scored = figures.z_scores(table)
    assert (scored[scored.comparable].expected_unselectable * 20 >= figures.EXPECTED_KEYS).all()
    assert scored[scored.comparable].z.abs().max() < 4.5
