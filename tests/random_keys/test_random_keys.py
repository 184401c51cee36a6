"""The random-keys experiment: its tables, what they say about LayerNorm, and the law of widths."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example

from layernorm_roles import norms, store
from layernorm_roles.random_keys import law, measure
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.selectability import certify, certify_many, expected_unselectable
from layernorm_roles.settings.random_keys import Law, RandomKeys

PRECISION = {"dimensions": [3, 3], "eps": [0, 1e-5], "dtypes": ["float64", "float32"]}
SIZES = {"keys": [3, 12], "dimensions": [3, 4], "matrices": 20, "precision": PRECISION}


def test_the_law_has_the_number_of_keys_that_counting_up_finds_just_enough():
    found = law.table(Law(dimensions=(2, 6), shares=(0.01, 0.1, 0.5), largest=300))
    expected = {}
    for d, share, causal in product(range(2, 7), (0.01, 0.1, 0.5), (False, True)):
        shares = ((n, expected_unselectable(n, d, causal) / n) for n in range(1, 301))
        expected[d, share, causal] = next((n for n, reached in shares if reached >= share), np.nan)
    numbers = found.set_index(["d", "share", "causal"]).n.to_dict()
    assert numbers == pytest.approx(expected, nan_ok=True) and np.isnan(numbers[6, 0.5, True])
    n = expected[3, 0.1, False]
    assert [law.keys_for(0.1, 3, False, largest) for largest in (n, n - 1)] == [n, None]


@pytest.mark.parametrize(("share", "d"), [(0.01, 16), (0.5, 10), (0.1, 20)])
def test_a_large_number_is_just_enough(share, d):
    n = law.keys_for(share, d, False, largest=10**9)
    assert expected_unselectable(n, d) / n >= share > expected_unselectable(n - 1, d) / (n - 1)


def test_each_precision_gets_the_matrices_of_the_main_table_with_the_eps_that_is_named():
    """The norm itself runs in that precision."""
    table = measure.precision_table(example(RandomKeys, **SIZES | {"keys": [60, 60], "matrices": 50}), seed=0)
    assert [*zip(table.dtype, table.eps, strict=True)] == [*product(PRECISION["dtypes"], PRECISION["eps"])]
    for row in table.itertuples():
        keys = generator(Stream.RANDOM_KEYS, 0, 60, 3).standard_normal((50, 60, 3)).astype(row.dtype)
        normed = norms.build("layernorm", 3, row.eps)(torch.from_numpy(keys)).numpy()
        expected = certify_many(normed, flat=True)
        assert row.min_margin == expected.margin[expected.verdict == "selectable"].min()
        assert row.mean_unselectable == expected.count("unselectable").mean()


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


def test_every_norm_gets_the_same_matrices_and_rows_are_what_single_ones_give(tmp_path, drawn):
    """In the files of a job, which name its plan and the one stream that it drew from."""
    keys = generator(Stream.RANDOM_KEYS, 5, 12, 4).standard_normal((20, 12, 4))
    centred = keys - keys.mean(axis=2, keepdims=True)
    after = {"none": keys, "projection": centred}
    after["layernorm"] = 2 * centred / np.linalg.norm(centred, axis=2, keepdims=True)
    after["mine"] = 2 * keys / np.linalg.norm(keys, axis=2, keepdims=True)
    settings = example(RandomKeys, **SIZES, law={"dimensions": [2, 3], "shares": [0.1], "largest": 50})
    given = {"settings": settings.model_dump(mode="json"), "seed": 5}
    given["norms"] = {name: "scale" if name == "mine" else name for name in after}
    paths = {name: tmp_path / name for name in ("random_keys", "random_keys_precision", "gaussian_law")}
    drawn.clear()
    measure.measure(given, paths)
    assert drawn == {Stream.RANDOM_KEYS.number: {5}}
    tables = {name: store.read(path, name) for name, path in paths.items()}
    for path in paths.values():
        origin = store.read_provenance(path)
        assert json.loads(origin["config"]) == given and origin["seed_rule"] == Stream.RANDOM_KEYS.sentence
    pd.testing.assert_frame_equal(tables["gaussian_law"], law.table(settings.law), check_dtype=False)
    assert {*tables["random_keys_precision"].d} == {3} and {*tables["random_keys"].d} == {3, 4}
    rows = tables["random_keys"].query("n == 12 and d == 4").set_index("norm")
    for norm, normed in after.items():
        found, row = [certify(matrix, flat=True) for matrix in normed], rows.loc[norm]
        margins = [one.margin[one.verdict == "selectable"].min() for one in found]
        assert row.min_margin == pytest.approx(min(margins), rel=1e-6)
        counts = np.array([(one.verdict == "unselectable").sum() for one in found])
        assert row.any_unselectable == (counts > 0).mean() and row.mean_unselectable == counts.mean()
        assert row.std_unselectable == np.std(counts, ddof=1)
    assert rows.std_unselectable["none"] > 0
    assert rows.expected_unselectable["none"] == expected_unselectable(12, 4)
