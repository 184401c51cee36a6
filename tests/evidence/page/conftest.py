import pytest
import tiny_world


@pytest.fixture(scope="session")
def world(tmp_path_factory) -> tiny_world.World:
    return tiny_world.make(tmp_path_factory.mktemp("results") / tiny_world.FOLDER)
