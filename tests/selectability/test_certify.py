"""`certify` against other methods, on degenerate input, and the proofs that verification has to refuse."""

from dataclasses import replace

import numpy as np
import pytest
import second_methods as second

from layernorm_roles.heads.keys import CertifiedKeys
from layernorm_roles.selectability import Certificates, certify, certify_many, search
from layernorm_roles.selectability.certificates import evaluate
from layernorm_roles.selectability.coordinates import append_bias, whiten


def gaussian(n, d, seed=0):
    return np.random.default_rng([seed, n, d]).standard_normal((n, d))


def stream_like(n, d, seed=0):
    """Keys like those of a residual stream: a shared mean, a low-rank part, log-normal norms."""
    rng = np.random.default_rng([seed, n, d])
    rank = max(1, d // 4)
    keys = rng.standard_normal((n, d)) + 2 * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    return keys * rng.lognormal(sigma=0.6, size=(n, 1)) + 2 * rng.standard_normal(d)


def layer_norm(keys, eps=0.0):
    keys = keys - keys.mean(axis=1, keepdims=True)
    return keys / np.sqrt((keys**2).mean(axis=1, keepdims=True) + eps)


def lattice(n):
    """Points of which many are equal, or means of others."""
    return np.random.default_rng(5).integers(-3, 4, (n, 3)).astype(float)


def checked(keys, bias=None, flat=False) -> Certificates:
    """Certificates whose stored numbers are those that verification finds."""
    certificates = certify(keys, bias, flat=flat)
    margin, residual = certificates.verify(keys, bias)
    np.testing.assert_array_equal(margin, certificates.margin)
    np.testing.assert_array_equal(residual, certificates.residual)
    both = np.isfinite(margin) & np.isfinite(residual)
    assert (margin[both] <= residual[both] + 1e-12).all()  # weak duality
    return certificates


@pytest.mark.parametrize(
    ("bias", "margin", "residual"),
    [
        (None, -0.65 / 4, max(0.1 / 2, 0.1 / 4)),
        ([1.0, -3.0, 2.0, 0.5], -1.65 / (4 + 3), (1 - 0.05) / 3),
        ([-1.0, -3.0, 2.0, 0.5], -3.65 / (4 + 3), 0.1 / 2),  # a mean may have a higher bias
    ],
)
def test_a_margin_and_a_residual_are_in_the_units_of_the_columns_of_a_matrix(bias, margin, residual):
    keys, larger = np.array([[0.5, -1.7], [2.0, 0.0], [0.0, -4.0], [0.0, 0.0]]), np.array([1.0, 8.0])
    bias = None if bias is None else larger[:, None] * np.array(bias)
    queries, support, weights = np.zeros((2, 4, 2)), np.full((2, 4, 3), [1, 2, 3]), np.zeros((2, 4, 3))
    queries[:, 0], weights[:, 0] = [1, -0.5], [0.3, 0.4, 0.3]
    found = evaluate(larger[:, None, None] * keys, bias, queries, support, weights, causal=False)
    for number, expected in zip(found, (margin, residual), strict=True):
        np.testing.assert_allclose(number, [[expected, np.nan, np.nan, np.nan]] * 2, rtol=1e-12)


@pytest.mark.parametrize("n,d", [(30, 2), (1000, 3), (300, 4), (200, 6)])
def test_qhull(n, d):
    """Also just inside a sphere, where hulls have many thin corners, and keys barely below them."""
    for keys in (gaussian(n, d), stream_like(n, d)):
        expected = np.where(second.qhull(keys), "unselectable", "selectable")
        np.testing.assert_array_equal(checked(keys).verdict, expected)
    keys = layer_norm(gaussian(n, d + 1), eps=1e-5)
    verdict = checked(keys, flat=True).verdict
    assert (verdict == "borderline").sum() < 10
    second.assert_agree(verdict, second.qhull(keys @ np.linalg.svd(keys)[2][:d].T))


@pytest.mark.parametrize("kind", ["plain", "biased", "causal"])
def test_rational_arithmetic_on_a_lattice(kind):
    """Keys on faces and edges, and equal ones, with biases that tie: hardly any is left undecided."""
    for d, n in ((1, 8), (2, 30), (3, 60)):
        points = np.random.default_rng(d).integers(-2, 3, (n, d + 1)).astype(float)
        keys, bias = (points[:, :d], points[:, d]) if kind == "biased" else (points, None)
        found = certify(keys, bias, causal=kind == "causal")
        inside = second.rational(points, biased=kind == "biased", causal=kind == "causal")
        second.assert_agree(found.verdict, inside)
        assert found.counts()["borderline"] <= (kind == "biased")


BLOCKS = {
    "gaussian": (gaussian(300, 5), {}),
    "reflected": (stream_like(200, 40).astype(np.float32), {}),
    "bias": (gaussian(150, 3), {"bias": gaussian(150, 1)[:, 0]}),
    "causal": (stream_like(150, 8), {"causal": True}),
    "flat": (layer_norm(gaussian(150, 6)).astype(np.float32), {"flat": True}),
    "fewer keys than dimensions": (gaussian(20, 30), {}),
    "a lattice": (lattice(120), {}),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_size_of_blocks_leaves_the_verdicts(kind, monkeypatch):
    """Blocks of single rows and of a few, against all rows at once."""
    keys, options = BLOCKS[kind]
    expected = certify(keys, **options)
    for block in (1, 100):
        for name in ("arrays._BLOCK", "leads._SCORES"):
            monkeypatch.setattr(f"layernorm_roles.selectability.{name}", block)
        certificates = certify(keys, **options)
        np.testing.assert_array_equal(certificates.verdict, expected.verdict)
        found = certificates.verify(keys, options.get("bias"))
        np.testing.assert_array_equal(found, (certificates.margin, certificates.residual))


def test_queries_of_float32_keys_are_float32_where_that_loses_no_verdict():
    """A margin that rounding could bring down to the tolerance is that of a query in float64."""
    for steps, kept in ((40, np.float32), (5, np.float64)):
        gap = steps * 2.0**-23
        certificates = checked(np.array([[0, 0], [1, 0], [0, 1], [1 + gap, -2 * gap]], np.float32))
        assert certificates.verdict[3] == "selectable" and certificates.queries.dtype == kept
        assert certificates.query(3).dtype == np.float64
        assert (abs(certificates.margin - certificates.tolerance) < 2.0**-22).any() == (kept == np.float64)
    assert checked(gaussian(20, 3).astype(np.float32) * np.float32(2**-70)).queries.dtype == np.float64


def test_guesses_spare_most_keys_a_search(monkeypatch):
    """Without reflections one key in fifteen is left, with a bias or without."""
    left, find = [], search.find_certificates

    def counted(problem, proofs):
        left.append(int((proofs.state == search.OPEN).sum()))
        find(problem, proofs)

    monkeypatch.setattr(search, "find_certificates", counted)
    keys = gaussian(400, 64) * np.random.default_rng(0).lognormal(sigma=0.5, size=(400, 1))
    certify(keys)
    certify(keys, gaussian(400, 1)[:, 0])
    assert 0 < left[0] < 8 and left[1] < 22, left


CAUSAL = {
    "five dimensions": gaussian(120, 5),
    "a sphere in three of four dimensions": layer_norm(gaussian(60, 4)),
    "float32": stream_like(150, 8).astype(np.float32),
}


@pytest.mark.parametrize("kind", CAUSAL)
def test_causal_verdicts_are_those_of_each_prefix(kind):
    """Key i of the first i + 1 keys, certified by itself: another search, in other coordinates."""
    keys = CAUSAL[kind]
    causal = certify(keys, causal=True)
    causal.verify(keys)
    alone = np.array([certify(keys[: i + 1]).verdict[i] for i in range(len(keys))])
    decided = (causal.verdict != "borderline") & (alone != "borderline")
    assert [*causal.verdict[decided]] == [*alone[decided]] and decided.mean() > 0.95


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("off", [0.0, 1e-13])
def test_a_key_hardly_off_the_plane_of_those_before_it_is_not_taken_for_one_in_it(off, dtype):
    """The keys after it are off that plane, so that the coordinates of all keys do not show how flat the prefix is."""
    square = [[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]]
    keys = np.array([*square, [0.25, 0.5, off], [0, 0, 1], [3, 1, 2]], dtype)
    assert certify(keys, causal=True).verdict[4] == ("borderline" if off else "unselectable")


@pytest.mark.parametrize("make,d", [(gaussian, 2), (gaussian, 5), (stream_like, 33)])
def test_a_bias_leaves_no_key_undecided(make, d):
    """A query whose component for the bias is not positive proves nothing, and is not to be taken for a proof."""
    for seed in range(3):
        bias = gaussian(200, 1, seed)[:, 0]
        for scale in (0.1, 1.0, 30.0):
            assert not (checked(make(200, d, seed), scale * bias).verdict == "borderline").any()


@pytest.mark.parametrize("gap,in_the_middle", [(1e-3, 0), (1e-4, 0), (1e-4, 5000)])
def test_close_neighbours_on_a_sphere_get_queries_with_room_to_spare(gap, in_the_middle):
    """A query that wins by less is not enough to stop at, neither behind thousands of keys in nobody's way."""
    for seed in range(6):
        keys = gaussian(60, 3, seed)
        pairs = np.r_[keys, keys + gap * gaussian(60, 3, seed + 100) * np.linalg.norm(keys, axis=1)[:, None]]
        pairs /= np.linalg.norm(pairs, axis=1)[:, None]
        certificates = checked(np.r_[np.zeros((in_the_middle, 3)), pairs])
        assert certificates.margin[in_the_middle:].min() > 1000 * certificates.tolerance


def test_a_key_that_stands_out_of_a_plane_is_not_judged_in_it():
    """It is inside the others' hull as seen from above, and further from their plane than float32 is wrong."""
    frame = np.linalg.qr(gaussian(3, 3))[0]
    flat = np.c_[gaussian(400, 2), np.zeros(400)]
    inner = int(np.argmin(np.linalg.norm(flat, axis=1)))
    for height, expected in ((1e-8, "unselectable"), (1e-5, "borderline")):
        flat[inner, 2] = height
        assert checked((flat @ frame).astype(np.float32), flat=True).verdict[inner] == expected


@pytest.mark.parametrize("factor", [1e-300, 1e-30, 1e300])
@pytest.mark.parametrize("copies", [0, 5000])
def test_scale_and_shift_leave_the_verdicts(factor, copies):
    """Also behind thousands of copies of one key."""
    keys = gaussian(100, 5)
    keys = np.r_[np.repeat(keys[:1] / 9, copies, axis=0), keys]
    moved = [keys * factor, keys * factor ** np.linspace(-1, 1, 5), keys + 100]
    moved += [(keys - keys.max(axis=0)) * factor, np.c_[keys, np.full(len(keys), factor)]]
    for other in moved:
        np.testing.assert_array_equal(checked(other).verdict, checked(keys).verdict)


CROSS = np.r_[np.eye(2), -np.eye(2), np.zeros((1, 2))]
MANY = np.r_[np.eye(18), -np.eye(18), np.zeros((1, 18))]
"""In more dimensions than rational arithmetic is asked about."""
FALLING = np.tile(np.linspace(1, -1, 18), 2)


def edge(d):
    """The corners of a simplex in d dimensions, and last the middle between two of them."""
    return np.r_[np.eye(d), np.zeros((1, d)), np.eye(d)[:1] / 2 + np.eye(d)[1:2] / 2]


@pytest.mark.parametrize(
    "keys,bias,expected",
    [
        # Its bias alone puts it first, by a query that is as good as 0, which stands for none elsewhere.
        ([[1.0], [1.0]], [0.0, 1.0], "selectable"),
        (CROSS, np.arange(5) == 4, "selectable"),
        ([[3e100, 0.0], [-3e100, 0.0], [0.0, 0.0]], [0.0, 0.0, 1e-100], "selectable"),
        # No bias at all; a constant one; one that the keys explain but for what rounding could be.
        (CROSS, np.zeros(5), "unselectable"),
        (MANY, np.ones(37), "unselectable"),
        (MANY, np.r_[FALLING[:18], -FALLING[:18], 1e-14], "borderline"),
        # The tolerance raises its bias above the mean of the two keys whose bias is highest, or hardly does.
        (MANY, np.r_[FALLING, 1 - 5e-10], "borderline"),
        (MANY, np.r_[FALLING, 1 - 1e-7], "unselectable"),
        # However near the mean: to move it by the tolerance means to multiply a distance that hardly is one.
        *((np.r_[CROSS[:4], [[near, 0.0]]], None, "unselectable") for near in (0.0, 1e-320, 1e-60)),
        # Equal numbers may differ in their sign.
        ([[0.0, 1.0], [-0.0, 1.0]], None, "unselectable"),
        # On an edge, in as many dimensions (a bias is one) as rational arithmetic is asked about, or more.
        (edge(16), None, "unselectable"),
        (edge(17), None, "borderline"),
        (edge(15), np.zeros(17), "unselectable"),
        (edge(16), np.zeros(18), "borderline"),
        # A neighbour nearer than the tolerance, or hardly further.
        (np.array([[0, 0], [1, 0], [0, 1], [1 + 2e-7, -4e-7]], np.float32), None, "borderline"),
        (np.array([[0, 0], [1, 0], [0, 1], [1 + 4e-10, -8e-10]]), None, "borderline"),
        (np.array([[0, 0], [1, 0], [0, 1], [1 + 6e-10, -12e-10]]), None, "selectable"),
    ],
)
def test_the_verdict_on_the_last_key_is_known(keys, bias, expected):
    keys, bias = np.array(keys), None if bias is None else np.array(bias, float)
    certificates = checked(keys, bias)
    assert certificates.verdict[-1] == expected
    assert bool(np.any(certificates.query(len(keys) - 1))) == (expected == "selectable")
    assert (certificates.combination(len(keys) - 1) is not None) == (expected == "unselectable")
    if bias is None:
        assert certify(keys, causal=True).verdict[-1] == expected


@pytest.mark.parametrize("n", [4, 2500])
@pytest.mark.parametrize("size", [5e-324, 1e-305, 1e307, 1e308])
def test_verify_refuses_a_query_whose_scores_rounding_makes(n, size):
    """Key 3 is inside, but (q, q) puts it first where products are rounded to denormals, or overflow."""
    keys = np.array([[0.0, 0.0], [1.0, 0.4], [0.4, 1.0], [0.6, 0.6]])[np.arange(n).clip(max=3)]
    keys[4:] = gaussian(n, 2)[4:] / 1e3
    certificates = certify(keys)
    assert certificates.verdict[3] == "unselectable"
    code, queries = certificates.code.copy(), certificates.queries.copy()
    code[3], queries[3] = 1, size
    with pytest.raises(ValueError, match="row 3 does not hold: selectable"), np.errstate(all="ignore"):
        replace(certificates, code=code, queries=queries).verify(keys)


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i4"])
def test_the_order_of_bytes_makes_no_difference(dtype):
    keys = (100 * gaussian(50, 3)).astype(dtype)
    other, native = certify(keys), certify(keys.astype(keys.dtype.newbyteorder("=")))
    assert other.tolerance == native.tolerance
    np.testing.assert_array_equal(other.queries, native.queries)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"flat": True}])
