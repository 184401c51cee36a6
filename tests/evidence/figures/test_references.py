"""References and names beside what was measured: exact shares, Gaussian keys, cells left out, ends of an axis."""

import runpy
from types import SimpleNamespace

import figure_worlds as worlds
import matplotlib.pyplot as plt
import numpy as np
import pytest
from default_settings import ROOT

from layernorm_roles import store
from layernorm_roles.evidence.figures import colours, registry, style
from layernorm_roles.gaussian_keys import expected_unselectable


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_lines_of_the_exact_shares_stay_where_nothing_was_found():
    table = worlds.random_keys()
    table["mean_unselectable"] = 0.0
    above = worlds.draw("figure_random_keys_exact", random_keys=table).axes[0]
    heat, *lines = above.collections
    assert not heat.get_array().any()
    assert any(len(path.vertices) for line in lines for path in line.get_paths())


def test_cells_of_rare_events_have_no_z_score():
    table = worlds.random_keys()
    rare = (table.norm == "none") & (table.n == 30) & (table.d == 7)
    table.loc[rare, "expected_unselectable"] = 0.09  # times 100 matrices: under ten
    figure = worlds.draw("figure_random_keys_exact", random_keys=table)
    below = [axes for axes in figure.axes if axes.get_title(loc="left").startswith("z of")][1]
    z = np.ma.filled(below.collections[0].get_array(), np.nan)
    assert np.isnan(z[2, 2]) and np.isfinite(z).sum() == 8
    assert "z of 8 cells" in below.get_title(loc="left")


def test_cut_heads_stand_beside_gaussian_keys_of_their_dimensions():
    gaussian = worlds.draw("pretrained_minilm_cut_heads").axes[0].lines[0]
    known = [100 * expected_unselectable(200, int(d)) / 200 for d in gaussian.get_xdata()]
    np.testing.assert_allclose(gaussian.get_ydata(), known)


def test_small_and_large_keys_are_named_where_they_are_drawn():
    early = worlds.draw("majority_crossed_size_and_projection").axes[0]
    table = worlds.majority_metrics()
    at = table[(table.experiment == "crossed") & (table.step == 1200)]
    wide = at.pivot(index="seed", columns="variant", values="test_accuracy").dropna()
    names = dict(zip(early.get_xticks(), (tick.get_text() for tick in early.get_xticklabels()), strict=True))
    (line,) = [
        line
        for line in early.lines
        if line.get_color() == colours.COLOURS["layernorm"] and line.get_marker() == "o"
    ]
    for x, y in line.get_xydata():
        variant = "layernorm_small" if "small" in names[round(x)] else "layernorm"
        assert y == pytest.approx(wide[variant].mean())


def test_divided_scores_are_those_that_the_legend_calls_divided():
    figure = worlds.draw("statement_score_scale")
    (legend,) = figure.legends
    colour = {
        text.get_text(): handle.get_color()
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    table = worlds.score_scale()
    table = table[table.source == "normal"]
    for name, divided in (("not divided", False), ("divided by $\\sqrt{d_k}$", True)):
        (line,) = [
            line
            for line in figure.axes[0].lines
            if line.get_color() == colour[name] and line.get_linestyle() == "-"
        ]
        known = table[table.divided == divided].groupby("d_k").score_std.mean()
        np.testing.assert_allclose(line.get_ydata(), known)


def test_the_rules_script_saves_each_figure_under_its_name(tmp_path):
    table = tmp_path / "random_keys.parquet"
    store.write(worlds.random_keys(("none", "layernorm", "projection")), "random_keys", table, {})
    settings = {"majority": {}, "random_keys": worlds.RANDOM_KEYS}
    names = ("figure_1d", "figure_1c")
    job = SimpleNamespace(
        log=[str(tmp_path / "log")],
        params=SimpleNamespace(settings=settings),
        input={"random_keys": str(table)},
        output=[str(tmp_path / f"{name}.{kind}") for name in names for kind in ("png", "pdf")],
    )
    runpy.run_path(str(ROOT / "workflow/scripts/draw.py"), {"snakemake": job})
    known = registry.figures(settings)
    for name in names:
        figure = registry.draw(known[name], {"random_keys": store.read(table, "random_keys")})
        style.save(figure, tmp_path / "known.png")
        assert (tmp_path / f"{name}.png").read_bytes() == (tmp_path / "known.png").read_bytes()
