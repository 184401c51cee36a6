"""Configurations that the check accepts run to the end, through every stage: no traceback, and nothing refused late."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import configurations
import pytest

from layernorm_roles import planning

NUMBER = int(os.environ.get("ATTACK_CONFIGURATIONS", "3"))
"""How many accepted configurations are run."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))
JOBS = int(os.environ.get("ATTACK_JOBS", "1"))
"""How many of them are run side by side."""


@pytest.mark.long
def test_what_is_accepted_runs(tmp_path):
    rng, accepted, refused = random.Random(SEED), [], 0
    base = configurations.smallest()
    while len(accepted) < NUMBER:
        overlay, keys = configurations.configuration(rng, base)
        try:
            planning.configured(configurations.ROOT / "config.yaml", overlay)
            accepted.append((overlay, keys))
        except ValueError:
            refused += 1
    assert refused < 10 * NUMBER
    reproductions, wrong = configurations.Reproductions(tmp_path, JOBS), []
    with ThreadPoolExecutor(JOBS) as pool:
        for number, outcome in enumerate(pool.map(lambda each: reproductions.trial(*each), accepted)):
            print(number, outcome, flush=True)
            wrong += [outcome] if outcome.kind != "done" else []
    assert not wrong, "\n".join(f"{each.keys}: {each.message}" for each in wrong)


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
