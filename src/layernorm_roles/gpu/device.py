"""One interface for the CPU and the GPU on which a model is trained, so that training code need not know which it is.

>>> device = open_device("cuda")                  # a ValueError with torch's words if there is no GPU
>>> device.compare(derivatives, "gpt seed 3")     # a ValueError if the GPU computes other numbers than the CPU
>>> model.to(device.name)
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from layernorm_roles.compiling import processor
from layernorm_roles.gpu import agreement
from layernorm_roles.memory import first_line, is_out_of_memory, warn

log = logging.getLogger("layernorm_roles")

APART = "apart, trained all the same"
"""The words at the end of a GPU's note on a failed comparison, in `GPU.description`, if `device_check` is warn."""


class Device:
    """A device on which models are trained: this base class stands for the CPU, its subclass `GPU` for a GPU."""

    name = "cpu"
    """The name of the training device in torch; GPU has "cuda"."""

    @property
    def description(self) -> str:
        """The device in words, for the metadata of results, such as "cpu (znver3 with 256-bit vectors)"."""
        return f"cpu ({processor()})"

    @property
    def identity(self) -> str:
        """The name of the device in checkpoints, "cpu"; training resumes only on a device with an equal name."""
        return self.name

    def compare(self, derivatives: Callable[[str], agreement.Derivatives], title: str) -> None:
        """Do nothing: on a GPU, this method compares the loss and gradients on a batch of data with those of the CPU.

        The arguments are explained in `GPU.compare`.
        """

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
    """A GPU for training: torch's current CUDA device, set to deterministic algorithms and to float32 without TF32.

    If `compare` finds that the GPU computes wrong numbers, it raises ValueError for `on_difference` "stop", and prints
    a warning for "warn". The constructor raises RuntimeError or AssertionError if torch can use no GPU.
    """

    name = "cuda"

    def __init__(self, on_difference: str = "stop"):
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
        """The name of the GPU and the results of its comparisons with the CPU, as text for the metadata of tables."""
        how = f"; one batch compared with the CPU: {self.compared}" if self.compared else ""
        return f"cuda ({self.card}{how})"

    @property
    def identity(self) -> str:
        """The name and compute capability of the GPU, as checkpoints store them.

        Training resumes only on a GPU with equal name and capability, since other GPUs round differently.
        """
        return f"cuda ({self.card}, {self.capability})"

    def compare(self, derivatives: Callable[[str], agreement.Derivatives], title: str) -> None:
        """Check that the loss and gradients on a batch of data, computed on the GPU, agree with those of the CPU.

        `derivatives(device)` computes them on "cpu" or "cuda". A relative difference above 1e-4 raises ValueError or,
        if the device was opened with `on_difference` "warn", prints a warning. The message begins with `title`.
        """
        here, there = derivatives("cpu"), derivatives(self.name)
        log.info("loss %.8g on the CPU, %.8g on the GPU", here.loss, there.loss)
        if (difference := agreement.difference(here, there)) is None:
            self.compared = f"within {agreement.TOLERANCE:g}"
            return
        line = (
            f"{title}: the GPU computes other numbers than the CPU: {difference}; expected a difference of "
        )
        line += f"{agreement.TOLERANCE:g} at most"
        if self.on_difference == "stop":
            raise ValueError(f"{line}. To train all the same: --config device_check=warn")
        warn(line)
        self.compared = f"more than {agreement.TOLERANCE:g} {APART}"


def open_device(name: str, on_difference: str = "stop") -> Device:
    """The training device called `name`, "cpu" or "cuda"; raises ValueError for "cuda" if torch can use no GPU.

    `on_difference` says what `Device.compare` does if it finds that the GPU computes wrong numbers: "stop" raises
    ValueError, "warn" prints a warning.
    """
    if name == "cpu":
        return Device()
    try:
        return GPU(on_difference)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"device = cuda: {first_line(error)} (torch {torch.__version__}); to train on the CPU: --config device=cpu"
        ) from error
