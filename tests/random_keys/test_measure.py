"""The random-keys experiment: its tables, and what they say about LayerNorm."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example

from layernorm_roles import norms, store
from layernorm_roles.random_keys import measure
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.selectability import certify, certify_many, expected_unselectable
from layernorm_roles.settings.random_keys import RandomKeys

SIZES = {
    "keys": [3, 12],
    "dimensions": [3, 4],
    "matrices": 20,
    "precision": {"dimensions": [3, 3], "eps": [0, 1e-5], "dtypes": ["float64", "float32"]},
}
SETTINGS = example(RandomKeys, **SIZES)
NORMS = {name: name for name in ("none", "layernorm", "projection", "scale")}


@pytest.fixture(scope="module")
def table():
    return measure.table(SETTINGS, 0, NORMS)


@pytest.fixture(scope="module")
def precision():
    return measure.precision_table(example(RandomKeys, **SIZES | {"keys": [50, 60], "matrices": 50}), seed=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_precision_gets_the_matrices_of_the_main_table_with_the_eps_that_is_named(dtype, precision):
    """The norm itself runs in that precision."""
    keys = generator(Stream.RANDOM_KEYS, 0, 60, 3).standard_normal((50, 60, 3)).astype(dtype)
    rows = precision[(precision.dtype == dtype) & (precision.n == 60)].set_index("eps")
    assert list(rows.index) == [0.0, 1e-5]
    for eps, row in rows.iterrows():
        expected = certify_many(norms.build("layernorm", 3, eps)(torch.from_numpy(keys)).numpy(), flat=True)
        assert row.min_margin == expected.margin[expected.verdict == "selectable"].min()
        assert row.mean_unselectable == expected.count("unselectable").mean()


def test_the_files_hold_their_tables_and_say_what_made_them(tmp_path, drawn):
    small = {"law": {"dimensions": [2, 3], "shares": [0.1], "largest": 50}}
    settings = example(RandomKeys, **SIZES | small | {"keys": [3, 4], "matrices": 3})
    given = {"settings": settings.model_dump(mode="json"), "seed": 5, "norms": {"mine": "scale"}}
    tables = {
        "random_keys": measure.table(settings, 5, {"mine": "scale"}),
        "random_keys_precision": measure.precision_table(settings, 5),
        "gaussian_law": measure.law.table(settings.law),
    }
    drawn.clear()
    measure.measure(given, {name: tmp_path / name for name in tables})
    assert drawn == {Stream.RANDOM_KEYS.number: {5}}
    for name, table in tables.items():
        found, origin = store.read(tmp_path / name, name), store.read_provenance(tmp_path / name)
        pd.testing.assert_frame_equal(found, table[found.columns], check_dtype=False)
        assert json.loads(origin["config"]) == given
        assert origin["seed_rule"] == Stream.RANDOM_KEYS.sentence
    assert {*tables["random_keys_precision"].d} == {3} and {*tables["random_keys"].d} == {3, 4}


@pytest.mark.parametrize(
    ("norm", "n", "d", "expected"),
    [
        ("none", 20, 5, expected_unselectable(20, 5)),
        ("projection", 20, 6, expected_unselectable(20, 5)),
        ("projection", 4, 1, 4.0),
        *((f"layernorm{kind}", 20, 5, 0.0) for kind in ("", "_shrunk", "_affine")),
        ("layernorm", 20, 2, None),
        ("scale", 20, 2, 0.0),
        ("scale", 20, 1, None),
        ("scale_released", 20, 5, 0.0),
        ("examples.dynamic_tanh:DynamicTanh", 20, 5, None),
    ],
)
def test_expectations_after_each_norm(norm, n, d, expected):
    assert measure.expected_after(norm, n, d) == expected


def test_every_norm_gets_the_same_matrices_and_rows_are_what_single_ones_give(table):
    keys = generator(Stream.RANDOM_KEYS, 0, 12, 4).standard_normal((20, 12, 4))
    centred = keys - keys.mean(axis=2, keepdims=True)
    after = {
        "none": keys,
        "projection": centred,
        "layernorm": 2 * centred / np.linalg.norm(centred, axis=2, keepdims=True),
        "scale": 2 * keys / np.linalg.norm(keys, axis=2, keepdims=True),
    }
    rows = table[(table.n == 12) & (table.d == 4)].set_index("norm")
    for norm, normed in after.items():
        found, row = [certify(matrix, flat=True) for matrix in normed], rows.loc[norm]
        margins = [one.margin[one.verdict == "selectable"].min() for one in found]
        assert row.min_margin == pytest.approx(min(margins), rel=1e-6)
        counts = np.array([(one.verdict == "unselectable").sum() for one in found])
        assert row.any_unselectable == (counts > 0).mean() and row.mean_unselectable == counts.mean()
        assert row.std_unselectable == np.std(counts, ddof=1)
    assert rows.std_unselectable["none"] > 0
    assert rows.expected_unselectable["none"] == expected_unselectable(12, 4)
