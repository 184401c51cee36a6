"""Effects on a common scale: in units of the effect that the source of a claim reports."""

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis.estimate import Estimate


def relative_effect(row: pd.Series, unit: str) -> Estimate | None:
    """The measured effect over the reported one, with its interval: 0 is no effect, 1 the reported one.

    `row` is a row of table claims and `unit` that of its measured number; of ratios ("×") the logarithms are divided.
    Returns None where the source reports no number, or nothing was measured.
    """
    if pd.isna(row.reported) or pd.isna(row.measured):
        return None
    measured = Estimate(*map(float, (row.measured, row.ci_low, row.ci_high)))
    if unit != "×":
        return measured.map(lambda value: value / row.reported)
    with np.errstate(divide="ignore"):
        return measured.map(lambda ratio: np.log(ratio) / np.log(row.reported))
