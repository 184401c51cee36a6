"""Keys and ceilings of heads, of a layer set by hand, whose two query heads share a key head."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from transformers.models.llama.modeling_llama import repeat_kv

from layernorm_roles.heads import ceilings, keys
from layernorm_roles.heads.layer import Layer, LearnedNorm, Projection, Rotation
from layernorm_roles.schemas import CEILING_QUANTILES, CEILING_SHARES
from layernorm_roles.selectability import certify
from layernorm_roles.selectability.ceilings import ceilings as of_keys

N, D, D_HEAD = 7, 6, 2
SCALING = 1.7
"""Not 1 / sqrt(2), which most models have."""


def layer(kind: str) -> Layer:
    rng = np.random.default_rng(3)
    bias = rng.standard_normal(D) if kind == "layernorm" else np.zeros(D)
    norm = LearnedNorm(kind, rng.uniform(0.5, 2, D), bias, 0.0)
    to_queries, to_keys = (
        Projection(rng.standard_normal((h, D_HEAD, D)), rng.standard_normal((h, D_HEAD)), None, None)
        for h in (2, 1)
    )
    stream = rng.standard_normal((N, D)) + 1
    return Layer(
        layer=1,
        queries=to_queries(norm(stream)),
        keys=to_keys(norm(stream)),
        scaling=SCALING,
        visible=np.tril(np.ones((N, N), bool)),
        attention_input=norm(stream),
        before_norm=stream,
        norm=norm,
        query_projection=to_queries,
        key_projection=to_keys,
    )


def test_query_heads_share_key_heads_as_transformers_repeats_them():
    heads = repeat_kv(torch.arange(3.0).view(1, 3, 1, 1), 2)[0, :, 0, 0]
    made = replace(layer("rmsnorm"), queries=np.zeros((6, N, D_HEAD)), keys=np.zeros((3, N, D_HEAD)))
    assert [made.key_head(head) for head in range(6)] == heads.tolist()


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_the_queries_behind_a_norm_are_the_image_of_its_sphere(kind):
    """Written out for each query head: the head's map of the norm of many streams, times the scaling."""
    made = layer(kind)
    x = np.random.default_rng(4).standard_normal((20_000, D))
    x = x - x.mean(axis=1, keepdims=True) if kind == "layernorm" else x
    normed = made.norm.gain * x / np.sqrt((x**2).mean(axis=1, keepdims=True)) + made.norm.bias
    projection = made.query_projection
    for head, (weight, bias) in enumerate(zip(projection.weight, projection.bias, strict=True)):
        queries, found = SCALING * (normed @ weight.T + bias), ceilings.queries_behind_norm(made, head)
        lengths = np.linalg.norm(np.linalg.solve(found.axes, (queries - found.centre).T), axis=0)
        assert 0.97 < lengths.max() <= 1 + 1e-9, "no query lies outside, and some come near its surface"
    # It is known of heads with a linear map alone.
    norm = LearnedNorm("rmsnorm", np.ones(2), np.zeros(2), 0.0)
    for changes in ({"norm": norm}, {"rotation": Rotation(np.ones((N, 2)), np.zeros((N, 2)))}):
        other = replace(made, query_projection=replace(projection, **changes))
        assert ceilings.queries_behind_norm(other, 0) is None
    assert ceilings.queries_behind_norm(replace(made, norm=None), 0) is None


