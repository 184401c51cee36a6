"""GPT against its formulas, BERT against transformers' on equal weights, and what the variants change."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from default_settings import example
from hand_made import GPT, SMALL_BERT, VOCABULARY, changed, randomise, run_of
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from layernorm_roles import norms
from layernorm_roles.language_model import bert, model
from layernorm_roles.settings.language_model import BERTSettings
from layernorm_roles.variants import SHRUNK, SPLIT_VARIANTS, VARIANTS

ALL_VARIANTS = [*VARIANTS, *SPLIT_VARIANTS, "layernorm_qk", "projection_matched", "no_attention"]
SCALING = {name for name, variant in VARIANTS.items() if variant.scales} | {*SPLIT_VARIANTS, "layernorm_qk"}


def test_initial_weights_have_gpt2s_spread():
    ours = model.build(changed(GPT, d_model=64), "layernorm", "layernorm", 3000, 0)
    assert ours.tokens.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert ours.layers[0].attention.qkv.weight.std().item() == pytest.approx(0.02, rel=0.05)
    for adding in (ours.layers[0].attention.out, ours.layers[0].feed_forward[2]):
        assert adding.weight.std().item() == pytest.approx(0.02 / 8**0.5, rel=0.05)
    assert not ours.layers[0].attention.out.bias.any()


class Drawn(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(dim))


def test_parameters_that_variants_of_a_seed_share_start_equal():
    first = model.build(GPT, "layernorm", "layernorm", VOCABULARY, 3).state_dict()
    for variant in (*ALL_VARIANTS, own := f"{__name__}:Drawn"):
        other = model.build(GPT, variant, variant, VOCABULARY, 3).state_dict()
        gone = {name for name in first if ".attention." in name} if variant == "no_attention" else set()
        assert first.keys() - other.keys() == gone
        assert all(torch.equal(first[name], other[name]) for name in first.keys() & other.keys())
        of_norms = other.keys() - first.keys()
        learns = variant in VARIANTS and VARIANTS[variant].learns != "nothing"
        assert bool(of_norms) == (learns or variant in (own, "projection_matched"))
        assert all(".norm." in name for name in of_norms)
    different = model.build(GPT, "layernorm", "layernorm", VOCABULARY, 4).state_dict()
    assert not torch.equal(first["tokens.weight"], different["tokens.weight"])


def far_from_initial(variant):
    """A GPT with weights far from the initial ones, and scores that float32 holds however large the norm's results."""
    ours = randomise(model.build(GPT, variant, variant, VOCABULARY, 0))
    if variant in ("projection_grown", "projection_matched"):
        for layer in ours.layers:
            layer.attention.qkv.weight.data.mul_(SHRUNK)
    return ours


def by_norms(variant, x, parameters, at):
    """What queries and keys are made from, and values, by norms that are tested by themselves; `at` is the layer."""
    own = {name: parameters[at + name] for name in ("norm.weight", "norm.bias") if at + name in parameters}
    own = {name.removeprefix("norm."): parameter for name, parameter in own.items()}
    pair = [norms.MatchedProjection()] * 2
    if variant != "projection_matched":
        pair = norms.build_pair("layernorm" if variant == "layernorm_qk" else variant, 8, GPT.eps)
    return [torch.func.functional_call(norm.double().eval(), own, (x,)) for norm in pair]


def assert_found(found, expected):
    torch.testing.assert_close(torch.from_numpy(found), expected[0].detach(), rtol=1e-9, atol=1e-9)


