"""The kept reproduction: its tables, each read once, and only when a test asks for it."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest

from layernorm_roles import store

KEPT = Path(__file__).parents[2] / "results/published"


class Tables(dict):
    """The Parquet tables of the kept reproduction, read when they are asked for; a test that asks for one of old
    columns or for one that is not there is skipped."""

    def __init__(self, folder: Path = KEPT):
        self.folder = folder

    def of(self, names: Iterable[str]) -> dict[str, pd.DataFrame]:
        """Those of the tables `names` that are there."""
        return {name: self[name] for name in names if (self.folder / f"parquet/{name}.parquet").is_file()}

    def __missing__(self, name: str) -> pd.DataFrame:
        try:
            self[name] = store.read(self.folder / f"parquet/{name}.parquet", name)
        except (OSError, ValueError) as lack:
            pytest.skip(f"The kept reproduction has no such table {name}: {str(lack).splitlines()[0]}")
        return self[name]


TABLES = Tables()
