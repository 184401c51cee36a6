"""The judge: every claim, its test and its verdict, from the tables of a reproduction alone.

YAML files have the claims in words, see the module `claim`, and their tests. Most tests are data there, comparisons of
measured quantities; others are functions in the module of the file's name. The module `rules` has the thresholds and
says how findings make a verdict.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from layernorm_roles import files, store
from layernorm_roles.evidence.analysis.estimate import holm
from layernorm_roles.evidence.claims import preregistration
from layernorm_roles.evidence.claims.claim import Claim, claims
from layernorm_roles.evidence.claims.comparison import RATIO, Tables, sentences
from layernorm_roles.evidence.claims.rules import Verdict
from layernorm_roles.provenance import joined
from layernorm_roles.schemas import SCHEMAS

CLAIMS: tuple[Claim, ...] = tuple(claims())
"""All claims of the paper, of other documents and of this repository, in the order of the report."""

_BESIDE = ("random_keys_precision", "language_model_attention")
TABLES = tuple(dict.fromkeys([*(name for claim in CLAIMS for name in claim.tables), *_BESIDE]))
"""Names of the Parquet tables of a reproduction that the tests of claims may read."""


Judged = tuple[pd.DataFrame, pd.DataFrame]
"""The tables claims and comparisons of a reproduction."""


def judge(tables: Tables, at_the_start: Mapping[str, str] = {}, settings: Mapping[str, Any] = {}) -> Judged:
    """Judge every claim from the tables of a reproduction, and return the tables claims and comparisons.

    Table claims has the verdict on each claim, table comparisons each number that a claim's test compares. `tables` are
    the reproduction's tables by name. `at_the_start` has, by claim, the hash of the claim's rule when the reproduction
    began; a rule whose hash with the present `settings` differs counts as made after the data.
    """
    today = preregistration.rule_hashes(CLAIMS, settings)
    outcomes = [(claim, claim.judge(tables)) for claim in CLAIMS]
    adjusted = holm({claim.name: outcome.p for claim, outcome in outcomes if claim.primary})
    rows, compared = [], []
    for claim, outcome in outcomes:
        row = claim.row(outcome, tables) | {"p_holm": math.nan}
        if claim.primary:
            row = claim.corrected(row, outcome, adjusted[claim.name], len(adjusted))
        before = today[claim.name] == at_the_start.get(claim.name)
        rows.append(row | {"rule_fixed": "before" if before else "after"})
        compared += claim.comparisons(outcome)
    comparisons = pd.DataFrame(compared, columns=SCHEMAS["comparisons"].names)
    return pd.DataFrame(rows), comparisons.astype({"n_runs": "Int64", "met": "boolean"})


def judge_files(
    inputs: Mapping[str, str | Path],
    out_claims: str | Path,
    out_comparisons: str | Path,
    rules: str | Path,
    settings: Mapping[str, Any],
    again: str | Path | None = None,
) -> None:
    """Write the tables `claims` and `comparisons` of a reproduction, with joined provenance, from its Parquet files.

    `inputs` has the files by table name. `rules` is the file that `preregistration.write_rules` wrote when the
    reproduction began; it may be missing. `settings` are the reproduction's settings. `again` is the folder of a second
    reproduction, on other seeds, from which the claims are judged that the first leaves not tested.
    """
    chosen = {name: Path(path) for name, path in inputs.items() if name in TABLES}
    tables, paths = _judged(chosen, rules, settings), [*chosen.values()]
    if again is not None:
        second = json.loads(files.read_bytes(Path(again, "settings.json")))
        there = sorted(Path(again, "parquet").glob("*.parquet"))
        others = {path.stem: path for path in there if path.stem in TABLES}
        tables = asked_again(tables, _judged(others, Path(again, "rules.json"), second), second["first_seed"])
        paths += others.values()
    provenance = joined((store.read_provenance(path) for path in paths), {})
    for table, name, out in zip(
        tables, ("claims", "comparisons"), (out_claims, out_comparisons), strict=True
    ):
        store.write(table, name, out, provenance)


def _judged(paths: Mapping[str, Path], rules: str | Path, settings: Mapping[str, Any]) -> Judged:
    tables = {name: store.read(path, name) for name, path in paths.items()}
    return judge(tables, preregistration.read_rules(rules), settings)


def asked_again(first: Judged, second: Judged, first_seed: int) -> Judged:
    """Return the tables `first`, with the rows of `second` for claims that only `second` gives a verdict on.

    `first` and `second` are the tables claims and comparisons of two reproductions; "not tested" counts as no verdict.
    The column setting of the rows from `second` says that its seeds begin with `first_seed`. Where neither gives a
    verdict, the column reason of the row from `first` has what `second` measured.
    """
    later = second[0].set_index("claim")
    undecided = first[0].claim[first[0].verdict == Verdict.NOT_TESTED]
    chosen = {name for name in undecided if later.verdict[name] != Verdict.NOT_TESTED}
    order = {claim.name: place for place, claim in enumerate(CLAIMS)}

    def merged(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
        both = pd.concat([old[~old.claim.isin(chosen)], new[new.claim.isin(chosen)]], ignore_index=True)
        return both.iloc[both.claim.map(order).argsort(kind="stable")].reset_index(drop=True)

    said = f" Asked again, on seeds from {first_seed:,} on, because runs on other seeds left it undecided."
    rows = second[0].assign(setting=second[0].setting + said)

    def still(row: Any) -> str:
        if row.claim in {*undecided} - chosen and (other := later.loc[row.claim]).n_seeds:
            found = f"{other.measured:.3g} [{other.ci_low:.3g}, {other.ci_high:.3g}], {other.n_seeds} runs"
            return sentences(
                row.reason, f"Asked again, on seeds from {first_seed:,} on, it stays undecided: {found}."
            )
        return row.reason

    told = first[0].assign(reason=[still(row) for row in first[0].itertuples()])
    return merged(told, rows), merged(first[1], second[1])


def on_common_scale(claims: pd.DataFrame) -> pd.DataFrame:
    """Return table claims with columns in units of the effect that the source reports (0: no effect, 1: as reported).

    The columns effect, low and high are the claim's main number and its interval; isolated, isolated_low and
    isolated_high are its control's number and interval. Ratios are put on this scale by their logarithms. All six are
    NaN where the source gives no number, or a number that means no effect.
    """
    names = ("effect", "low", "high", "isolated", "isolated_low", "isolated_high")
    columns = ("measured", "ci_low", "ci_high", "control_measured", "control_low", "control_high")
    ratios = claims.claim.isin([claim.name for claim in CLAIMS if claim.unit == RATIO])
    numbers = claims[[*columns, "reported"]].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = numbers.where(~ratios, np.log(numbers))
    reported = numbers.reported.where(numbers.reported != 0)
    scaled = {name: numbers[column] / reported for name, column in zip(names, columns, strict=True)}
    return claims.assign(**scaled)
