"""Figures of the kept reproduction, drawn again from its tables, are the pictures that are kept."""

import json
import re
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from kept import KEPT, TABLES
from PIL import Image

from layernorm_roles.evidence.figures import registry, style

CONSTRAINTS = (Path(__file__).parents[3] / "constraints.txt").read_text(encoding="utf-8")
PINNED = re.search(r"^matplotlib==(\S+)", CONSTRAINTS, re.M)[1]
SETTINGS = KEPT / "settings.json"
FIGURES = registry.figures(json.loads(SETTINGS.read_text(encoding="utf-8"))) if SETTINGS.is_file() else {}
DRAWN = {figure.draw: name for name, figure in FIGURES.items() if name != "majority_curves"}
"""One figure for each function that draws, but for the slowest."""


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(png)).convert("RGB"), dtype=int)


@pytest.mark.skipif(matplotlib.__version__ != PINNED, reason=f"drawn with matplotlib {PINNED}")
@pytest.mark.parametrize("name", sorted(DRAWN.values()))
def test_a_kept_figure_is_drawn_again(name):
    """If the change is meant: snakemake --cores all published_figures"""
    shown = pixels(style.png(registry.draw(FIGURES[name], TABLES)))
    kept = pixels((KEPT / f"figures/{name}.png").read_bytes())
    assert shown.shape == kept.shape and np.abs(shown - kept).max() < 40
