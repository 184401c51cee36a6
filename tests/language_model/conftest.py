import numpy as np
import pytest
from hand_made import contexts, prepared_text


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A text of six frequent words, in all of its parts."""
    rng = np.random.default_rng(0)
    frame = contexts(*(("long", rng.integers(6, size=n)) for n in (16, 12, 15)),
                     *(("sentences", rng.integers(6, size=n)) for n in (16, 4, 9, 7)))  # fmt: skip
    streams = (rng.integers(6, size=n) for n in (3000, 500))
    return prepared_text(tmp_path_factory.mktemp("text"), *streams, frame)


@pytest.fixture(scope="session")
def disjoint_text(tmp_path_factory):
    """A text whose training tokens lie in 0 to 99, the validation tokens in 100 to 199, the contexts' beyond."""
    rng = np.random.default_rng(0)
    frame = contexts(("long", rng.integers(200, 300, size=16)), ("sentences", rng.integers(200, 300, size=9)))
    streams = (rng.integers(low, low + 100, size=n) for low, n in ((0, 3000), (100, 500)))
    return prepared_text(tmp_path_factory.mktemp("disjoint"), *streams, frame)
