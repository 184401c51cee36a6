"""Keys and queries of the experiments in three dimensions, for the view in the report that readers turn."""

from typing import Any

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.majority import geometry_of_runs, of_single_points, random_angle
from layernorm_roles.evidence.claims.rules import FLAT
from layernorm_roles.evidence.figures.style import looks_of
from layernorm_roles.evidence.figures.vectors import LIMIT, VIEW

BOX = {"limit": LIMIT, "printed": {"azimuth": VIEW["azim"], "elevation": VIEW["elev"]}}
"""Half the side of the view's box, and its first point of view in degrees, which is that of the printed figures."""


def views(vectors: pd.DataFrame | None) -> list[dict[str, Any]]:
    """Return the data of the report's interactive view of keys and queries, with a dict for each trained variant.

    Only experiments with a width of 3 and a single learning rate are shown. `vectors` is the table majority_vectors, or
    None if the reproduction lacks it; the result is then empty.
    """
    if vectors is None:
        return []
    trained = of_single_points(vectors[vectors.checkpoint == "final"])
    three = trained[trained.d_model == 3]
    several = three.experiment.nunique() > 1
    shown = []
    for experiment, part in three.groupby("experiment", sort=False):
        for variant, look in looks_of(part.variant).items():
            title = f"{experiment}, {look['label']}" if several else look["label"]
            runs = part[part.variant == variant]
            shown.append(
                {
                    "name": f"{experiment} {variant}",
                    "label": title,
                    "colour": look["color"],
                    "text": describe(title, geometry_of_runs(runs)),
                    "runs": [_run(title, int(seed), run) for seed, run in runs.groupby("seed")],
                }
            )
    return shown


def _run(title: str, seed: int, vectors: pd.DataFrame) -> dict[str, Any]:
    """Return the keys and queries of one run to three decimals, in the order of tokens, and a sentence on them."""
    keys, queries = (
        np.stack(vectors[vectors.kind == kind].sort_values("token").vector).round(3).tolist()
        for kind in ("key", "query")
    )
    text = describe(title, geometry_of_runs(vectors), seed)
    return {"seed": seed, "text": text, "keys": keys, "queries": queries}


def describe(title: str, geometry: pd.DataFrame, seed: int | None = None) -> str:
    """Return a sentence, which begins with `title`, on how flat the keys lie and where the queries point.

    `geometry` has a row for each run, as `analysis.majority.geometry_of_runs` returns it, with columns flatness and
    angle (degrees). `seed` is to be given if there is only one run.
    """
    flatness, angle = geometry.flatness, geometry.angle
    flat = "all keys lie on one plane through the origin"
    if flatness.max() > FLAT:
        size = f"smallest singular value {flatness.mean():.2f} of the largest"
        flat = f"the keys do not lie on a plane ({size})"
    runs, spread = f"seed {seed}", "("
    if seed is None:
        runs = f"{len(geometry)} runs"
        spread = f"on average ({angle.min():.0f}° to {angle.max():.0f}° over runs; "
    return (
        f"{title}, {runs}: {flat}; the queries are {angle.mean():.0f}° from the normal of the keys’ best plane "
        f"{spread}a random direction: {random_angle(3):.0f}°)."
    )
