"""Configurations that the check accepts run to the end, through every stage: no traceback, and nothing refused late."""

import os
import random

import configurations
import pytest

NUMBER = int(os.environ.get("ATTACK_CONFIGURATIONS", "3"))
"""How many accepted configurations the long form runs; 300 for the table."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))


@pytest.mark.long
def test_what_is_accepted_runs(tmp_path, record_property):
    reproductions, rng = configurations.Reproductions(tmp_path), random.Random(SEED)
    wrong, refused, run = [], 0, 0
    while run < NUMBER:
        outcome = reproductions.trial(rng)
        print(outcome, flush=True)
        refused += outcome.kind == "refused"
        run += outcome.kind != "refused"
        wrong += [outcome] if outcome.kind in ("failed", "refused late") else []
    record_property("tried", run)
    record_property("held", run - len(wrong))
    assert not wrong, "\n".join(f"{each.keys}: {each.message}" for each in wrong)
    assert refused < 10 * run


def test_drawn_configurations_change_what_they_say_and_most_are_accepted():
    from layernorm_roles import planning

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
