"""Every figure of a test is closed after it."""

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")
