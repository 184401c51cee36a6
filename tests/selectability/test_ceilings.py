"""`ceilings` against thirty digits, closed forms, exact hulls, and its own bounds at work."""

import doctest
import sys
from dataclasses import replace

import numpy as np
import pytest
import second_methods as second
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from test_certify import gaussian, layer_norm

from layernorm_roles.selectability import ceilings_bounds, ceilings_newton
from layernorm_roles.selectability.ceilings import QueryEllipsoid, ceilings
from layernorm_roles.selectability.certify import certify

GAP = 1e-6
ceilings_module = sys.modules[
    "layernorm_roles.selectability.ceilings"
]  # the package has the function of its name


def softmax(scores):
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def checked(keys, queries=None):
    """Ceilings whose bounds are in order, close, and those that verification finds."""
    found = ceilings(keys, queries)
    np.testing.assert_array_equal(found.verify(keys), (found.lower, found.upper))
    assert 0 <= found.gap.min() and found.gap.max() <= GAP
    return found


def ellipsoid(d, size=1.0):
    rng = np.random.default_rng([0, d])
    return QueryEllipsoid(rng.standard_normal(d), size * rng.standard_normal((d, d)))


def in_the_ball(queries, some):
    """The lengths, relative to the axes of an ellipsoid, of some queries as seen from its centre."""
    return np.linalg.norm(np.linalg.lstsq(queries.axes, (some - queries.centre).T, rcond=None)[0], axis=0)


@pytest.mark.parametrize("module", ["certify", "ceilings"])
def test_examples_of_the_documentation(module):
    done = doctest.testmod(sys.modules[f"layernorm_roles.selectability.{module}"])
    assert done.attempted > done.failed == 0


@pytest.mark.parametrize("n,d", [(8, 1), (12, 2), (16, 3)])
def test_bounds_enclose_thirty_digits(n, d):
    """Also where two keys are there twice, since each copy takes attention."""
    keys = np.r_[gaussian(n, d), gaussian(n, d)[:2]]
    found = checked(keys)
    inside = 2 + np.flatnonzero(found.upper[2:n] < 0.6)
    assert len(inside)
    for i in inside:
        ceiling = second.to_thirty_digits(keys, i, found.query[i])
        assert float(found.lower[i]) < ceiling < float(found.upper[i])


@pytest.mark.parametrize("queries", [None, QueryEllipsoid(4 * gaussian(1, 8)[0], np.zeros((8, 8)))])
def test_bounds_allow_for_the_rounding_of_attention(queries):
    """To thirty digits the stored query gives a key no less than `lower`, and no more than `upper` if it is alone."""
    keys = 3 * gaussian(40, 8) + 5
    found = checked(keys, queries)
    exact = second.attention(keys, found.query)
    for lower, upper, share in zip(found.lower.tolist(), found.upper.tolist(), exact, strict=True):
        assert lower <= share and (queries is None or share <= upper)


@pytest.mark.parametrize("n,d", [(300, 2), (400, 6), (256, 32)])
def test_one_or_at_most_a_half(n, d):
    """The ceiling is 1 exactly for the keys that `certify` calls selectable, and no other exceeds 1/2."""
    rng = np.random.default_rng(n)
    sphere = layer_norm(gaussian(n, d + 1))
    head = layer_norm(gaussian(n, 4 * d)) @ gaussian(4 * d, d)
    for keys in (sphere, sphere * (1 - 1e-4 * rng.random((n, 1))), head, rng.standard_t(1.5, (n, d))):
        found, verdict = checked(keys), certify(keys).verdict
        assert (found.lower[verdict == "selectable"] > 1 - GAP).all()
        assert (found.upper[verdict == "unselectable"] <= 0.5).all()


@settings(max_examples=150)
@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=1, max_size=9)
    )
)
@example([[0, 2], [1, 1], [-1, -1], [-1, -1], [-1, -1], [-1, -1], [-2, -1], [-2, -2], [-2, -2]])
def test_exact_hulls_of_small_integers(points):
    """Duplicates, collinear keys and keys on faces: rational arithmetic says which ceilings are 1."""
    keys = np.array(points, dtype=float)
    found, inside = checked(keys), second.rational(keys)
    assert (found.upper[inside] <= 0.5 + 1e-8).all() and (found.lower[~inside] > 1 - GAP).all()


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-10])
def test_just_within_and_just_beyond_a_face(distance):
    normal = np.ones(3) / np.sqrt(3)
    keys = np.vstack([np.eye(3), -normal, (1 / 3 + distance / np.sqrt(3)) * np.ones(3)])
    assert checked(keys).lower[-1] > 1 - GAP
    keys[-1] -= 2 * distance * normal
    assert 1 / 5 < checked(keys).upper[-1] <= 1 / 4 + 1e-8  # 1/4 on the triangle, 1/5 amid four keys


