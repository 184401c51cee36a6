"""Training steps recorded as CUDA graphs: a small model spends most of its time starting kernels one by one.

The module also remembers in which ways its process computes, which are part of what a run's metadata say of its device.
"""

from collections.abc import Callable
from typing import Any

import torch

from layernorm_roles.memory import first_line, warn

STEPS, GRAPH, EAGER = "a training step", "as one CUDA graph", "kernel by kernel"
PLAIN_CALLS = 3
"""Ordinary calls of a training step before it is recorded."""

_taken: dict[str, str] = {}


def note(what: str, how: str) -> None:
    """Remember that `what` is done in the way `how`."""
    _taken[what] = how


def taken() -> dict[str, str]:
    """The ways that this process has taken, by what was done."""
    return dict(_taken)


class Recorded:
    """A training step that is recorded after PLAIN_CALLS ordinary calls and then replayed.

    The ordinary calls run on a separate CUDA stream, so that libraries set up what cannot be recorded. The step must
    find its input at one address in every call, and must never wait for a number from the GPU. A step that cannot be
    recorded is taken kernel by kernel, with a warning.
    """

    def __init__(self, step: Callable[[], None], stream: Any):
        """`stream`, a torch.cuda.Stream, is for the ordinary calls. cuBLAS keeps 32 MiB for each that it has seen."""
        self.step, self.stream, self.plain_calls_left = step, stream, PLAIN_CALLS
        self.recorded: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Take one training step."""
        if self.plain_calls_left:
            self.plain_calls_left -= 1
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.step()
            torch.cuda.current_stream().wait_stream(self.stream)
            return
        self.recorded = self.recorded or self._record()
        self.recorded()

    def _record(self) -> Callable[[], None]:
        """The step as a CUDA graph, or as it is if it cannot be recorded."""
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        # A recording that fails leaves the generator as if it went on, and no number could be drawn.
        spare = generator.clone_state()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            generator.graphsafe_set_state(spare)
            warn(f"{STEPS} cannot be done {GRAPH} ({first_line(error)}); it is done {EAGER}", error)
            note(STEPS, EAGER)
            return self.step
        note(STEPS, GRAPH)
        return graph.replay
