"""How often does a matrix of Gaussian keys have one that no query selects, after each norm and in each precision?

A query selects a key if it gives this key the strictly highest score. Source: Brody et al. 2023, section 3.2 and
Figures 1c and 1d.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from layernorm_roles import random_streams, store
from layernorm_roles.gaussian_keys import expected_unselectable
from layernorm_roles.norms import build
from layernorm_roles.provenance import provenance
from layernorm_roles.random_keys import law
from layernorm_roles.random_streams import Stream
from layernorm_roles.script import Progress
from layernorm_roles.selectability.certify import certify_many
from layernorm_roles.settings.random_keys import RandomKeys
from layernorm_roles.variants import maps


def measure(plan: Mapping[str, Any], outputs: Mapping[str, str | Path]) -> None:
    """Count unselectable Gaussian keys, and write the tables random_keys, random_keys_precision and gaussian_law."""
    settings = RandomKeys.model_validate(plan["settings"])
    about = provenance(plan, "cpu", Stream.RANDOM_KEYS)
    tables = {
        "random_keys": table(settings, plan["seed"], plan["norms"]),
        "random_keys_precision": precision_table(settings, plan["seed"]),
        "gaussian_law": law.table(settings.law),
    }
    for name, frame in tables.items():
        store.write(frame, name, outputs[name], about)


def table(settings: RandomKeys, seed: int, norms: Mapping[str, str]) -> pd.DataFrame:
    """The table `random_keys`: how many keys of Gaussian matrices are unselectable, by norm, n and d."""
    for norm in norms.values():
        build(norm, settings.dimensions[0])  # an unusable one is refused before the work
    rows = []
    for n, d, keys in _matrices(settings, seed, settings.dimensions, "random keys"):
        for name, norm in norms.items():
            cell = {"norm": name, "n": n, "d": d, "expected_unselectable": expected_after(norm, n, d)}
            rows.append(cell | _row(build(norm, d), keys))
    return pd.DataFrame(rows).astype({"expected_unselectable": float})


def precision_table(settings: RandomKeys, seed: int) -> pd.DataFrame:
    """The table `random_keys_precision`: how many keys of Gaussian matrices are unselectable after LayerNorm."""
    precision, rows = settings.precision, []
    for n, d, keys in _matrices(settings, seed, precision.dimensions, "random keys, precision"):
        for dtype in precision.dtypes:
            for eps in precision.eps:
                row = _row(build("layernorm", d, eps), keys.astype(dtype))
                del row["std_unselectable"], row["max_residual"]
                rows.append({"dtype": dtype, "eps": eps, "n": n, "d": d, **row})
    return pd.DataFrame(rows)


def expected_after(norm: str, n: int, d: int) -> float | None:
    """The expected number of unselectable keys among n Gaussian keys in R^d after the norm `norm`.

    `norm` is a name for `norms.build`. The result is None if no formula is known, as for a user's own norm.
    """
    both = maps(norm)
    if both is None:
        return None
    variant = both[0]
    if variant.scales:  # a sphere in one dimension is two points, of which many keys are copies
        return 0.0 if d - variant.projects > 1 else None
    if variant.projects:
        return expected_unselectable(n, d - 1) if d > 1 else float(n if n > 1 else 0)
    return expected_unselectable(n, d)


def _matrices(
    settings: RandomKeys, seed: int, dimensions: tuple[int, int], title: str
) -> Iterator[tuple[int, int, Float[np.ndarray, "matrices n d"]]]:
    """Yield n, d and Gaussian matrices of keys, for n from first to last of `settings.keys`, d of `dimensions`."""
    (n_first, n_last), (d_first, d_last) = settings.keys, dimensions
    sizes = [(n, d) for d in range(d_first, d_last + 1) for n in range(n_first, n_last + 1)]
    progress = Progress(title, len(sizes), "sizes")
    for done, (n, d) in enumerate(sizes, start=1):
        rng = random_streams.generator(Stream.RANDOM_KEYS, seed, n, d)
        yield n, d, rng.standard_normal((settings.matrices, n, d))
        progress(done)


def _row(norm: torch.nn.Module, keys: Float[np.ndarray, "matrices n d"]) -> dict[str, float | int]:
    """Measured columns of table `random_keys` for matrices of keys after `norm`, in the precision of the keys."""
    given = torch.from_numpy(keys)
    with torch.no_grad():
        normed = norm.to(given.dtype)(given).numpy()
    certificates = certify_many(normed, flat=True)
    margin, residual = certificates.verify(normed)
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
