"""The whole small reproduction comes first, then what else runs workflows, so that all other tests run beside them."""

from pathlib import Path


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    items.sort(key=lambda item: (item.path.stem != "test_whole", here not in item.path.parents))
