"""The verdict on one claim, for the tests of this folder.

The number of a claim is computed a second time, by functions of the modules `recomputed_...` that take the tables by
name and share no code with the first.
"""

import pandas as pd
import pytest
import recomputed_documents
import recomputed_language_model
import recomputed_pretrained
import recomputed_projection

from layernorm_roles.evidence import claims

OURS = {"reproduced": "holds", "reversed": "does not hold", "not reproduced": "does not hold"}
"""What the verdicts on claims of the paper are called in a setting that is not the paper's."""

PROVENANCE = dict.fromkeys("config version git_commit seed_rule torch python device".split(), "x")
CLAIMS = {claim.name: claim for claim in claims.CLAIMS}


MODULES = (
    recomputed_projection,
    recomputed_language_model,
    recomputed_pretrained,
    recomputed_documents,
)
RECOMPUTED = {name: function for module in MODULES for name, function in module.RECOMPUTED.items()}


def verdict_on(name: str, **tables: pd.DataFrame) -> tuple[str, pd.Series]:
    """The verdict on the claim `name`, and the claim's row of table `claims`, whose number is the recomputed one.

    The row has the claim's rows of table `comparisons` as well, in their order under `all_rows` and by what is compared
    under `rows`: there the first, where two differ in the statistic alone. Claims on ceilings are recomputed from the
    table `pairs`, see worlds.ceiling_pairs.
    """
    claim = CLAIMS[name]
    outcome = claim.judge(tables)
    row = pd.Series(claim.row(outcome, tables))
    if pd.notna(row.measured):
        assert RECOMPUTED[name](tables) == pytest.approx(row.measured, rel=1e-9, abs=1e-12)
    found, rows = list(claim.comparisons(outcome)), {}
    told_apart = {(each["comparison"], each["statistic"], each["asked"]) for each in found}
    assert len(told_apart) == len(found)
    for each in found:
        rows.setdefault(each["comparison"], pd.Series(each))
    row["rows"], row["all_rows"] = rows, [pd.Series(each) for each in found]
    return row.verdict, row
