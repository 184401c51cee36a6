"""The notebook in examples/: its code runs, prints what it is stored with, and draws the figure stored in it."""

import contextlib
import io
import re
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples/which_keys_can_win.ipynb"
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


@pytest.fixture
def shown(monkeypatch):
    """The figures that were shown, on a backend that has no window."""
    plt.switch_backend("Agg")
    figures = []
    monkeypatch.setattr(plt, "show", lambda: figures.append(plt.gcf()))
    yield figures
    plt.close("all")


@pytest.mark.long
def test_the_notebook_runs_and_its_outputs_are_those_stored(shown):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    names = {}
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        printed, figures = io.StringIO(), len(shown)
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.source, str(NOTEBOOK), "exec"), names)
        stored = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        assert_same_words_and_close_numbers(printed.getvalue(), stored)
        images = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(images) == len(shown) - figures
    assert len(shown) == 1
    # The sentence above the figure, which would be false of bounds that do not hold.
    assert (names["largest"] <= names["ceiling"]).all()


def assert_same_words_and_close_numbers(printed, stored):
    """Another processor may round the last digits in another way."""
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", stored)
    numbers = (
        [float(found.replace(",", "")) for found in NUMBER.findall(text)] for text in (printed, stored)
    )
    np.testing.assert_allclose(*numbers, rtol=1e-3, atol=0.11)
