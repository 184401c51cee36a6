"""The GPU's cross-entropy: in Triton's interpreter where there is no GPU, and compiled for one either way."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from layernorm_roles.language_model import cross_entropy

pytest.importorskip("triton", reason="Triton is not installed; pip install -e '.[triton]'")

from layernorm_roles.language_model import triton_cross_entropy
from layernorm_roles.language_model.triton_cross_entropy import OTHER, OWN, blocked

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(tokens, entries, d, size=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    hidden, weight = size * torch.randn(tokens, d, generator=g), torch.randn(entries, d, generator=g)
    return [t.to(DEVICE) for t in (hidden, weight, torch.randint(entries, (tokens,), generator=g))]


def reference(hidden, weight, targets):
    hidden, weight = (t.detach().double().requires_grad_() for t in (hidden, weight))
    loss = F.cross_entropy(hidden @ weight.T, targets)
    return loss.detach(), *torch.autograd.grad(loss, (hidden, weight))


def assert_as_in_float64(inputs):
    """A logit is wrong by its size times 6e-8, a probability by as much of itself, a gradient by that of a row."""
    hidden, weight, _ = (t.double() for t in inputs)
    largest = max(1.0, float((hidden @ weight.T).abs().max()))
    rows = (1.0, float(weight.abs().max()), float(hidden.abs().max()))
    for ours, theirs, row in zip(blocked(*inputs), reference(*inputs), rows, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=1e-6 * largest * row)


@pytest.mark.parametrize("d", [1, 3, 8, 9])
@pytest.mark.parametrize(
    ("tokens", "entries"),
    [(1, 1), (5, 3), (OWN, 2 * OWN), (OWN + 1, OTHER - 1), (37, 211), (150, 2 * OWN - 1)],
)
def test_equals_torch_in_float64(tokens, entries, d):
    assert_as_in_float64(draw(tokens, entries, d))


@pytest.mark.parametrize("size", [1e-3, 30.0, 3e3])
def test_at_any_size_of_the_logits(size):
    assert_as_in_float64(draw(40, 90, 8, size))


@pytest.mark.parametrize("offset", [-1e4, 1e4])
def test_logits_far_from_zero_neither_overflow_nor_vanish(offset):
    hidden, weight, targets = draw(40, 90, 8)
    hidden[:, 0], weight[:, 0] = offset, 1.0
    assert_as_in_float64((hidden, weight, targets))


def test_the_shares_of_a_walk_add_up(monkeypatch):
    inputs = draw(130, 300, 8)
    few = blocked(*inputs)
    monkeypatch.setattr(triton_cross_entropy, "PROGRAMS", 1)
    whole = blocked(*inputs)
    for ours, other in zip(few, whole, strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-5, atol=1e-7)


def test_a_second_call_gives_the_same_bytes():
    inputs = draw(70, 130, 8)
    for first, again in zip(blocked(*inputs), blocked(*inputs), strict=True):
        assert torch.equal(first, again)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_a_diverged_model_shows(value, which):
    inputs = draw(40, 90, 8)
    inputs[which][3, 1] = value
    assert not blocked(*inputs)[0].isfinite()


@pytest.mark.parametrize(
    ("dtype", "d", "expected"),
    [
        (torch.float32, 8, "blocked"),
        (torch.float32, cross_entropy.WIDEST_IN_REGISTERS + 1, "chunked"),
        (torch.float64, 8, "chunked"),
    ],
)
def test_what_a_gpu_gets(dtype, d, expected, monkeypatch):
    with FakeTensorMode():  # a CUDA tensor without a GPU
        hidden = torch.empty(4, d, dtype=dtype, device="cuda")
    monkeypatch.setattr(cross_entropy, "_triton_works", lambda d: d <= cross_entropy.WIDEST_IN_REGISTERS)
    assert cross_entropy.choose(hidden).__name__ == expected
    monkeypatch.setattr(cross_entropy, "_triton_works", lambda d: False)
    assert cross_entropy.choose(hidden) is cross_entropy.chunked


def test_compiles_for_an_h100_within_its_registers(tmp_path):
    """The interpreter takes Python that the compiler refuses; registers that overflow into memory cost the speed."""
    script = """
import subprocess, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from layernorm_roles.language_model import triton_cross_entropy as kernels
from layernorm_roles.language_model.cross_entropy import WIDEST_IN_REGISTERS

constants = {"D": WIDEST_IN_REGISTERS, "OWN": kernels.OWN, "OTHER": kernels.OTHER}
for kernel in (kernels._over_entries, kernels._over_tokens):
    kinds = {"targets": "*i32"} | dict.fromkeys(("h", "w", "parts", "log_total"), "*fp32")
    signature = {n: "constexpr" if n in constants else kinds.get(n, "i32") for n in kernel.arg_names}
    aligned = [i for i, n in enumerate(signature) if n not in {*constants, "real_entries"}]
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm
    assert "tf32" not in code["ptx"] and "atom" not in code["ptx"] and "bar.sync" not in code["ptx"]
    open(sys.argv[1], "wb").write(code["cubin"])
    print(subprocess.check_output([triton.knobs.nvidia.cuobjdump.path, "-res-usage", sys.argv[1]], text=True))
"""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", script, str(tmp_path / "kernel.cubin")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("STACK:0 ") == 2, done.stdout
