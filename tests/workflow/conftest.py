import pytest
from checkouts import Checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return lambda settings: Checkout(tmp_path_factory.mktemp("checkout"), settings)
