"""Key verdicts of whole models, against a linear programme and against geometry."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog
from test_models import SETTINGS, VOCABULARY, randomise
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from layernorm_roles.language_model import keys, model

TOKENIZER = Tokenizer(WordLevel({str(i): i for i in range(VOCABULARY)}, unk_token="0"))


def contexts(*lengths, texts="sentences"):
    rng = np.random.default_rng(0)
    rows = [(texts, i, 0, rng.integers(VOCABULARY, size=n)) for i, n in enumerate(lengths)]
    return pd.DataFrame(rows, columns=["texts", "context", "document", "tokens"])


def collect(variant, frame):
    network = randomise(model.build(SETTINGS, variant, variant, VOCABULARY, 0))
    return network, keys.collect(network, frame, TOKENIZER, model.scaled_sites(variant, variant))


def inside(points, i):
    """Is point i in the convex hull of the others? By linear programming."""
    others = np.delete(points, i, axis=0)
    scale = abs(points).max(axis=0)
    equal = np.vstack([(others / scale).T, np.ones(len(others))])
    return linprog(np.zeros(len(others)), A_eq=equal, b_eq=[*(points[i] / scale), 1]).status == 0


@pytest.mark.parametrize("variant", ["layernorm", "projection", "none"])
def test_verdicts_agree_with_a_linear_programme(variant):
    frame = contexts(40)
    network, verdicts = collect(variant, frame)
    layers = network.double().keys(torch.tensor(frame.tokens[0])[None])
    table = verdicts.selectability
    for row in table[~table.site.str.endswith("exact")].itertuples():
        at = layers[row.layer - 1]
        points = at.heads[0, row.head] if row.site == "head" else getattr(at, row.site)[0]
        assert row.n_unselectable == sum(inside(points.numpy(), i) for i in range(40))
        assert row.n_borderline == 0
        assert row.n_keys == 40


def test_rows_are_complete_and_say_which_site():
    _, verdicts = collect("layernorm_qk", contexts(30, 50))
    table = verdicts.selectability
    assert table.groupby(["context", "layer"]).site.value_counts().unstack().drop_duplicates().to_dict(
        "records"
    ) == [{"after_norm": 1, "after_norm_exact": 1, "before_norm": 1, "head": 4, "head_exact": 4}]
    assert table[table.site.str.startswith("head")]["head"].notna().all()
    assert table[~table.site.str.startswith("head")]["head"].isna().all()
    assert len(verdicts.tokens) == 4 * (30 + 50)
    assert set(verdicts.tokens.token) <= set(map(str, range(VOCABULARY)))


def test_scaled_keys_are_all_selectable_and_eps_matters():
    """On a sphere nothing is inside; a short key that eps shortens further is."""
    _, verdicts = collect("layernorm_qk", contexts(64))
    table = verdicts.selectability.groupby("site").n_unselectable.sum()
    assert table["after_norm_exact"] == 0
    assert table["head_exact"] == 0
    network = model.build({**SETTINGS, "query_key_eps": 1e-3}, "layernorm_qk", "layernorm_qk", VOCABULARY, 0)
    shrunk = keys.collect(network, contexts(64), TOKENIZER, ("head",)).selectability
    assert shrunk[shrunk.site == "head"].n_unselectable.sum() > 0
    assert shrunk[shrunk.site == "head_exact"].n_unselectable.sum() == 0


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (contexts(65, texts="long"), "context 0 of the long texts has 65 tokens; the model reads at most 64"),
        (
            contexts(9).assign(tokens=[np.full(9, VOCABULARY)]),
            f"has token {VOCABULARY}; the model knows {VOCABULARY}",
        ),
    ],
)
def test_contexts_that_do_not_fit_are_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        keys.refuse_misfits(frame, 64, VOCABULARY)
