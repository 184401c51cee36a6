"""The device: what is set, compared, noted and said, as far as it shows without a GPU."""

import os
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from layernorm_roles.compiling import processor
from layernorm_roles.gpu.choice import DECIDED, choose
from layernorm_roles.gpu.device import GPU, SMALLEST_SHARE, TOLERANCE, Device, largest_difference, open_device

BATCH = (np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32),)
NAN = float("nan")


class Model(nn.Module):
    """A linear model with dropout, whose second call, as that of a GPU that errs, differs by these shares.

    The gradient of `large` is (3, 4) times `size`, that of `zero` is 0, and one parameter has none. The loss is `size`.
    """

    def __init__(self, loss=0.0, large=0.0, zero=0.0, size=1.0):
        super().__init__()
        self.large, self.zero = nn.Parameter(torch.ones(2).double()), nn.Parameter(torch.zeros(1).double())
        self.unused, self.dropout, self.calls = nn.Parameter(torch.ones(2)), nn.Dropout(0.9), 0
        self.wrong, self.size = {"loss": loss, "large": large, "zero": zero}, size

    def loss(self, x):
        self.calls += 1
        wrong = self.wrong if self.calls == 2 else dict.fromkeys(self.wrong, 0.0)
        gradient = torch.tensor([3.0, 4.0]).double() * (1 + wrong["large"])
        moved = (gradient * (self.large - 1)).sum() + 5 * wrong["zero"] * self.zero.sum()
        return self.dropout(self.size * (moved + 1 + wrong["loss"]))


@pytest.fixture
def card(monkeypatch):
    """A function that opens a GPU whose kernels run on the CPU, and what it has set torch to."""
    made = {}
    monkeypatch.setattr(GPU, "name", "cpu")
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda on: made.update(deterministic=on))
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda to: made.update(precision=to))
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    return lambda on_difference="stop": (open_device("cuda", on_difference), made)


def test_devices_that_agree_train_on_and_the_model_stays_as_it_was(card):
    (gpu, _), model, state = card(), Model().train(), torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gpu.compare(model, BATCH, "run")
    assert model.training and model.calls == 2
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert gpu.description == "cuda (H100; one batch compared with the CPU: within 0.0001)"


def test_other_numbers_stop_the_run_or_are_a_warning_if_settings_say_so(card, capsys):
    says = r"^run: the GPU computes other .*: the gradient of large differs by 0.01 .*device_check=warn$"
    with pytest.raises(ValueError, match=says):
        card()[0].compare(Model(large=1e-2), BATCH, "run")
    gpu, _ = card("warn")
    gpu.compare(Model(large=1e-2), BATCH, "run")
    assert "warning: run: the GPU computes other numbers than the CPU" in capsys.readouterr().err
    assert "one batch compared with the CPU: 0.01 apart, trained all the same" in gpu.description


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("shares", "what", "share"),
    [
        ({"loss": 0.5 * TOLERANCE, "large": 0.3 * TOLERANCE}, "the loss", 0.5 * TOLERANCE),
        ({"loss": 5 * TOLERANCE}, "the loss", 5 * TOLERANCE),
        ({"loss": NAN, "large": 1.0}, "the loss", NAN),
        ({"large": 5 * TOLERANCE, "loss": TOLERANCE}, "the gradient of large", 5 * TOLERANCE),
        ({"large": NAN, "loss": 1.0}, "the gradient of large", NAN),
        # A small gradient is judged by the length of the whole.
        ({"zero": 0.5 * TOLERANCE * SMALLEST_SHARE}, "the gradient of zero", 0.5 * TOLERANCE),
    ],
)
def test_the_largest_difference_is_a_share_of_loss_or_gradient(shares, what, share, size, card):
    found = largest_difference(Model(**shares, size=size), BATCH, "cpu")
    assert found == (what, pytest.approx(share, rel=1e-6, nan_ok=True))
    with pytest.raises(ValueError, match=what) if not share <= TOLERANCE else nullcontext():
        card()[0].compare(Model(**shares, size=size), BATCH, "run")


@pytest.mark.parametrize(("name", "place"), [("cpu", "machine"), ("cuda", "GPU")])
def test_used_up_memory_says_what_to_lower_and_other_errors_stay_what_they_are(name, place):
    device = type("Named", (Device,), {"name": name})()
    says = rf"^the memory of the {place} is used up; lower batch_size\n\(CUDA out of memory\)$"
    with pytest.raises(ValueError, match=says), device.memory_advice("lower batch_size"):
        raise torch.OutOfMemoryError("CUDA out of memory\nMore lines")
    with pytest.raises(RuntimeError, match=r"^sizes differ$"), device.memory_advice("lower batch_size"):
        raise RuntimeError("sizes differ")


def test_a_cpu_needs_nothing_and_compares_nothing():
    cpu, model = open_device("cpu"), Model(loss=1.0)
    assert cpu.description == f"cpu ({processor()})" and cpu.identity == "cpu"
    cpu.compare(model, BATCH, "run")
    assert model.calls == 0


def test_a_gpu_is_deterministic_and_exact_before_it_computes(card):
    gpu, made = card()
    assert not torch.utils.deterministic.fill_uninitialized_memory
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert made == {"deterministic": True, "precision": "highest"}
    assert gpu.description == "cuda (H100)" and gpu.identity == "cuda (H100, (9, 0))"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_job_that_finds_no_gpu_ends_with_a_line_that_names_the_key_and_what_torch_says():
    with pytest.raises(ValueError, match=r"^device = cuda: .*(CUDA|NVIDIA).*--config device=cpu$"):
        open_device("cuda")


@pytest.mark.parametrize(("number", "device"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_the_gpu_of_this_machine_and_jobs_mean_what_planning_meant(monkeypatch, number, device):
    monkeypatch.setenv(DECIDED, "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
    choice = choose("auto")
    assert choice.device == device and f"finds {number or 'no GPU'} here" in choice.why
    assert choose("cuda" if device == "cpu" else "cpu").why == ""
    monkeypatch.setattr(torch.cuda, "is_available", None)
    assert choose("auto").device == device
