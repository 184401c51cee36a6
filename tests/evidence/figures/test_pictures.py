"""PNG files of figures: few colours and bytes, and nothing of what was drawn is lost."""

from io import BytesIO

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from layernorm_roles.evidence.figures import style
from layernorm_roles.variants import BUILT_IN


@pytest.fixture
def figure():
    """Lines and translucent bands in all colours of the variants, which mix where they cross."""
    random = np.random.default_rng(0)
    style.theme()
    figure, axes = plt.subplots(figsize=(style.COLUMN, 2.9))
    for number, colour in enumerate(variant.colour for variant in BUILT_IN.values()):
        steps = np.arange(50)
        runs = number / 5 + np.cumsum(random.standard_normal((50, 3)), axis=0)
        axes.fill_between(steps, runs.min(axis=1), runs.max(axis=1), color=colour, alpha=0.2, linewidth=0)
        axes.plot(steps, runs.mean(axis=1), color=colour)
    axes.set_title("A title in black")
    yield figure
    plt.close(figure)


def test_every_pixel_is_near_what_was_drawn_and_areas_keep_their_colours(figure):
    """By the areas a reader tells a band of one variant from that of another; the largest of them is the paper."""
    file, small = BytesIO(), style.png(figure)
    figure.savefig(file, format="png")
    drawn, picture = np.asarray(Image.open(file).convert("RGB"), dtype=int), Image.open(BytesIO(small))
    shown = np.asarray(picture.convert("RGB"), dtype=int)
    colours, counts = np.unique(drawn.reshape(-1, 3), axis=0, return_counts=True)
    assert len(colours) > 2000, "more colours than a palette holds"
    assert picture.mode == "P" and len(small) < len(file.getvalue()) / 2
    assert shown.shape == drawn.shape and picture.info["dpi"] == pytest.approx((220, 220), abs=0.1)
    assert np.sqrt(((shown - drawn) ** 2).mean()) < 3
    assert (shown[(drawn == 255).all(axis=2)] == 255).all(), "the paper is white"
    for colour in colours[np.argsort(-counts)[:100]]:
        assert np.abs(shown[(drawn == colour).all(axis=2)] - colour).max() < 12, "no eye sees it"


def test_equal_figures_give_equal_bytes_without_a_date_or_a_version(figure, tmp_path):
    first = style.png(figure)
    assert first == style.png(figure) and b"tEXt" not in first and b"tIME" not in first
    for name in ("one.pdf", "other.pdf"):
        style.save(figure, tmp_path / name)
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "other.pdf").read_bytes()


def test_a_user_s_matplotlibrc_changes_nothing():
    with matplotlib.rc_context(
        {"text.usetex": True, "lines.dashed_pattern": [9, 9], "axes.facecolor": "red"}
    ):
        style.theme()
        asked = [
            matplotlib.rcParams[key] for key in ("text.usetex", "lines.dashed_pattern", "axes.facecolor")
        ]
    assert asked == [False, matplotlib.rcParamsDefault["lines.dashed_pattern"], "white"]
