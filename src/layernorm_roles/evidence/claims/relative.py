"""Effects on a common scale: in units of the effect that the source of a claim reports."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.comparison import RATIO

COLUMNS = {
    "effect": "measured",
    "low": "ci_low",
    "high": "ci_high",
    "isolated": "control_measured",
    "isolated_low": "control_low",
    "isolated_high": "control_high",
}


def on_common_scale(claims: pd.DataFrame) -> pd.DataFrame:
    """Return table claims with the columns of COLUMNS added, each in units of the effect that the source reports.

    0 is no effect and 1 the reported one. For ratios it is the logarithm that is divided by the reported one. NaN
    where the source gives no number, or one that means no effect.
    """
    ratios = claims.claim.isin([claim.name for claim in CLAIMS if claim.unit == RATIO])
    numbers = claims[[*COLUMNS.values(), "reported"]].astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = numbers.where(~ratios, np.log(numbers))
    reported = numbers.reported.where(numbers.reported != 0)
    return claims.assign(**{name: numbers[column] / reported for name, column in COLUMNS.items()})
