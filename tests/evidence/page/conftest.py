from pathlib import Path

import pytest
import tiny_world
import two_reproductions


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> tiny_world.World:
    return tiny_world.make(tmp_path_factory.mktemp("results") / "tiny")


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> Path:
    return two_reproductions.make(tmp_path_factory.mktemp("work") / "results")
