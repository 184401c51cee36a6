"""Runs whose loss stops being finite: they end there, and their tables say so by infinite losses.

A learning rate that is too high for one variant must not stop a reproduction, and a run left out would make that
variant look better than it is. So the run counts, as worse than every run that did not diverge.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

WORST = {"train_loss": np.inf, "test_loss": np.inf, "valid_loss": np.inf, "test_accuracy": 0.0}
"""What a diverged run has in those columns of its metrics that say how well the model does."""


def rows_after_divergence(
    title: str,
    step: int,
    last: Mapping[str, Any] | None,
    later: Iterable[int],
    at: Callable[[int], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The rows of a run's metrics at the evaluations of `later` steps, if its loss is no longer finite at `step`.

    What neither WORST nor `at`, a function of the step, says is taken from `last`, the row before. `title` names the
    run in the line that is printed. Raises ValueError without a row before: the model cannot be trained at all.
    """
    if not last:
        raise ValueError(
            f"{title}: the loss is not finite at step {step}; expected a finite number. A norm that is finite "
            "everywhere, or whose results are smaller, may help"
        )
    print(f"{title}: the loss is no longer finite at step {step}; the run counts as diverged", flush=True)
    worst = {column: value for column, value in WORST.items() if column in last}
    return [{**last, **worst, **at(evaluated)} for evaluated in sorted(later)]
