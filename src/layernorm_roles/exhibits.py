"""The claims, figures, tables for readers and pages that can be made from the results of a configuration."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from layernorm_roles import files, shown
from layernorm_roles.catalogue import TABLES

JUDGED = ("claims", "comparisons")
"""Names of the Parquet tables that are made from those of measured results when the claims are judged."""


@dataclass(frozen=True)
class Exhibits:
    """The claims, figures, tables for readers and pages that show the results of one configuration."""

    folder: str
    plain: Mapping[str, Any]
    """All settings of the configuration, as plain dictionaries."""
    tables: tuple[str, ...]
    """The names of the Parquet tables of measured results that are there, without those in JUDGED."""

    @classmethod
    def kept(cls, folder: str | Path) -> "Exhibits":
        """The `Exhibits` of the finished results in `folder`, without any tables if settings.json is missing there.

        Raises ValueError if settings.json is damaged.
        """
        file = Path(folder) / "settings.json"
        plain = json.loads(files.read_bytes(file)) if file.is_file() else {}
        there = [table for table in TABLES if plain and Path(folder, f"parquet/{table}.parquet").is_file()]
        return cls(str(folder), plain, tuple(there))

    @cached_property
    def groups(self) -> dict[str, shown.Group]:
        """The groups of figures and tables for readers that can be made from these results, by name of the group."""
        groups = shown.groups_of(self.plain, self.tables) if self.tables else []
        return {group.name: group for group in groups}

    def ending(self) -> list[str]:
        """Two lines to print when a workflow ends, if there is a report: the count of verdicts, and its path."""
        report = Path(self.folder, "report.html")
        if not report.is_file():
            return []
        rows = csv.DictReader(files.read_bytes(Path(self.folder, "tables/claims.csv")).decode().splitlines())
        claims = Counter(row["verdict"] for row in rows)
        words = ", ".join(f"{number:,} {verdict}" for verdict, number in claims.most_common())
        return [f"{self.folder}: {claims.total():,} claims: {words}", f"The report: {report}"]

    @property
    def results(self) -> list[str]:
        """The paths of the Parquet files with measured results, one for each of `tables`."""
        return self._parquet(self.tables)

    @property
    def judged(self) -> list[str]:
        """The paths of all Parquet files: those of measured results, and those of the tables in JUDGED."""
        return self._parquet([*self.tables, *JUDGED] if self.tables else [])

    def read_by(self, group: str) -> list[str]:
        """The paths of the Parquet files from which the figures and tables of the group called `group` are made."""
        return self._parquet(self.groups[group].inputs)

    @property
    def files(self) -> list[str]:
        """The paths of all figures (PNG, PDF) and all tables for readers (CSV, Markdown)."""
        return [f"{self.folder}/{file}" for group in self.groups.values() for file in group.files]

    @property
    def pictures(self) -> list[str]:
        """The paths of the PNG files of all figures."""
        return [file for file in self.files if file.endswith(".png")]

    def _parquet(self, tables: Iterable[str]) -> list[str]:
        return [f"{self.folder}/parquet/{table}.parquet" for table in tables]
