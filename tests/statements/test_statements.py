"""Files of the statements: which plan and draws made them, and their rows once more by plain formulas in numpy."""

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example
from hand_made import contexts, prepared_text
from planned import planned

from layernorm_roles import checkpoint, files, random_streams, store
from layernorm_roles.norms import affine, scale
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence, Fusion, Geometry, Placement, ScoreScale
from layernorm_roles.statements import batch_dependence, fusion, geometry, placement, score_scale


def read(path, table, plan, *streams, with_torch=False):
    """The table in a file of a job, which names its plan and the streams that it drew from."""
    origin = store.read_provenance(path)
    assert json.loads(origin["config"]) == plan
    assert origin["seed_rule"] == random_streams.describe(streams, with_torch)
    return store.read(path, table)


def assert_rows(found, frame):
    plain = frame[found.columns].reset_index(drop=True).astype(object).fillna(0)
    pd.testing.assert_frame_equal(found.astype(object).fillna(0), plain, check_dtype=False)


def written(folder, drawn, module, settings, stream, seeds):
    """The table in the file that a statement's job writes, and that it drew from that stream alone."""
    drawn.clear()
    plan = planned(folder, "job", settings=settings.model_dump(), seeds=seeds)
    module.write(plan, folder / "rows")
    assert drawn == {stream.number: {*seeds}}
    return read(folder / "rows", stream.name.lower(), plan, stream)


def test_batch_dependence_has_the_means_over_the_draws(tmp_path, drawn):
    settings, expected = example(BatchDependence, batch_sizes=[1, 3], repeats=2), {}
    found = written(tmp_path, drawn, batch_dependence, settings, Stream.BATCH_DEPENDENCE, [4, 6])
    real = {0.25: 12, 0.5: 8, 0.75: 4}  # tokens of a sequence of 16 before its padding
    for seed, batch, (norm, axes) in product((4, 6), (1, 3), {"layernorm": 2, "batchnorm": (0, 1)}.items()):
        rng = generator(Stream.BATCH_DEPENDENCE, seed, batch)
        for _ in range(2):
            first, second = rng.standard_normal((2, batch, 16, 64))

            def normed(x, axes=axes):
                mean, variance = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
                return ((x - mean) / np.sqrt(variance + 1e-5))[0, 0]

            changed = {("padding", share): np.copy(first) for share in real}
            for (_, share), x in changed.items():
                x[:, real[share] :] = 0
            moves = {key: normed(first[:, : real[key[1]]]) - normed(x) for key, x in changed.items()}
            moves |= {("others", 0.0): normed(first) - normed(np.concatenate([first[:1], second[1:]]))}
            for (effect, share), move in moves.items():
                if (effect, batch) != ("others", 1):
                    draws = expected.setdefault((norm, effect, batch, share, seed), [])
                    draws.append(np.sqrt(np.mean(move**2)))
    found = found.set_index(["norm", "effect", "batch_size", "padding", "seed"]).change
    assert (found["layernorm"] == 0).all(), "independent of the batch, to the last bit"
    known = pd.Series({key: np.mean(draws) for key, draws in expected.items()})
    assert found.to_dict() == pytest.approx(known.to_dict(), abs=1e-12)


def test_score_scale_is_computed_query_by_query(tmp_path, drawn):
    found = written(tmp_path, drawn, score_scale, example(ScoreScale, d_k=[2, 3]), Stream.SCORE_SCALE, [6, 8])
    places = product(("normal", "normal_mean_1"), (2, 3), (6, 8), (False, True))
    for row, (source, d, seed, divided) in zip(found.itertuples(), places, strict=True):
        assert (row.source, row.d_k, row.seed, row.divided) == (source, d, seed, divided)
        drawn = generator(Stream.SCORE_SCALE, seed, d).standard_normal((2, 128, d))
        queries, keys = drawn + (source == "normal_mean_1")
        scores = np.array([keys @ q for q in queries]) / d ** (0.5 * divided)
        weights = [np.exp(s) / np.exp(s).sum() for s in scores]
        entropy = np.mean([-(p * np.log(p)).sum() for p in weights])
        gradient = np.mean([(p * (1 - p)).sum() for p in weights])
        known = scores.mean(), scores.std(), entropy / np.log(128), gradient
        numbers = row.score_mean, row.score_std, row.entropy_share, row.gradient
        assert numbers == pytest.approx(known, rel=1e-9)


def random_block(d, seed):
    """The draws of a seed, with weights of variance 1 over the number of inputs; half of the tokens is fitted."""
    rng, n = generator(Stream.FUSION, seed, d), 2 * 16 * d
    parts = [rng.standard_normal((n, d)), rng.standard_normal((n, d)), rng.standard_normal((d, d)) / d**0.5]
    parts += [np.zeros(d), np.ones(d), np.zeros(d), rng.standard_normal((d, 4 * d)) / d**0.5]
    return fusion.AttentionBlock(*parts, {"source": "random", "seed": seed, "layer": 1})


