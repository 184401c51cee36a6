"""Random keys (Figures 1c, 1d): how often does a Gaussian matrix have an unselectable key, after each norm?"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from layernorm_roles.norms import build
from layernorm_roles.selectability.certify import certify_many
from layernorm_roles.selectability.gaussian import expected_after

RANDOM_KEYS = 3
"""Stream of np.random.default_rng([seed, stream, n, d]): the same matrices for every norm."""

SEED_RULE = f"keys: numpy default_rng([seed, RANDOM_KEYS = {RANDOM_KEYS}, n, d]).standard_normal"


def table(
    settings: Mapping[str, Any], norms: Mapping[str, str], report: Callable[[int], None] = lambda cells: None
) -> pd.DataFrame:
    """Table random_keys: `settings["matrices"]` Gaussian matrices for each size n x d, after each norm, in float64.

    norms: name in the table -> what `norms.build` takes. Built-in norms have eps = 0. Every certificate is
    verified. `report` gets the number of cells done.
    """
    for norm in norms.values():
        build(norm, settings["dimensions"][0])  # an unusable one is refused before the work
    rows = []
    for done, (n, d, keys) in enumerate(_matrices(settings, settings["dimensions"]), start=1):
        for name, norm in norms.items():
            row = _row(_normalise(build(norm, d), keys))
            rows.append(
                {"norm": name, "n": n, "d": d, "expected_unselectable": expected_after(norm, n, d), **row}
            )
        report(done)
    return pd.DataFrame(rows).astype({"expected_unselectable": float})


def precision_table(
    settings: Mapping[str, Any], report: Callable[[int], None] = lambda cells: None
) -> pd.DataFrame:
    """Table random_keys_precision: the same matrices after LayerNorm with each eps, in each precision.

    With eps > 0 LayerNorm's output is not on a sphere: the smaller a key's variance, the shorter its image.
    """
    precision, rows = settings["precision"], []
    for done, (n, d, keys) in enumerate(_matrices(settings, precision["dimensions"]), start=1):
        for dtype in precision["dtypes"]:
            for eps in precision["eps"]:
                row = _row(_normalise(build("layernorm", d, float(eps)), keys.astype(dtype)))
                del row["std_unselectable"], row["max_residual"]
                rows.append({"dtype": dtype, "eps": float(eps), "n": n, "d": d, **row})
        report(done)
    return pd.DataFrame(rows)


def cells(settings: Mapping[str, Any], dimensions: list[int]) -> list[tuple[int, int]]:
    """(n, d) of every cell; `keys` and `dimensions` in the settings are the first and the last value."""
    (n_first, n_last), (d_first, d_last) = settings["keys"], dimensions
    return [(n, d) for d in range(d_first, d_last + 1) for n in range(n_first, n_last + 1)]


def _matrices(
    settings: Mapping[str, Any], dimensions: list[int]
) -> Iterator[tuple[int, int, Float[np.ndarray, "matrices n d"]]]:
    for n, d in cells(settings, dimensions):
        rng = np.random.default_rng([settings["seed"], RANDOM_KEYS, n, d])
        yield n, d, rng.standard_normal((settings["matrices"], n, d))


def _normalise(norm: torch.nn.Module, keys: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return norm.to(torch.from_numpy(keys).dtype)(torch.from_numpy(keys)).numpy()


def _row(keys: Float[np.ndarray, "matrices n d"]) -> dict[str, float]:
    certificates = certify_many(keys)
    margin, residual = certificates.verify(keys)
    unselectable = certificates.count("unselectable")
    margins = margin[(certificates.verdict == "selectable") & np.isfinite(margin)]
    residuals = residual[certificates.verdict == "unselectable"]
    return {
        "matrices": len(keys),
        "any_unselectable": (unselectable > 0).mean(),
        "mean_unselectable": unselectable.mean(),
        "std_unselectable": unselectable.std(ddof=1),
        "n_borderline": int(certificates.count("borderline").sum()),
        "min_margin": margins.min() if len(margins) else np.nan,
        "max_residual": residuals.max() if len(residuals) else np.nan,
    }