def test_float32_keys_and_a_direction_of_rounding():
    keys = layer_norm(gaussian(200, 4)).astype(np.float32)
    keys[:50] *= np.float32(0.5)
    found = checked(keys)
    assert (found.upper[:50] <= 0.5).all()
    flat = keys.astype(float) @ np.linalg.svd(np.ones((1, 4)))[2][1:].T
    np.testing.assert_allclose(found.lower, ceilings(flat).lower, rtol=1e-4)


@pytest.mark.parametrize("n,d,size", [(300, 2, 3.0), (200, 8, 1.0), (100, 64, 4.0)])
def test_no_query_of_the_ellipsoid_exceeds_the_upper_bound(n, d, size):
    keys, queries = gaussian(n, d), ellipsoid(d, size)
    found = checked(keys, queries)
    u = np.random.default_rng(1).standard_normal((4000, d))
    u /= np.linalg.norm(u, axis=1, keepdims=True) * np.linspace(1, 3, 4000)[:, None]
    attention = softmax((queries.centre + u @ queries.axes.T) @ keys.T)
    assert (attention.max(axis=0) <= found.upper).all()
    np.testing.assert_allclose(np.diag(softmax(found.query @ keys.T)), found.upper, rtol=GAP)
    assert (in_the_ball(queries, found.query) <= 1 + 1e-9).all()


def test_a_key_so_far_out_that_the_centre_of_the_ellipsoid_gives_it_all():
    """There the curvature of every other key's problem is 0 to within rounding, as with [CLS] in all-MiniLM-L6-v2."""
    keys, queries = gaussian(30, 6), QueryEllipsoid(np.ones(6), gaussian(6, 6, 1))
    keys[0] = 40 * np.arange(1, 7)
    assert softmax(keys @ queries.centre)[0] == 1
    found = checked(keys, queries)
    assert found.upper.min() > 0 and found.upper.max() == pytest.approx(1, abs=1e-6)


def test_radius_nothing_and_radius_without_end():
    keys, centre = gaussian(40, 2), np.array([0.3, -1.0])
    radii = 0, 0.1, 1, 10, 100, 1e5
    none, *_, endless = found = [checked(keys, QueryEllipsoid(centre, s * np.eye(2))) for s in radii]
    np.testing.assert_allclose(none.upper, softmax(keys @ centre), rtol=1e-9)
    np.testing.assert_allclose(endless.lower, checked(keys).lower, rtol=GAP)
    assert (np.diff([one.upper for one in found], axis=0) > -1e-9).all()
    assert repr(none).startswith("Ceilings(40 keys of size 2 over an ellipsoid of queries: ")


def test_keys_far_from_the_origin_have_the_ceilings_of_those_around_it():
    """Keys that float64 holds exactly at both places; scores made from the far ones would be off in their digits."""
    keys, queries = np.round(gaussian(50, 5) * 2**10) / 2**10, ellipsoid(5)
    far = checked(keys + 2.0**36, queries)
    np.testing.assert_allclose(far.upper, checked(keys, queries).upper, rtol=GAP)


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
def test_ellipsoid_of_a_head(norm):
    """In every direction the furthest query, made by hand from an input of the norm, is as far as the ellipsoid is."""
    rng = np.random.default_rng(3)
    d_model, d_head = 12, 4
    w_q, b_q = rng.standard_normal((d_head, d_model)), rng.standard_normal(d_head)
    gain, bias = 1 + 0.5 * rng.standard_normal(d_model), rng.standard_normal(d_model)
    of_norm, given = getattr(QueryEllipsoid, f"of_{norm}"), (w_q, b_q, gain, bias)
    if norm == "rmsnorm":
        given, bias = given[:3], 0
    queries, larger = of_norm(*given), of_norm(*given, scale=1.0)
    np.testing.assert_allclose(larger.centre, np.sqrt(d_head) * queries.centre)
    np.testing.assert_allclose(larger.axes, np.sqrt(d_head) * queries.axes)
    assert queries.filled

    def query(stream):
        if norm == "layernorm":
            stream = stream - stream.mean(axis=-1, keepdims=True)
        normed = stream / np.sqrt((stream**2).mean(axis=-1, keepdims=True))
        return ((normed * gain + bias) @ w_q.T + b_q) / np.sqrt(d_head)

    for direction in rng.standard_normal((20, d_head)):
        furthest = query((w_q * gain).T @ direction)
        support = direction @ queries.centre + np.linalg.norm(queries.axes.T @ direction)
        assert direction @ furthest == pytest.approx(support, rel=1e-12)


