"""The device of a training job: a CPU or a GPU, with one interface, so that training code need not know which.

    device = open_device("cuda")                  # refused with a reason if the GPU cannot be used
    device.compare(derivatives, "gpt seed 3")     # refused if the GPU computes other numbers than the CPU
    model.to(device.name)
    step = device.recorded(step)                  # on a GPU one CUDA graph

Only jobs that train import this module, since it imports torch.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from layernorm_roles.gpu import agreement, cards, driver, recording
from layernorm_roles.memory import first_line, is_out_of_memory, warn

log = logging.getLogger("layernorm_roles")

OptimiserT = TypeVar("OptimiserT")

APART = "apart, trained all the same"
"""How the description of a device ends what it says of a comparison that found a difference."""


class Device:
    """A CPU. It has one thread a job, which makes it deterministic."""

    name = "cpu"
    """What torch calls the device."""

    @property
    def description(self) -> str:
        """What a run's metadata say of the device; the whole of it is known when the run has ended."""
        from layernorm_roles.compiling import processor

        return f"cpu ({processor()})"

    @property
    def identity(self) -> str:
        """What a checkpoint says of the device: a run goes on where its arithmetic is that of its beginning."""
        return self.name

    def prepare(self) -> None:
        """Make torch deterministic and exact; to be called before torch computes anything."""

    def compare(self, derivatives: Callable[[str], agreement.Derivatives], title: str) -> None:
        """Compare what `derivatives` gives for "cpu" and for the device, both of one batch."""

    def check(self, operators: Iterable[agreement.Operator], title: str) -> None:
        """Compare each of `operators` with itself in float64."""

    def recorded(self, step: Callable[[], None]) -> Callable[[], None]:
        """`step` in the form in which the device takes it fastest."""
        return step

    def recordable(self, optimiser: OptimiserT) -> OptimiserT:
        """`optimiser`, an `optimiser.AdamW`, in the form that a recorded step can take."""
        return optimiser

    @contextmanager
    def memory_advice(self, advice: str) -> Iterator[None]:
        """Within the block, memory that is used up is a ValueError that gives `advice`."""
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
    """One GPU of this machine: deterministic, in float32 without TF32, with recorded steps."""

    name = "cuda"

    def __init__(self, on_difference: str = "stop"):
        self.on_difference = on_difference
        self.card: driver.Card | None = None
        self.stream: Any = None

    @property
    def description(self) -> str:
        """The card, and how the run was computed on it."""
        ways = "; ".join(f"{what}: {how}" for what, how in sorted(recording.taken().items()))
        return f"cuda ({self.card.name if self.card else 'no card'}{'; ' + ways if ways else ''})"

    @property
    def identity(self) -> str:
        """The card's name and compute capability: another kind of card adds up in another order."""
        return f"cuda ({self.card.name}, {self.card.capability})" if self.card else self.name

    def prepare(self) -> None:
        """Take a card, set torch, and run a kernel.

        Raises NoGPU, which says what is the matter, if there is no card or it runs no kernel.
        """
        self.card = cards.take(driver.usable_cards())
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it matrix products are refused
        torch.use_deterministic_algorithms(True)
        # Nothing is read before it is written, so to fill new memory would only cost kernels.
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.set_float32_matmul_precision("highest")
        try:
            torch.cuda.set_device(self.card.index)
            (torch.zeros(1, device=self.name) + 1).item()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if "busy or unavailable" in str(error):
                raise driver.NoGPU(
                    f"{self.card.name} is taken by another process, and takes one at a time: its compute mode is "
                    "exclusive (`nvidia-smi -q -d COMPUTE`); run one job at a time on it (--resources gpu=1), start "
                    "MPS (`nvidia-cuda-mps-control -d`), or let the administrator set `nvidia-smi -c DEFAULT`"
                ) from error
            raise driver.NoGPU(
                f"{self.card.name} (compute capability {'.'.join(map(str, self.card.capability))}) runs no kernel of "
                f"torch {torch.__version__}: {first_line(error)}; if that is no accident, install a "
                "build of torch with kernels for it: https://pytorch.org/get-started/locally"
            ) from error
        log.info("GPU %d, %s", self.card.index, self.card.name)

    def compare(self, derivatives: Callable[[str], agreement.Derivatives], title: str) -> None:
        """Compare loss and gradients of one batch, which `derivatives` computes on a given device, on CPU and GPU.

        A relative difference above `agreement.TOLERANCE` raises a ValueError that begins with `title`, or only warns
        if the configuration says `device_check: warn`.
        """
        here, there = derivatives("cpu"), derivatives(self.name)
        what = "one batch compared with the CPU"
        found = agreement.difference(here, there)
        if found is None:
            log.info("loss %.8g on the CPU, %.8g on the GPU", here.loss, there.loss)
            recording.note(what, f"loss and gradients within {agreement.TOLERANCE:g}")
        else:
            self._refuse(what, f"{title}: the GPU computes other numbers than the CPU: {found}")

    def check(self, operators: Iterable[agreement.Operator], title: str) -> None:
        """Raise ValueError if an operator differs from itself in float64, or warn, as `compare` does."""
        what = "operators on unit normal inputs compared with float64"
        for operator in operators:
            if found := agreement.operator_difference(operator, self.name):
                self._refuse(
                    what, f"{title}: the GPU computes other numbers in float32 than in float64: {found}"
                )
                return
        recording.note(what, f"within {agreement.TOLERANCE:g}")

    def _refuse(self, what: str, found: str) -> None:
        """Stop because of a difference that a comparison found, or warn and note it, as the configuration says."""
        line = f"{found}; expected a difference of {agreement.TOLERANCE:g} at most"
        if self.on_difference == "stop":
            raise ValueError(f"{line}. To train all the same: --config device_check=warn")
        warn(line)
        recording.note(what, f"more than {agreement.TOLERANCE:g} {APART}")

    def recorded(self, step: Callable[[], None]) -> Callable[[], None]:
        """`step` as a CUDA graph, or kernel by kernel where it cannot be recorded."""
        self.stream = self.stream or torch.cuda.Stream()
        return recording.Recorded(step, self.stream)

    def recordable(self, optimiser: OptimiserT) -> OptimiserT:
        """The learning rate, which changes, lies in the GPU's memory, where a CUDA graph reads it."""
        optimiser.lr, optimiser.capturable = torch.tensor(optimiser.lr, device=self.name), True
        return optimiser


def open_device(name: str, on_difference: str = "stop") -> Device:
    """The device called `name`, cpu or cuda, ready for a training job.

    `on_difference` is the key device_check of config.yaml. Raises NoGPU if there is no GPU that can be used.
    """
    device = GPU(on_difference) if name == "cuda" else Device()
    device.prepare()
    return device
