"""Whether the rule of a claim was fixed before the run whose data it judges.

The rule of a claim is its words and numbers: statement, statistic, control, rule and unit, the comparisons that are
asked for, the thresholds that these name, what the source reports, and the settings of the runs that the claim reads,
with the first seed. When a run begins, `record` writes a hash of each rule beside the commit of the code; a claim
whose rule has another hash when it is judged was changed after that. Code does not count: a test that holds the kept
numbers shows whether an edit of code changed them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_roles import files
from layernorm_roles.catalogue import settings_behind
from layernorm_roles.evidence.claims.claim import Claim

RESULTS = ("data", "runs", "parquet")
"""Folders of a reproduction of which one is there once its first job has begun."""

NOT_OF_THE_RUNS = {"seeds_per_job", "in_one_job", "runs_per_job", "checkpoint_every"}
"""Keys of the settings that are no part of a rule: they say how runs are shared out to jobs and saved."""


class Record(NamedTuple):
    """The hashes of the claims' rules when a reproduction began, and the commit of its code."""

    commit: str
    """The commit of the code, or "unknown"."""
    rules: dict[str, str]
    """The hash of each claim's rule, by the name of the claim."""


def rule_hashes(claims: Iterable[Claim], settings: Mapping[str, Any]) -> dict[str, str]:
    """The hash of every claim's rule, of 16 hexadecimal digits, by the claim's name.

    `settings` are those of the reproduction, with the keys of config.yaml.
    """
    return {
        claim.name: rule_hash(claim.words, claim.numbers, settings_read(claim, settings)) for claim in claims
    }


def rule_hash(words: Mapping[str, str], numbers: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The hash, of 16 hexadecimal digits, of a rule given by its words, its numbers and the settings that it reads."""
    rule = {"words": words, "numbers": numbers, "settings": settings}
    return hashlib.sha256(json.dumps(rule, sort_keys=True, default=str).encode()).hexdigest()[:16]


def settings_read(claim: Claim, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The first seed, and the settings behind each table that a claim reads, by the name of the table.

    Where the claim names experiments or models, the settings are those of them alone.
    """
    return {name: _section(claim, name, settings) for name in ("first_seed", *claim.tables)}


def _section(claim: Claim, table: str, settings: Mapping[str, Any]) -> Any:
    if table == "first_seed":
        return settings.get(table)
    section = settings_behind(table, settings)
    if isinstance(section, Mapping) and set(claim.of) & set(section):
        section = {part: section[part] for part in claim.of if part in section}
    return _of_the_runs(section)


def _of_the_runs(section: Any) -> Any:
    """Settings without the keys NOT_OF_THE_RUNS, at whatever depth."""
    if not isinstance(section, Mapping):
        return section
    return {key: _of_the_runs(value) for key, value in section.items() if key not in NOT_OF_THE_RUNS}


def record(path: str | Path, claims: Iterable[Claim], settings: Mapping[str, Any], commit: str) -> None:
    """Write the commit and the hashes of the claims' rules as JSON to `path`, unless there are results beside it.

    Where results have been made since, the record that is there, or that there is none, stays as it is.
    """
    if not any(Path(path).with_name(folder).exists() for folder in RESULTS):
        found = Record(commit, rule_hashes(claims, settings))
        files.write_text(path, json.dumps(found._asdict(), indent=1, sort_keys=True) + "\n")


def read_record(path: str | Path | None) -> Record:
    """What `record` wrote to `path`; a record of no rules if there is no such file. ValueError for another file."""
    if path is None or not Path(path).exists():
        return Record("unknown", {})
    found = json.loads(files.read_bytes(path))
    if not isinstance(found, dict) or set(found) != set(Record._fields):
        raise ValueError(f"{path}: expected a record of the rules of claims, with the keys commit and rules")
    return Record(**found)


def fixed_before_or_after(today: str, at_the_start: str | None) -> str:
    """The column rule_fixed of table claims: "before" the data if the rule is that of the run's start, else "after"."""
    return "before" if today == at_the_start else "after"