def test_head_without_room_for_a_filled_ellipsoid():
    """With d_head >= d_model - 1 queries are on the surface alone: the lower bounds come from there."""
    rng = np.random.default_rng(5)
    w_q, keys = rng.standard_normal((6, 6)), rng.standard_normal((40, 6))
    keys[0] = 0  # its best query is near the centre
    queries = QueryEllipsoid.of_layernorm(w_q, None, None, None)  # a norm without gain and bias
    assert repr(queries) == "QueryEllipsoid(5 axes in 6 dimensions, surface alone)"
    # A sphere has one dimension more without projection.
    assert QueryEllipsoid.of_rmsnorm(w_q[:5], None, None).filled
    found, filled = ceilings(keys, queries), ceilings(keys, replace(queries, filled=True))
    found.verify(keys)
    np.testing.assert_allclose(in_the_ball(queries, found.query), 1, rtol=1e-9)
    np.testing.assert_allclose(np.diag(softmax(found.query @ keys.T)), found.lower, rtol=1e-9)
    alone = ceilings(keys[:1], queries)  # which every query gives all
    np.testing.assert_allclose(in_the_ball(queries, alone.query), 1, rtol=1e-9)
    np.testing.assert_array_equal(filled.upper, found.upper)
    assert (found.lower <= filled.upper).all() and found.lower[0] < 0.9 * filled.lower[0]


def whitened(keys):
    centred = keys - keys.mean(axis=0)
    return centred @ np.linalg.inv(np.linalg.cholesky(np.cov(centred.T, bias=True))).T


@pytest.mark.parametrize("size", [0.0, 0.3, 3.0])
def test_bounds_from_any_query_and_proof_enclose_the_ceiling(size):
    """Verification may be handed anything: what is stored decides how close the bounds are, never which side."""
    n, rng = 60, np.random.default_rng(8)
    keys, queries = gaussian(n, 3), ellipsoid(3).principal()
    every, some = ceilings(keys), ceilings(keys, queries)
    for _ in range(20):
        query, step, points = rng.standard_normal((3, n, 3))
        points *= min(size, 1) / np.linalg.norm(points, axis=1, keepdims=True)
        at = queries.centre + points @ queries.axes.T
        of_all = keys, whitened(keys), np.ones(n, int), size * query, size * step
        for bounds, best in (
            (ceilings_bounds.over_all_queries(*of_all), every),
            (ceilings_bounds.over_ellipsoid(keys, queries, at, points), some),
        ):
            assert (bounds.lower <= best.upper).all() and (bounds.upper >= best.lower).all()
    # Nothing is proved about a corner here, but its m copies never get more than 1/m each.
    copies, nothing = np.array([1, 2, 5]), np.zeros((3, 2))
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    bounds = ceilings_bounds.over_all_queries(corners, whitened(corners), copies, nothing, nothing)
    np.testing.assert_allclose(bounds, (np.full(3, 1 / 8), 1 / copies))


def test_a_lead_that_rounding_makes_proves_nothing():
    """The query gives three keys on a line equal scores, and the one in the middle a third of the attention."""
    rng, whitened = np.random.default_rng(0), np.sqrt(1.5) * np.array([[1.0], [-1.0], [0.0]])
    for keys, query in zip(rng.standard_normal((100, 3, 3)), rng.standard_normal((100, 3)), strict=True):
        keys[2], line = keys[:2].mean(axis=0), keys[0] - keys[1]
        query -= query @ line / (line @ line) * line
        of_three = keys, whitened, np.ones(3, int), np.tile(query, (3, 1)), np.zeros((3, 3))
        assert ceilings_bounds.over_all_queries(*of_three).upper[2] == pytest.approx(1 / 3)


