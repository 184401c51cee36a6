"""One whole small reproduction, which comes first, so that other tests run beside it."""

import shutil

import pytest
from checkouts import ROOT, SMOKE


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: "smoke" not in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="module")
def smoke(checkout):
    """A checkout in which the smoke preset, with a norm of one's own, has run; `printed` is what it printed."""
    made = checkout(SMOKE)
    made.printed = made.run()
    shutil.copytree(ROOT / "results/published", made.folder / "results/published", dirs_exist_ok=True)
    return made