def test_each_query_head_has_ceilings_of_its_own_on_the_shared_keys():
    made = layer("layernorm")
    found = ceilings.pairs(made, ["as used", "without norm"]).assign(context=5)
    uppers = []
    for head in (0, 1):
        scores = np.where(made.visible, SCALING * made.queries[head] @ made.keys[0].T, -np.inf)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        used = found[(found["head"] == head) & (found.normalised == "as used")]
        for queries, behind in (("any", None), ("norm", ceilings.queries_behind_norm(made, head))):
            rows, known = used[used.queries == queries], of_keys(made.keys[0], behind)
            np.testing.assert_allclose(rows[["lower", "upper"]], np.column_stack([known.lower, known.upper]))
            assert rows.position.tolist() == [*range(N)]
            assert {*rows.n_keys} == {N} and {*rows.dimensions} == {D_HEAD}
            np.testing.assert_allclose(rows.received_max, weights.max(axis=0))
            assert (weights[-1] <= rows.upper + 1e-9).all(), "the last query sees all keys"
        uppers.append(rows.upper.to_numpy())
    assert abs(uppers[0] - uppers[1]).max() > 1e-3 and (found.layer == 1).all()
    free = found[found.normalised == "without norm"]
    assert free.received_max.isna().all() and len(free) == 2 * 2 * N
    for queries, behind in (("any", None), ("norm", ceilings.queries_behind_norm(made, 1))):
        rows = free[(free["head"] == 1) & (free.queries == queries)]
        np.testing.assert_allclose(rows.upper, of_keys(keys.keys_without_norm(made)[0], behind).upper)
    unknown = ceilings.pairs(replace(made, norm=None), ["without norm", "as used"])
    assert {*unknown.queries} == {"any"} and {*unknown.normalised} == {"as used"}


def test_sums_over_layers_and_contexts_are_those_of_their_pairs():
    """Random bounds in two contexts and two layers, some of them exactly a share that is counted, or a half."""
    rng = np.random.default_rng(6)
    places = product((3, 5), (1, 2), ("any", "norm"), ("as used", "without norm"), range(40))
    pairs = pd.DataFrame(places, columns=["context", "layer", "queries", "normalised", "position"])
    bounds = rng.choice([*rng.random(9), 0.5, CEILING_SHARES[40]], (len(pairs), 3))
    pairs[["received_max", "lower", "upper"]] = np.sort(bounds, axis=1)
    pairs = pairs.assign(head=0, n_keys=pairs.context * 10, dimensions=pairs.layer + 20)
    pairs.loc[pairs.normalised == "without norm", "received_max"] = np.nan
    found = ceilings.summary(pairs)
    assert len(found) == 2 * 3 * (4 + 1)
    for row in found.itertuples():
        part = pairs[(pairs.context == row.context) & (pairs.normalised == row.normalised)]
        part = part[part.queries == ("any" if row.queries == "own" else row.queries)]
        part = part if pd.isna(row.layer) else part[part.layer == row.layer]
        received = part.received_max
        lower, upper = (received, received) if row.queries == "own" else (part.lower, part.upper)
        known = len(part), row.context * 10, part.dimensions.iloc[0]
        assert (row.pairs, row.n_keys, row.dimensions) == known
        for counts, values in ((row.lower_below, lower), (row.upper_below, upper)):
            assert list(counts) == [(values < share).sum() for share in CEILING_SHARES]
        np.testing.assert_allclose(row.quantiles, [upper.quantile(q) for q in CEILING_QUANTILES])
        if row.normalised == "as used":
            assert row.idle == ((lower >= 0.5) & (received < 0.5)).sum()
        else:
            assert pd.isna(row.idle) and row.queries != "own"


