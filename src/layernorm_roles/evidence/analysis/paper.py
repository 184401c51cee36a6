"""The numbers that the paper reports, from paper.yaml beside this file."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def reported() -> dict[str, Any]:
    """The contents of paper.yaml, nested by experiment, variant and quantity: numbers that the paper reports."""
    return yaml.safe_load((Path(__file__).parent / "paper.yaml").read_text(encoding="utf-8"))
