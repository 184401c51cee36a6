import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest

from layernorm_roles.evidence.claims.rules import MEANINGS, Verdict
from layernorm_roles.evidence.figures import verdicts


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def rows(axes):
    return [tick.get_text() for tick in axes.get_yticklabels()]


def marks(axes, row):
    """Places of the filled and of the hollow marks at a row."""
    found = {"own": [], "isolated": []}
    for line in axes.lines:
        if len(line.get_xdata()) == 1 and line.get_marker() not in "<>" and round(line.get_ydata()[0]) == row:
            kind = "isolated" if line.get_markerfacecolor() == "white" else "own"
            found[kind].append(float(line.get_xdata()[0]))
    return found


def intervals(axes, row):
    return [
        tuple(map(float, line.get_xdata()))
        for line in axes.lines
        if len(line.get_xdata()) == 2
        and round(float(line.get_ydata()[0])) == row
        and line.get_linewidth() > 1
    ]


def test_effects_are_relative_to_the_reported_ones_and_ratios_by_their_logarithms():
    above, _ = worlds.draw("claims_forest").axes
    assert rows(above) == ["faster", "accurate", "parallel †"]
    assert marks(above, 0) == {"own": [pytest.approx(0.5)], "isolated": [pytest.approx(0.0)]}
    assert intervals(above, 0) == [(pytest.approx(0.25), 2.0), (pytest.approx(-1.0), pytest.approx(1.0))]
    assert marks(above, 1) == {"own": [pytest.approx(0.5)], "isolated": []}
    assert intervals(above, 1) == [(pytest.approx(-1.0), pytest.approx(1.5))]
    assert above.get_xlabel() == "measured effect / reported effect"


def test_what_lies_beyond_the_axis_is_an_arrow_at_its_edge():
    figure = worlds.draw("claims_forest")
    figure.draw_without_rendering()
    above, _ = figure.axes
    places = [line.get_window_extent() for line in above.lines if line.get_marker() == ">"]
    assert all(place.x0 > above.bbox.x1 for place in places), "no mark at the edge hides an arrow"
    arrows = {
        (line.get_marker(), float(line.get_xdata()[0]), round(float(line.get_ydata()[0])))
        for line in above.lines
        if line.get_marker() in "<>" and len(line.get_xdata())
    }
    assert arrows == {(">", 2.0, 0), (">", 2.0, 2)}
    assert marks(above, 2)["own"] == [2.0]
    numbers = {text.get_text(): text for text in above.texts}
    (effect,) = {text for text in numbers if text not in ("no effect", "as reported")}
    scaled = verdicts.on_common_scale(worlds.claims()).effect.dropna()
    assert float(effect) == pytest.approx(scaled[scaled > verdicts.ENDS[1]].item(), abs=0.05)
    assert numbers[effect].get_window_extent().x1 < above.bbox.x1, "it stands beside its mark, on the axis"
    assert above.get_xlim() == verdicts.ENDS


def test_claims_without_a_number_or_a_measurement_are_listed_with_their_verdict():
    _, below = worlds.draw("claims_forest").axes
    assert [text.get_text() for text in below.texts] == ["geometry", "loss gap"]
    looks = [(line.get_color(), line.get_marker()) for line in below.lines]
    assert looks == [verdicts.LOOKS[Verdict.HOLDS], verdicts.LOOKS[Verdict.NOT_TESTED]]
    assert "2 of the claims" in below.get_title(loc="left")


def test_the_legend_counts_the_verdicts_and_explains_the_marks():
    figure = worlds.draw("claims_forest")
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        "reproduced (1)",
        "partial (1)",
        "holds (1)",
        "not tested (2)",
        "isolating comparison",
        "passed also without the cause",
    ]


def test_every_verdict_has_a_look_of_its_own():
    assert set(verdicts.LOOKS) == set(MEANINGS)
    assert len(set(verdicts.LOOKS.values())) == len({marker for _, marker in verdicts.LOOKS.values()}) == 8


def test_a_reported_number_of_no_effect_has_no_scale():
    table = worlds.claims()
    table["reported"] = [1.0, 0.0, np.nan, np.nan, np.nan]
    assert verdicts.on_common_scale(table).effect.isna().all()
    above, below = worlds.draw("claims_forest", claims=table).axes
    assert rows(above) == [] and len(below.texts) == 5


def test_a_negative_reported_number_has_a_scale():
    table = worlds.claims()
    table["reported"] = [9.0, -8.0, np.nan, np.nan, np.nan]
    above, _ = worlds.draw("claims_forest", claims=table).axes
    assert rows(above) == ["faster", "accurate"]
    assert marks(above, 1)["own"] == [pytest.approx(-0.5)]
