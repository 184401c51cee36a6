"""The table of unselectable keys, and the keys without the norm."""

import numpy as np
import pytest
from test_recording import TOKENS

from layernorm_roles.heads import keys
from layernorm_roles.pretrained.measure import SITES
from layernorm_roles.selectability.certify import certify

CUTS = (2, 4, 30)


def table_of(network, contexts):
    found = [(n, layer) for n, context in contexts.items() for layer in network.record(context)]
    return keys.table(
        row for n, layer in found for one in keys.certified(layer, SITES, CUTS) for row in one.rows(n)
    )


def test_the_table_counts_what_certify_says_of_every_head(model):
    network = model("llama")
    contexts = {seed: np.random.default_rng(seed).permutation(60)[:32].tolist() for seed in (0, 7)}
    table = table_of(network, contexts)
    # The heads twice, among all keys and among those before, and cut to two and to four dimensions.
    assert len(table) == 2 * 2 * (1 + 1 + 2 + 2 + 2 + 2 * 2)
    assert (table.n_keys == 32).all()
    where = ["context", "layer", "head"]
    heads = table[(table.site == "head") & ~table.causal].set_index(where)
    among_those_before = table[table.causal].set_index(where).n_unselectable
    for number, context in contexts.items():
        for layer in network.record(context):
            for head, matrix in enumerate(layer.keys):
                row = heads.loc[number, layer.layer, head]
                assert row.n_unselectable == (certify(matrix).verdict == "unselectable").sum()
                assert row.dimensions == 6
                causal = (certify(matrix, causal=True).verdict == "unselectable").sum()
                assert among_those_before.loc[number, layer.layer, head] == causal <= row.n_unselectable
    assert (heads.n_unselectable > 0).any()
    assert table[table.site == "after_norm"]["head"].isna().all()


def test_heads_are_cut_to_where_their_keys_differ_most():
    """Each head by the eigenvectors of its own covariance, whatever the mean of its keys."""
    rng = np.random.default_rng(0)
    heads = rng.standard_normal((3, 50, 7)) * np.arange(1, 8) @ rng.standard_normal((7, 7)) + 100
    for matrix, left in zip(heads, keys.cut(heads, 3), strict=True):
        variances, directions = np.linalg.eigh(np.cov(matrix.T))
        assert left.shape == (50, 3)
        np.testing.assert_allclose(np.cov(left.T), np.diag(variances[:-4:-1]), atol=1e-8 * variances[-1])
        known = (matrix - matrix.mean(axis=0)) @ directions[:, :-4:-1]
        np.testing.assert_allclose(abs(left), abs(known), atol=1e-8)


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama"])
def test_keys_without_the_norm_are_affine_in_the_stream(architecture, model):
    tokens = np.random.default_rng(0).permutation(60)[:40].tolist()  # more than the 24 of the stream
    for layer in model(architecture).record(tokens):
        rotation = layer.key_projection.rotation
        # Turned back, since the rotary embedding differs between positions.
        back = type(rotation)(rotation.cos, -rotation.sin) if rotation else lambda x: x
        stream = np.column_stack([layer.before_norm, np.ones(len(tokens))])
        for used, without in zip(back(layer.keys), back(keys.keys_without_norm(layer)), strict=True):
            # float32 cosines and sines turn back to 1e-7 only.
            assert _unexplained(stream, without) < 1e-6
            assert _unexplained(stream, used) > 1e-2


def _unexplained(stream, keys):
    """What the best affine map from the stream leaves of the keys, relative to their size."""
    rest = keys - stream @ np.linalg.lstsq(stream, keys, rcond=None)[0]
    return np.linalg.norm(rest) / np.linalg.norm(keys)


def test_a_norm_that_has_nothing_to_do_changes_no_key(model):
    layer = model("bert").record(TOKENS)[0]
    # Where every vector of the stream has one length already, one factor does what the norm does.
    on_sphere = layer.norm.standardised(layer.before_norm) * 3.7
    same = type(layer)(**{**vars(layer), "before_norm": on_sphere})
    np.testing.assert_allclose(keys.keys_without_norm(same), layer.keys, atol=1e-9)
    assert abs(keys.keys_without_norm(layer) - layer.keys).max() > 0.01
