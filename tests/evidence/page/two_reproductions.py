"""Two small reproductions with known differences, one with names that try to become markup."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import worlds
from tiny_world import HOSTILE, claims

from layernorm_roles import files, store
from layernorm_roles.evidence.page import comparison as page

RUNS = {"learning_rate": [0.001], "steps": 6000, "seeds": {"layernorm": 4}}
SETTINGS = {
    "name": "mine",
    "first_seed": 0,
    "majority": {"d8": {"d_model": [8], **RUNS}, "widths": {"d_model": [2, 3], **RUNS}},
    "language_model": {"gpt": {"steps": 100}},
}


def _found(measured=2.0, low=1.0, high=3.0, verdict="holds", n_seeds=4, **changed) -> dict:
    """What a reproduction finds of a claim."""
    numbers = {"measured": measured, "ci_low": low, "ci_high": high, "n_seeds": n_seeds, "verdict": verdict}
    return claims().iloc[1].to_dict() | {"setting": "", "reported": None} | numbers | changed


NOTHING = _found(np.nan, np.nan, np.nan, "not tested", 0)
CASES = [
    # what is found here and there, and how the numbers and the verdicts compare
    ("faster", _found(verdict="confounded"), _found(2.5, 1.5, 3.5, "reproduced"), ("overlap", "changed")),
    ("parallel", _found(), _found(), ("identical", "same")),
    ("heads", _found(), _found(statistic="keys, per cent"), ("measured otherwise", "same")),
    ("far", _found(), _found(7.0, 6.0, 8.0), ("apart", "same")),
    ("single", _found(2.0, 2.0, 2.0, n_seeds=1), _found(2.5, 2.5, 2.5, n_seeds=2), ("unequal", "same")),
    ("nothing", NOTHING, NOTHING, ("not measured", "same")),
    ("lost", NOTHING, _found(), ("on one side", "changed")),
    ("bound", _found(high=np.inf), _found(9.0, 8.0, 10.0), ("overlap", "same")),
    ("touching", _found(), _found(4.0, 3.0, 5.0), ("overlap", "same")),
    (f"mine{HOSTILE}", _found(), None, ("on one side", "only here")),
    ("theirs", None, _found(), ("on one side", "only there")),
]
EXPECTED = {name: compared for name, *_, compared in CASES}


def _table(side: int) -> pd.DataFrame:
    named = ((case[side], {"claim": case[0], "statement": f"It is so with {case[0]}."}) for case in CASES)
    return pd.DataFrame([found | names for found, names in named if found])


HERE, THERE = _table(1), _table(2)[::-1]


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
