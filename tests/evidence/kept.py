"""The kept reproduction: its tables, each read once, and only when a test asks for it."""

from pathlib import Path

import pandas as pd
import pytest

from layernorm_roles import store

KEPT = Path(__file__).parents[2] / "results/published"


class Tables(dict):
    """The Parquet tables of the kept reproduction, read when they are asked for; a test that asks for one of old
    columns or for one that is not there is skipped."""

    def __missing__(self, name: str) -> pd.DataFrame:
        try:
            self[name] = store.read(KEPT / f"parquet/{name}.parquet", name)
        except (OSError, ValueError) as lack:
            pytest.skip(f"The kept reproduction has no such table {name}: {str(lack).splitlines()[0]}")
        return self[name]


TABLES = Tables()