def test_a_stack_is_its_matrices(options):
    """A neighbour of another size changes no digit. Of the last, with 17 dimensions, simplices alone prove."""
    small = [gaussian(20, 4), layer_norm(gaussian(20, 4)), np.repeat(gaussian(10, 4), 2, axis=0)]
    large = [np.r_[gaussian(90, 17, seed), gaussian(10, 17, seed) / 99] for seed in range(2)]
    large = [np.c_[np.ones(100), keys] for keys in large]  # a constant column is no dimension
    beside = [small[0], small[0] * 2.0**600]
    for matrices in (small, small[1:] + small[:1], beside, large):
        stack = np.stack(matrices)
        many = certify_many(stack, **options)
        margin, residual = many.verify(stack)
        assert margin.shape == residual.shape == stack.shape[:2]
        alone = [certify(keys, **options) for keys in matrices]
        np.testing.assert_array_equal(many.verdict, [one.verdict for one in alone])
        assert [*many.count("selectable")] == [one.count("selectable") for one in alone]
        if matrices is beside:
            np.testing.assert_array_equal(many.queries[0], alone[0].queries)
            np.testing.assert_array_equal(many.margin, [alone[0].margin] * 2)
    assert (many.verdict[:, 90:] == "unselectable").all()


def test_a_summary_counts_verdicts_and_has_the_weakest_proof_of_each_kind():
    """On a line, with a weight too large by 2e-12 for two keys, and the weakest proofs taken for borderline."""
    stack = np.array([[[-4.0], [4.0], [2.0], [0.0], [2.0]], [[-1.0], [1.0], [-1.0], [1.0], [3.0]]])
    found = certify_many(stack)
    code, support, weights = found.code.copy(), np.zeros((2, 5, 2), int), np.zeros((2, 5, 2))
    code[0, [1, 2]] = code[1] = 0
    support[0, 2:] = [0, 1]
    weights[0, 2:] = [0.25 - 4e-12, 0.75 + 4e-12], [0.5 - 1e-12, 0.5 + 1e-12], [0.25, 0.75]
    claimed = replace(found, code=code, support=support, weights=weights)
    first, second = (row[6:] for row in CertifiedKeys(1, "head", False, stack, claimed).rows(0))
    assert first == (5, 2, 2, 1.0, pytest.approx(2e-12, rel=1e-3)) and second == (5, 0, 5, None, None)


