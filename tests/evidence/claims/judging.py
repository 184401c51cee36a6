"""The verdict on one claim, and the words of verdicts, for the tests of this folder."""

import pandas as pd

from layernorm_roles.evidence import claims

REPRODUCED, PARTIAL, REVERSED, CONFOUNDED, NOT_REPRODUCED, HOLDS, DOES_NOT_HOLD, NOT_TESTED = map(
    str, claims.Verdict
)
OURS = {REPRODUCED: HOLDS, CONFOUNDED: PARTIAL, REVERSED: DOES_NOT_HOLD, NOT_REPRODUCED: DOES_NOT_HOLD}
"""What the verdicts on claims of the paper are called in a setting that is not the paper's."""

PROVENANCE = dict.fromkeys("config version git_commit seed_rule torch python device".split(), "x")
CLAIMS = {claim.name: claim for claim in claims.CLAIMS}


def verdict_on(name: str, **tables: pd.DataFrame) -> tuple[str, pd.Series]:
    """The verdict on the claim `name`, and the claim's row of table `claims`."""
    row = pd.Series(claims.row(CLAIMS[name], tables))
    return row.verdict, row
