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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("share", "d"), [(0.01, 2), (0.5, 2), (0.1, 3), (0.5, 5), (0.01, 8), (0.01, 16)])
def test_a_number_of_keys_is_just_enough_and_the_largest_that_is_tried_counts(share, d, causal):
    n = law.keys_for(share, d, causal, largest=10**9)
    assert expected_unselectable(n, d, causal) / n >= share
    assert expected_unselectable(n - 1, d, causal) / (n - 1) < share
    assert [law.keys_for(share, d, causal, largest=each) for each in (n, n - 1)] == [n, None]


def test_the_law_has_every_dimension_and_share():
    """Half of the keys before a key are too many for the largest number in five dimensions and in six."""
    table = law.table(Law(dimensions=(2, 6), shares=(0.1, 0.5), largest=300))
    found = table.set_index(["share", "d", "causal"]).n
    assert {*found.index} == {*product((0.1, 0.5), range(2, 7), (False, True))} and found.isna().sum() == 2
    assert all(found[key] == law.keys_for(*key, largest=300) for key in found.dropna().index)


def test_each_precision_gets_the_matrices_of_the_main_table_with_the_eps_that_is_named():
    """The norm itself runs in that precision."""
    table = measure.precision_table(example(RandomKeys, **SIZES | {"keys": [60, 60], "matrices": 50}), seed=0)
    known = [(t, e) for t in PRECISION["dtypes"] for e in (0, 1e-5)]
    assert list(zip(table.dtype, table.eps, strict=True)) == known
    for row in table.itertuples():
        keys = generator(Stream.RANDOM_KEYS, 0, 60, 3).standard_normal((50, 60, 3)).astype(row.dtype)
        normed = norms.build("layernorm", 3, row.eps)(torch.from_numpy(keys)).numpy()
        expected = certify_many(normed, flat=True)
        assert row.min_margin == expected.margin[expected.verdict == "selectable"].min()
        assert row.mean_unselectable == expected.count("unselectable").mean()


def test_a_norm_that_cannot_be_built_is_refused_before_any_work(drawn):
    with pytest.raises(ValueError, match="absent"):
        measure.table(example(RandomKeys, **SIZES), 0, {"none": "none", "mine": "absent:Norm"})
    assert not drawn


@pytest.mark.parametrize(
    ("norm", "n", "d", "expected"),
    [
        ("none", 20, 5, expected_unselectable(20, 5)),
        ("projection", 20, 6, expected_unselectable(20, 5)),
        ("projection", 4, 1, 4.0),
        ("projection", 1, 1, 0.0),
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
        residuals = [each for one in found for each in one.residual[one.verdict == "unselectable"]]
        assert row.max_residual == pytest.approx(max(residuals, default=np.nan), rel=1e-6, nan_ok=True)
        assert row.n_borderline == sum((one.verdict == "borderline").sum() for one in found)
        counts = np.array([(one.verdict == "unselectable").sum() for one in found])
        assert row.any_unselectable == (counts > 0).mean() and row.mean_unselectable == counts.mean()
        assert row.std_unselectable == np.std(counts, ddof=1)
    assert rows.std_unselectable["none"] > 0 and np.isnan(rows.max_residual["layernorm"])
    alone = measure._row(norms.build("none", 3), np.ones((2, 1, 3)))
    assert np.isnan(alone["min_margin"]) and alone["matrices"] == 2, "a key alone has no rival"
    assert rows.expected_unselectable["none"] == expected_unselectable(12, 4)
