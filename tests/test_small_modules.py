"""Modules of a function or two: divergence, memory and slices."""

import logging

import numpy as np
import pytest

from layernorm_roles import memory
from layernorm_roles.divergence import rows_after_divergence
from layernorm_roles.slices import slices


def test_a_diverged_run_has_the_worst_values_at_every_evaluation_that_is_left(capsys):
    losses = ("train_loss", "test_loss", "valid_loss")
    last = {"step": 2, "test_accuracy": 0.9, "learning_rate": 0.1, "seed": 4} | dict.fromkeys(losses, 0.5)
    found = rows_after_divergence("run", 3, last, {8, 4}, lambda s: {"step": s, "learning_rate": 1 / s})
    worst = {"test_accuracy": 0.0, "seed": 4} | dict.fromkeys(losses, np.inf)
    assert found == [{"step": step, "learning_rate": 1 / step, **worst} for step in (4, 8)]
    assert "no longer finite at step 3" in capsys.readouterr().out
    for nothing in (None, {}):
        with pytest.raises(ValueError, match=r"^run: the loss is not finite at step 3; expected"):
            rows_after_divergence("run", 3, nothing, [4], dict)


class OutOfMemoryError(Exception):
    """Called like that of torch."""


@pytest.mark.parametrize(
    ("error", "line", "used_up"),
    [
        (MemoryError(), "MemoryError", True),
        (OutOfMemoryError("no\nmore"), "no", True),
        (RuntimeError("\n CUDA error: out of memory"), "CUDA error: out of memory", True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"), "CUBLAS_STATUS_ALLOC_FAILED", True),
        (RuntimeError("CPU: can't allocate memory"), "CPU: can't allocate memory", True),
        (RuntimeError("sizes of memory differ"), "sizes of memory differ", False),
    ],
)
def test_errors_of_used_up_memory_are_told_from_others_and_shortened(error, line, used_up, capsys, caplog):
    assert (memory.is_out_of_memory(error), memory.first_line(error)) == (used_up, line)
    with caplog.at_level(logging.WARNING, "layernorm_roles"):
        memory.warn("words", error)
    assert capsys.readouterr().err == "warning: words\n" and caplog.records[0].exc_info[1] is error


@pytest.mark.parametrize("n,size,ends", [(7, 3, [3, 6, 7]), (6, 3, [3, 6]), (2, 0, [1, 2]), (0, 3, [])])
def test_slices_cover_all_rows(n, size, ends):
    assert slices(n, size) == [slice(first, last) for first, last in zip([0, *ends], ends, strict=False)]