@pytest.mark.parametrize("causal", [True, False])
def test_margins_and_residuals_are_rounded_to_the_side_of_caution_and_causal_heads_are_judged_twice(causal):
    """Heads are cut to no more dimensions than they have. A query that is not causal here sees three keys after it."""
    made = replace(layer("layernorm"), visible=np.tri(N, N, 0 if causal else 3, dtype=bool))
    judged = keys.certified(made, ("head", "head_cut", "after_norm"), (1, 2, 3))
    found = keys.table(row for one in judged for row in one.rows(5))
    sites = [("head", False, 2), *([("head", True, 2)] if causal else []), ("head_cut", False, 1)]
    sites.append(("after_norm", False, 6))
    assert list(zip(found.site, found.causal, found.dimensions, strict=True)) == sites
    assert found["head"].isna().tolist() == [False] * (len(sites) - 1) + [True]
    for row in found[found.site == "head"].itertuples():
        one = certify(made.keys[0], causal=row.causal)
        margin = one.margin[(one.verdict == "selectable") & np.isfinite(one.margin)].min()
        residual = one.residual[one.verdict == "unselectable"].max()
        for rounded, exact, way in ((row.min_margin, margin, 1), (row.max_residual, residual, -1)):
            assert rounded == float(f"{rounded:.0e}")
            assert 0 <= way * (exact - rounded) < 10 ** np.floor(np.log10(exact))


def test_tokens_are_listed_of_the_layer_in_which_most_keys_cannot_get_half():
    """That is layer 2 for the queries behind the norm, and not for all queries or for other keys."""
    uppers = {"layer": [1, 2, 3], "upper": [[0.4, 0.5, 0.5], [0.4, 0.3, 0.7], [0.8, 0.6, 0.7]]}
    made = pd.DataFrame(uppers).explode("upper").assign(head=0, context=5, position=[0, 1, 2] * 3)
    made = made.astype({"upper": float}).assign(queries="norm", normalised="as used", received_max=0.1)
    other = made.assign(upper=np.where(made.layer == 2, 0.9, 0.1))
    table = pd.concat([made, other.assign(queries="any"), other.assign(normalised="without norm")])
    found = ceilings.of_tokens(table, {5: ["a", "b", "c"]})
    assert (found.layer == 2).all() and found.upper.tolist() == [0.4, 0.3, 0.7]
    assert found.token.tolist() == ["a", "b", "c"]
    assert ceilings.of_tokens(table[table.queries == "any"], {}).empty, "the norm of no head is known"


def test_a_rotation_turns_pairs_of_the_first_coordinates_and_leaves_the_others():
    x, angles = np.random.default_rng(0).standard_normal((3, N, 6)), np.arange(2 * N).reshape(N, 2)
    both = np.hstack([angles, angles])
    turned = (x[..., :2] + 1j * x[..., 2:4]) * np.exp(1j * angles)
    known = np.concatenate([turned.real, turned.imag, x[..., 4:]], axis=-1)
    np.testing.assert_allclose(Rotation(np.cos(both), np.sin(both))(x), known)


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_keys_without_the_norm_are_those_of_a_stream_with_one_factor_of_the_normed_streams_mean_square(kind):
    made, angles = layer(kind), np.arange(2.0 * N).reshape(N, 2)
    to_keys = replace(made.key_projection, rotation=Rotation(np.cos(angles), np.sin(angles)))
    x = made.before_norm - made.before_norm.mean(axis=1, keepdims=True) * (kind == "layernorm")
    normed = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 0.5)
    stream = x * np.sqrt((normed**2).mean() / (x**2).mean()) * made.norm.gain + made.norm.bias
    found = replace(made, norm=replace(made.norm, eps=0.5), key_projection=to_keys)
    np.testing.assert_allclose(keys.keys_without_norm(found), to_keys(stream))


def test_of_what_is_not_known_there_are_no_keys():
    made = replace(layer("layernorm"), before_norm=None, norm=None, attention_input=None)
    for site in ("before_norm", "after_norm", "after_norm_exact", "head_without_norm"):
        assert keys.stacks_at(site, made, (1,)) == []
    alone = {"queries": made.queries[:, :1], "keys": made.keys[:, :1], "visible": made.visible[:1, :1]}
    assert keys.stacks_at("head_cut", replace(made, **alone), (1,)) == []