def test_verify_refuses_other_keys_and_queries():
    keys = gaussian(60, 3)
    certificates = certify(keys)
    inner = int(np.argmax(certificates.verdict == "unselectable"))
    for others, says in (
        (keys[::-1], "does not hold"),
        (keys - 2 * keys.mean(axis=0) + gaussian(60, 3, 1) / 10, "does not hold"),
        (keys[:10], "10 rows of size 3: these certificates are for 60 rows"),
        (keys[:, :2], "60 rows of size 2: these certificates are for 60 rows of size 3"),
    ):
        with pytest.raises(ValueError, match=says):
            certificates.verify(others)
    with pytest.raises(ValueError, match=r"row \d+ of matrix 1 does not hold"):
        certify_many(np.stack([keys, keys])).verify(np.stack([keys, keys[::-1]]))
    # A margin has to exceed the tolerance, which a residual may reach.
    smallest = certificates.margin[certificates.verdict == "selectable"].min()
    with pytest.raises(ValueError, match="does not hold: selectable"):
        replace(certificates, tolerance=smallest).verify(keys)
    replace(certificates, tolerance=np.nanmax(certificates.residual)).verify(keys)
    indices, weights = certificates.combination(inner)
    np.testing.assert_allclose(weights @ keys[indices], keys[inner], atol=1e-14)
    assert certificates.query(inner) is None


