"""Which device trains, and what training on a GPU needs: determinism, and steps recorded as CUDA graphs.

None of it has run on a GPU yet. torch is imported where it is needed, since Snakemake asks `wanted` while it plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def wanted(device: str) -> bool:
    """Whether training jobs use a GPU, for the key `device` of config.yaml: auto uses one if this machine has it."""
    return device == "cuda" or (device == "auto" and Path("/dev/nvidia0").exists())


def be_deterministic(device: str) -> None:
    """Where `device` is a GPU, let torch refuse operations whose results differ from run to run.

    On a CPU nothing is done, because each job has one thread there, which is deterministic.
    """
    if device != "cpu":  # not on a CPU, also because torch takes a second to import
        import torch

        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it matrix products are refused
        torch.use_deterministic_algorithms(True)


def recorded(step: Callable[[], None], device: str) -> Callable[[], None]:
    """`step` as a CUDA graph where `device` is a GPU, else `step` itself.

    On a GPU small models spend most of their time starting kernels, which a graph starts all at once.
    """
    return Recorded(step) if device != "cpu" else step


class Recorded:
    """A training step as a CUDA graph, which is recorded after `plain_calls` ordinary calls and then replayed.

    The ordinary calls run on a separate CUDA stream, so that libraries set up what cannot be recorded. The step must
    find its input at one address in every call, and must never wait for a number from the GPU.
    """

    def __init__(self, step: Callable[[], None], plain_calls: int = 3):
        import torch

        self.step, self.plain_calls = step, plain_calls
        self.cuda, self.stream, self.graph = torch.cuda, torch.cuda.Stream(), None

    def __call__(self) -> None:
        """Take one training step."""
        if self.plain_calls:
            self.plain_calls -= 1
            self.stream.wait_stream(self.cuda.current_stream())
            with self.cuda.stream(self.stream):
                self.step()
            self.cuda.current_stream().wait_stream(self.stream)
            return
        if self.graph is None:
            self.graph = self.cuda.CUDAGraph()
            with self.cuda.graph(self.graph):
                self.step()
        self.graph.replay()
