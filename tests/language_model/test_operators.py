"""The operators by which a card is tried agree with float64 on a CPU, and notice a fault of attention's scores."""

import hand_made
import pytest
import torch

from layernorm_roles.gpu.agreement import operator_difference
from layernorm_roles.language_model.operators import operators

FAULTS = {"scores of 0": 0.0, "another scale": 0.5}
"""Factors of the queries, and so of the scores."""


@pytest.mark.parametrize("settings", [hand_made.SMALL_GPT, hand_made.SMALL_BERT], ids=["gpt", "bert"])
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_faults_of_attention_are_noticed_at_unit_normal_inputs(settings, fault):
    found = {operator.name: operator for operator in operators(settings, 300)}
    if fault:
        whole = found["attention"].function

        def spoilt(first, *others):
            """`first` are the queries, or in GPT queries, keys and values side by side."""
            factor = torch.ones(first.shape[-1], dtype=first.dtype)
            if first.dtype == torch.float32:
                factor[: len(factor) if others else len(factor) // 3] = FAULTS[fault]
            return whole(factor * first, *others)

        found["attention"] = found["attention"]._replace(function=spoilt)
    differ = {name for name, operator in found.items() if operator_difference(operator, "cpu")}
    assert differ == ({"attention"} if fault else set())
