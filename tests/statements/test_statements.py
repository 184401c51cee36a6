"""Small experiments once more by plain formulas in numpy, and what their files say of how they were made."""

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
from layernorm_roles.plan import hash_of
from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import BatchDependence, Fusion, Geometry, Placement, ScoreScale
from layernorm_roles.statements import fusion, geometry, measure, random_vectors

SMALL = {"depths": [2], "untrained_depths": [2], "d_model": 4, "heads": 2, "steps": 2, "context_length": 4}
PLACED = {"seeds": [4, 6], "untrained_seeds": [5], "placement": "post"}
STAGES = {
    "geometry": (example(Geometry, dimensions=[2, 3], input_norms=[1.0]), {"seed": 4}, {8: {4}, 9: {4}}),
    "fusion": (example(Fusion, d_model=[4]), {"seeds": [4]}, {10: {4}}),
    "batch_dependence": (example(BatchDependence, batch_sizes=[2], repeats=1), {"seeds": [4]}, {12: {4}}),
    "score_scale": (example(ScoreScale, d_k=[2]), {"seeds": [4]}, {13: {4}}),
    "placement": (example(Placement, **SMALL, vocabulary=9), PLACED, {11: {4, 5, 6}, 14: {4}}),
}
"""Settings, the rest of the plan, and the seeds that are drawn from each stream."""
FAULTS = {"placement": r"training\.npy: a file of another text", "fusion": "samples: a file of another run"}


def trained(folder, job, runs):
    """A file with the activations of two layers of each run (name, seed), and the blocks that it holds."""
    rng, tensors, blocks = np.random.default_rng(0), {}, []
    shapes = ((31, 4), (31, 4), (4, 4), 4, 4, 4, (4, 7))
    for (name, seed), layer in product(runs, (1, 2)):
        columns = {"source": "language_model", "seed": seed, "layer": layer}
        blocks.append(
            fusion.AttentionBlock(*(rng.standard_normal(shape) for shape in shapes), columns=columns)
        )
        for part, array in zip(blocks[-1]._fields, blocks[-1][:-1], strict=False):
            tensors[f"{name}/layer_{layer}.{part}"] = torch.from_numpy(array)
    facts = {"identity": job, "runs": [{"name": name, "seed": seed, "layers": 2} for name, seed in runs]}
    checkpoint.save(tensors, folder / "samples", facts)
    return folder / "samples", blocks


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_writes_its_tables_with_the_plan_and_the_draws_that_made_them(tmp_path, drawn, stage):
    settings, rest, seeds = STAGES[stage]
    tokens, job = np.random.default_rng(0).integers(11, size=500), planned("measure/x")
    text = prepared_text(tmp_path / "text", tokens, tokens[:20], contexts(("long", range(4))))
    inputs = {"manifest": text.manifest, "samples": [trained(tmp_path, job, [("a", 9)])[0]]}
    parameters = {"stage": stage, "settings": settings.model_dump(), **rest}
    plan = planned("job", job, **parameters)
    expected = measure.tables(plan, inputs)
    out = {name: tmp_path / name for name in expected}
    drawn.clear()
    torch.set_num_threads(2)
    measure.write(plan, inputs, out)
    assert torch.get_num_threads() == 1 and drawn == seeds
    streams = tuple(stream for stream in Stream if stream.number in seeds)
    for name, frame in expected.items():
        made, found = store.read_provenance(out[name]), store.read(out[name], name)
        assert json.loads(made["config"]) == plan
        assert made["seed_rule"] == random_streams.describe(streams, torch=stage == "placement")
        pd.testing.assert_frame_equal(found, frame[found.columns], check_dtype=False)
    if stage in FAULTS:
        of_another = {"content_hash": "x", "sha256": {"training.npy": "another"}, "seed": 1}
        files.write_text(text.manifest, json.dumps(of_another))
        other = planned("job", planned("measure/x", runs=[1]), **parameters)
        with pytest.raises(ValueError, match=FAULTS[stage]):
            measure.write(other, inputs, out)


@pytest.mark.parametrize(("norm", "axes"), [("layernorm", 2), ("batchnorm", (0, 1))])
def test_batch_dependence_is_the_mean_change_over_the_draws(norm, axes):
    def normed(x):
        deviations = x - x.mean(axis=axes, keepdims=True)
        return (deviations / np.sqrt((deviations**2).mean(axis=axes, keepdims=True) + 1e-5))[0, 0]

    rng, expected = generator(Stream.BATCH_DEPENDENCE, 4, 3), []
    for first, second in (rng.standard_normal((2, 3, 16, 64)) for _ in range(2)):
        moves = [normed(np.concatenate([first[:1], second[1:]])) - normed(first)]
        for real in (12, 8, 4):  # tokens of a sequence of 16 before its padding
            moves.append(normed(first * (np.arange(16) < real)[:, None]) - normed(first[:, :real]))
        expected.append([np.sqrt(np.mean(move**2)) for move in moves])
    settings = example(BatchDependence, batch_sizes=[1, 3], repeats=2)
    found = random_vectors.batch_dependence(settings, [4]).query(f"norm == '{norm}'")
    assert found[found.batch_size == 1].padding.tolist() == [0.25, 0.5, 0.75], "one sequence has no others"
    assert found[found.batch_size == 3].padding.tolist() == [0, 0.25, 0.5, 0.75]
    assert found[found.batch_size == 3].change.to_list() == pytest.approx(
        np.mean(expected, axis=0), abs=1e-12
    )
    assert norm == "batchnorm" or (found.change == 0).all(), "independent of the batch, to the last bit"