NO_MEANS = [{0: 0.5 + more, 3: 0.5} for more in (-1e-9, -2e-12, 2e-12, 1e-9)]
NO_MEANS += [{1: 2}, {1: 2, 0: -1}, {2: 1}, {-2: 1}, {4: 1}, {10**6: 1}]
MEAN = {0: 0.5, 3: 0.5}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("weights", [*NO_MEANS, MEAN], ids=str)
def test_verify_refuses_a_mean_that_is_none_of_other_keys(weights, causal):
    """Key 2 is the sum of keys with these weights (key 0 is 0), but only the last is a mean; -2 is key 2 itself."""
    keys = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [4.0, 4.0]])
    code, support, used = np.zeros(4, np.int8), np.zeros((4, 2), int), np.zeros((4, 2))
    code[2], support[2, : len(weights)], used[2, : len(weights)] = 2, [*weights], [*weights.values()]
    claimed = replace(certify(keys, causal=causal), code=code, support=support, weights=used)
    if weights == MEAN and not causal:
        claimed.verify(keys)
    else:
        with pytest.raises(ValueError, match=r"row 2 does not hold: unselectable"):
            claimed.verify(keys)


@pytest.mark.parametrize("causal,bias", [(False, None), (True, None), (False, [3.0])])
def test_a_key_without_rivals_wins(causal, bias):
    certificates = certify([[1.0, 2.0, 3.0]], bias, causal)
    assert certificates.margin == np.inf and certificates.query(0) is not None
    assert certificates.combination(0) is None and not certificates.weights.any()
    certificates.verify([[1.0, 2.0, 3.0]], bias)


