import sys
from pathlib import Path

import pytest
import torch

from layernorm_roles import norms, variants
from layernorm_roles.evidence import legends

ROOT = Path(__file__).parents[1]

DIM = 8


@pytest.fixture
def x():
    torch.manual_seed(0)
    return 3 * torch.randn(50, DIM, dtype=torch.float64) + 1


def test_layernorm_is_torchs(x):
    theirs = torch.nn.functional.layer_norm(x, (DIM,), eps=1e-5)
    torch.testing.assert_close(norms.build("layernorm", DIM, eps=1e-5)(x), theirs, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("name", "size", "in_plane"),
    [
        ("layernorm", DIM**0.5, True),
        ("scale", DIM**0.5, False),
        ("scale_released", DIM**-0.5, False),
        ("layernorm_small", DIM**-0.5, True),
    ],
)
def test_outputs_lie_on_a_sphere_and_projected_ones_in_the_plane(name, size, in_plane, x):
    out = norms.build(name, DIM)(x)
    torch.testing.assert_close(out.norm(dim=-1), torch.full((50,), size, dtype=torch.float64))
    assert bool((out.sum(dim=-1).abs() < 1e-12).all()) == in_plane


def test_projection_keeps_the_size_within_the_plane_and_none_keeps_everything(x):
    projected = norms.build("projection", DIM)(x)
    ones = torch.ones(DIM, dtype=torch.float64) / DIM**0.5
    torch.testing.assert_close(projected, x - (x @ ones)[:, None] * ones)
    assert norms.build("none", DIM)(x) is x


LEARNT = {
    "layernorm_affine": ("layernorm", ["weight", "bias"], DIM),
    "scale_gain": ("scale", ["weight"], DIM),
    "layernorm_gain": ("layernorm", ["weight"], DIM),
    "layernorm_gain_small": ("layernorm_shrunk", ["weight"], DIM),
    "none_scalar": ("none", ["weight"], 1),
    "projection_scalar": ("projection", ["weight"], 1),
}
"""The variants that learn something: the one that they start as, their parameters, and the size of `weight`."""


@pytest.mark.parametrize("name", norms.VARIANTS)
def test_a_variant_that_learns_starts_as_another_one(name, x):
    norm = norms.build(name, DIM)
    start, parameters, size = LEARNT.get(name, (name, [], 0))
    assert [parameter for parameter, _ in norm.named_parameters()] == parameters
    torch.testing.assert_close(norm(x), norms.build(start, DIM)(x), rtol=1e-7, atol=0)
    assert not parameters or norm.weight.numel() == size


@pytest.mark.parametrize(
    ("name", "queries_keys", "values"),
    [
        ("projected_qk", "layernorm", "scale"),
        ("projected_v", "scale", "layernorm"),
        ("shrunk_qk", "layernorm_shrunk", "layernorm"),
        ("shrunk_v", "layernorm", "layernorm_shrunk"),
    ],
)
def test_a_split_variant_has_one_norm_for_queries_and_keys_and_one_for_values(name, queries_keys, values, x):
    norm_qk, norm_v = norms.build_pair(name, DIM, eps=1e-3)
    assert torch.equal(norm_qk(x), norms.build(queries_keys, DIM, eps=1e-3)(x))
    assert torch.equal(norm_v(x), norms.build(values, DIM, eps=1e-3)(x))
    with pytest.raises(ValueError, match=f"unknown norm '{name}'"):
        norms.build(name, DIM)


@pytest.mark.parametrize("name", [name for name in norms.VARIANTS if name not in LEARNT])
@pytest.mark.parametrize("factor", [35.0, 2**0.5 / 50])
def test_a_factor_multiplies_the_result_and_its_gradient(name, factor, x):
    weights = torch.randn(50, DIM, dtype=torch.float64)
    scaled = norms.build(variants.scaled(name, factor), DIM, eps=1e-3)
    plain = norms.build(name, DIM, eps=1e-3)
    torch.testing.assert_close(scaled(x), factor * plain(x), rtol=1e-13, atol=0)
    x.requires_grad_()
    (own,) = torch.autograd.grad((scaled(x) * weights).sum(), x)
    (expected,) = torch.autograd.grad((factor * plain(x) * weights).sum(), x)
    torch.testing.assert_close(own, expected, rtol=1e-12, atol=1e-15)
    assert torch.autograd.gradcheck(scaled, x[:3].detach().requires_grad_())


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
    with pytest.raises(ValueError, match="unknown norm 'projection_matched'"):
        norms.build_pair("projection_matched", DIM)


@pytest.mark.parametrize("like", ["layernorm", "projected_qk"])
def test_a_factor_may_be_that_of_queries_and_keys_or_of_values_alone(like, x):
    plain = [norm(x) for norm in norms.build_pair(like, DIM)]
    for part, factors in {"both": (3, 3), "queries_keys": (3, 1), "values": (1, 3)}.items():
        name = variants.scaled(like, 3.0, part)
        norm_qk, norm_v = norms.build_pair(name, DIM)
        for norm, factor, before in zip((norm_qk, norm_v), factors, plain, strict=True):
            torch.testing.assert_close(norm(x), factor * before, rtol=1e-13, atol=0)
        is_one = like == "layernorm" and part == "both"
        assert (norm_qk is norm_v) == is_one and "/" not in name and ":" not in name