def test_score_scale_is_computed_query_by_query():
    found = random_vectors.score_scale(example(ScoreScale, d_k=[2, 3]), [6, 8])
    places = product(("normal", "normal_mean_1"), (2, 3), (6, 8), (False, True))
    for row, (source, d, seed, divided) in zip(found.itertuples(index=False, name=None), places, strict=True):
        drawn = generator(Stream.SCORE_SCALE, seed, d).standard_normal((2, 128, d))
        queries, keys = drawn + (source != "normal")
        scores = np.array([keys @ q for q in queries]) / d ** (0.5 * divided)
        weights = [np.exp(s) / np.exp(s).sum() for s in scores]
        entropy = np.mean([-(p * np.log(p)).sum() for p in weights]) / np.log(128)
        gradient = np.mean([(p * (1 - p)).sum() for p in weights])
        known = [source, seed, d, divided, scores.mean(), scores.std(), entropy, gradient]
        assert row[:4] == tuple(known[:4]) and row[4:] == pytest.approx(known[4:], rel=1e-9)


def test_fusion_of_trained_blocks_is_least_squares_on_the_first_half_of_the_tokens(tmp_path):
    job, rows = planned("measure/x"), []
    path, blocks = trained(tmp_path, job, [("a", 9), ("b", 3), ("ab", 4)])
    for block, kind in product(blocks, ("plain", "residual", "norm", "residual_norm")):
        x, y = np.column_stack([block.heads, np.ones(31)]), block.heads @ block.w_o + block.b_o
        y = y + block.stream * kind.startswith("residual")
        if kind.endswith("norm"):
            y = (y - y.mean(axis=1, keepdims=True)) / y.std(axis=1, keepdims=True) * block.gain + block.bias
        y = y @ block.w_1
        rest = y[15:] - x[15:] @ np.linalg.pinv(x[:15]) @ y[:15]
        error = (rest**2).sum() / ((y[15:] - y[15:].mean(axis=0)) ** 2).sum()
        rows.append({**block.columns, "d": 4, "arrangement": kind, "error": error})
    found = fusion.measure(fusion.trained_blocks([(path, hash_of(job))]))
    pd.testing.assert_frame_equal(found, pd.DataFrame(rows))


def test_a_random_block_misses_what_is_independent_of_the_heads():
    """A residual as large as what attention adds: one half, and a little more for what is fitted to noise."""
    blocks = [*fusion.random_blocks([8, 64], [4, 6])]
    assert [(len(b.gain), b.columns["seed"]) for b in blocks] == [(8, 4), (8, 6), (64, 4), (64, 6)]
    wide = blocks[-1]
    sizes = {"stream": 1, "heads": 1, "w_o": 1 / 64, "w_1": 1 / 64}
    assert {name: getattr(wide, name).var() for name in sizes} == pytest.approx(sizes, rel=0.1)
    found = fusion.measure([wide]).set_index("arrangement").error
    assert found["plain"] < 1e-20 and found["residual"] == pytest.approx(0.5 * (1 + 1 / 16), abs=0.02)


SETTINGS = example(Geometry, dimensions=[2, 3, 16], input_norms=[1e-6, 1.0, 1e4])


def test_every_quantity_of_geometry_is_what_plain_formulas_give():
    """From the draws of each size: torch's LayerNorm, and h(g(f(x))) in numpy with eps inside the root and outside."""
    table, expected = geometry.measure(SETTINGS, 4), {}
    for n in SETTINGS.dimensions:
        for norm, rank in (("layernorm", n - 1), ("rmsnorm", n)):
            shape = table[table.input_norm.isna() & (table.norm == norm) & (table.n == n)]
            zeros = dict.fromkeys(("centre_deviation", "axes_deviation", "axes_cosine"), 0)
            found = shape.set_index("quantity").value.to_dict()
            assert found == pytest.approx({"rank": rank, **zeros}, rel=0, abs=1e-12)
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
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_shape_deviates_where_outputs_do_and_what_is_no_number_is_infinitely_large(monkeypatch):
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
    largest = [geometry._largest(torch.tensor([1.0, x])) for x in (torch.nan, -torch.inf, -3)]
    assert largest == [torch.inf, torch.inf, 3]


def test_the_shape_is_computed_up_to_a_size(monkeypatch):
    monkeypatch.setattr(geometry, "AXES_UP_TO", 3)
    found = geometry.measure(SETTINGS, seed=0)
    assert {*found[found.input_norm.isna()].n} == {2, 3} and {*found.n} == {2, 3, 16}


def test_the_cloud_is_where_each_step_moves_it():
    drawn = generator(Stream.GEOMETRY_CLOUD, 4).standard_normal((400, 3))
    x, known = drawn * [1.2, 0.7, 0.5] + [0.6, 0.2, 0.4], {}
    for norm, f, bias in (
        ("layernorm", x - x.mean(axis=1, keepdims=True), (0.6, -0.3, 0.8)),
        ("rmsnorm", x, 0),
    ):
        g = f / np.sqrt((f**2).mean(axis=1, keepdims=True))
        steps = {"x": x, "f": f, "g": g, "h": g * (1.4, 0.9, 0.5) + bias}
        known |= {(norm, step): points for step, points in steps.items() if (norm, step) != ("rmsnorm", "f")}
    cloud = geometry.cloud(4).set_index(["norm", "stage"])
    assert {*cloud.index} == {*known}
    for key, points in known.items():
        assert cloud.loc[[key]].point.tolist() == list(range(400))
        np.testing.assert_allclose(cloud.loc[[key], ["x1", "x2", "x3"]], points)
