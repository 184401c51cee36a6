"""One interface for both devices: what is set, compared, noted and said, as far as it shows without a GPU."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from layernorm_roles.compiling import processor
from layernorm_roles.gpu import agreement, device, driver
from layernorm_roles.gpu.device import GPU, Device, open_device


class Model(nn.Module):
    """A linear model with dropout; `wrong` is added to its loss from the second call on, as by a GPU that errs."""

    def __init__(self, wrong=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.dropout, self.wrong, self.calls = nn.Linear(4, 1), nn.Dropout(0.5), wrong, 0
        self.unused = nn.Parameter(torch.ones(2))

    def loss(self, x):
        self.calls += 1
        error = self.wrong * self.linear.weight.sum() if self.calls > 1 else 0.0
        return self.dropout(self.linear(x)).square().mean() + error


def derivatives(model):
    """What `Device.compare` takes, of a batch; every device is the CPU."""
    return lambda device: agreement.derivatives(model, BATCH, "cpu")


BATCH = (np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32),)


@pytest.fixture
def card():
    """A GPU that has taken a card."""
    found = GPU()
    found.card = driver.Card(0, "Fake H100", (9, 0), "id0")
    return found


def test_devices_that_agree_train_on_and_the_model_stays_as_it_was(card, caplog):
    model = Model().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    with caplog.at_level(logging.INFO, "layernorm_roles"):
        card.compare(derivatives(model), "run")
    assert model.training
    assert model.calls == 2
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert "loss" in caplog.text
    assert "one batch compared with the CPU: loss and gradients within 0.0001" in card.description


@pytest.mark.parametrize("wrong", [1e-2, float("nan")])
def test_other_numbers_stop_the_run_with_both(card, wrong):
    with pytest.raises(
        ValueError,
        match=r"run: the GPU computes other numbers .* on the CPU and .* on the GPU.*device_check=warn",
    ):
        card.compare(derivatives(Model(wrong)), "run")


def test_other_numbers_are_a_warning_if_the_configuration_says_so(card, capsys):
    card.on_difference = "warn"
    card.compare(derivatives(Model(1e-2)), "run")
    assert "warning: run: the GPU computes other numbers" in capsys.readouterr().err
    assert "more than 0.0001 apart, trained all the same" in card.description


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.07 GiB.\nMore lines"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
        MemoryError(),
    ],
)
def test_used_up_memory_says_what_to_lower(error):
    with (
        pytest.raises(ValueError, match=r"the memory of the machine is used up; lower batch_size\n\(.+\)$"),
        Device().memory_advice("lower batch_size"),
    ):
        raise error


def test_other_errors_are_left_alone():
    with pytest.raises(RuntimeError, match=r"^shapes$"), Device().memory_advice("lower batch_size"):
        raise RuntimeError("shapes")


def test_a_cpu_needs_nothing_and_changes_nothing(monkeypatch):
    monkeypatch.setattr(driver, "ask_driver", None)
    cpu = open_device("cpu")
    assert cpu.description == f"cpu ({processor()})" and cpu.identity == "cpu"
    step = lambda: None  # noqa: E731
    assert cpu.recorded(step) is step
    optimiser = SimpleNamespace(lr=0.1)
    assert cpu.recordable(optimiser) is optimiser
    assert optimiser.lr == 0.1
    cpu.compare(derivatives(Model(1.0)), "run")


def test_a_gpu_is_refused_where_the_job_runs(no_driver, build_of_torch):
    build_of_torch()
    with pytest.raises(ValueError, match="there is no NVIDIA driver"):
        open_device("cuda")


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """A function that opens a GPU whose kernels are `kernel`, and returns the settings of torch that it has made."""

    def make(kernel):
        card = driver.Card(1, "Fake H100", (9, 0), "id1")
        made = {}
        monkeypatch.setattr(device.driver, "usable_cards", lambda: (card,))
        monkeypatch.setattr(device.cards, "take", lambda found: found[0])
        monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda on: made.update(deterministic=on))
        monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda to: made.update(precision=to))
        monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
        monkeypatch.setattr(torch.cuda, "set_device", lambda index: made.update(index=index))
        monkeypatch.setattr(torch, "zeros", kernel)
        monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
        gpu = open_device("cuda")
        made["fills"] = torch.utils.deterministic.fill_uninitialized_memory
        made["workspace"] = device.os.environ.get("CUBLAS_WORKSPACE_CONFIG")
        return gpu, made

    return make


def test_a_gpu_is_deterministic_and_exact_before_it_computes(opened):
    gpu, made = opened(lambda size, device: torch.tensor([0.0]))
    assert made.pop("index") == 1 and not made.pop("fills")
    assert made == {"deterministic": True, "precision": "highest", "workspace": ":4096:8"}
    assert gpu.description == "cuda (Fake H100)" and gpu.identity == "cuda (Fake H100, (9, 0))"


def test_a_card_without_kernels_in_the_build_is_named(opened):
    def kernel(size, device):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nmore")

    with pytest.raises(
        driver.NoGPU,
        match=r"Fake H100 \(compute capability 9\.0\) runs no kernel of torch \S+: CUDA error: no kernel .*device; "
        "if that is no accident, install a build of torch with kernels for it",
    ):
        opened(kernel)


def test_a_card_that_another_process_holds_alone_is_no_fault_of_the_build(opened):
    def kernel(size, device):
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nmore")

    with pytest.raises(driver.NoGPU, match=r"Fake H100 is taken by another process.*resources gpu=1.*MPS"):
        opened(kernel)
