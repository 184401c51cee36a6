"""What can be known of the GPU path without a GPU."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch

from layernorm_roles import gpu


def test_a_recorded_step_is_taken_once_a_call(monkeypatch):
    """With a stand-in for CUDA, whose graphs keep what is called while they record and do it when replayed."""
    taken, recording = [], []

    class Graph:
        def replay(self):
            taken.extend(self.kept)

    @contextmanager
    def record(graph):
        recording.append(graph)
        graph.kept = []
        yield
        recording.pop()

    def step():
        (recording[-1].kept if recording else taken).append("step")

    stream = SimpleNamespace(wait_stream=lambda other: None)
    monkeypatch.setattr(
        torch,
        "cuda",
        SimpleNamespace(
            Stream=lambda: stream,
            current_stream=lambda: stream,
            stream=nullcontext,
            CUDAGraph=Graph,
            graph=record,
        ),
    )
    take = gpu.recorded(step, "cuda")
    for calls in range(1, 8):
        take()
        assert len(taken) == calls
    assert take.graph.kept == ["step"]
