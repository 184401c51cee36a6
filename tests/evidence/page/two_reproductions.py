"""Two small reproductions with known differences, one with names that try to become markup."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import worlds
from tiny_world import HOSTILE, claims

from layernorm_roles import files, store
from layernorm_roles.evidence.page import comparison as page

SETTINGS = {
    "name": "mine",
    "first_seed": 0,
    "majority": {
        "d8": {"d_model": [8], "learning_rate": [0.001], "steps": 6000, "seeds": {"layernorm": 4}},
        "widths": {"d_model": [2, 3], "learning_rate": [0.001], "steps": 6000, "seeds": {"layernorm": 4}},
    },
    "language_model": {"gpt": {"steps": 100}},
}


LIKE = claims().iloc[1].to_dict() | {"setting": "", "reported": None}
"""What all claims here have that say nothing else."""


def _claim(name: str, verdict: str = "holds", **changed) -> dict:
    numbers = {"measured": 2.0, "ci_low": 1.0, "ci_high": 3.0, "n_seeds": 4}
    return (
        LIKE | {"claim": name, "statement": f"It is so with {name}.", "verdict": verdict} | numbers | changed
    )


NOTHING = {"measured": np.nan, "ci_low": np.nan, "ci_high": np.nan, "n_seeds": 0}
HERE = pd.DataFrame(
    [
        _claim("faster", "confounded"),
        _claim("parallel"),
        _claim("heads"),
        _claim("far"),
        _claim("single", n_seeds=1, ci_low=2.0, ci_high=2.0),
        _claim("nothing", "not tested", **NOTHING),
        _claim("lost", "not tested", **NOTHING),
        _claim("bound", ci_high=np.inf),
        _claim("touching"),
        _claim(f"mine{HOSTILE}", statement=f"Mine {HOSTILE}."),
    ]
)
THERE = pd.DataFrame(
    [
        _claim("touching", measured=4.0, ci_low=3.0, ci_high=5.0),
        _claim("faster", "reproduced", measured=2.5, ci_low=1.5, ci_high=3.5),
        _claim("heads", statistic="keys, per cent"),
        _claim("parallel"),
        _claim("far", measured=7.0, ci_low=6.0, ci_high=8.0),
        _claim("single", n_seeds=1, measured=2.5, ci_low=2.5, ci_high=2.5),
        _claim("nothing", "not tested", **NOTHING),
        _claim("lost"),
        _claim("bound", measured=9.0, ci_low=8.0, ci_high=10.0),
        _claim("theirs"),
    ]
)
EXPECTED = {
    "faster": ("overlap", "changed"),
    "parallel": ("identical", "same"),
    "heads": ("measured otherwise", "same"),
    "far": ("apart", "same"),
    "single": ("unequal", "same"),
    "nothing": ("not measured", "same"),
    "lost": ("on one side", "changed"),
    "bound": ("overlap", "same"),
    "touching": ("overlap", "same"),
    f"mine{HOSTILE}": ("on one side", "only here"),
    "theirs": ("on one side", "only there"),
}


def majority_metrics(*variants: str, widths: bool) -> pd.DataFrame:
    """Table majority_metrics with two runs of each variant in the experiment d8, and with those of several widths."""
    parts = [worlds.metrics(dict.fromkeys(variants, 1.0), seeds=2, last=6000)]
    if widths:
        parts += [worlds.metrics({"layernorm": 1.0}, experiment="widths", seeds=2, d_model=d) for d in (2, 3)]
    return pd.concat(parts)


def write_reproduction(
    folder: Path, table: pd.DataFrame, metrics: pd.DataFrame, models: list[str], settings: dict
) -> Path:
    """Write a finished reproduction with these claims, metrics, language models and settings to `folder`."""
    origin = {"config": "{}", "version": "0.1.0", "git_commit": folder.name * 3, "torch": "2.13"}
    origin |= {"config_sha256": "", "seed_rule": "", "python": "3.11", "device": "cpu"}
    tables = {
        "claims": table,
        "majority_metrics": metrics,
        "language_model_metrics": pd.concat(worlds.losses(0.05, model=model, steps=100) for model in models),
    }
    for name, frame in tables.items():
        store.write(frame, name, folder / f"parquet/{name}.parquet", origin)
    files.write_text(folder / "settings.json", json.dumps(settings))
    return folder


def compare(here: Path, there: Path, options: str = "") -> tuple[str, pd.DataFrame]:
    """Compare two reproductions; returns the page and the table."""
    paths = here / f"compare_{there.name}.html", here / f"parquet/compare_{there.name}.parquet"
    page.write(here, there, *paths, options)
    return paths[0].read_text(encoding="utf-8"), store.read(paths[1], "comparison")


def make(results: Path) -> Path:
    """Write the reproductions mine and theirs to the folder `results`, and the page of mine against theirs."""
    theirs = json.loads(json.dumps(SETTINGS)) | {"name": "theirs", "first_seed": 7}
    theirs["majority"]["d8"]["steps"] = 8000
    del theirs["majority"]["widths"]
    own = majority_metrics("layernorm", "mine", widths=True)
    write_reproduction(results / "mine", HERE, own, ["gpt", "tiny"], SETTINGS)
    other = majority_metrics("layernorm", "scale", widths=False)
    write_reproduction(results / "theirs", THERE, other, ["gpt"], theirs)
    compare(results / "mine", results / "theirs", "--configfile mine.yaml")
    return results
