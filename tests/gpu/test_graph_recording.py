"""Steps recorded as CUDA graphs, with a stand-in for CUDA that keeps what is called while it records."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch

from layernorm_roles.gpu import recording
from layernorm_roles.gpu.device import GPU


class Generator:
    """A random generator that is left in the state in which a recording has put it, as torch's."""

    def __init__(self):
        self.state = "ready"

    def clone_state(self):
        return self.state

    def graphsafe_set_state(self, state):
        self.state = state


@pytest.fixture
def cuda(monkeypatch):
    """A stand-in for torch.cuda; `failing` is what a recording raises, if not None."""
    stream, generator = SimpleNamespace(wait_stream=lambda other: None), Generator()
    stand_in = SimpleNamespace(recording=[], failing=None, generator=generator)

    class Graph:
        def replay(self):
            for call in self.kept:
                call()

    @contextmanager
    def record(graph):
        stand_in.recording.append(graph)
        graph.kept, generator.state = [], "recording"
        try:
            yield
            if stand_in.failing:
                raise stand_in.failing
            generator.state = "ready"
        finally:
            stand_in.recording.pop()

    parts = {"Stream": lambda: stream, "current_stream": lambda: stream, "stream": nullcontext}
    parts |= {"CUDAGraph": Graph, "graph": record, "default_generators": [generator]}
    parts |= {"current_device": lambda: 0}
    monkeypatch.setattr(torch, "cuda", SimpleNamespace(**parts))
    return stand_in


def counting(cuda):
    """A step that adds to a list when it is taken or replayed, and the list."""
    taken = []

    def step():
        (cuda.recording[-1].kept.append if cuda.recording else lambda call: call())(
            lambda: taken.append("step")
        )

    return step, taken


def test_a_recorded_step_is_taken_once_a_call(cuda):
    step, taken = counting(cuda)
    take = GPU().recorded(step)
    for calls in range(1, 8):
        take()
        assert len(taken) == calls
    assert len(take.recorded.__self__.kept) == 1
    assert recording.taken() == {"a training step": "as one CUDA graph"}


def test_all_steps_of_a_process_share_a_stream_since_each_one_costs_memory(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "Stream", object)
    gpu = GPU()
    assert gpu.recorded(counting(cuda)[0]).stream is gpu.recorded(counting(cuda)[0]).stream


def test_a_step_that_cannot_be_recorded_is_taken_kernel_by_kernel(cuda, capsys):
    """Also by the random generator, which a failed recording leaves as if it went on."""
    cuda.failing = RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")
    step, taken = counting(cuda)
    take = GPU().recorded(step)
    for calls in range(1, 8):
        take()
        assert len(taken) == calls
    assert cuda.generator.state == "ready"
    said = capsys.readouterr().err
    assert (
        said.count("\n") == 1
        and "not permitted when stream is capturing); it is done kernel by kernel" in said
    )
    assert "a training step: kernel by kernel" in GPU().description


def test_memory_that_is_used_up_while_recording_is_no_reason_to_go_on(cuda):
    cuda.failing = torch.OutOfMemoryError("CUDA out of memory.")
    take = GPU().recorded(counting(cuda)[0])
    for _ in range(3):
        take()
    with pytest.raises(torch.OutOfMemoryError):
        take()
