"""Counts the keys that each second method judged, and prints them after the tests."""

from collections import Counter

import pytest

_JUDGED: Counter = Counter()
_BORDERLINE: Counter = Counter()


@pytest.fixture
def compare():
    """compare(method, verdicts, in_hull): equal outside the borderline band, counted for the summary."""

    def equal(method, verdicts, in_hull):
        decided = verdicts != "borderline"
        _JUDGED[method] += int(decided.sum())
        _BORDERLINE[method] += int((~decided).sum())
        wrong = decided & ((verdicts == "unselectable") != in_hull)
        assert not wrong.any(), f"{method} disagrees about keys {wrong.nonzero()[0].tolist()}"

    return equal


def pytest_terminal_summary(terminalreporter):
    if _JUDGED:
        terminalreporter.section("keys judged alike by second methods (0 disagreements unless a test failed)")
        for method, judged in _JUDGED.items():
            terminalreporter.write_line(
                f"{method}: {judged:,} keys, {_BORDERLINE[method]:,} borderline left out"
            )
