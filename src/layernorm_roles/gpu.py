"""What training on a GPU needs besides a device: determinism, and steps recorded as CUDA graphs.

Not yet run on a GPU.
"""

import os
from collections.abc import Callable

import torch


def be_deterministic(device: str) -> None:
    """On a GPU, let torch refuse what differs from run to run; one CPU thread is deterministic as it is."""
    if device != "cpu":  # also because it costs a second to import
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it matrix products are refused
        torch.use_deterministic_algorithms(True)


def recorded(step: Callable[[], None], device: str) -> Callable[[], None]:
    """`step` made fast on `device`: on a GPU, where small models spend their time starting kernels, a CUDA graph."""
    return Recorded(step) if torch.device(device).type == "cuda" else step


class Recorded:
    """A step as a CUDA graph: recorded at its fourth call, then replayed.

    Until then it is called, on a stream of its own, so that libraries set up what cannot be recorded. It must find
    its input in the same memory every time, and never wait for a number from the GPU.
    """

    def __init__(self, step: Callable[[], None], plain_calls: int = 3):
        self.step, self.plain_calls = step, plain_calls
        self.stream, self.graph = torch.cuda.Stream(), None

    def __call__(self) -> None:
        if self.plain_calls:
            self.plain_calls -= 1
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                self.step()
            torch.cuda.current_stream().wait_stream(self.stream)
            return
        if self.graph is None:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()
        self.graph.replay()
