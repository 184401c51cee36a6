"""The table of ceilings of a pretrained model, against the recorded attention itself."""

import numpy as np
import pytest
from test_recording import TOKENS

from layernorm_roles.pretrained import ceilings, recording
from layernorm_roles.pretrained.source import files_at


@pytest.fixture(scope="module")
def model(saved):
    """A function from the name of an architecture to its recording model."""
    return lambda architecture: recording.load(files_at(saved(architecture), "path"))


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_every_recorded_query_lies_in_the_ellipsoid_behind_the_norm(architecture, model):
    for layer in model(architecture).record(TOKENS):
        for head, queries in enumerate(layer.queries):
            behind = ceilings.queries_behind_norm(layer, head)
            inside = np.linalg.lstsq(behind.axes, (queries * layer.scaling - behind.centre).T, rcond=None)[0]
            np.testing.assert_allclose(
                behind.centre + inside.T @ behind.axes.T, queries * layer.scaling, atol=1e-9
            )
            assert (np.linalg.norm(inside, axis=0) <= 1 + 1e-9).all()


def test_a_rotary_embedding_gives_each_position_queries_of_its_own(model):
    assert ceilings.queries_behind_norm(model("llama").record(TOKENS)[0], 0) is None


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "llama"])
def test_no_key_receives_more_than_its_ceiling(architecture, model):
    network = model(architecture)
    words = {token: f"w{token}" for token in TOKENS}
    table = ceilings.table(network, {3: TOKENS}, "tiny", words)
    assert set(table.model) == {"tiny"} and set(table.context) == {3}
    assert list(table.token[: len(TOKENS)]) == [words[token] for token in TOKENS]
    used = table[table.normalised == "as used"]
    if not network.record(TOKENS)[
        0
    ].causal:  # the ceiling is among all keys, and a causal query sees some of them
        assert (used.received_max <= used.upper + 1e-9).all()
    keys = ["layer", "head", "position", "normalised"]
    wide = table.pivot(index=keys, columns="queries", values="upper")
    assert set(wide) == ({"any"} if architecture == "llama" else {"any", "norm"})
    if "norm" in wide:
        assert (wide["norm"] <= wide["any"] + 1e-9).all(), "fewer queries cannot do more"
    for layer in network.record(TOKENS):
        for head, weights in enumerate(layer.attention()):
            rows = used[(used.layer == layer.layer) & (used["head"] == head) & (used.queries == "any")]
            np.testing.assert_allclose(rows.received_max, weights.max(axis=0))
            seen = np.where(layer.visible, weights, np.nan)
            np.testing.assert_allclose(rows.received_mean, np.nanmean(seen, axis=0))
