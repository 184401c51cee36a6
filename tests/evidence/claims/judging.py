"""The verdict on one claim, for the tests of this folder.

The number of a claim is computed a second time, by functions of the modules `recomputed_...` that take the tables by
name and share no code with the first; so are some numbers of controls.
"""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
import recomputed_documents
import recomputed_language_model
import recomputed_pretrained
import recomputed_projection

from layernorm_roles.evidence import claims
from layernorm_roles.evidence.claims import testing

PROVENANCE = dict.fromkeys("config version git_commit seed_rule torch python device".split(), "x")
CLAIMS = {claim.name: claim for claim in claims.CLAIMS}

MODULES = (recomputed_projection, recomputed_language_model, recomputed_pretrained, recomputed_documents)
RECOMPUTED = {name: function for module in MODULES for name, function in module.RECOMPUTED.items()}


HOMES = {name: claim for claim in claims.CLAIMS for name in (claim.name, *claim.test({}).variations)}
"""The claim by its name and by those of its variations, which are called without any tables, too."""


def outcome_of(name: str, tables: dict[str, pd.DataFrame]) -> testing.Test:
    """The test of a claim, or of a variation of a claim, as if it were not a primary one."""
    test = HOMES[name].test(tables)
    test = test if name == HOMES[name].name else test.variations[name][1]
    test.primary, test.variations = False, {}
    return test


def verdict_on(name: str, **tables: pd.DataFrame) -> tuple[str, pd.Series]:
    """The verdict on the claim or variation `name`, and its row of table `claims`, whose number is the recomputed one.

    The row has as `rows` the rows of table `comparisons`, by what is compared: the first, where two differ in the
    statistic alone. Claims on ceilings are recomputed from the table `pairs`, see worlds.ceiling_pairs.
    """
    claim, test = replace(HOMES[name], name=name, primary=False), outcome_of(name, tables)
    row = pd.Series(claim.row(test, tables, {}))
    if pd.notna(row.measured):
        assert RECOMPUTED[name](tables) == pytest.approx(row.measured, rel=1e-9, abs=1e-12)
    if test.rows and name in (controls := recomputed_language_model.CONTROLS):
        assert controls[name](tables) == pytest.approx(row.control_measured, rel=1e-9, abs=1e-12, nan_ok=True)
    found, rows = claim.comparisons(test), {}
    told_apart = {(each["comparison"], each["statistic"], each["asked"]) for each in found}
    assert len(told_apart) == len(found) and [each["number"] for each in found] == [*range(1, len(found) + 1)]
    for each in found:
        rows.setdefault(each["comparison"], pd.Series(each))
    row["rows"] = rows
    return row.verdict, row


def known(name: str, make, cases: dict):
    """The claim, a function that makes the tables of a world, and what is expected of it, for each of the worlds.

    `cases` has the worlds by what is expected, see `assert_judged`: tuples of arguments of `make`, of which the last
    may be a dictionary of options, or such a dictionary alone.
    """
    for expected, worlds in cases.items():
        for each in worlds:
            *arguments, last = (each,) if isinstance(each, dict) else each
            options = last if isinstance(last, dict) else {}
            yield name, partial(make, *arguments, *([] if options else [last]), **options), expected


def assert_judged(name: str, tables: dict, expected: str) -> None:
    """Compare verdict and reason with what is expected.

    That is a verdict, "verdict; models that pass the test, too", or "verdict: words of the reason"; "inconclusive of 9"
    is a verdict with the number of runs that cannot tell.
    """
    verdict, row = verdict_on(name, **tables)
    expected, _, words = expected.partition(": ")
    expected, _, runs = expected.partition(" of ")
    assert runs in ("", str(row.n_seeds))
    assert "; ".join(filter(None, (verdict, row.also_passed_by))) == expected, row.reason
    assert words in row.reason


def assert_pairs_are_counted(name: str, known, *variants: str) -> None:
    """In its first world a claim has a run less without a seed of one of the variants that are compared."""
    tables = next(world() for claim, world, _ in known if claim == name)
    runs = verdict_on(name, **tables)[1].n_seeds
    for variant in variants:
        few = {table: rows[(rows.variant != variant) | (rows.seed != 0)] for table, rows in tables.items()}
        assert verdict_on(name, **few)[1].n_seeds == runs - 1, variant
