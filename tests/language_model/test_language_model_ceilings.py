"""Ceilings of a GPT's keys, against a search over the inputs of the norm itself."""

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hand_made import (
    GPT,
    VOCABULARY,
    changed,
    contexts,
    measured,
    prepared_text,
    randomise,
    run_of,
    save_weights,
)
from scipy.optimize import minimize

from layernorm_roles import norms, store
from layernorm_roles.heads.ceilings import pairs
from layernorm_roles.language_model import measure, model
from layernorm_roles.schemas import AS_USED, CEILING_SHARES

N = 24
TOKENS = np.random.default_rng(5).integers(VOCABULARY, size=N)
SIZES = changed(GPT, layers=2, d_model=8, heads=2)


def network_of(variant):
    return randomise(model.build(SIZES, variant, variant, VOCABULARY, 0)).double()


def table_of(variant):
    layers = network_of(variant).record(TOKENS.tolist())
    return pd.concat([pairs(layer, [AS_USED]).assign(context=0) for layer in layers])


def test_ceilings_behind_the_norm_are_the_best_of_all_inputs():
    """The search runs over what the norm is given and knows of no ellipsoid; without scaling any query is in reach."""
    assert set(table_of("projection").queries) == {"any"}
    network, table = network_of("layernorm"), table_of("layernorm")
    w_q = network.layers[1].attention.qkv.weight[4:8].detach()
    keys = torch.from_numpy(network.record(TOKENS.tolist())[1].keys[1])
    rows = table[(table.layer == 2) & (table["head"] == 1) & (table.queries == "norm")].set_index("position")

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


@pytest.fixture
def saved(tmp_path):
    """A run, and the files of its weights: untrained, and with random ones."""
    frame = contexts(("long", TOKENS), ("long", TOKENS[:20]), ("sentences", TOKENS[:9]))
    run = run_of(prepared_text(tmp_path / "text", range(100), range(100), frame), SIZES, seed=3)
    return run, save_weights(run, tmp_path, initial=run.build_model(), final=randomise(run.build_model()))


def test_the_table_has_both_checkpoints(saved, tmp_path):
    run, file = saved
    out = measured([run], file, tmp_path, "ceilings")
    assert not len(store.read(out["keys"], "key_selectability"))
    table = store.read(out["ceilings"], "language_model_ceilings")
    found = set(zip(table.model, table.variant, table.seed, table.context, strict=True))
    assert found == {("hand_made", "layernorm", 3, 0)}
    rows = table[table.layer.notna()].set_index(["checkpoint", "queries", "layer"])
    assert len(rows) == 2 * 3 * 2 and set(rows.pairs) == {2 * N} and set(table.dimensions) == {4}
    trained = table_of("layernorm")
    for (queries, layer), part in trained.groupby(["queries", "layer"]):
        counts = rows.loc["final", queries, layer].upper_below
        np.testing.assert_array_equal(counts, [(part.upper < share).sum() for share in CEILING_SHARES])


def test_a_run_that_diverged_has_its_untrained_rows_and_no_samples(saved, tmp_path, capsys):
    run, _ = saved
    network = run.build_model()
    torch.nn.init.constant_(network.tokens.weight, torch.inf)
    file = save_weights(run, tmp_path, initial=run.build_model(), final=network)
    out = measured([run], file, tmp_path, "ceilings", "keys")
    for kind in ("ceilings", "keys", "ones_share", "tokens"):
        assert set(store.read(out[kind], measure.TABLES[kind]).checkpoint) == {"initial"}
    assert "the run diverged" in capsys.readouterr().out
    says = r"seed_3 diverged, .* lower learning_rate of language_model.hand_made"
    with pytest.raises(ValueError, match=says):
        measured([run], file, tmp_path, "samples")
