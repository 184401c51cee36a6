"""Verdicts of keys: of hand-made keys, and of whole runs with weights set by hand."""

import runpy

import numpy as np
import pytest
import torch
from default_settings import ROOT
from hand_made import (
    GPT,
    SMALL_BERT,
    VOCABULARY,
    changed,
    contexts,
    prepared_text,
    randomise,
    run_of,
    save_weights,
    snakemake,
    tokenizer,
)
from torch import nn

from layernorm_roles import store
from layernorm_roles.heads.layer import Layer
from layernorm_roles.language_model import keys, model, tasks
from layernorm_roles.language_model.runs import refuse_misfits
from layernorm_roles.random_streams import Stream, describe

TOKENS = np.random.default_rng(0).integers(VOCABULARY, size=200)


def collect(variant, frame):
    network = randomise(model.build(GPT, variant, variant, VOCABULARY, 0))
    return network, keys.collect(network, frame, tokenizer(), keys.sites_of(variant, variant, "gpt"))


def test_scaled_keys_are_all_selectable_and_eps_matters():
    """On a sphere no key is inside; a short key that eps shortens further is."""
    frame = contexts(("sentences", TOKENS[:64]))
    _, verdicts = collect("layernorm_qk", frame)
    table = verdicts.selectability.groupby("site").n_unselectable.sum()
    assert table["after_norm_exact"] == 0
    assert table["head_exact"] == 0
    settings = changed(GPT, query_key_eps=1e-3)
    network = model.build(settings, "layernorm_qk", "layernorm_qk", VOCABULARY, 0)
    shrunk = keys.collect(network, frame, tokenizer(), ("head", "head_exact")).selectability
    assert shrunk[shrunk.site == "head"].n_unselectable.sum() > 0
    assert shrunk[shrunk.site == "head_exact"].n_unselectable.sum() == 0


SCALED = dict.fromkeys(("layernorm", "scale", "projected_qk", "projected_v"), ("after_norm_exact",))
SCALED |= {"layernorm_qk": ("after_norm_exact", "head_exact")}
SCALED |= dict.fromkeys(("projection", "none", "layernorm_affine", "own.module:Norm"), ())


@pytest.mark.parametrize(("variant", "sites"), SCALED.items())
def test_where_keys_come_out_of_a_scaling(variant, sites):
    first = ("before_norm", "after_norm", "head")
    assert keys.sites_of(variant, variant, "gpt") == (*first, *sites)
    assert keys.sites_of(variant, variant, "bert") == first


INTERIOR = {
    ("before_norm", 1): [4],
    ("after_norm", 1): [1, 5],
    ("head", 1, 0): [1, 2, 3],
    ("head", 1, 1): [1, 3, 5, 6],
    ("before_norm", 2): [1, 2, 4, 5, 6],
    ("after_norm", 2): [3, 5, 6],
    ("head", 2, 0): [],
    ("head", 2, 1): [2, 6],
}
"""The keys of a hand-made model that lie within the hull of the others: site, layer and head, and the keys."""


class HandMade(nn.Module):
    """A model of two layers with two heads whose nine keys are known; the number of a token is that of its key.

    The keys lie on a circle, but for those of INTERIOR, which lie near its centre. Key 8 lies outside the chord
    between its neighbours by so little that only float64 can tell. Dropout comes after the keys.
    """

    def __init__(self):
        super().__init__()
        self.dropout, self.one = nn.Dropout(0.5), nn.Parameter(torch.ones(()))

    def place(self, ids, *place):
        """The keys (n, 2) of the tokens at one place of the model."""
        angles = torch.arange(9).double() * 2 * torch.pi / 9
        found = torch.stack([angles.cos(), angles.sin()], dim=1)
        found[8] = (0.5 + 1e-7) * (found[7] + found[0])
        found[INTERIOR[place]] *= 0.1
        return self.dropout(found.to(self.one.dtype)[ids] * self.one)

    @torch.no_grad()
    def record(self, tokens):
        ids = torch.tensor([tokens])
        heads = {n: [self.place(ids[0], "head", n, head).numpy() for head in (0, 1)] for n in (1, 2)}
        return [
            Layer(
                layer=layer,
                queries=np.stack(heads[layer]),
                keys=np.stack(heads[layer]),
                scaling=1.0,
                visible=np.ones((len(tokens), len(tokens)), bool),
                before_norm=self.place(ids[0], "before_norm", layer).numpy(),
                attention_input=self.place(ids[0], "after_norm", layer).numpy(),
                norm=None,
                query_projection=None,
                key_projection=None,
            )
            for layer in (1, 2)
        ]


SITES = ("before_norm", "after_norm", "head")


def test_hand_made_keys_have_the_verdicts_of_their_places():
    order = [3, 8, 0, 5, 1, 7, 2, 6, 4]
    frame = contexts(("long", range(9)), ("sentences", order))
    verdicts = keys.collect(HandMade().train(), frame, tokenizer(), SITES)
    table = verdicts.selectability
    assert len(table) == 2 * len(INTERIOR)
    for row in table.itertuples():
        place = (row.site, row.layer) if row.site != "head" else (row.site, row.layer, row.head)
        assert row.n_unselectable == len(INTERIOR[place]), place
        assert row.n_borderline == 0
    tokens = verdicts.tokens
    assert set(tokens.context) == {0}
    for layer, part in tokens.groupby("layer"):
        inner = INTERIOR["after_norm", layer]
        assert part.position.tolist() == list(range(9))
        assert part.token.tolist() == [f"w{i}" for i in order]
        assert part.verdict.tolist() == ["unselectable" if i in inner else "selectable" for i in order]


