"""How many Gaussian keys it takes, by dimension, for a given share to be unselectable (no query's top score)."""

from bisect import bisect_left

import pandas as pd

from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.script import Progress
from layernorm_roles.settings.random_keys import Law


def table(settings: Law) -> pd.DataFrame:
    """The table `gaussian_law`: how many Gaussian keys there must be for a given share of them to be unselectable."""
    first, last = settings.dimensions
    dimensions = range(first, last + 1)
    progress = Progress("the law of widths", len(dimensions), "dimensions")
    rows = []
    for done, d in enumerate(dimensions, start=1):
        for causal in (False, True):
            for share in settings.shares:
                rows.append((d, share, causal, keys_for(share, d, causal, settings.largest)))
        progress(done)
    return pd.DataFrame(rows, columns=["d", "share", "causal", "n"]).astype({"n": "float64"})


def keys_for(share: float, d: int, causal: bool, largest: int) -> int | None:
    """The smallest number of Gaussian keys in R^d of which an expected share of at least `share` is unselectable."""

    def expected_share(n: int) -> float:
        return expected_unselectable(n, d, causal) / n

    if expected_share(largest) < share:
        return None
    return 1 + bisect_left(range(1, largest), share, key=expected_share)
