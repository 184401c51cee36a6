"""The device of a training job: a CPU or a GPU, with one interface, so that training code need not know which.

    device = open_device("cuda")                  # refused, in torch's words, if there is no GPU
    device.compare(derivatives, "gpt seed 3")     # refused if the GPU computes other numbers than the CPU
    model.to(device.name)

Only jobs that train import this module, since it imports torch.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from layernorm_roles.compiling import processor
from layernorm_roles.gpu import agreement
from layernorm_roles.memory import first_line, is_out_of_memory, warn

log = logging.getLogger("layernorm_roles")

APART = "apart, trained all the same"
"""In the description of a device, the end of what is said of a comparison that showed a difference."""


class Device:
    """A CPU, which is deterministic, and the interface of every device that trains."""

    name = "cpu"
    """What torch calls the device."""

    @property
    def description(self) -> str:
        """The device and processor, for the metadata of a run; complete when the run has ended."""
        return f"cpu ({processor()})"

    @property
    def identity(self) -> str:
        """What checkpoints say of the device: a killed run goes on only on a device of equal identity."""
        return self.name

    def compare(self, derivatives: Callable[[str], agreement.Derivatives], title: str) -> None:
        """Do nothing: a GPU compares loss and gradients of one batch with those of the CPU here."""

    def check(self, operators: Iterable[agreement.Operator], title: str) -> None:
        """Do nothing: a GPU compares operators in float32 with float64 here."""

    @contextmanager
    def memory_advice(self, advice: str) -> Iterator[None]:
        """Within the block, raise ValueError with `advice` if the device's memory is used up."""
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
    """The GPU that torch takes: deterministic, in float32 without TF32.

    `on_difference`, stop or warn, says what a difference from the CPU does. torch raises a RuntimeError, or in a build
    without CUDA an AssertionError, if it finds no GPU or none that it has kernels for.
    """

    name = "cuda"

    def __init__(self, on_difference: str = "stop"):
        self.on_difference, self.notes = on_difference, {}
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
        """The name of the GPU, and how it compared with the CPU and with float64, for the metadata of a run."""
        return f"cuda ({'; '.join([self.card, *(f'{what}: {how}' for what, how in self.notes.items())])})"

    @property
    def identity(self) -> str:
        """Name and compute capability of the GPU, for checkpoints: other kinds of GPU add up in another order."""
        return f"cuda ({self.card}, {self.capability})"

    def compare(self, derivatives: Callable[[str], agreement.Derivatives], title: str) -> None:
        """Compare loss and gradients of one batch, which `derivatives` computes on a given device, on CPU and GPU.

        A relative difference above `agreement.TOLERANCE` raises a ValueError that begins with `title`, or only warns
        if the configuration says `device_check: warn`.
        """
        here, there = derivatives("cpu"), derivatives(self.name)
        log.info("loss %.8g on the CPU, %.8g on the GPU", here.loss, there.loss)
        self._note(
            "one batch compared with the CPU",
            agreement.difference(here, there),
            f"{title}: the GPU computes other numbers than the CPU",
        )

    def check(self, operators: Iterable[agreement.Operator], title: str) -> None:
        """Raise ValueError if an operator in float32 differs from float64; only warn with `device_check: warn`."""
        differences = (agreement.operator_difference(operator, self.name) for operator in operators)
        self._note(
            "operators on unit normal inputs compared with float64",
            next(filter(None, differences), None),
            f"{title}: the GPU computes other numbers in float32 than in float64",
        )

    def _note(self, what: str, difference: str | None, fault: str) -> None:
        """Note what a comparison has found; stop because of a difference, or warn, as the configuration says."""
        if difference is None:
            self.notes[what] = f"within {agreement.TOLERANCE:g}"
            return
        line = f"{fault}: {difference}; expected a difference of {agreement.TOLERANCE:g} at most"
        if self.on_difference == "stop":
            raise ValueError(f"{line}. To train all the same: --config device_check=warn")
        warn(line)
        self.notes[what] = f"more than {agreement.TOLERANCE:g} {APART}"


def open_device(name: str, on_difference: str = "stop", key: str = "device") -> Device:
    """The device called `name`, cpu or cuda, ready for a training job.

    `on_difference` is the key device_check of config.yaml, and `key` that which names the device. Raises ValueError
    with torch's message if there is no GPU that torch can use.
    """
    if name == "cpu":
        return Device()
    try:
        return GPU(on_difference)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"{key} = cuda: {first_line(error)} (torch {torch.__version__}); to train on the CPU: --config {key}=cpu"
        ) from error
