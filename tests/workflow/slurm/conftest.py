"""Prints SLURM's own records of the jobs after the tests."""

import pytest

_ROWS: list[tuple[str, ...]] = []


@pytest.fixture(scope="session")
def job_table():
    """A list of rows, the head first, for the summary."""
    return _ROWS


def pytest_terminal_summary(terminalreporter):
    if _ROWS:
        terminalreporter.section("jobs of a one-node SLURM, as its own records have them")
        widths = [max(map(len, column)) for column in zip(*_ROWS, strict=True)]
        for row in _ROWS:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            terminalreporter.write_line("  ".join(cells).rstrip())
