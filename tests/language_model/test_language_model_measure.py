"""What is measured of runs: verdicts on keys, ceilings and samples, of weights that are set by hand or random."""

from dataclasses import replace

import hand_made as made
import numpy as np
import pandas as pd
import pytest
import torch

from layernorm_roles import checkpoint, store
from layernorm_roles.heads.ceilings import pairs
from layernorm_roles.language_model import measure, model, tasks
from layernorm_roles.random_streams import Stream, describe
from layernorm_roles.schemas import AS_USED, CEILING_SHARES

TOKENS = np.random.default_rng(0).integers(made.VOCABULARY, size=200)


def test_scaled_keys_are_all_selectable_and_eps_matters():
    """On a sphere no key is inside; a short key that eps shortens further is."""
    frame, qk = made.contexts(("sentences", TOKENS[:64])), "layernorm_qk"
    random = made.randomise(model.build(made.GPT, qk, qk, made.VOCABULARY, 0))
    shrunk = model.build(made.changed(made.GPT, query_key_eps=1e-3), qk, qk, made.VOCABULARY, 0).eval()
    exact, found = (
        measure.heads(network.double(), frame, made.tokenizer(), made.SMALL_GPT.sites(qk, qk))["keys"]
        for network in (random, shrunk)
    )
    assert {"after_norm_exact", "head_exact"} < set(exact.site)
    exact, found = (table.groupby("site").n_unselectable.sum() for table in (exact, found))
    assert exact["after_norm_exact"] == exact["head_exact"] == found["head_exact"] == 0 < found["head"]


STREAM = range(100)
SENTENCE = [0, 3, 1, 4, 2, 5]


def set_by_hand(network, embedding):
    """A GPT whose stream stays the embedding (x, y, 0, ...); heads have keys (x, y), (x, 0), (0, 0), (y, 100 x)."""
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
    """A run: first the six tokens are corners of a hexagon, then 4 and 5 lie in the rectangle of the others."""
    frame = made.contexts(("long", SENTENCE), ("sentences", SENTENCE))
    run = made.run_of(made.prepared_text(tmp_path / "text", STREAM, STREAM, frame), variant="none", seed=7)
    hexagon = [(2, 0.1), (1, 2), (-1, 2.1), (-2.2, 0), (-1, -2), (1.3, -2)]
    collapsed = [(2, 1.5), (-2, 1), (-2.2, -1), (2.4, -1), (0.3, 0.2), (-0.2, 0.1)]
    initial, final = (set_by_hand(run.build_model(), embedding) for embedding in (hexagon, collapsed))
    return run, made.save_weights(run, tmp_path, initial=initial, final=final)


def test_the_known_tables_of_a_run_with_weights_set_by_hand(weights, tmp_path):
    run, file = weights
    torch.set_num_threads(2)
    out = made.measured([run], file, tmp_path, "keys")
    assert torch.get_num_threads() == 1, "as many as are given"
    table = store.read(out["keys"], "key_selectability")
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
        assert part.token.tolist() == [f"w{i}" for i in SENTENCE] and part.position.tolist() == [*range(6)]
        unselectable = part.token[part.verdict == "unselectable"].tolist()
        assert unselectable == {"initial": [], "final": ["w4", "w5"]}[name]
    assert tokens.groupby(["checkpoint", "layer"]).ngroups == 4
    for kind in measure.TABLES:
        rule = store.read_provenance(out[kind])["seed_rule"]
        assert rule == describe((Stream.LANGUAGE_MODEL_BATCHES, Stream.TEXT_SELECTION), torch=True)
    assert not len(store.read(out["ceilings"], "language_model_ceilings"))
    assert checkpoint.load(out["samples"])[0] == {} and checkpoint.load(out["samples"])[1]["runs"] == []


EXACT = ("after_norm_exact",)


@pytest.mark.parametrize(
    ("variant", "norm", "settings", "exact"),
    [
        ("layernorm", "layernorm", made.SMALL_GPT, EXACT),
        ("mine", "scale*0.5", made.SMALL_GPT, EXACT),
        ("projected_qk", "projected_qk", made.SMALL_GPT, EXACT),
        ("layernorm_qk", "layernorm_qk", made.SMALL_GPT, (*EXACT, "head_exact")),
        ("layernorm_gain", "layernorm_gain", made.SMALL_GPT, ()),  # whose outputs have no equal lengths
        ("projection", "projection", made.SMALL_GPT, ()),
        ("mine", "examples.dynamic_tanh:DynamicTanh", made.SMALL_GPT, ()),
        ("layernorm", "layernorm", made.SMALL_BERT, ()),
    ],
)
def test_vectors_of_equal_length_are_tested_without_eps_too(variant, norm, settings, exact):
    assert settings.sites(variant, norm) == ("before_norm", "after_norm", "head", *exact)


def test_weights_of_other_runs_are_refused(weights, tmp_path):
    run, file = weights
    seed, settings = replace(run, seed=8), replace(run, settings=made.changed(run.settings, weight_decay=0.5))
    for runs in ([seed], [settings], [replace(run, name="a")], [run, seed]):
        with pytest.raises(
            ValueError, match=r"weights.safetensors: a file of another run of trained; delete"
        ):
            made.measured(runs, file, tmp_path, "keys")


