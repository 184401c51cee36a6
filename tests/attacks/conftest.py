import sys
from pathlib import Path

import pytest

# Second methods, models made by hand and the faults stand beside the tests that they were made for.
TESTS = Path(__file__).parents[1]
for folder in ("selectability", "language_model", "workflow"):
    sys.path.append(str(TESTS / folder))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A function that makes a checkout of the workflow with some settings, in which a test may break things."""
    from checkouts import Checkout

    return lambda settings: Checkout(tmp_path_factory.mktemp("checkout"), settings)