def test_what_the_model_reads_first_is_part_of_its_keys():
    """BERT's class token has the number that follows the tokenizer's entries."""
    frame = contexts(("sentences", range(8)))
    table, tokens = keys.collect(HandMade(), frame, tokenizer(8), SITES, prefix=(8,))
    assert set(table.n_keys) == {9}
    for _, part in tokens.groupby("layer"):
        assert part.token.tolist() == ["[CLS]", *(f"w{i}" for i in range(8))]


STREAM = range(100)
SENTENCE = [0, 3, 1, 4, 2, 5]


def set_by_hand(network, embedding):
    """A GPT whose residual stream stays the embedding in all layers, with known keys in every head.

    The tokens' vectors are (x, y, 0, ...). The heads' keys are (x, y), (x, 0), (0, 0) and (y, 100 x).
    """
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.tokens.weight[: len(embedding), :2] = torch.tensor(embedding)
        for layer in network.layers:
            w_k = layer.attention.qkv.weight[8:16]
            w_k[0, 0], w_k[1, 1], w_k[2, 0], w_k[6, 1], w_k[7, 0] = 1, 1, 1, 1, 100
    return network


@pytest.fixture
def weights(tmp_path):
    """A run and its weights before and after training, set by hand.

    Before, the six tokens are corners of a hexagon; after, tokens 4 and 5 lie in the rectangle of the others.
    """
    frame = contexts(("long", SENTENCE), ("sentences", SENTENCE))
    run = run_of(prepared_text(tmp_path / "text", STREAM, STREAM, frame), variant="none", seed=7)
    hexagon = [(2, 0.1), (1, 2), (-1, 2.1), (-2.2, 0), (-1, -2), (1.3, -2)]
    collapsed = [(2, 1.5), (-2, 1), (-2.2, -1), (2.4, -1), (0.3, 0.2), (-0.2, 0.1)]
    initial, final = (set_by_hand(run.build_model(), embedding) for embedding in (hexagon, collapsed))
    return run, save_weights(run, tmp_path, initial=initial, final=final)


def test_the_rules_script_writes_the_known_tables_of_a_run_with_weights_set_by_hand(weights, tmp_path):
    run, files = weights
    out = {name: str(tmp_path / f"{name}.parquet") for name in ("verdicts", "tokens", "ones_share")}
    inputs = {name: [str(path)] for name, path in files.items()}
    outputs = {name: [path] for name, path in out.items()}
    job = snakemake([run], tmp_path / "log", input=inputs, output=outputs)
    runpy.run_path(str(ROOT / "workflow/scripts/collect_keys.py"), {"snakemake": job})
    table = store.read(out["verdicts"], "key_selectability")
    assert set(zip(table.model, table.variant, table.seed, strict=True)) == {("hand_made", "none", 7)}
    expected = {}
    # On a line all but the two ends are unselectable; of equal keys every one is. Among the keys up to its own position
    # a key on a line is selectable if it lies beyond those before it, and the first of equal keys has no rival.
    for name, inner, beyond in (("initial", 0, 2), ("final", 2, 4)):
        expected |= {(name, "before_norm", None, False): inner, (name, "after_norm", None, False): inner}
        for head, number in enumerate((inner, 4, 6, inner)):
            expected[name, "head", head, False] = number
        for head, number in enumerate((inner, 6 - beyond, 5, inner)):
            expected[name, "head", head, True] = number
    assert len(table) == 2 * 2 * len(expected)  # texts, layers
    for row in table.itertuples():
        head = None if row.site != "head" else int(row.head)
        assert row.n_unselectable == expected[row.checkpoint, row.site, head, row.causal], row
        assert row.n_keys == 6
    tokens = store.read(out["tokens"], "sentence_tokens")
    for (name, _), part in tokens.groupby(["checkpoint", "layer"]):
        assert part.token.tolist() == [f"w{i}" for i in SENTENCE]
        unselectable = part.token[part.verdict == "unselectable"].tolist()
        assert unselectable == {"initial": [], "final": ["w4", "w5"]}[name]
    assert tokens.groupby(["checkpoint", "layer"]).ngroups == 4
    for path in out.values():
        rule = store.read_provenance(path)["seed_rule"]
        assert rule == describe((Stream.LANGUAGE_MODEL_BATCHES, Stream.TEXT_SELECTION), torch=True)


def test_a_token_that_the_model_does_not_know_is_refused():
    with pytest.raises(ValueError, match=r"context 1 of the sentences texts has token 300; .* knows 300"):
        refuse_misfits(contexts(("sentences", TOKENS[:9]), ("sentences", [300])), 64, VOCABULARY)


def test_keys_are_those_of_texts_as_training_reads_them(text):
    run = run_of(text, SMALL_BERT)
    tokens, _, _ = tasks.build(run.settings, text, run.tokenizer, seed=0).batch(0)
    assert run.prefix == tuple(tokens[0, :1])
    assert run_of(text).prefix == ()


def test_bert_reads_sentences_alone_with_room_for_the_class_token(text):
    frame = run_of(text, SMALL_BERT).contexts()
    assert set(frame.texts) == {"sentences"}
    with pytest.raises(ValueError, match="has 16 tokens; the model reads at most 15"):
        run_of(text, changed(SMALL_BERT, context_length=16)).contexts()
