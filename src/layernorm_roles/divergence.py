"""Training runs whose loss stops being finite: they end at that step, with infinite losses in their tables.

A learning rate that is too high for one variant of the norm must not stop the training of others, and to leave the run
out would make that variant look better than it is. So the run counts, as worse than every run that did not diverge.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

WORST = {"train_loss": np.inf, "test_loss": np.inf, "valid_loss": np.inf, "test_accuracy": 0.0}
"""What the metrics of a diverged training run have in the columns that say how good its model is."""


def rows_after_divergence(
    title: str,
    step: int,
    last: Mapping[str, Any] | None,
    later: Iterable[int],
    at: Callable[[int], dict[str, Any]],
) -> list[dict[str, Any]]:
    """The rows of a training run's metrics at the evaluation steps `later`, if its loss is not finite at `step`.

    `at(step)` gives the columns that depend on the step, and WORST losses and accuracy; the other columns are those of
    `last`, the row of the evaluation before. A line that begins with `title` is printed. Raises ValueError if `last` is
    None or empty: then the loss was never finite, and the model cannot be trained at all.
    """
    if not last:
        raise ValueError(
            f"{title}: the loss is not finite at step {step}; expected a finite number. A norm that is finite "
            "everywhere, or whose results are smaller, may help"
        )
    print(f"{title}: the loss is no longer finite at step {step}; the run counts as diverged", flush=True)
    worst = {column: value for column, value in WORST.items() if column in last}
    return [{**last, **worst, **at(evaluated)} for evaluated in sorted(later)]