def test_a_built_in_norm_has_a_label_a_colour_and_a_formula_and_the_guide_shows_it():
    """If this fails: python -m layernorm_roles.variants prints the guide's table."""
    for kind, what in [(variants.Variant, {"projects": True, "scales": True}), (variants.Named, {})]:
        for missing in ("label", "colour", "computes"):
            given = {"label": "a", "colour": "#000000", "computes": "x"} | what
            del given[missing]
            with pytest.raises(TypeError, match=missing):
                kind(**given)
    assert all(each.label and each.computes for each in variants.BUILT_IN.values())
    assert variants.guide() in (ROOT / "docs/guide.md").read_text(encoding="utf-8")
    legends.name_scaled({"big": {"like": "projection", "factor": 35.0, "part": "both"}, "own": "a:B"})
    found = [legends.label(name) for name in ("big", "own", "scale")]
    assert found == ["35 × projection only", "own", "scaling only"]


OWN = """
import torch
from torch import nn
class Good(nn.Module):
    def __init__(self, dim): super().__init__()
    def forward(self, x): return x.tanh()
class Short(Good):
    def forward(self, x): return x[..., :-1]
class Raises(Good):
    def forward(self, x): raise RuntimeError("no")
class Good2(Good):
    def __init__(self, dim):
        super().__init__(dim)
        self.weight = nn.Parameter(torch.randn(dim))
        self.register_buffer("mean", torch.zeros(dim))
    def forward(self, x):
        out = (x - self.mean) * self.weight
        self.mean = self.mean * 0.9 + 0.1
        return out
class Remembers(Good):
    def __init__(self, dim):
        super().__init__(dim)
        self.m = 1.0
    def forward(self, x):
        self.m = 0.9 * self.m + 0.1 * x.abs().mean()
        return x / self.m
class Forgets(Good2):
    def __init__(self, dim):
        super().__init__(dim)
        self.register_buffer("mean", torch.zeros(dim), persistent=False)
class Chance(Good):
    def forward(self, x): return nn.functional.dropout(x, 0.5)
class InPlace(Good):
    def forward(self, x): return x.mul_(2)
class Batch(nn.BatchNorm1d):
    pass
class NoGradient(Good):
    def forward(self, x): return (x - x).sqrt() + x
class OverPositions(Good):
    def forward(self, x): return x - x.mean(-2, keepdim=True) if x.shape[-2] > 16 else x
class Late(Good2):
    def forward(self, x):
        self.mean = self.mean + 1
        return x - x.mean(0) if self.mean[0] > 30 else x
class Early(Good2):
    def forward(self, x):
        self.mean = self.mean + 1
        return x - x.mean(0) if self.mean[0] < 2 else x
class Float64AtOnce(Good):
    def __init__(self, dim):
        torch.set_default_dtype(torch.float64)
        super().__init__(dim)
class SeedsWhenCalled(Good):
    def forward(self, x):
        torch.manual_seed(1)
        return x
class OneThread(Good):
    def forward(self, x):
        torch.set_num_threads(7)
        return x
class Interrupts(Good):
    def forward(self, x): raise KeyboardInterrupt
class ExitsAtOnce(nn.Module):
    def __init__(self, dim): raise SystemExit
class Argless(nn.Module):
    def __init__(self): super().__init__()
not_a_class = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_norms_for_test.py").write_text(OWN)
    (tmp_path / "syntax_for_test.py").write_text("class Norm(\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_norm_of_ones_own_is_found_in_the_working_directory(own, x):
    norm = norms.build("own_norms_for_test:Good", DIM)
    torch.testing.assert_close(norm(x), x.tanh())


SHAPES = [(20, DIM), (3, 20, DIM)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_norm_may_draw_its_parameters_and_keep_state_in_buffers_and_its_probe_draws_nothing(own, shape):
    torch.manual_seed(3)
    norms.probe("own_norms_for_test:Good", shape)
    norms.probe("own_norms_for_test:Good2", shape)
    after = torch.randn(4)
    torch.manual_seed(3)
    assert torch.equal(after, torch.randn(4)) and torch.initial_seed() == 3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:Norm", "cannot be imported"),
        ("own_norms_for_test:not_a_class", "no torch.nn.Module"),
        ("own_norms_for_test:Argless", "cannot be built with dim=8"),
        ("own_norms_for_test:Raises", "fails on an input of shape"),
        ("own_norms_for_test:Short", "expected the same"),
        ("own_norms_for_test:Remembers", "state in buffers"),
        ("own_norms_for_test:Forgets", "state in buffers"),
        ("own_norms_for_test:Chance", "no chance"),
        ("own_norms_for_test:InPlace", "changes its input"),
        ("own_norms_for_test:Batch", "fails on an input of shape|alone and among others"),
        ("own_norms_for_test:OverPositions", "alone and among others"),
        ("own_norms_for_test:Late", "alone and among others"),
        ("own_norms_for_test:Early", "alone and among others"),
        ("own_norms_for_test:Float64AtOnce", "changes torch's default dtype"),
        ("own_norms_for_test:SeedsWhenCalled", "draws or seeds"),
        ("own_norms_for_test:OneThread", "changes torch's number of threads"),
        ("own_norms_for_test:Interrupts", "fails on an input of shape .*: KeyboardInterrupt"),
        ("own_norms_for_test:NoGradient", "no finite gradient"),
        ("own_norms_for_test:ExitsAtOnce", r"cannot be built with dim=8: it calls sys.exit\(None\)"),
        ("syntax_for_test:Norm", "cannot be imported: .*never closed"),
    ],
)
def test_an_unusable_norm_is_named(own, name, says):
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed()
    with pytest.raises(ValueError, match=says) as error:
        norms.probe(name, (20, 20, DIM))
    assert before == (torch.get_default_dtype(), torch.get_num_threads(), torch.initial_seed())
    assert name in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["layer_norm", "layernorm_qk", "no_attention*2.0", "projected_qk"])
def test_an_unknown_norm_is_refused(name):
    with pytest.raises(ValueError, match="expected one of layernorm"):
        norms.build(name, DIM)