def by_least_squares(block):
    """The rows of table fusion for a block: the first half of the tokens, rounded down, is fitted."""
    x, half = np.column_stack([block.heads, np.ones(len(block.heads))]), len(block.heads) // 2
    for arrangement in ("plain", "residual", "norm", "residual_norm"):
        y = block.heads @ block.w_o + block.b_o + block.stream * arrangement.startswith("residual")
        if arrangement.endswith("norm"):
            y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True) * block.gain + block.bias
        out = y @ block.w_1
        np.testing.assert_allclose(fusion.before_nonlinearity(block, arrangement), out, atol=1e-12)
        rest = out[half:] - x[half:] @ np.linalg.pinv(x[:half]) @ out[:half]
        error = (rest**2).sum() / ((out[half:] - out[half:].mean(axis=0)) ** 2).sum()
        yield {**block.columns, "d": len(block.gain), "arrangement": arrangement, "error": error}


RUNS = [("a", 9), ("b", 3), ("ab", 4)]
SHAPES = {"stream": (31, 4), "heads": (31, 4), "w_o": (4, 4), "b_o": (4,), "gain": (4,), "bias": (4,)}
SHAPES["w_1"] = (4, 7)


def test_fusion_of_random_blocks_and_of_trained_ones(tmp_path, drawn):
    """The trained ones are of three runs, in which every tensor is drawn by itself."""
    rng, job = np.random.default_rng(0), planned(tmp_path, "measure/x")
    runs = [{"name": name, "seed": seed, "layers": 2} for name, seed in RUNS]
    given = {"settings": example(Fusion, d_model=[4, 6]).model_dump(), "seeds": [4, 6]}
    blocks, tensors = [random_block(*each) for each in product([4, 6], [4, 6])], {}
    for (name, seed), layer in product(RUNS, (1, 2)):
        arrays = {kind: rng.standard_normal(shape) for kind, shape in SHAPES.items()}
        tensors |= {f"{name}/layer_{layer}.{kind}": torch.from_numpy(arrays[kind]) for kind in SHAPES}
        columns = {"source": "language_model", "seed": seed, "layer": layer}
        blocks.append(fusion.AttentionBlock(**arrays, columns=columns))
    checkpoint.save(tensors, tmp_path / "samples", {"identity": job, "runs": runs})
    drawn.clear()
    plan, path = planned(tmp_path, "fusion", [job["job"]], **given), tmp_path / "samples"
    fusion.write(plan, [path], tmp_path / "rows")
    assert drawn == {Stream.FUSION.number: {4, 6}}
    expected = pd.DataFrame([row for block in blocks for row in by_least_squares(block)])
    assert_rows(read(tmp_path / "rows", "fusion", plan, Stream.FUSION), expected)
    planned(tmp_path, job["job"], runs=[1])
    with pytest.raises(ValueError, match="samples: a file of another run"):
        fusion.write(planned(tmp_path, "fusion", [job["job"]], **given), [path], tmp_path / "rows")


def test_placement(tmp_path, drawn):
    sizes = {"depths": [6, 7], "untrained_depths": [2], "d_model": 4, "heads": 2, "steps": 3}
    sizes |= {"context_length": 4, "vocabulary": 9, "learning_rates": [0.1]}
    settings, tokens = example(Placement, **sizes), np.random.default_rng(0).integers(11, size=500)
    text = prepared_text(tmp_path / "text", tokens, tokens[:20], contexts(("long", range(4))))
    out = {name: tmp_path / name for name in ("placement", "untrained_gradients", "position_probe")}
    seeds = {"seeds": [4, 6], "untrained_seeds": [5]}
    plan = planned(tmp_path, "placement/pre", settings=settings.model_dump(), placement="pre", **seeds)
    torch.set_num_threads(2)
    placement.write(plan, text.manifest, out)
    assert torch.get_num_threads() == 1, "processes share the cores"
    assert drawn == {Stream.PLACEMENT_BATCHES.number: {4, 5, 6}, Stream.POSITION_PROBE.number: {4}}
    tables = placement.measure(tokens, settings, plan)
    assert set(tables) == set(out) and set(tables["position_probe"].depth) == {6}
    streams = Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE
    for name, frame in tables.items():
        assert_rows(read(out[name], name, plan, *streams, with_torch=True), frame)
    of_another = {"content_hash": "x", "sha256": {"training.npy": "another"}, "seed": 1}
    files.write_text(text.manifest, json.dumps(of_another))
    with pytest.raises(ValueError, match=r"training\.npy: a file of another text"):
        placement.write(plan, text.manifest, out)


SETTINGS = example(Geometry, dimensions=[2, 3, 16], input_norms=[1e-6, 1.0, 1e4])


