"""Gradients at initialisation grow with the size of attention's input as docs/step_size.md derives."""

import numpy as np
import pandas as pd
import pytest
from hand_made import SMALL_GPT, changed

from layernorm_roles.language_model import gradients

EXPONENTS = {
    "queries_keys": {"W_Q": 2.0, "W_K": 2.0, "W_V": 0.0},
    "both": {"W_Q": 3.0, "W_K": 3.0, "W_V": 1.0},
}


def test_log_log_slopes_are_the_derived_ones_and_the_size_is_what_is_named(text):
    """In small networks, whose residual stream attention itself changes by little."""
    rows = pd.DataFrame(gradients.measure(changed(SMALL_GPT, d_model=16, heads=2), text, [3, 4]))
    assert len(rows) == 2 * 2 * 5 * 3 and (rows.norm > 0).all()
    for (part, matrix, _), each in rows.groupby(["part", "matrix", "seed"]):
        slope = np.polyfit(np.log(each["size"]), np.log(each.norm), 1)[0]
        assert slope == pytest.approx(EXPONENTS[part][matrix], abs=0.05), (part, matrix)
    at_one = rows[rows["size"] == 1].pivot_table(index=["seed", "matrix"], columns="part", values="norm")
    assert np.allclose(at_one.both, at_one.queries_keys), "LayerNorm itself"
