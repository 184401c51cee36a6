"""The claims, figures, tables for readers and pages of a configuration, and what the jobs that make them depend on."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from layernorm_roles import files, plan, shown
from layernorm_roles.catalogue import TABLES
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.reproduction import KEPT

JUDGED = ("claims", "comparisons")
"""Names of the Parquet tables that are made from those of measured results when the paper's claims are judged."""


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
        """The `Exhibits` of the results in `folder`, without any tables if settings.json is missing there.

        Raises ValueError if settings.json is damaged.
        """
        file = Path(folder) / "settings.json"
        plain = json.loads(files.read_bytes(file)) if file.is_file() else {}
        there = [table for table in TABLES if plain and Path(folder, f"parquet/{table}.parquet").is_file()]
        return cls(str(folder), plain, tuple(there))

    @property
    def name(self) -> str:
        """The name of the configuration: the last part of the path results/<name>/ of the folder."""
        return Path(self.folder).name

    @cached_property
    def groups(self) -> dict[str, shown.Group]:
        """The groups of figures and tables for readers that can be made from these results, by name of the group.

        Without results there are none.
        """
        groups = shown.groups_of(self.plain, self.tables) if self.tables else []
        return {group.name: group for group in groups}

    def ending(self) -> list[str]:
        """Two lines to print when a workflow ends: how many claims have each verdict, and the path of the report.

        The list is empty if there is no report.html.
        """
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
        """The paths of all Parquet files: those of measured results, and those of the tables claims and comparisons.

        The two tables are made from measured results when claims are judged. Without results the list is empty.
        """
        return self._parquet([*self.tables, *JUDGED] if self.tables else [])

    def read_by(self, group: str) -> list[str]:
        """The paths of the Parquet files from which the figures and tables of the group called `group` are made.

        The list is empty if these results have no such group.
        """
        return self._parquet(self.groups[group].inputs if group in self.groups else [])

    @property
    def files(self) -> list[str]:
        """The paths of all figures (PNG, PDF) and all tables for readers (CSV, Markdown) of the results."""
        return [f"{self.folder}/{file}" for group in self.groups.values() for file in group.files]

    @property
    def pictures(self) -> list[str]:
        """The paths of the PNG files of all figures of the results."""
        return [file for file in self.files if file.endswith(".png")]

    def _parquet(self, tables: Iterable[str]) -> list[str]:
        return [f"{self.folder}/parquet/{table}.parquet" for table in tables]


Sources = Mapping[str, tuple[str, str]]
"""By name of a Parquet table of results, the job or file it comes from, and a hash that changes with its content."""


def plans(
    of: Exhibits,
    sources: Sources,
    options: str,
    jobs: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, dict[str, Any]]:
    """The plans, by job name, of the jobs that judge claims, make figures and tables for readers, and write pages.

    A plan has all that a job's result depends on. `of` are the exhibits of the results. `sources` has a pair for each
    Parquet table, by its name: the job or file that the table comes from, and a hash of its content. `options` follow
    the target in the `snakemake` commands on the report's page. `jobs` has, by job name, the groups of figures and
    tables that a job makes; by default each group has a job.
    """
    settings = dict(of.plain)
    made = {"claims": plan.plan("claims", "claims", dict(sources.values()))}
    judged = {**sources, **dict.fromkeys(JUDGED, ("claims", plan.hash_of(made["claims"])))}
    for job, names in (jobs or {f"draw/{name}": [name] for name in of.groups}).items():
        groups = [of.groups[name] for name in names]
        reads = dict(judged[table] for group in groups for table in group.inputs)
        made[job] = plan.plan("draw", job, reads, groups=[*names], settings=settings)
    pictures = {job: plan.hash_of(each) for job, each in made.items() if job != "claims"}
    made["page"] = plan.plan(
        "page",
        "page",
        {**dict(judged.values()), **pictures},
        settings=settings,
        options=options,
        tables=[*judged],
        figures=[Path(file).stem for file in of.pictures],
    )
    return made


def plans_of_kept(kept: Exhibits) -> dict[str, dict[str, Any]]:
    """The plans, by job name, of the jobs that judge claims and make figures and pages from results/published/.

    A plan has all that a job's result depends on. A single job makes all figures and tables for readers. The measured
    results are not made again, so the plans have checksums of their Parquet files.
    """
    paths = zip(kept.tables, kept.results, strict=True)
    sources = {table: (f"parquet/{table}", files.recorded(path) or "") for table, path in paths}
    return plans(kept, sources, "", {"draw": kept.groups})


def command_options(name: str, presets: str | Path) -> str:
    """The options with which a `snakemake` command makes results/<name>/, as a text to be shown to readers.

    The text is empty for "default" and "published". If a YAML file in the folder `presets` sets this name, it is
    --configfile and the file's path; for any other name, it is --configfile FILE.
    """
    if name in ("default", KEPT):
        return ""
    for file in Path(presets).glob("*.yaml"):
        if yaml_files.read(file).get("name") == name:
            return f" --configfile workflow/presets/{file.name}"
    return " --configfile FILE"