def test_depth_is_the_smallest_push_times_the_smallest_deviation():
    """One key lies near the mean, where the push is the largest."""
    keys = np.random.default_rng(0).standard_normal((30, 4)) * [1, 3, 10, 0.2] + 5
    keys[0] = keys[1:].mean(axis=0) + 1e-6
    at = whiten(keys[None], 1e-9, 1e-7)
    centred = keys / 2.0 ** np.frexp(np.abs(keys).max(axis=0))[1]
    centred -= centred.mean(axis=0)
    deviations = np.linalg.svd(centred, compute_uv=False) / np.sqrt(len(keys))
    assert at.depth == pytest.approx(1e-7 / np.abs(centred).max() * deviations.min(), rel=1e-9)


def test_a_key_pushed_outwards_moves_by_the_tolerance_and_its_bias_rises_by_it():
    """In units of the scaled columns, which `B` turns into a change of the coordinates."""
    keys, bias = gaussian(30, 3) * [1, 3, 10] + 5, gaussian(30, 1)
    bias += keys @ [[1.0], [-2.0], [0.3]]
    at = append_bias(whiten(keys[None], 1e-9, 1e-3), bias.T, 1e-9, 1e-3)
    away = keys - keys.mean(axis=0)
    away /= 2.0 ** at.exponent[0, :3]
    change = np.c_[1e-3 * away / abs(away).max(axis=1, keepdims=True), np.full(30, 1e-3)] @ at.B[0].T
    found = at.of(slice(None), slice(None))[0] * at.push[0, :, None]
    found[:, -1] = at.raised[0] - at.last[0]
    np.testing.assert_allclose(found, change, atol=1e-12)


@pytest.mark.parametrize("rows", [30, 7])
def test_in_a_causal_search_a_key_is_pushed_by_the_tolerance_from_the_mean_of_those_before_it(
    rows, monkeypatch
):
    """Of all keys in one block, and in blocks whose sums go on from one to the next."""
    monkeypatch.setattr("layernorm_roles.selectability.arrays._BLOCK", 3 * rows)
    keys = gaussian(30, 3) * [1, 3, 10] + 5
    at = whiten(keys[None], 1e-9, 1e-3, causal=True)
    for i in range(1, 30):
        away = (keys[i] - keys[:i].mean(axis=0)) / 2.0 ** at.exponent[0]
        assert at.push[0, i] * abs(away).max() == pytest.approx(1e-3, rel=1e-12)