def test_heads_are_cut_to_where_their_keys_differ_most():
    """Each head by the eigenvectors of its own covariance, whatever the mean of its keys."""
    rng = np.random.default_rng(0)
    heads = rng.standard_normal((3, 50, 7)) * np.arange(1, 8) @ rng.standard_normal((7, 7)) + 100
    for matrix, left in zip(heads, keys.cut(heads, 3), strict=True):
        _, directions = np.linalg.eigh(np.cov(matrix.T))
        known = (matrix - matrix.mean(axis=0)) @ directions[:, :-4:-1]
        np.testing.assert_allclose(abs(left), abs(known), atol=1e-8)


SQUARE = np.array([[0.5, 0.5], [1, 1], [1, -1], [-1, 1], [-1, -1]])
"""The first lies within the others, which no query of a causal model that sees them puts behind it."""


def square(w_q: float = 1.0) -> Layer:
    """A causal layer whose keys are SQUARE, whose norm is the identity on them, and whose W_Q is this multiple of 1."""
    projections = [Projection(s * np.eye(2)[None], np.zeros((1, 2)), None, None) for s in (w_q, 1)]
    norm = LearnedNorm("rmsnorm", np.ones(2), np.zeros(2), 0.0)
    queries, keys = (project(SQUARE) for project in projections)
    visible = np.tri(5, dtype=bool)
    return Layer(1, queries, keys, 2.0, visible, norm(SQUARE), SQUARE, norm, *projections)


def test_the_first_key_of_a_square_loses_to_later_keys_alone_and_wins_once_its_length_is_theirs():
    judged = keys.certified(
        square(), ("before_norm", "after_norm", "head", "head_without_norm", "head_exact")
    )
    found = keys.table(row for one in judged for row in one.rows(3))
    lost = dict(zip(zip(found.site, found.causal, strict=True), found.n_unselectable, strict=True))
    # Of one length the first equals the second, and neither wins alone.
    known = {"before_norm": 1, "after_norm": 2, "head": 1, "head_without_norm": 1, "head_exact": 2}
    assert lost == {(site, False): number for site, number in known.items()} | {("head", True): 0}
    assert (found.context == 3).all() and (found.n_keys == 5).all() and (found.n_borderline == 0).all()


@pytest.mark.parametrize("scores", [2**16, 7])
def test_a_head_whose_queries_are_all_zero_gives_each_of_the_keys_that_it_sees_as_much(scores, monkeypatch):
    """Also in blocks of one query. Of all queries, the best for the first key takes the middle between two corners."""
    monkeypatch.setattr("layernorm_roles.heads.layer._SCORES", scores)
    found = ceilings.pairs(square(w_q=0.0), ["as used"]).set_index("queries")
    np.testing.assert_allclose(found.loc["norm", ["lower", "upper"]], 1 / 5)
    np.testing.assert_allclose(found.loc["norm", "received_max"], 1 / np.arange(1, 6))
    np.testing.assert_allclose(found.loc["any", ["lower", "upper"]][1:], 1, rtol=1e-6)
    # By symmetry q = (t, t): 1 / c = 1 + e^t + 2 e^-t + e^-3t, and the smallest sum is where its slope is 0.
    t = np.linspace(-2, 2, 400_001)
    best = 1 / (1 + np.exp(t) + 2 * np.exp(-t) + np.exp(-3 * t)).min()
    np.testing.assert_allclose(found.loc["any", ["lower", "upper"]].iloc[0], best, rtol=1e-6)


def test_the_attention_of_some_queries_is_those_rows_of_all_and_keys_after_a_query_get_none():
    made = square()
    assert made.causal and not replace(made, visible=np.tri(5, k=1, dtype=bool)).causal
    attention = made.attention(0)
    np.testing.assert_array_equal(made.attention(0, slice(1, 3)), attention[1:3])
    scores = 2.0 * SQUARE @ SQUARE.T
    for i, row in enumerate(attention):
        known = np.exp(scores[i, : i + 1]) / np.exp(scores[i, : i + 1]).sum()
        np.testing.assert_allclose(row, [*known, *np.zeros(4 - i)])
