"""Effects on a common scale: in units of the effect that the source of a claim reports."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.claim import RATIO


def on_common_scale(claims: pd.DataFrame) -> pd.DataFrame:
    """Table claims with columns effect, low, high, isolated, isolated_low and isolated_high, in reported effects.

    0 is no effect and 1 the reported one. For ratios it is the logarithm that is divided by the reported one. NaN
    where the source gives no number, or one that means no effect.
    """
    ratios = {claim.name for claim in CLAIMS if claim.unit == RATIO}
    is_ratio = claims.claim.isin(ratios)

    def effect(column: str) -> pd.Series:
        values = claims[column].astype(float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return values.where(~is_ratio, np.log(values))

    reported = effect("reported")
    reported = reported.where(reported != 0)
    names = {
        "effect": "measured",
        "low": "ci_low",
        "high": "ci_high",
        "isolated": "control_measured",
        "isolated_low": "control_low",
        "isolated_high": "control_high",
    }
    return claims.assign(**{name: effect(column) / reported for name, column in names.items()})
