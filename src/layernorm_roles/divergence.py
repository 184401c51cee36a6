"""Training runs whose loss stops being finite: they end at that step, with infinite losses in their tables.

Such a run counts, as the worst; to leave it out would make its variant of the norm look better than it is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

WORST = {"train_loss": np.inf, "test_loss": np.inf, "valid_loss": np.inf, "test_accuracy": 0.0}
"""The values of a diverged training run in the columns of metrics that say how good its model is."""


def rows_after_divergence(
    title: str,
    step: int,
    last: Mapping[str, Any] | None,
    later: Iterable[int],
    at: Callable[[int], dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return a row of metrics for each evaluation step in `later` of a run whose loss is not finite at `step`.

    A row is a copy of `last`, the row of the last evaluation before `step`, with infinite losses and an accuracy of 0.
    For the row at step s, the columns that `at(s)` returns replace those of `last`. A printed line that begins with
    `title`, a name for the training, says that the run diverged. Raises ValueError if `last` is None or empty.
    """
    if not last:
        raise ValueError(
            f"{title}: the loss is not finite at step {step}; expected a finite number. A norm that is finite "
            "everywhere, or whose results are smaller, may help"
        )
    print(f"{title}: the loss is no longer finite at step {step}; the run counts as diverged", flush=True)
    worst = {column: value for column, value in WORST.items() if column in last}
    return [{**last, **worst, **at(evaluated)} for evaluated in sorted(later)]