def test_a_query_beyond_the_reach_of_a_proof_takes_it_away():
    """Weights of a third on three keys that nearly agree; a query with scores of 1e11 gives one of them half."""
    h, falls = 1e-10, np.exp(-10)
    keys = np.array([[0, 0], [0, h], [-h, 0], [-1, 1], [-1, -1]])
    query, step = np.array([[10 / h, 0]]), np.array([[-(2 + falls) / (3 * falls * h), 0]])
    given = keys, whitened(keys), np.ones(5, int), query.repeat(5, axis=0), step.repeat(5, axis=0)
    bounds = ceilings_bounds.over_all_queries(*given)
    assert bounds.lower[0] > 0.49 and (bounds.lower <= bounds.upper).all()


@pytest.mark.parametrize("seed", range(4))
def test_the_middle_of_an_edge_is_led_by_no_query(seed):
    """A query that seems to put it first by a rounding is not lengthened."""
    keys = gaussian(30, 2, seed)
    corners = keys[ConvexHull(keys).vertices]
    found = checked(np.r_[keys, (corners + np.roll(corners, 1, axis=0)) / 2])
    assert (found.upper[30:] < 0.5).all()


@pytest.mark.parametrize("queries", [None, ellipsoid(2)])
def test_verification_refuses_what_does_not_hold(queries):
    keys = np.vstack([gaussian(40, 2) * 3, np.zeros((1, 2))])
    keys[3] = 0.1
    found = checked(keys, queries)
    spoilt = {"query": 1.5 * found.query[3], "proof": -0.5 * found.proof[3]}
    spoilt |= {"lower": found.upper[3] + 1e-6, "upper": found.lower[3] - 1e-6}
    for name, value in spoilt.items():
        wrong = getattr(found, name).copy()
        wrong[3] = value
        with pytest.raises(ValueError, match="row 3: the bounds do not hold"):
            replace(found, **{name: wrong}).verify(keys)
    with pytest.raises(ValueError, match="do not hold"):
        found.verify(keys + 0.1 * gaussian(41, 2, seed=9))
    with pytest.raises(ValueError, match="keys have 40 rows of size 2: these ceilings are those of 41 rows"):
        found.verify(keys[:-1])


def test_verification_refuses_a_query_outside_the_ellipsoid():
    keys, queries = gaussian(30, 3), ellipsoid(3)
    found = ceilings(keys, queries)
    for more in (1.1, 1.0001):
        larger = ceilings(keys, replace(queries, axes=more * queries.axes))
        stored = {name: getattr(larger, name) for name in ("query", "lower", "upper")}
        for claimed in (
            replace(larger, queries=found.queries),
            replace(found, query=larger.query),
            replace(found, proof=more * larger.proof, **stored),
        ):
            with pytest.raises(ValueError, match="do not hold"):
                claimed.verify(keys)


@pytest.mark.parametrize("queries", [None, ellipsoid(6)])
def test_blocks_threads_and_products_that_are_not_kept_change_nothing(queries, monkeypatch):
    keys = gaussian(150, 6)
    expected = checked(keys, queries)
    for name, value in {"SCORES": 2000, "_PRODUCTS": 1000, "LARGE": 100}.items():
        monkeypatch.setattr(ceilings_newton, name, value)
    found = checked(keys, queries)
    np.testing.assert_allclose([found.lower, found.upper], [expected.lower, expected.upper], rtol=1e-7)


def test_keys_that_some_query_selects_take_no_newton_steps(monkeypatch):
    """Their search grew with the square of the dimensions; it is left to the keys in the hull of the others."""
    searched, minimise = [], ceilings_module.minimise
    monkeypatch.setattr(
        ceilings_module,
        "minimise",
        lambda problem, rows: searched.append(rows.tolist()) or minimise(problem, rows),
    )
    keys = gaussian(200, 8)
    found = checked(np.r_[keys, keys[:3]])
    inside = np.flatnonzero(certify(keys).verdict != "selectable")
    selectable = np.delete(np.arange(200), inside)
    # Rows of copies are searched once, in the order of numpy.unique.
    assert len(inside) < 100 and [len(rows) for rows in searched] == [len(inside)]
    copies = np.bincount(np.r_[np.arange(200), np.arange(3)])[selectable]
    np.testing.assert_allclose(found.lower[selectable], 1 / copies, rtol=GAP)
