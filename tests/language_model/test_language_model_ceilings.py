"""Ceilings of a GPT's keys, of runs that were trained, untrained and diverged."""

import hand_made as made
import numpy as np
import pandas as pd
import pytest
import torch

from layernorm_roles import store
from layernorm_roles.heads.ceilings import pairs
from layernorm_roles.language_model import measure
from layernorm_roles.schemas import AS_USED, CEILING_SHARES

N = 24
TOKENS = np.random.default_rng(5).integers(made.VOCABULARY, size=N)
SIZES = made.changed(made.GPT, layers=2, d_model=8, heads=2)


@pytest.fixture
def saved(tmp_path):
    """A run, and the files of its weights: untrained, and with random ones."""
    frame = made.contexts(("long", TOKENS), ("long", TOKENS[:20]), ("sentences", TOKENS[:9]))
    run = made.run_of(made.prepared_text(tmp_path / "text", range(100), range(100), frame), SIZES, seed=3)
    return run, made.save_weights(
        run, tmp_path, initial=run.build_model(), final=made.randomise(run.build_model())
    )


def test_the_table_has_both_checkpoints(saved, tmp_path):
    run, file = saved
    out = made.measured([run], file, tmp_path, "ceilings")
    assert not len(store.read(out["keys"], "key_selectability"))
    table = store.read(out["ceilings"], "language_model_ceilings")
    found = set(zip(table.model, table.variant, table.seed, table.context, strict=True))
    assert found == {("hand_made", "layernorm", 3, 0)}
    rows = table[table.layer.notna()].set_index(["checkpoint", "queries", "layer"])
    assert len(rows) == 2 * 3 * 2 and set(rows.pairs) == {2 * N} and set(table.dimensions) == {4}
    layers = made.randomise(run.build_model()).double().record(TOKENS.tolist())
    trained = pd.concat([pairs(layer, [AS_USED]).assign(context=0) for layer in layers])
    for (queries, layer), part in trained.groupby(["queries", "layer"]):
        counts = rows.loc["final", queries, layer].upper_below
        np.testing.assert_array_equal(counts, [(part.upper < share).sum() for share in CEILING_SHARES])


def test_a_run_that_diverged_has_its_untrained_rows_and_no_samples(saved, tmp_path, capsys):
    run, _ = saved
    network = run.build_model()
    torch.nn.init.constant_(network.tokens.weight, torch.inf)
    file = made.save_weights(run, tmp_path, initial=run.build_model(), final=network)
    out = made.measured([run], file, tmp_path, "ceilings", "keys")
    for kind in ("ceilings", "keys", "ones_share", "tokens"):
        assert set(store.read(out[kind], measure.TABLES[kind]).checkpoint) == {"initial"}
    assert "the run diverged" in capsys.readouterr().out
    says = r"seed_3 diverged, .* lower learning_rate of language_model.hand_made"
    with pytest.raises(ValueError, match=says):
        made.measured([run], file, tmp_path, "samples")
