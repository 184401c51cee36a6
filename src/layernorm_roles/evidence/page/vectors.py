"""Keys and queries of the experiments in three dimensions, for the view that readers turn."""

from typing import Any

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.majority import geometry_of_runs, random_angle
from layernorm_roles.evidence.claims.rules import FLAT
from layernorm_roles.evidence.figures.style import looks_of
from layernorm_roles.evidence.figures.vectors import LIMIT, VIEW

BOX = {"limit": LIMIT, "printed": {"azimuth": VIEW["azim"], "elevation": VIEW["elev"]}}
"""Half the side of the box, and the point of view in degrees of the printed figures, with which the view starts."""

KINDS = {"key": "keys", "query": "queries"}


def views(vectors: pd.DataFrame | None) -> list[dict[str, Any]]:
    """What the page's script shows: an entry for each trained variant of each experiment in three dimensions.

    `vectors` is the table majority_vectors, or None if the reproduction has none. Experiments with several widths or
    learning rates are left out.
    """
    if vectors is None:
        return []
    trained = vectors[vectors.checkpoint == "final"]
    setting = trained.groupby("experiment").agg(
        {"d_model": ["nunique", "max"], "base_learning_rate": "nunique"}
    )
    three = trained[trained.experiment.isin(setting.index[(setting == [1, 3, 1]).all(axis=1)])]
    several = three.experiment.nunique() > 1
    found = []
    for experiment, part in three.groupby("experiment", sort=False):
        for variant, look in looks_of(part.variant).items():
            title = f"{experiment}, {look['label']}" if several else look["label"]
            runs = part[part.variant == variant]
            found.append(
                {
                    "name": f"{experiment} {variant}",
                    "label": title,
                    "colour": look["color"],
                    "text": describe(title, geometry_of_runs(runs)),
                    "runs": _runs(title, runs),
                }
            )
    return found


def _runs(title: str, vectors: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "seed": int(seed),
            "text": describe(title, geometry_of_runs(run), int(seed)),
            **{KINDS[kind]: _rounded(part) for kind, part in run.groupby("kind")},
        }
        for seed, run in vectors.groupby("seed")
    ]


def describe(title: str, geometry: pd.DataFrame, seed: int | None = None) -> str:
    """One sentence on how flat the keys lie and where the queries point, from the result of `geometry_of_runs`.

    It is about all runs together, or about one if `seed` says which.
    """
    flat = (
        "all keys lie on one plane through the origin"
        if geometry.flatness.max() <= FLAT
        else f"the keys do not lie on a plane (smallest singular value {geometry.flatness.mean():.2f} of the largest)"
    )
    angle = geometry.angle
    random = f"a random direction: {random_angle(3):.0f}°"
    if seed is None:
        runs = f"{len(geometry)} runs"
        words = f"on average ({angle.min():.0f}° to {angle.max():.0f}° over runs; {random})"
    else:
        runs, words = f"seed {seed}", f"({random})"
    return (
        f"{title}, {runs}: {flat}; the queries are {angle.mean():.0f}° from the normal of the keys’ best plane "
        f"{words}."
    )


def _rounded(vectors: pd.DataFrame) -> list[list[float]]:
    return np.stack(vectors.sort_values("token").vector.to_numpy()).round(3).tolist()
