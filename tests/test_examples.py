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


@pytest.mark.long
def test_the_notebook_runs_and_its_outputs_are_those_stored(monkeypatch):
    """But for the last digits, which another processor may round in another way."""
    plt.switch_backend("Agg")
    shown, names = [], {}
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    install, *cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    assert install.source.startswith("%pip install ")
    for cell in cells:
        printed, figures = io.StringIO(), len(shown)
        with contextlib.redirect_stdout(printed):
            exec(compile(cell.source, str(NOTEBOOK), "exec"), names)
        stored = "".join(output.text for output in cell.outputs if output.output_type == "stream")
        texts = printed.getvalue(), stored
        assert NUMBER.sub("#", texts[0]) == NUMBER.sub("#", texts[1])
        numbers = ([float(n.replace(",", "")) for n in NUMBER.findall(text)] for text in texts)
        np.testing.assert_allclose(*numbers, rtol=1e-3, atol=0.11)
        images = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(images) == len(shown) - figures
    assert len(shown) == 1
    # The sentence above the figure, which would be false of bounds that do not hold.
    assert (names["largest"] <= names["ceiling"]).all()
    plt.close("all")
