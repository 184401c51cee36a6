"""Files of the statements: their rows are those of `measure`, and they say which settings and draws made them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from default_settings import example
from hand_made import contexts, prepared_text

from layernorm_roles import checkpoint, random_streams, store
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.statements import BatchDependence, Fusion, Geometry, Placement, ScoreScale
from layernorm_roles.statements import batch_dependence, fusion, geometry, placement, score_scale

IDENTITY = {"identity": {"run": 7}}
FACTS = {"variant": "none", "seed": 9, "layers": 1, "heads": 1, "contexts": 1} | IDENTITY


@pytest.fixture
def activations(tmp_path):
    """The file of a model's activations, and the identity of the run."""
    rng = np.random.default_rng(0)
    shapes = {"stream": (30, 2), "heads": (30, 3), "w_o": (3, 2), "b_o": (2,), "gain": (2,), "bias": (2,)}
    shapes |= {"w_1": (2, 4), "context_0.queries": (1, 5, 2), "context_0.keys": (1, 5, 2)}
    tensors = {
        f"layer_1.{name}": torch.from_numpy(rng.standard_normal(shape)) for name, shape in shapes.items()
    }
    checkpoint.save(tensors, tmp_path / "activations", FACTS)
    return tmp_path / "activations", {"run": 7}


def check(path, table, frame, config, *streams, with_torch=False):
    """That the file at `path` has the rows of `frame`, and says which settings, seeds and streams they are from."""
    origin = store.read_provenance(path)
    assert json.loads(origin["config"]) == json.loads(json.dumps(config))
    assert origin["seed_rule"] == random_streams.describe(streams, with_torch)
    found = store.read(path, table)
    plain = frame[found.columns].reset_index(drop=True).astype(object).fillna(0)
    pd.testing.assert_frame_equal(found.astype(object).fillna(0), plain, check_dtype=False)


def test_geometry_and_its_cloud(tmp_path, drawn):
    settings = example(Geometry, dimensions=[3], samples=2, cloud=4, input_norms=[1], dtypes=["float64"])
    geometry.write(settings, 4, tmp_path / "rows", tmp_path / "cloud")
    assert drawn == {Stream.GEOMETRY.number: {4}, Stream.GEOMETRY_CLOUD.number: {4}}
    config = settings.model_dump() | {"seed": 4}
    check(tmp_path / "rows", "geometry", geometry.measure(settings, 4), config, Stream.GEOMETRY)
    cloud = geometry.cloud(settings, 4)
    check(tmp_path / "cloud", "geometry_cloud", cloud, config, Stream.GEOMETRY_CLOUD)


def test_batch_dependence(tmp_path, drawn):
    sizes = {"d_model": 2, "tokens": 4, "batch_sizes": [1, 2], "updates": 1, "repeats": 1, "padding": [0.5]}
    settings = example(BatchDependence, **sizes)
    batch_dependence.write(settings, [4, 6], tmp_path / "rows")
    assert drawn == {Stream.BATCH_DEPENDENCE.number: {4, 6}}
    frame, config = batch_dependence.measure(settings, [4, 6]), settings.model_dump() | {"seeds": [4, 6]}
    check(tmp_path / "rows", "batch_dependence", frame, config, Stream.BATCH_DEPENDENCE)


def test_fusion_of_random_blocks_and_of_trained_ones(tmp_path, drawn, activations):
    settings = example(Fusion, d_model=[4], head_factors=[1], tokens_per_input=2)
    fusion.write(settings, [4, 6], [activations], tmp_path / "rows")
    assert drawn == {Stream.FUSION.number: {4, 6}}
    blocks = [*fusion.random_blocks(settings, [4, 6]), *fusion.trained_blocks(*activations)]
    config = settings.model_dump() | {"seeds": [4, 6]}
    check(tmp_path / "rows", "fusion", fusion.measure(blocks), config, Stream.FUSION)
    with pytest.raises(ValueError, match="of another run"):
        fusion.write(settings, [4], [(activations[0], {"run": 8})], tmp_path / "rows")


def test_score_scale_of_random_heads_and_of_both_kinds_of_trained_ones(tmp_path, drawn, activations):
    settings = example(ScoreScale, d_k=[2], keys=3)
    run = {"experiment": "d3", "variant": "scale", "seed": 2, "d_model": 2, "base_learning_rate": 0.1}
    vectors = [
        run | {"kind": kind, "token": i, "vector": [1.0, i]} for kind in ("key", "query") for i in (0, 1)
    ]
    vectors = pd.DataFrame(vectors).assign(checkpoint="final")
    store.write(vectors, "majority_vectors", tmp_path / "vectors", {})
    score_scale.write(settings, [4, 6], tmp_path / "vectors", "d3", [activations], tmp_path / "rows")
    assert drawn == {Stream.SCORE_SCALE.number: {4, 6}}
    heads = [*score_scale.random_heads(settings, [4, 6]), *score_scale.majority_heads(vectors, "d3")]
    frame = score_scale.measure([*heads, *score_scale.language_model_heads(*activations)])
    config = settings.model_dump() | {"seeds": [4, 6]}
    check(tmp_path / "rows", "score_scale", frame, config, Stream.SCORE_SCALE)
    with pytest.raises(ValueError, match="of another run"):
        score_scale.write(
            settings, [4], tmp_path / "vectors", "d3", [(activations[0], {"run": 8})], tmp_path / "rows"
        )


def test_placement(tmp_path, drawn):
    sizes = {
        "depths": [1, 2],
        "probe_up_to": 1,
        "untrained_depths": [2],
        "d_model": 4,
        "heads": 2,
        "steps": 3,
    }
    sizes |= {"context_length": 4, "batch_size": 2, "vocabulary": 9, "learning_rates": [0.1], "warmup": [2]}
    settings, tokens = example(Placement, **sizes), np.random.default_rng(0).integers(11, size=500)
    text = prepared_text(tmp_path / "text", tokens, tokens[:20], contexts(("long", range(4))))
    names = ("placement", "placement_gradients", "placement_scales", "untrained_gradients", "position_probe")
    out = {name: tmp_path / name for name in names}
    placement.write(settings, [4, 6], [5], "pre", text.tokens("training"), out)
    assert drawn == {Stream.PLACEMENT_BATCHES.number: {4, 5, 6}, Stream.POSITION_PROBE.number: {4}}
    tables = placement.measure(tokens, "pre", settings, [4, 6], [5])
    config = {"placement": "pre", "seeds": [4, 6], "untrained_seeds": [5], "settings": settings.model_dump()}
    for name, frame in tables.items():
        streams = Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE
        check(out[name], name, frame, config, *streams, with_torch=True)
