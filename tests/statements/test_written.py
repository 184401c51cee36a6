"""Files of the statements: their rows are those of `measure`, and they say which plan and draws made them."""

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
from layernorm_roles.random_streams import Stream
from layernorm_roles.settings.statements import Fusion, Geometry, Placement
from layernorm_roles.statements import fusion, geometry, placement

RUNS = [("a", 9), ("b", 3), ("ab", 4)]
SHAPES = dict(stream=(30, 4), heads=(30, 4), w_o=(4, 4), b_o=(4,), gain=(4,), bias=(4,), w_1=(4, 7))


def check(path, table, frame, plan, *streams, with_torch=False):
    """That the file at `path` has the rows of `frame`, and says which plan and streams they are from."""
    origin = store.read_provenance(path)
    assert json.loads(origin["config"]) == plan
    assert origin["seed_rule"] == random_streams.describe(streams, with_torch)
    found = store.read(path, table)
    plain = frame[found.columns].reset_index(drop=True).astype(object).fillna(0)
    pd.testing.assert_frame_equal(found.astype(object).fillna(0), plain, check_dtype=False)


def test_geometry_and_its_cloud(tmp_path, drawn):
    settings = example(Geometry, dimensions=[3], input_norms=[1])
    plan = planned(tmp_path, "geometry", settings=settings.model_dump(), seed=4)
    geometry.write(plan, tmp_path / "rows", tmp_path / "cloud")
    assert drawn == {Stream.GEOMETRY.number: {4}, Stream.GEOMETRY_CLOUD.number: {4}}
    check(tmp_path / "rows", "geometry", geometry.measure(settings, 4), plan, Stream.GEOMETRY)
    check(tmp_path / "cloud", "geometry_cloud", geometry.cloud(4), plan, Stream.GEOMETRY_CLOUD)


def test_fusion_of_random_blocks_and_of_trained_ones(tmp_path, drawn):
    """The samples are of three runs; every tensor is drawn by itself."""
    job, path, rng = planned(tmp_path, "measure/x"), tmp_path / "samples", np.random.default_rng(0)
    given = {"settings": example(Fusion, d_model=[4]).model_dump(), "seeds": [4, 6]}
    tensors, blocks = {}, [*fusion.random_blocks([4], [4, 6])]
    for (name, seed), layer in product(RUNS, (1, 2)):
        arrays = {kind: rng.standard_normal(shape) for kind, shape in SHAPES.items()}
        tensors |= {f"{name}/layer_{layer}.{kind}": torch.from_numpy(array) for kind, array in arrays.items()}
        columns = {"source": "language_model", "seed": seed, "layer": layer}
        blocks.append(fusion.AttentionBlock(*arrays.values(), columns))
    runs = [{"name": name, "seed": seed, "layers": 2} for name, seed in RUNS]
    checkpoint.save(tensors, path, {"identity": job, "runs": runs})
    plan = planned(tmp_path, "fusion", [job["job"]], **given)
    drawn.clear()
    fusion.write(plan, [path], tmp_path / "rows")
    assert drawn == {Stream.FUSION.number: {4, 6}}
    check(tmp_path / "rows", "fusion", fusion.measure(blocks), plan, Stream.FUSION)
    planned(tmp_path, job["job"], runs=[1])
    with pytest.raises(ValueError, match="samples: a file of another run"):
        fusion.write(planned(tmp_path, "fusion", [job["job"]], **given), [path], tmp_path / "rows")


def test_placement(tmp_path, drawn):
    sizes = {"depths": [6, 7], "untrained_depths": [2], "d_model": 4, "heads": 2, "steps": 3}
    sizes |= {"context_length": 4, "vocabulary": 9, "learning_rates": [0.1]}
    settings, tokens = example(Placement, **sizes), np.random.default_rng(0).integers(11, size=500)
    text = prepared_text(tmp_path / "text", tokens, tokens[:20], contexts(("long", range(4))))
    names = ("placement", "untrained_gradients", "position_probe")
    out = {name: tmp_path / name for name in (*names, "origin")}
    seeds = {"seeds": [4, 6], "untrained_seeds": [5]}
    plan = planned(tmp_path, "placement/pre", settings=settings.model_dump(), placement="pre", **seeds)
    placement.write(plan, text.manifest, out)
    assert drawn == {Stream.PLACEMENT_BATCHES.number: {4, 5, 6}, Stream.POSITION_PROBE.number: {4}}
    tables = placement.measure(tokens, settings, plan)
    assert set(tables) == set(names) and set(tables["position_probe"].depth) == {6}
    for name, frame in tables.items():
        check(out[name], name, frame, plan, Stream.PLACEMENT_BATCHES, Stream.POSITION_PROBE, with_torch=True)
    of_another = {"content_hash": "x", "sha256": {"training.npy": "another"}, "seed": 1}
    files.write_text(text.manifest, json.dumps(of_another))
    with pytest.raises(ValueError, match=r"training\.npy: a file of another text"):
        placement.write(plan, text.manifest, out)
