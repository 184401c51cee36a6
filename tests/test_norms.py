import re
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from default_settings import ROOT
from torch import nn

from layernorm_roles import norms, ones_direction, variants
from layernorm_roles.evidence import legends

DIM = 8


@pytest.fixture
def x():
    torch.manual_seed(0)
    return 3 * torch.randn(50, DIM, dtype=torch.float64) + 1


def plain(name, x, eps=0.0):
    centred = x - x.mean(dim=-1, keepdim=True)
    y = x if name.startswith(("none", "scale")) else centred
    if name.startswith(("layernorm", "scale")):
        y = y / (y.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return y * FACTORS.get(name, 1)


FACTORS = {"scale_released": 1 / DIM, "layernorm_small": 1 / DIM, "layernorm_shrunk": 0.08 / DIM**0.5}
FACTORS |= {"layernorm_gain_small": FACTORS["layernorm_shrunk"], "projection_grown": DIM**0.5 / 0.08}
LEARNT = {"layernorm_affine": {"weight": DIM, "bias": DIM}, "scale_gain": {"weight": DIM}}
LEARNT |= {"layernorm_gain": {"weight": DIM}, "layernorm_gain_small": {"weight": DIM}}
LEARNT |= {"none_scalar": {"weight": 1}, "projection_scalar": {"weight": 1}}
"""The variants that learn something, with the sizes of their parameters."""


@pytest.mark.parametrize("eps", [0.0, 1e-3])
@pytest.mark.parametrize("name", norms.VARIANTS)
def test_a_variant_is_its_formula_and_learns_gain_and_bias(name, eps, x):
    norm = norms.build(name, DIM, eps).double()
    expected = plain(name, x, eps)
    torch.testing.assert_close(norm(x), expected, rtol=1e-6, atol=1e-12)
    learnt = dict(norm.named_parameters())
    assert {key: parameter.numel() for key, parameter in learnt.items()} == LEARNT.get(name, {})
    with torch.no_grad():
        for parameter in learnt.values():
            parameter.copy_(parameter * 3 if parameter is norm.weight else parameter + 0.5)
    if learnt:
        bias = 0.5 if "bias" in learnt else 0
        torch.testing.assert_close(norm(x), 3 * expected + bias, rtol=1e-6, atol=1e-12)
    if name == "layernorm":
        torch.testing.assert_close(norm(x), F.layer_norm(x, (DIM,), eps=eps), rtol=1e-13, atol=1e-13)


SPLIT = {"projected_qk": ("layernorm", "scale"), "projected_v": ("scale", "layernorm")}
SPLIT |= {"shrunk_qk": ("layernorm_shrunk", "layernorm"), "shrunk_v": ("layernorm", "layernorm_shrunk")}


@pytest.mark.parametrize("name", variants.SPLIT_VARIANTS)
def test_a_split_variant_has_one_norm_for_queries_and_keys_and_one_for_values(name, x):
    for norm, part in zip(norms.build_pair(name, DIM, eps=1e-3), SPLIT[name], strict=True):
        assert torch.equal(norm(x), norms.build(part, DIM, eps=1e-3)(x))


@pytest.mark.parametrize("name", [name for name in norms.VARIANTS if name not in LEARNT])
@pytest.mark.parametrize("factor", [35.0, 2**0.5 / 50])
def test_a_factor_multiplies_the_result_and_its_gradient(name, factor, x):
    scaled = norms.build(variants.scaled(name, factor), DIM, eps=1e-3)
    expected = factor * norms.build(name, DIM, eps=1e-3)(x)
    torch.testing.assert_close(scaled(x), expected, rtol=1e-13, atol=0)
    assert torch.autograd.gradcheck(scaled, x[:3].requires_grad_())


def test_a_matched_projection_follows_the_size_of_its_batches_and_stays_in_evaluation(x):
    """The root mean square of its results is that of LayerNorm's, 1, however the size of its inputs changes."""
    norm = norms.MatchedProjection().double()
    untrained = x / x.square().mean().sqrt() * variants.SHRUNK
    torch.testing.assert_close(norm.eval()(untrained), norms.build("projection_grown", DIM)(untrained))
    assert list(norm.parameters()) == [] and list(norm.state_dict()) == ["mean_square"]
    for size in (1e-2, 1.0, 30.0):
        norm.train()
        for _ in range(300):
            out = norm(size * x)
        assert out.square().mean().item() == pytest.approx(1, rel=1e-9)
        state = norm.mean_square.clone()
        torch.testing.assert_close(norm.eval()(3 * size * x), 3 * out, rtol=1e-9, atol=0)
        assert torch.equal(norm.mean_square, state)
    by_hand = 0.9 * state + 0.1 * norms.project(7 * x).square().mean()
    given = (7 * x).requires_grad_()
    out = norm.train()(given)
    torch.testing.assert_close(out, norms.project(7 * x) / by_hand.sqrt(), rtol=1e-9, atol=0)
    (gradient,) = torch.autograd.grad((out * x).sum(), given)
    torch.testing.assert_close(gradient, norms.project(x) / by_hand.sqrt(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("like", ["layernorm", "projected_qk"])
def test_a_factor_may_be_that_of_queries_and_keys_or_of_values_alone(like, x):
    before = [norm(x) for norm in norms.build_pair(like, DIM)]
    for part, factors in {"both": (3, 3), "queries_keys": (3, 1), "values": (1, 3)}.items():
        name = variants.scaled(like, 3.0, part)
        pair = norms.build_pair(name, DIM)
        for norm, factor, plainly in zip(pair, factors, before, strict=True):
            torch.testing.assert_close(norm(x), factor * plainly, rtol=1e-13, atol=0)
        assert (pair[0] is pair[1]) == (like == "layernorm" and part == "both")
        assert "/" not in name and ":" not in name


def test_the_guide_shows_every_built_in_norm_and_a_scaled_one_has_a_label():
    """If this fails: python -m layernorm_roles.variants prints the guide's table."""
    assert variants.guide() in (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    legends.name_scaled({"big": {"like": "projection", "factor": 35.0, "part": "both"}, "own": "a:B"})
    found = [legends.label(name) for name in ("big", "own", "scale")]
    assert found == ["35 × projection only", "own", "scaling only"]
    assert variants.label_of("scale", 0.1, "queries_keys") == "0.1 × scaling only (queries, keys)"


OWN = """
import torch
from torch import nn
class Good(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight, self.drawn = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.randn(dim))
        self.register_buffer("calls", torch.tensor(0))
    def forward(self, x):
        self.calls += 1
        return x.tanh() + 0.1 * self.drawn / self.calls
class Batch(nn.BatchNorm1d): pass
class Argless(nn.Module):
    def __init__(self): super().__init__()
not_a_class = 3
"""
UNUSABLE = {
    "not_a_class": "no torch.nn.Module",
    "Argless": "cannot be built with dim=8",
    "Batch": "fails on an input of shape|alone and among others",
}
CONSTRUCTORS = {
    "torch.manual_seed(3)": "changes torch's random seed: expected its global state untouched",
    "torch.set_default_dtype(torch.float64)": "changes torch's default dtype",
    "raise SystemExit": r"cannot be built with dim=8: it calls sys.exit\(None\)",
}
"""What a norm's constructor begins with, and what is said of it."""
FORWARD = {
    "return x[..., :-1]": "expected the same",
    "return x.double()": "expected the same",
    "return [x]": "to list: expected the same",
    "raise RuntimeError('no')": "fails on an input of shape",
    "return nn.functional.dropout(x, 0.5)": "no randomness",
    "return x.mul_(2)": "in-place operation",
    "return (x - x).sqrt() + x": "no finite gradient",
    "return x + self.weight.sqrt()": "no finite gradient",
    "return x - x.mean(-2, keepdim=True) if x.shape[-2] > 16 else x": "alone and among others",
    "return x - 0.05 * x.mean(-2, keepdim=True)": "alone and among others",
    "self.m = 0.9 * getattr(self, 'm', 1.0) + 0.1 * x.abs().mean(); return x / self.m": "state in buffers",
    "self.register_buffer('m', x.mean() + getattr(self, 'm', 0), False); return x - self.m": "state in buffers",
    "torch.set_num_threads(7); return x": "changes torch's number of threads",
    "torch.set_grad_enabled(False); return x": "changes torch's recording of gradients",
    "torch.set_default_device('meta'); return x": "changes torch's default device",
}
"""The forward of a norm, and what is said of it."""
for number, (code, says) in enumerate((CONSTRUCTORS | FORWARD).items()):
    OWN += f"class Bad{number}(Good):\n"
    if code in CONSTRUCTORS:
        OWN += f"    def __init__(self, dim):\n        {code}\n        super().__init__(dim)\n"
    else:
        OWN += f"    def forward(self, x): {code}\n"
    UNUSABLE[f"Bad{number}"] = says
UNUSABLE = {f"own_norms_for_test:{name}": says for name, says in UNUSABLE.items()}
UNUSABLE |= {"no_such_module:Norm": "cannot be imported", "syntax_for_test:Norm": "cannot be .*never closed"}


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_norms_for_test.py").write_text(OWN)
    (tmp_path / "syntax_for_test.py").write_text("class Norm(\n")
    (tmp_path / "this.py").write_text(OWN)  # the name of a module that Python has
    monkeypatch.delitem(sys.modules, "this", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.mark.parametrize("shape", [(20, DIM), (3, 20, DIM)])
def test_a_norm_may_draw_its_parameters_and_keep_state_in_buffers_and_its_probe_draws_nothing(own, shape, x):
    good = norms.build("this:Good", DIM)
    torch.testing.assert_close(good(x), x.tanh() + 0.1 * good.drawn)
    torch.manual_seed(3)
    norms.probe("own_norms_for_test:Good", shape)
    after = torch.randn(4)
    torch.manual_seed(3)
    assert torch.equal(after, torch.randn(4)) and torch.initial_seed() == 3


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_norm_is_named(own, name):
    state = torch.get_default_dtype, torch.get_num_threads, torch.initial_seed, torch.get_default_device
    before = [get() for get in state]
    with pytest.raises(ValueError, match=UNUSABLE[name]) as error:
        norms.probe(name, (20, 20, DIM))
    assert before == [get() for get in state] and torch.is_grad_enabled()
    assert name in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["layer_norm", "layernorm_qk", "no_attention*2.0", "projected_qk"])
def test_an_unknown_norm_is_refused(name):
    with pytest.raises(ValueError, match=f"unknown norm '{re.escape(name)}': expected one of layernorm"):
        norms.build(name, DIM)


def test_each_norm_has_the_mean_share_of_what_enters_it():
    """Two norms of different sizes; the second runs twice, and a linear layer that is no norm has no row."""
    layers = {"first": nn.LayerNorm(4), "map": nn.Linear(4, 6), "second": norms.build("scale", 6)}
    network = nn.ModuleDict(layers | {"unused": nn.RMSNorm(3)})
    x, y = torch.tensor([[[1.0, 1, 1, 1], [1, -1, 1, -1]]]), torch.ones(1, 1, 6)

    def run():
        network["second"](network["map"](network["first"](x)))
        network["second"](y)

    table = ones_direction.table(network, run)
    assert table.norm_name.to_list() == ["first", "second"] and table.norm.to_list() == [1, 2]
    assert table.dimensions.to_list() == [4, 6]
    mapped = network["map"](network["first"](x)).detach().double()[0].numpy()
    shares = mapped.sum(axis=1) ** 2 / (6 * (mapped**2).sum(axis=1))
    assert table.ones_share.to_list() == pytest.approx([0.5, np.mean([*shares, 1])], rel=1e-12)
    assert not any(layer._forward_pre_hooks for layer in network.values())
