"""The numbers that the paper reports, from paper.yaml beside this file."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def reported() -> dict[str, Any]:
    """The numbers that the paper reports: nested dictionaries by experiment, variant and quantity."""
    return yaml.safe_load((Path(__file__).parent / "paper.yaml").read_text(encoding="utf-8"))