@pytest.fixture
def geometries(tmp_path, drawn):
    """The tables in the two files of a job, which drew from one stream for each."""
    plan = planned(tmp_path, "geometry", settings=SETTINGS.model_dump(), seed=4)
    geometry.write(plan, tmp_path / "rows", tmp_path / "cloud")
    assert drawn == {Stream.GEOMETRY.number: {4}, Stream.GEOMETRY_CLOUD.number: {4}}
    rows = read(tmp_path / "rows", "geometry", plan, Stream.GEOMETRY)
    return rows, read(tmp_path / "cloud", "geometry_cloud", plan, Stream.GEOMETRY_CLOUD)


def test_every_quantity_of_geometry_is_what_plain_formulas_give(geometries):
    """From the draws of each size: torch's LayerNorm, and h(g(f(x))) in numpy with eps inside the root and outside."""
    table, expected = geometries[0], {}
    for n in SETTINGS.dimensions:
        for norm, rank in (("layernorm", n - 1), ("rmsnorm", n)):
            shape = table[table.input_norm.isna() & (table.norm == norm) & (table.n == n)]
            zeros = dict.fromkeys(("centre_deviation", "axes_deviation", "axes_cosine"), 0)
            assert shape.set_index("quantity").value.to_dict() == pytest.approx(
                {"rank": rank, **zeros}, rel=0, abs=1e-12
            )
        rng = generator(Stream.GEOMETRY, 4, n)
        gain, bias = np.exp(0.5 * rng.standard_normal(n)), rng.standard_normal(n)
        rng.standard_normal((n + 8, n))  # the outputs that the shape is found from
        for length, eps in product(SETTINGS.input_norms, (1e-5, 1e-12)):
            x = rng.standard_normal((64, n))
            x = length * (x / np.linalg.norm(x, axis=1, keepdims=True))
            given = [torch.from_numpy(part) for part in (x, gain, bias)]
            theirs = torch.nn.functional.layer_norm(given[0], (n,), *given[1:], eps=eps).numpy()
            x = x - x.mean(axis=1, keepdims=True)
            square = np.mean(x**2, axis=1, keepdims=True)
            for place, divisor in (("inside", np.sqrt(square + eps)), ("outside", np.sqrt(square) + eps)):
                at = ("layernorm", n, place, eps, length)
                difference = np.abs(x / divisor * gain + bias - theirs).max()
                expected[*at, "difference_from_torch"] = difference
                expected[*at, "radius_mean"] = (np.sqrt(square) / divisor).mean()
                assert place == "outside" or difference < 1e-12
    columns = ["norm", "n", "eps_placement", "eps", "input_norm", "quantity"]
    found = table[table.input_norm.notna()].set_index(columns).value.to_dict()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=1e-6, abs=1e-12), key


def test_the_shape_is_computed_up_to_a_size_and_what_is_no_number_is_infinitely_large(monkeypatch):
    monkeypatch.setattr(geometry, "AXES_UP_TO", 3)
    found = geometry.measure(SETTINGS, seed=0)
    assert {*found[found.input_norm.isna()].n} == {2, 3} and {*found.n} == {2, 3, 16}
    largest = [geometry._largest(torch.tensor([1.0, x])) for x in (torch.nan, -torch.inf, -3)]
    assert largest == [torch.inf, torch.inf, 3]


def test_the_shape_deviates_where_outputs_do(monkeypatch):
    """A bias of a quarter too much, and a sphere twice as large, are seen."""
    rng = generator(Stream.GEOMETRY, 0, 16)
    gain = torch.from_numpy(np.exp(0.5 * rng.standard_normal(16)))
    shift = {"affine": lambda x, gain, bias: affine(x, gain, bias + 0.25)}
    for patches, name, known in ((shift, "centre", 0.25), ({"scale": lambda x: 2 * scale(x)}, "axes", 1)):
        with monkeypatch.context() as patch:
            for function, changed in patches.items():
                patch.setattr(geometry, function, changed)
            found = dict(geometry._shape("layernorm", gain, torch.zeros(16, dtype=gain.dtype), rng))
        assert found[f"{name}_deviation"] == pytest.approx(known)


def test_cloud_stages(geometries):
    drawn = generator(Stream.GEOMETRY_CLOUD, 4).standard_normal((400, 3))
    x = drawn * [1.2, 0.7, 0.5] + [0.6, 0.2, 0.4]
    known = {("layernorm", "x"): x, ("rmsnorm", "x"): x}
    known["layernorm", "f"] = x - x.mean(axis=1, keepdims=True)
    for norm, before in (("layernorm", "f"), ("rmsnorm", "x")):
        y = known[norm, before]
        known[norm, "g"] = y / np.sqrt((y**2).mean(axis=1, keepdims=True))
        known[norm, "h"] = known[norm, "g"] * (1.4, 0.9, 0.5)
    known["layernorm", "h"] = known["layernorm", "h"] + (0.6, -0.3, 0.8)
    cloud = geometries[1]
    assert cloud.groupby(["norm", "stage"]).ngroups == len(known)
    for key, points in known.items():
        found = cloud.set_index(["norm", "stage"]).loc[[key]]
        assert found.point.tolist() == list(range(400))
        np.testing.assert_allclose(found[["x1", "x2", "x3"]], points)
