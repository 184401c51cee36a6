"""One interface for both devices: what is set, compared, noted and said, as far as it shows without a GPU."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from layernorm_roles.compiling import processor
from layernorm_roles.gpu import agreement
from layernorm_roles.gpu.agreement import SMALLEST_SHARE, TOLERANCE, Derivatives
from layernorm_roles.gpu.choice import DECIDED, choose
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
    return lambda device: agreement.derivatives(model, BATCH, "cpu")


BATCH = (np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32),)


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


def test_devices_that_agree_train_on_and_the_model_stays_as_it_was(card, caplog):
    (gpu, _), model, state = card(), Model().train(), torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with caplog.at_level(logging.INFO, "layernorm_roles"):
        gpu.compare(derivatives(model), "run")
    assert model.training and model.calls == 2
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert "loss" in caplog.text and "one batch compared with the CPU: within 0.0001" in gpu.description


@pytest.mark.parametrize("wrong", [1e-2, float("nan")])
def test_other_numbers_stop_the_run_with_both_or_are_a_warning_if_settings_say_so(card, wrong, capsys):
    says = r"run: the GPU computes other numbers .* on the CPU and .* on the GPU.*device_check=warn"
    with pytest.raises(ValueError, match=says):
        card()[0].compare(derivatives(Model(wrong)), "run")
    gpu, _ = card("warn")
    gpu.compare(derivatives(Model(wrong)), "run")
    assert "warning: run: the GPU computes other numbers than the CPU" in capsys.readouterr().err
    assert gpu.description.count("more than 0.0001 apart, trained all the same") == 1


@pytest.mark.parametrize(("name", "place"), [("cpu", "machine"), ("cuda", "GPU")])
def test_used_up_memory_says_what_to_lower_and_other_errors_stay_what_they_are(name, place):
    device = type("Named", (Device,), {"name": name})()
    says = rf"^the memory of the {place} is used up; lower batch_size\n\(CUDA out of memory\)$"
    with pytest.raises(ValueError, match=says), device.memory_advice("lower batch_size"):
        raise torch.OutOfMemoryError("CUDA out of memory\nMore lines")
    with pytest.raises(RuntimeError, match=r"^sizes differ$"), device.memory_advice("lower batch_size"):
        raise RuntimeError("sizes differ")


def test_a_cpu_needs_nothing_and_compares_nothing():
    cpu = open_device("cpu")
    assert cpu.description == f"cpu ({processor()})" and cpu.identity == "cpu"
    cpu.compare(derivatives(Model(1.0)), "run")


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


WEIGHT = torch.tensor([3.0, 4.0], dtype=torch.float64)
NAN = float("nan")


def apart(loss=0.0, weight=0.0, small=0.0, size=1.0):
    """What differs between two devices whose numbers differ by these shares, of a model of some size."""
    one = {"weight": size / 5 * WEIGHT, "small": 0 * WEIGHT[:1]}
    other = {"weight": (1 + weight) * one["weight"], "small": one["small"] + small * size}
    return agreement.difference(Derivatives(size, one), Derivatives(size * (1 + loss), other))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ({"loss": 0.5 * TOLERANCE, "weight": 0.5 * TOLERANCE}, None),
        ({"loss": 5 * TOLERANCE}, "the loss is "),
        ({"loss": NAN}, "the loss is "),
        ({"weight": 5 * TOLERANCE}, "the gradient of weight"),
        ({"weight": NAN}, "the gradient of weight"),
        # A small gradient is judged by the length of the whole.
        ({"small": 0.5 * TOLERANCE * SMALLEST_SHARE}, None),
        ({"small": 2 * TOLERANCE * SMALLEST_SHARE}, "the gradient of small"),
    ],
)
def test_numbers_agree_within_the_tolerance_of_their_size(shares, says, size):
    found = apart(size=size, **shares)
    assert found is None if says is None else found.startswith(says)


def test_a_gradient_on_either_device_alone_is_a_difference():
    one, more = (Derivatives(1.0, {"weight": WEIGHT} | bias) for bias in ({}, {"bias": torch.ones(1)}))
    for pair in ((one, more), (more, one)):
        assert agreement.difference(*pair) == "bias has a gradient on one of the two devices only"


def test_a_step_that_fails_does_not_stop_those_after_it():
    """Of the benchmarks on a GPU, which know today's settings."""
    script = Path(__file__).parents[2] / "benchmarks/first_hour.py"
    command = [sys.executable, script, "--only", "speed", "attention"]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert done.returncode == 1
    rows = done.stdout.partition("| step |")[2]
    assert rows.count("| failed |") == 2 and "| speed |" in rows and "| attention |" in rows
    assert "device = cuda: " in done.stderr
