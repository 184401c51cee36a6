"""Whether the rule of a claim was fixed before the reproduction whose data it judges.

The rule of a claim is its words (WORDS), the comparisons that it asks for, the thresholds that these name, what the
source reports, and the settings of the runs that the claim reads, with the first seed. When a reproduction begins,
`write_rules` writes a hash of each rule beside the commit of the code; a claim whose rule has another hash when it is
judged was changed after that. Code does not count: a test holds the numbers of the kept reproduction.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from layernorm_roles import files, plan
from layernorm_roles.catalogue import settings_behind
from layernorm_roles.evidence.claims.claim import Claim

NOT_OF_THE_RUNS = {"seeds_per_job", "in_one_job", "runs_per_job", "checkpoint_every"}
"""Keys of the settings that the hash of a claim's rule leaves out: how runs are shared out to processes and saved."""

WORDS = ("statement", "setting", "statistic", "control", "rule", "unit", "role")
"""Fields of a claim whose texts its preregistered rule fixes."""


def rule_hashes(claims: Iterable[Claim], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each claim's preregistered rule, of 16 hexadecimal digits, by the claim's name.

    `settings` has the keys of config.yaml. A hash covers the rule's words and numbers, the first seed, and the settings
    behind each table that the claim reads; if the claim names experiments or models, of these alone.
    """
    hashes = {}
    for claim in claims:
        behind = {table: _settings_of(claim, table, settings) for table in claim.tables}
        behind["first_seed"] = settings.get("first_seed")
        words = {name: getattr(claim, name) for name in WORDS}
        rule = {"words": words, "numbers": claim.numbers, "settings": behind}
        written = json.dumps(rule, sort_keys=True, default=str)
        hashes[claim.name] = hashlib.sha256(written.encode()).hexdigest()[:16]
    return hashes


def _settings_of(claim: Claim, table: str, settings: Mapping[str, Any]) -> Any:
    """Return the settings behind a table, of those experiments and models alone that the claim names, if any."""
    section = settings_behind(table, settings)
    if isinstance(section, Mapping) and (named := {claim.of, *claim.also} & set(section)):
        section = {part: section[part] for part in named}
    return _of_the_runs(section)


def _of_the_runs(section: Any) -> Any:
    """Return settings without the keys NOT_OF_THE_RUNS, at whatever depth."""
    if not isinstance(section, Mapping):
        return section
    return {key: _of_the_runs(value) for key, value in section.items() if key not in NOT_OF_THE_RUNS}


def write_rules(path: str | Path, claims: Iterable[Claim], settings: Mapping[str, Any], commit: str) -> None:
    """Write the hashes of the claims' preregistered rules, with the code's `commit`, as JSON to `path`.

    `settings` are those of the reproduction. Nothing is written if the folder of `path` already has results.
    """
    if not plan.begun(Path(path).parent):
        rules = {"commit": commit, "rules": rule_hashes(claims, settings)}
        files.write_text(path, json.dumps(rules, indent=1, sort_keys=True) + "\n")


def read_rules(path: str | Path) -> dict[str, str]:
    """Return the hashes of the claims' rules, by claim, from the file at `path` that `write_rules` wrote.

    The result is empty if there is no such file. Raises ValueError if `write_rules` cannot have written the file.
    """
    if not Path(path).exists():
        return {}
    written = json.loads(files.read_bytes(path))
    if not isinstance(written, dict) or set(written) != {"commit", "rules"}:
        raise ValueError(f"{path}: expected hashes of the rules of claims, with the keys commit and rules")
    return written["rules"]