def test_contexts_are_those_that_a_model_reads_as_training_reads_them(text, tmp_path):
    """BERT reads sentences alone, with room for the class token before them."""
    run = made.run_of(text, made.SMALL_BERT)
    tokens, _, _ = tasks.build(run.settings, text, run.tokenizer, seed=0).batch(0)
    assert run.prefix == tuple(tokens[0, :1]) and made.run_of(text).prefix == ()
    assert set(run.contexts().texts) == {"sentences"}
    with pytest.raises(ValueError, match="has 16 tokens; the model reads at most 15"):
        made.run_of(text, made.changed(made.SMALL_BERT, context_length=16)).contexts()
    frame = made.contexts(("sentences", TOKENS[:9]), ("sentences", [300]))
    with pytest.raises(ValueError, match=r"context 1 of the sentences texts has token 300; .* knows 300"):
        made.run_of(made.prepared_text(tmp_path, STREAM, STREAM, frame)).contexts()


LONG = [np.random.default_rng(n).integers(30, size=n) for n in (12, 7, 16)]


def inputs_of(network, module):
    """What `module` receives when the network reads the two texts, one after the other."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0][0]))
    with torch.no_grad():
        for tokens in LONG[:2]:
            network(torch.tensor(tokens)[None])
    handle.remove()
    return torch.cat(seen)


def test_blocks_are_what_the_modules_of_the_model_receive(tmp_path):
    frame = made.contexts(("sentences", [1, 2, 3]), *(("long", tokens) for tokens in LONG))
    run = made.run_of(made.prepared_text(tmp_path / "text", range(30), range(30), frame))
    network = made.randomise(run.build_model())
    weights = made.save_weights(run, tmp_path, initial=run.build_model(), final=network)
    tensors, facts = checkpoint.load(made.measured([run], weights, tmp_path, "samples")["samples"])
    assert facts["runs"] == [{"name": run.name, "variant": "layernorm", "seed": 0, "layers": 2}]
    assert facts["identity"]["runs"][0]["name"] == run.name and facts["identity"]["block_contexts"] == 2
    assert len(tensors) == 2 * 7 and {tensor.dtype for tensor in tensors.values()} == {torch.float64}
    network = network.double()
    for number, layer in enumerate(network.layers, start=1):
        stream, heads, w_o, b_o, gain, bias, w_1 = (
            tensors[f"{run.name}/layer_{number}.{name}"]
            for name in ("stream", "heads", "w_o", "b_o", "gain", "bias", "w_1")
        )
        after_attention = stream + heads @ w_o + b_o
        x = after_attention - after_attention.mean(dim=1, keepdim=True)
        normed = x / (x.square().mean(dim=1, keepdim=True) + made.SMALL_GPT.eps).sqrt()
        up = (normed * gain + bias) @ w_1 + layer.feed_forward[0].bias
        modules = layer.norm, layer.attention.out, layer.ln_2, layer.feed_forward[1]
        for found, module in zip((stream, heads, after_attention, up), modules, strict=True):
            torch.testing.assert_close(found, inputs_of(network, module))


N = 24
LONG_TOKENS = np.random.default_rng(5).integers(made.VOCABULARY, size=N)
SIZES = made.changed(made.GPT, layers=2, d_model=8, heads=2)


@pytest.fixture
def saved(tmp_path):
    """A run, and the files of its weights: untrained, and with random ones."""
    frame = made.contexts(("long", LONG_TOKENS), ("long", LONG_TOKENS[:20]), ("sentences", LONG_TOKENS[:9]))
    run = made.run_of(made.prepared_text(tmp_path / "text", range(100), range(100), frame), SIZES, seed=3)
    return run, made.save_weights(
        run, tmp_path, initial=run.build_model(), final=made.randomise(run.build_model())
    )


def test_the_table_has_both_checkpoints(saved, tmp_path):
    run, file = saved
    out = made.measured([run], file, tmp_path, "ceilings")
    for kind in ("keys", "tokens", "ones_share"):
        assert not len(store.read(out[kind], measure.TABLES[kind]))
    table = store.read(out["ceilings"], "language_model_ceilings")
    found = set(zip(table.model, table.variant, table.seed, table.context, strict=True))
    assert found == {("hand_made", "layernorm", 3, 0)}
    rows = table[table.layer.notna()].set_index(["checkpoint", "queries", "layer"])
    assert len(rows) == 2 * 3 * 2 and set(rows.pairs) == {2 * N} and set(table.dimensions) == {4}
    layers = made.randomise(run.build_model()).double().record(LONG_TOKENS.tolist())
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
    tables = {kind: store.read(out[kind], table) for kind, table in measure.TABLES.items()}
    # LayerNorm's vectors lie on a sphere, where none can lose.
    assert tables.pop("tokens").empty
    assert all(set(table.checkpoint) == {"initial"} for table in tables.values())
    lengths = tables["keys"].groupby(["texts", "context"]).n_keys.unique().explode().to_dict()
    assert lengths == {("long", 0): N, ("long", 1): 20, ("sentences", 0): 9}
    assert "the run diverged" in capsys.readouterr().out
    says = r"seed_3 diverged, .* lower learning_rate of language_model.hand_made"
    with pytest.raises(ValueError, match=says):
        made.measured([run], file, tmp_path, "samples")
