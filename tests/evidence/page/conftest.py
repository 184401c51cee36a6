from pathlib import Path

import pytest
import tiny_world
import two_reproductions


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> tiny_world.World:
    """The tiny reproduction, with a page in its folder."""
    return tiny_world.make(tmp_path_factory.mktemp("results") / "tiny")


@pytest.fixture(scope="session")
def results(tmp_path_factory) -> Path:
    """The folder results/ with the reproductions mine and theirs, and the page of mine against theirs."""
    return two_reproductions.make(tmp_path_factory.mktemp("work") / "results")