def plain_logits(variant, parameters, tokens, recorded):
    """The logits of GPT with four heads of size 2, head by head, and what is `recorded` of the first text's layers."""

    def layer_norm(x, name):
        return nn.functional.layer_norm(x, (8,), parameters[name + ".weight"], parameters[name + ".bias"])

    def linear(x, name):
        return x @ parameters[name + ".weight"].T + parameters[name + ".bias"]

    n = tokens.shape[1]
    x = parameters["tokens.weight"][tokens] + parameters["positions.weight"][:n]
    for number in range(GPT.layers):
        at = f"layers.{number}."
        if variant != "no_attention":
            y, y_values = by_norms(variant, x, parameters, at)
            w_q, w_k, w_v = parameters[at + "attention.qkv.weight"].split(8)
            assert_found(recorded[number].before_norm, x)
            assert_found(recorded[number].attention_input, y)
            norm = recorded[number].norm
            assert (norm is not None) == (variant in SCALING)
            if norm:  # with its factor in float32
                known = torch.from_numpy(norm(recorded[number].before_norm))
                torch.testing.assert_close(known, y[0].detach(), rtol=1e-6, atol=1e-6)
            heads, projections = [], (recorded[number].query_projection, recorded[number].key_projection)
            for head in range(4):
                rows = slice(2 * head, 2 * head + 2)
                q, k, v = y @ w_q[rows].T, y @ w_k[rows].T, y_values @ w_v[rows].T
                if variant == "layernorm_qk":
                    q, k = (2**0.5 * t / (t.norm(dim=-1, keepdim=True) ** 2 + 2e-6).sqrt() for t in (q, k))
                assert_found(recorded[number].queries[head], q)
                assert_found(recorded[number].keys[head], k)
                scores = q @ k.transpose(1, 2) / 2**0.5
                seen = torch.ones(n, n, dtype=torch.bool).tril()
                weights = scores.masked_fill(~seen, -math.inf).softmax(dim=-1)
                assert_found(recorded[number].attention(head), weights)
                for projection, made in zip(projections, (q, k), strict=True):
                    assert_found(projection(y[0].detach().numpy())[head], made)
                heads.append(weights @ v)
            x = x + linear(torch.cat(heads, dim=-1), at + "attention.out")
        hidden = linear(layer_norm(x, at + "ln_2"), at + "feed_forward.0")
        # GPT-2's form of GELU.
        inner = (2 / math.pi) ** 0.5 * (hidden + 0.044715 * hidden**3)
        x = x + linear(0.5 * hidden * (1 + inner.tanh()), at + "feed_forward.2")
    return layer_norm(x, "ln_f") @ parameters["tokens.weight"].T


@pytest.mark.parametrize("variant", ALL_VARIANTS)
def test_loss_gradients_queries_and_keys_are_those_of_the_formulas(variant):
    ours = far_from_initial(variant)
    window = torch.randint(VOCABULARY, (3, 31), generator=torch.Generator().manual_seed(1))
    by_kernels = ours.loss(window)
    ours = ours.double()
    copies = {name: p.detach().clone().requires_grad_() for name, p in ours.named_parameters()}
    logits = plain_logits(variant, copies, window[:, :-1], ours.record(window[0, :-1].tolist()))
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
    (2 * expected).backward()
    loss = ours.loss(window)
    (2 * loss).backward()
    torch.testing.assert_close(ours(window[:, :-1]) @ ours.tokens.weight.T, logits, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(by_kernels, expected.float(), rtol=1e-5, atol=1e-5)
    for name, p in ours.named_parameters():
        torch.testing.assert_close(p.grad, copies[name].grad, rtol=1e-8, atol=1e-10)


def test_bert_without_attention_has_the_other_weights_of_bert_with_it_and_reads_no_other_token(text):
    """A masked token's prediction depends on its position alone; with attention it depends on the other tokens."""
    runs = [run_of(text, SMALL_BERT, variant) for variant in ("no_attention", "layernorm", "none")]
    bare, whole, normless = (run.build_model().eval() for run in runs)
    weights = whole.state_dict()
    of_norms = weights.keys() - normless.state_dict().keys()
    assert "norm_0.weight" in of_norms and all("norm" in name for name in of_norms)
    assert not torch.equal(run_of(text, SMALL_BERT, seed=1).build_model().tokens.weight, whole.tokens.weight)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in bare.state_dict().items())
    assert not any("qkv" in name or "norm_1" in name for name in bare.state_dict())
    tokens = torch.arange(12).reshape(2, 6) + 3
    tokens[:, 2] = VOCABULARY + bert.MASK
    same = [torch.equal(hidden[0, 2], hidden[1, 2]) for hidden in (bare(tokens), whole(tokens))]
    assert same == [True, False] and bare.record(tokens[0].tolist()) == []


BERT = example(BERTSettings, d_ff=32, context_length=33)


