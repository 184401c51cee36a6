"""One interface for the CPU and the GPU on which a model trains.

>>> device = open_device("cuda")                  # a ValueError with torch's words if there is no GPU
>>> device.compare(model, batch, "gpt seed 3")    # a ValueError if the GPU computes other numbers than the CPU
>>> loss = model.to(device.name).loss(*on_device(batch, device.name))
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from layernorm_roles.compiling import processor
from layernorm_roles.memory import first_line, is_out_of_memory, warn

log = logging.getLogger("layernorm_roles")

TOLERANCE = 1e-4
"""Largest relative difference between GPU and CPU that is accepted of a loss, and of a gradient."""
SMALLEST_SHARE = 1e-2
"""A gradient's difference is taken relative to its norm, or to this share of the whole gradient's, if that is more."""


class Device:
    """A device on which models train: this class stands for the CPU, its subclass for a GPU."""

    name = "cpu"
    """torch's name of the device."""

    @property
    def description(self) -> str:
        """The device in words, for the metadata of results, such as "cpu (znver3 with 256-bit vectors)"."""
        return f"cpu ({processor()})"

    @property
    def identity(self) -> str:
        """The device's name in checkpoints: training resumes only where it is equal."""
        return self.name

    def compare(self, model: nn.Module, batch: tuple[np.ndarray, ...], title: str) -> None:
        """Do nothing: only a GPU is compared with the CPU."""

    @contextmanager
    def memory_advice(self, advice: str) -> Iterator[None]:
        """A context manager that turns an out-of-memory error into a ValueError whose message contains `advice`."""
        try:
            yield
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise ValueError(
                f"the memory of the {'GPU' if self.name == 'cuda' else 'machine'} is used up; {advice}\n"
                f"({first_line(error)})"
            ) from error


class GPU(Device):
    """torch's current CUDA device, set to deterministic algorithms and to float32 without TF32."""

    name = "cuda"

    def __init__(self, on_difference: str):
        self.on_difference, self.compared = on_difference, ""
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it matrix products are refused
        (torch.zeros(1, device=self.name) + 1).item()
        torch.use_deterministic_algorithms(True)
        # Nothing is read before it is written, so to fill new memory would only cost kernels.
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.set_float32_matmul_precision("highest")
        self.card, self.capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
        log.info("GPU %s", self.card)

    @property
    def description(self) -> str:
        return f"cuda ({self.card}{self.compared})"

    @property
    def identity(self) -> str:
        return f"cuda ({self.card}, {self.capability})"  # other GPUs round differently

    def compare(self, model: nn.Module, batch: tuple[np.ndarray, ...], title: str) -> None:
        """Check that loss and gradients of a batch, without dropout, are those of the CPU.

        A relative difference above 1e-4 raises ValueError, or is a warning if the device was opened with "warn". The
        message begins with `title`. The model stays on the GPU; its parameters and its mode do not change.
        """
        what, share = largest_difference(model, batch, self.name)
        log.info("%s: of one batch, %s differs most from the CPU, by %.2g of its size", title, what, share)
        self.compared = f"; one batch compared with the CPU: within {TOLERANCE:g}"
        if share <= TOLERANCE:
            return
        line = f"{title}: the GPU computes other numbers than the CPU: {what} differs by {share:.3g} of its size; "
        line += f"expected at most {TOLERANCE:g}"
        if self.on_difference == "stop":
            raise ValueError(f"{line}. To train all the same: --config device_check=warn")
        warn(line)
        self.compared = f"; one batch compared with the CPU: {share:.2g} apart, trained all the same"


def largest_difference(model: nn.Module, batch: tuple[np.ndarray, ...], device: str) -> tuple[str, float]:
    """What differs most between the CPU and `device` of the loss and the gradients of a batch, and by which share."""
    was_training, computed = model.training, []
    for on in ("cpu", device):
        model.to(on).eval()
        loss = model.loss(*on_device(batch, on))
        loss.backward()
        found = {f"the gradient of {name}": parameter.grad for name, parameter in model.named_parameters()}
        found = {what: gradient.cpu().double() for what, gradient in found.items() if gradient is not None}
        computed.append(found | {"the loss": loss.detach().cpu().double()})
        model.zero_grad(set_to_none=True)
    model.train(was_training)
    here, there = computed
    least = SMALLEST_SHARE * sum(here[what].square().sum() for what in here if what != "the loss") ** 0.5
    sizes = {what: max(tensor.norm(), least if what != "the loss" else 0.0) for what, tensor in here.items()}
    shares = {what: float((here[what] - there[what]).norm() / size) for what, size in sizes.items()}
    return max(shares.items(), key=lambda share: (np.isnan(share[1]), share[1]))


def on_device(batch: tuple[np.ndarray, ...], device: str) -> tuple[Tensor, ...]:
    """The arrays of a batch as tensors on a device; a copy to a GPU does not wait for what the GPU computes."""
    tensors = tuple(map(torch.from_numpy, batch))
    if device == "cpu":
        return tensors
    return tuple(tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors)


def open_device(name: str, on_difference: str = "stop") -> Device:
    """The device called "cpu" or "cuda"; raises ValueError for "cuda" if torch can use no GPU.

    `on_difference` is "stop" or "warn": whether `Device.compare` raises or warns if a GPU computes other numbers.
    """
    if name == "cpu":
        return Device()
    try:
        return GPU(on_difference)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device = cuda: {first_line(error)} (torch {torch.__version__}); to train on the CPU: --config device=cpu"
        ) from error
