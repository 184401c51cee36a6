"""Ceilings of a GPT's keys, against a search over the inputs of the norm itself."""

import runpy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from default_settings import ROOT
from hand_made import (
    GPT,
    VOCABULARY,
    changed,
    contexts,
    prepared_text,
    randomise,
    run_of,
    save_weights,
    snakemake,
)
from scipy.optimize import minimize

from layernorm_roles import norms, store
from layernorm_roles.heads.ceilings import pairs
from layernorm_roles.language_model import ceilings, model
from layernorm_roles.random_streams import Stream, describe
from layernorm_roles.schemas import AS_USED, CEILING_SHARES

N = 24
TOKENS = np.random.default_rng(5).integers(VOCABULARY, size=N)
SIZES = changed(GPT, layers=2, d_model=8, heads=2)


def network_of(variant):
    return randomise(model.build(SIZES, variant, variant, VOCABULARY, 0)).double()


def table_of(variant):
    return pairs(network_of(variant), {0: TOKENS.tolist()}, [AS_USED], "ceilings")


def of_head(table, layer, head, queries):
    rows = table[(table.layer == layer) & (table["head"] == head) & (table.queries == queries)]
    return rows.sort_values("position")


@torch.no_grad()
def queries_and_keys(network, number, head):
    """Queries as used in scores, and keys, by hand: the weights times the norm of the stream."""
    x = network.embed(torch.tensor(TOKENS)[None])
    for layer in network.layers[: number - 1]:
        x = layer(x)
    layer = network.layers[number - 1]
    w_q, w_k, _ = layer.attention.qkv.weight.split(8)
    at = slice(4 * head, 4 * head + 4)
    y = layer.norm(x)[0]
    return (y @ w_q[at].T / 2).numpy(), (y @ w_k[at].T).numpy()


def test_ceilings_behind_the_norm_are_the_best_of_all_inputs():
    """The search runs over what the norm is given, and knows of no ellipsoid."""
    network, table = network_of("layernorm"), table_of("layernorm")
    w_q = network.layers[1].attention.qkv.weight[4:8].detach()
    _, keys = (torch.from_numpy(part) for part in queries_and_keys(network, 2, 1))
    rows = of_head(table, 2, 1, "norm").set_index("position")

    def loss(x, i):
        x = torch.tensor(x, requires_grad=True)
        value = -F.log_softmax(keys @ (w_q @ norms.build("layernorm", 8)(x)) / 2, dim=0)[i]
        value.backward()
        return value.item(), x.grad.numpy()

    rng = np.random.default_rng(1)
    for i in (0, 7, 13, 22):
        starts = rng.standard_normal((8, 8))
        best = np.exp(-min(minimize(loss, x, args=(i,), jac=True, method="BFGS").fun for x in starts))
        assert rows.lower[i] * (1 - 1e-4) <= best <= rows.upper[i] * (1 + 1e-9)


def test_received_is_the_attention_of_the_model():
    network, table = network_of("layernorm"), table_of("layernorm")
    queries, keys = queries_and_keys(network, 2, 0)
    scores = torch.from_numpy(queries @ keys.T).masked_fill(torch.ones(N, N).triu(1).bool(), -torch.inf)
    weights = scores.softmax(dim=1).numpy()
    rows = of_head(table, 2, 0, "norm")
    np.testing.assert_allclose(rows.received_max, weights.max(axis=0))
    # The last query sees all keys, so it cannot exceed their ceilings.
    assert (weights[-1] <= rows.upper * (1 + 1e-9)).all()


def test_without_scaling_no_query_is_out_of_reach():
    assert set(table_of("projection").queries) == {"any"}


@pytest.fixture
def saved(tmp_path):
    """A run, and the files of its weights: untrained, and with random ones."""
    frame = contexts(("long", TOKENS), ("long", TOKENS[:20]), ("sentences", TOKENS[:9]))
    run = run_of(prepared_text(tmp_path / "text", range(100), range(100), frame), SIZES, seed=3)
    return run, save_weights(run, tmp_path, initial=run.build_model(), final=randomise(run.build_model()))


def test_the_rule_s_script_writes_both_checkpoints(saved, tmp_path):
    run, files = saved
    out = tmp_path / "ceilings.parquet"
    inputs = {name: [str(path)] for name, path in files.items()}
    parts = {"input": inputs, "output": {"ceilings": [str(out)]}, "params": {"contexts": 1}}
    job = snakemake([run], tmp_path / "log", **parts)
    runpy.run_path(str(ROOT / "workflow/scripts/measure_ceilings.py"), {"snakemake": job})
    table = store.read(out, "language_model_ceilings", run.identity)
    assert set(zip(table.model, table.variant, table.seed, table.context, strict=True)) == {
        ("hand_made", "layernorm", 3, 0)
    }
    rows = table[table.layer.notna()].set_index(["checkpoint", "queries", "layer"])
    assert len(rows) == 2 * 3 * 2 and set(rows.pairs) == {2 * N} and set(table.dimensions) == {4}
    rule = store.read_provenance(out)["seed_rule"]
    assert rule == describe((Stream.LANGUAGE_MODEL_BATCHES, Stream.TEXT_SELECTION), torch=True)
    trained = table_of("layernorm")
    for (queries, layer), part in trained.groupby(["queries", "layer"]):
        counts = rows.loc["final", queries, layer].upper_below
        np.testing.assert_array_equal(counts, [(part.upper < share).sum() for share in CEILING_SHARES])


def test_a_run_that_diverged_has_its_untrained_rows(saved, tmp_path, capsys):
    run, files = saved
    network = run.build_model()
    torch.nn.init.constant_(network.tokens.weight, torch.inf)
    save_weights(run, tmp_path, final=network)
    ceilings.measure_run(run, files, tmp_path / "out.parquet", 1, 1)
    table = store.read(tmp_path / "out.parquet", "language_model_ceilings")
    assert set(table.checkpoint) == {"initial"} and "the run diverged" in capsys.readouterr().out


def test_without_attention_the_width_of_heads_makes_no_difference():
    """Claims take the model without attention of one width as the baseline of all."""
    wide, narrow = (
        model.build(changed(SIZES, heads=heads), "no_attention", "none", VOCABULARY, 4) for heads in (2, 8)
    )
    assert wide.state_dict().keys() == narrow.state_dict().keys()
    for one, other in zip(wide.state_dict().values(), narrow.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    tokens = torch.tensor(TOKENS)[None]
    assert torch.equal(wide.eval()(tokens), narrow.eval()(tokens))