@pytest.mark.parametrize("normed", [True, False])
def test_hidden_states_and_masked_loss_equal_transformers_bert(normed):
    ours = randomise(bert.BERT(BERT, normed, VOCABULARY)).double()
    theirs = BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY + 3, hidden_size=8, num_hidden_layers=4, num_attention_heads=4,
            intermediate_size=32,
            max_position_embeddings=33, type_vocab_size=1, layer_norm_eps=1e-12, hidden_act="gelu",
        )
    ).eval().double()  # fmt: skip

    body, head = theirs.bert, theirs.cls.predictions
    equal = {
        body.embeddings.word_embeddings: ours.tokens,
        body.embeddings.position_embeddings: ours.positions,
    }
    equal |= {body.embeddings.token_type_embeddings: ours.segment, head.transform.dense: ours.transform}
    owners = {body.embeddings: ours.norm_0, head.transform: ours.readout_norm}
    for layer, own in zip(body.encoder.layer, ours.layers, strict=True):
        parts, stacked = layer.attention.self, (own.qkv.weight.split(8), own.qkv.bias.split(8))
        for linear, weight, bias in zip((parts.query, parts.key, parts.value), *stacked, strict=True):
            equal[linear] = SimpleNamespace(weight=weight, bias=bias)
        equal |= {layer.attention.output.dense: own.out, layer.intermediate.dense: own.feed_forward[0]}
        equal |= {layer.output.dense: own.feed_forward[2]}
        owners |= {layer.attention.output: own.norm_1, layer.output: own.norm_2}
    for owner, norm in owners.items():
        if normed:
            equal[owner.LayerNorm] = norm
        else:
            owner.LayerNorm = nn.Identity()
    with torch.no_grad():
        for module, own in equal.items():
            for name, parameter in module.named_parameters(recurse=False):
                parameter.copy_(getattr(own, name))
        for bias in (head.bias, head.decoder.bias):
            bias.copy_(ours.readout_bias)

    g = torch.Generator().manual_seed(1)
    tokens = torch.randint(VOCABULARY, (2, 33), generator=g)
    where, targets = torch.tensor([[3, 9], [0, 32]]), torch.tensor([[5, 6], [7, 8]])
    labels = torch.full((2, 33), -100).scatter(1, where, targets)
    with torch.no_grad():
        out = theirs(tokens, labels=labels, output_hidden_states=True)
        torch.testing.assert_close(ours(tokens), out.hidden_states[-1], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(ours.loss(tokens, where, targets), out.loss, rtol=1e-9, atol=1e-9)
        recorded = ours.record(tokens[0].tolist())
        assert [(found.layer, found.causal) for found in recorded] == [(n, False) for n in (1, 2, 3, 4)]
        for found, hidden, layer in zip(recorded, out.hidden_states[:-1], body.encoder.layer, strict=True):
            assert_found(found.attention_input, hidden)
            assert_found(found.norm(found.before_norm) if normed else found.before_norm, hidden)
            for heads, made_by, theirs in (
                (found.queries, found.query_projection, layer.attention.self.query),
                (found.keys, found.key_projection, layer.attention.self.key),
            ):
                assert_found(heads, theirs(hidden).unflatten(-1, (4, 2)).transpose(1, 2))
                np.testing.assert_allclose(made_by(found.attention_input), heads, rtol=1e-9, atol=1e-9)


def test_a_sentences_class_is_read_off_its_first_token_and_padding_changes_nothing():
    network = randomise(bert.BERT(BERT, True, VOCABULARY, classes=2))
    tokens = torch.randint(VOCABULARY, (1, 20), generator=torch.Generator().manual_seed(0))
    padded = torch.nn.functional.pad(tokens, (0, 13), value=VOCABULARY + bert.PAD)
    length, label = torch.tensor([20]), torch.tensor([1])
    pooled = torch.tanh(network.transform(network(tokens)[:, 0]))  # BERT's pooler
    known = nn.functional.cross_entropy(network.classify(pooled), label)
    torch.testing.assert_close(network.loss(tokens, length, label), known)
    torch.testing.assert_close(network.loss(padded, length, label), known)
    network.train().dropout.p = 1.0
    known = nn.functional.cross_entropy(network.classify.bias[None], label)
    torch.testing.assert_close(network.loss(tokens, length, label), known)


@pytest.mark.parametrize("settings", [GPT, BERT], ids=["gpt", "bert"])
def test_dropout_is_of_embeddings_and_of_what_layers_add(settings):
    """Where all of it is dropped, the embeddings are 0, and a layer changes nothing but by the norm that BERT has."""
    build = model.build if settings is GPT else bert.build
    network = randomise(build(settings, "layernorm", "layernorm", VOCABULARY, 0)).train()
    for module in (module for module in network.modules() if isinstance(module, nn.Dropout)):
        module.p = 1.0
    layer, x, entered = network.layers[0], torch.randn(1, 8, 8), []
    handle = layer.register_forward_pre_hook(lambda _, given: entered.append(given[0]))
    network(torch.arange(8)[None])
    handle.remove()
    assert not entered[0].any()
    if settings is BERT:
        assert torch.equal(layer(x, None), layer.norm_1(x))
    else:
        assert torch.equal(layer(x), x)
        attended = layer.attention.attended(x, x)  # whose weights have another rate, here 0
        assert torch.equal(attended, layer.eval().attention.attended(x, x))
