"""Configurations that the check accepts run to the end, through every stage: no traceback, and nothing refused late."""

import os
import random

import configurations
import pytest

from layernorm_roles import planning

NUMBER = int(os.environ.get("ATTACK_CONFIGURATIONS", "3"))
"""How many accepted configurations are run."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))


@pytest.mark.long
def test_what_is_accepted_runs(tmp_path):
    rng, reproductions, wrong = random.Random(SEED), configurations.Reproductions(tmp_path), []
    left = NUMBER
    while left:
        overlay, keys = configurations.configuration(rng, configurations.smallest())
        try:
            planning.configured(configurations.ROOT / "config.yaml", overlay)
        except ValueError:
            continue
        left -= 1
        if fault := reproductions.fault(overlay):
            wrong.append(f"{keys}: {fault}")
    assert not wrong, "\n".join(wrong)


def test_drawn_configurations_change_what_they_say_and_most_are_accepted():
    base, rng, accepted = configurations.smallest(), random.Random(1), 0
    for _ in range(40):
        overlay, said = configurations.configuration(rng, base)
        assert said and overlay != base
        try:
            planning.configured(configurations.ROOT / "config.yaml", overlay)
            accepted += 1
        except ValueError as refusal:
            assert "expected" in str(refusal)
    assert accepted > 15
