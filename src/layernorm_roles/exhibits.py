"""What is judged, drawn and written of a reproduction, this one or the kept one, from its Parquet tables."""

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
"""The Parquet tables that are made from those of results."""


@dataclass(frozen=True)
class Exhibits:
    """The claims, figures, readable tables and pages of a reproduction, which are made from its Parquet tables."""

    folder: str
    plain: Mapping[str, Any]
    """All settings of the reproduction, as plain dictionaries."""
    tables: tuple[str, ...]
    """The names of the reproduction's tables of results."""

    @classmethod
    def kept(cls, folder: str | Path) -> "Exhibits":
        """The evidence of the finished reproduction in `folder`, from its files; empty without the file settings.json.

        Raises ValueError if that file is damaged.
        """
        file = Path(folder) / "settings.json"
        plain = json.loads(files.read_bytes(file)) if file.is_file() else {}
        there = tuple(
            table for table in TABLES if plain and Path(folder, f"parquet/{table}.parquet").is_file()
        )
        return cls(str(folder), plain, there)

    @property
    def name(self) -> str:
        """The name of the reproduction."""
        return Path(self.folder).name

    @cached_property
    def groups(self) -> dict[str, shown.Group]:
        """What one job each draws and writes, by name."""
        groups = shown.groups_of(self.plain, self.tables) if self.tables else []
        return {group.name: group for group in groups}

    @cached_property
    def verdicts(self) -> dict[str, dict[str, str]]:
        """The verdict and the measured number with its interval of each claim, from claims.csv; empty without it.

        Raises ValueError if that file is damaged.
        """
        file = Path(self.folder, "tables/claims.csv")
        lines = files.read_bytes(file).decode().splitlines(keepends=True) if file.is_file() else []
        names = ("verdict", "measured", "ci_low", "ci_high")
        return {row["claim"]: {name: row[name] for name in names} for row in csv.DictReader(lines)}

    def ending(self) -> list[str]:
        """Two lines for the end of a workflow: how many claims have each verdict, and the report; none without one."""
        report = Path(self.folder, "report.html")
        if not report.is_file():
            return []
        claims = Counter(claim["verdict"] for claim in self.verdicts.values())
        words = ", ".join(f"{number:,} {verdict}" for verdict, number in claims.most_common())
        return [f"{self.folder}: {claims.total():,} claims: {words}", f"The report: {report}"]

    @property
    def results(self) -> list[str]:
        """The paths of the tables of results."""
        return self._parquet(self.tables)

    @property
    def judged(self) -> list[str]:
        """The paths of the tables of results and of those that are made from them."""
        return self._parquet([*self.tables, *JUDGED] if self.tables else [])

    def read_by(self, group: str) -> list[str]:
        """The paths of the Parquet files from which a group is made; none of a group that is not there."""
        return self._parquet(self.groups[group].inputs if group in self.groups else [])

    @property
    def files(self) -> list[str]:
        """The paths of all figures and readable tables."""
        return [f"{self.folder}/{file}" for group in self.groups.values() for file in group.files]

    @property
    def pictures(self) -> list[str]:
        """The paths of the figures as PNG."""
        return [file for file in self.files if file.endswith(".png")]

    def _parquet(self, tables: Iterable[str]) -> list[str]:
        return [f"{self.folder}/parquet/{table}.parquet" for table in tables]


Sources = Mapping[str, tuple[str, str]]
"""By table of results, the job or file that it comes from and a hash, which changes where its content does."""


def plans(
    of: Exhibits,
    sources: Sources,
    options: str,
    kept: Mapping[str, Mapping[str, str]],
    jobs: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, dict[str, Any]]:
    """The plans of the jobs that judge, draw and write a reproduction, by name.

    `options` are what commands on the page need to mean the reproduction. `kept` are the `verdicts` of the kept one,
    which stand beside claims that this one does not run. `jobs` has the groups of each job that draws: by default there
    is one for each group.
    """
    settings = dict(of.plain)
    made = {"claims": plan.plan("claims", "claims", dict(sources.values()), settings=settings)}
    judged = {**sources, **dict.fromkeys(JUDGED, ("claims", plan.hash_of(made["claims"])))}
    for job, names in (jobs or {f"draw/{name}": [name] for name in of.groups}).items():
        groups = [of.groups[name] for name in names]
        reads = dict(judged[table] for group in groups for table in group.inputs)
        of_claims = {"kept": kept} if kept and "verdicts" in names else {}
        made[job] = plan.plan("draw", job, reads, groups=[*names], settings=settings, **of_claims)
    pictures = {job: plan.hash_of(each) for job, each in made.items() if job != "claims"}
    made["page"] = plan.plan(
        "page",
        "page",
        {**dict(judged.values()), **pictures},
        settings=settings,
        options=options,
        tables=[*judged],
        figures=[Path(file).stem for file in of.pictures],
        kept=kept,
    )
    return made


def plans_of_kept(kept: Exhibits) -> dict[str, dict[str, Any]]:
    """The plans of the jobs that judge, draw and write the kept reproduction, whose groups one job draws all."""
    paths = zip(kept.tables, kept.results, strict=True)
    sources = {table: (f"parquet/{table}", files.recorded(path) or "") for table, path in paths}
    return plans(kept, sources, "", {}, {"draw": kept.groups})


def to_compare(name: Any, own: str) -> str:
    """The folder of the reproduction with which the one called `own` is compared: results/<name>/, or `name` itself.

    Raises ValueError if there is no reproduction, or if it is that called `own`.
    """
    name = str(name)
    finished = sorted(path.parent.name for path in Path("results").glob("*/settings.json"))
    folder = Path(name) if "/" in name else Path("results") / name
    if not (folder / "settings.json").is_file() or folder.resolve() == Path("results", own).resolve():
        known = ", ".join(each for each in finished if each != own) or "none is there"
        raise ValueError(
            f"against = {name!r}: expected another finished reproduction, by its path or in results/: {known}"
        )
    return str(folder)


def command_options(name: str, presets: str | Path) -> str:
    """The options with which a `snakemake` command makes the reproduction `name`, for texts that show commands.

    It is empty for the default and the kept reproduction. For a preset in the folder `presets` it names the file, and
    FILE stands for the file of a user's own.
    """
    if name in ("default", KEPT):
        return ""
    for file in Path(presets).glob("*.yaml"):
        if yaml_files.read(file).get("name") == name:
            return f" --configfile workflow/presets/{file.name}"
    return " --configfile FILE"
