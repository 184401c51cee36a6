"""Runs whose loss stops being finite: they end there, and their tables say so by infinite losses.

A learning rate that is too high for one variant must not stop a reproduction, and a run left out would make that
variant look better than it is. So the run counts, as worse than every run that did not diverge.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

WORST = {"train_loss": np.inf, "test_loss": np.inf, "valid_loss": np.inf, "test_accuracy": 0.0}
"""The values of a diverged run in the columns of its metrics that say how good the model is."""


def rows_after_divergence(
    title: str,
    step: int,
    last: Mapping[str, Any] | None,
    later: Iterable[int],
    at: Callable[[int], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The rows of a run's metrics at the evaluations of `later` steps, if its loss is no longer finite at `step`.

    `at` gives the columns that depend on the step, and WORST the losses; the other columns are taken from `last`, the
    row before. A line that `title` begins is printed. Raises ValueError if there is no row before: then the model
    cannot be trained at all.
    """
    if not last:
        raise ValueError(
            f"{title}: the loss is not finite at step {step}; expected a finite number. A norm that is finite "
            "everywhere, or whose results are smaller, may help"
        )
    print(f"{title}: the loss is no longer finite at step {step}; the run counts as diverged", flush=True)
    worst = {column: value for column, value in WORST.items() if column in last}
    return [{**last, **worst, **at(evaluated)} for evaluated in sorted(later)]
