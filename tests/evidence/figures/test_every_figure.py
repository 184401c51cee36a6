"""What holds for every figure: which there are, what legends say, and that all of it can be read."""

import copy
import re
from itertools import combinations
from pathlib import Path

import default_settings
import numpy as np
import pytest
import random_world as world
from matplotlib.text import Text
from reading import handles, like

from layernorm_roles import reproduction, shown
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.figures import style
from layernorm_roles.schemas import SCHEMAS
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.loading import load
from layernorm_roles.variants import BUILT_IN

DEFAULT = load(default_settings.DEFAULT).model_dump(mode="json")
PAPER = {f"figure_{name}" for name in ("1a", "1b", "1c", "2a", "2b", "3", "4a", "4b")}
EVIDENCE = Path(shown.__file__).parent / "evidence"
ROWS_HAVE_NAMES = {"claims_forest", "figure_1a", "figure_1b"}
"""Figures of rows with a name each instead of a label of the y axis."""
EVERY = pytest.mark.parametrize("name", sorted(world.figures()))


def default(**changed):
    return world.figures(DEFAULT | changed)


def without(part, name, variant):
    changed = copy.deepcopy(DEFAULT[part])
    changed[name]["seeds"][variant] = 0
    return default(**{part: changed})


# Which figures there are


def template(name):
    """The entry of the list behind a figure, which may be one of several experiments."""
    return (
        name if name in shown.FIGURES else next(each for each in shown.FIGURES if name.startswith(f"{each}_"))
    )


def test_each_experiment_of_one_width_and_rate_has_curves_of_its_own():
    curves = {name for name in world.figures() if name.startswith("majority_curves")}
    assert curves == {f"majority_curves_{name}" for name in ("d8", "d3", "d8_uniform", "mine", "crossed")}
    assert shown.FIGURES["majority_curves_d8_uniform"].options == {"experiment": "d8_uniform"}
    with pytest.raises(KeyError, match="majority_nothing"):
        shown.FIGURES["majority_nothing"]


def functions(folder, returns):
    """The public functions of the modules in a folder of the evidence that return a figure or a readable table."""
    found = re.compile(rf"^def ([a-z]\w*)\([^)]*\) -> {returns}:", re.MULTILINE)
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (EVIDENCE / folder).glob("*.py")}
    return {f"{module}.{name}" for module, text in texts.items() for name in found.findall(text)}


def test_the_list_names_every_function_and_tables_that_exist_and_claims_name_entries_of_the_list():
    assert {figure.draw for figure in shown.FIGURES.values()} == functions("figures", "Figure")
    made = functions("tables", "Readable") - {"readable.make"}
    assert {*shown.TABLES} == {name.partition(".")[2] for name in made}
    for exhibit in (*shown.FIGURES.values(), *shown.TABLES.values()):
        assert {*exhibit.inputs} <= {*SCHEMAS}, exhibit.name
    assert all(shown.FIGURES[name] for claim in CLAIMS for name in claim.figures)
    assert {name for claim in CLAIMS for name in claim.exhibits} <= {*shown.TABLES}


def test_presets_have_every_figure_and_one_experiment_of_a_user_those_that_show_it():
    root, found = default_settings.ROOT, [default()]
    for name in ("published", "smoke"):
        preset = yaml_files.read(root / f"workflow/presets/{name}.yaml")
        found.append(
            world.figures(reproduction.configured(root / "config.yaml", preset).model_dump(mode="json"))
        )
    assert all(figures >= PAPER for figures in found)
    assert {template(name) for figures in found for name in figures} == {*shown.FIGURES}
    mine = {"mine": world.MAJORITY["widths"]}
    only = {"majority": mine, "language_model": {}}
    groups = shown.groups_of(only, ["majority_metrics", "majority_vectors"])
    assert [(group.name, [figure.name for figure in group.figures]) for group in groups] == [
        ("majority", ["majority_by_width"]),
        ("verdicts", ["claims_forest"]),
    ]
    assert world.draw("majority_by_width", mine).axes[0].get_title() == "20 classes, learning rate 0.001"
    files = {f"figures/majority_by_width.{kind}" for kind in ("png", "pdf")}
    assert groups[0].inputs == ["majority_metrics"]
    assert files == {*groups[0].files}


def test_figures_of_variants_without_seeds_are_left_out():
    left = without("majority", "d3", "scale_released")
    assert "figure_1a" not in left and "figure_1b" in left
    assert "figure_1b" not in without("majority", "d3", "layernorm")
    assert "figure_2a" in without("majority", "d8", "layernorm")
    assert "figure_4a" in without("language_model", "gpt", "projection")
    random_keys = DEFAULT["random_keys"]
    assert "figure_1c" not in default(random_keys=random_keys | {"norms": ["layernorm"]})
    nobody = default(majority={"d8": world.D8 | {"seeds": {"layernorm": 0}}})
    assert not nobody & {figure.name for figure in shown.GROUPS["majority"].figures}
    four = {"d3": world.D3 | {"d_model": [4], "seeds": {"layernorm": 1, "scale_released": 1}}}
    assert not {"figure_1a", "figure_1b"} & default(majority=four)
    wide = world.MODELS["wide"]
    alone = default(language_model={"wide": wide | {"seeds": {"layernorm": 2}}})
    assert not {"language_model_losses", "figure_heads", "figure_4a"} & alone
    assert {"figure_1c", "statement_placement", "claims_forest"} <= world.figures({})


def test_figures_need_an_experiment_or_a_model_of_their_kind():
    several, both = {"learning_rate": [0.1, 0.2]}, {"seeds": {"layernorm": 1, "scale": 1}}
    two = default(majority={"d8": world.D8 | several | both, "d3": world.D3 | both})
    assert {"figure_1b", "majority_by_rate"} <= two and not {"figure_3", "majority_size_and_projection"} & two
    of_models = {figure.name for figure in shown.GROUPS["language_model"].figures}
    gpt, bert = world.MODELS["gpt"], world.MODELS["gpt"] | {"architecture": "bert"}
    assert not default(language_model={"gpt": gpt | {"steps": [1, 2]}}) & of_models
    known = {"figure_4a", "figure_4b", "figure_heads", "heads_by_width"}
    assert default(language_model={"gpt": gpt}) & of_models == known
    for model in (bert, bert | {"seeds": {"none": 1}}):
        assert default(language_model={"other": model}) & of_models == {"language_model_losses"}


# Legends


@EVERY
def test_every_entry_of_a_legend_looks_like_something_that_is_drawn(name):
    figure = world.drawn(name)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    rows = " ".join(tick.get_text() for axes in panels for tick in axes.get_yticklabels())
    for label, handle in handles(figure).items():
        if str(handle.get_marker() if hasattr(handle, "get_marker") else "").strip("$") in rows.split():
            continue  # the dagger of the claims stands beside their names
        assert any(like(axes, handle) for axes in panels), label


def test_every_variant_has_a_look_of_its_own():
    colours = [*(variant.colour for variant in BUILT_IN.values()), *style.SPARE_COLOURS]
    assert len(set(colours)) == len(colours)
    looks = style.looks_of(["tanh", "none", "layernorm", "abs"])
    assert list(looks) == ["layernorm", "none", "abs", "tanh"]
    assert [looks[name]["color"] for name in ("abs", "tanh")] == list(style.SPARE_COLOURS[:2])
    assert looks["tanh"]["label"] == "tanh" and looks["tanh"]["ls"] == "-"
    assert style.looks_of("abcdefg")["g"]["color"] == style.SPARE_COLOURS[0], "a seventh begins anew"


# Complete dichromacy, in linear RGB: Machado, Oliveira and Fernandes (2009).
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
ENOUGH = 15
WITH_STROKES = 12
"""CIE 1976 colour differences from which two lines are told apart at a glance, and from which they are if their strokes
differ, too; 2 or 3 can just be noticed."""


def lab(colour, vision):
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    matrix = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = np.cbrt(matrix @ seen / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISION)
def test_variants_that_meet_in_a_figure_differ_in_colour_and_more_so_where_their_strokes_are_equal(vision):
    published = yaml_files.read(default_settings.ROOT / "workflow/presets/published.yaml")
    published = reproduction.configured(default_settings.ROOT / "config.yaml", published).model_dump(
        mode="json"
    )
    sections = [
        (settings, name) for settings in (DEFAULT, published) for name in ("majority", "language_model")
    ]
    for entry in (entry for settings, name in sections for entry in settings[name].values()):
        present = [name for name, seeds in entry["seeds"].items() if seeds and name in BUILT_IN]
        for pair in combinations(present, 2):
            one, other = (BUILT_IN[name] for name in pair)
            apart = np.linalg.norm(lab(one.colour, vision) - lab(other.colour, vision))
            assert apart >= (ENOUGH if one.stroke == other.stroke else WITH_STROKES), pair


# What a reader sees


@EVERY
def test_every_figure_draws_data_and_names_its_axes(name):
    panels = [
        each for each in world.drawn(name).axes if each.axison and (each.has_data() or each.collections)
    ]
    assert any(axes.get_ylabel() for axes in panels) or name in ROWS_HAVE_NAMES
    columns = {}
    for axes in panels:
        if place := axes.get_subplotspec():
            columns.setdefault((id(axes.figure), place.colspan.start), []).append(axes.get_xlabel())
    assert panels and all(any(labels) for labels in columns.values())


def written(figure):
    """The texts that a drawn figure shows, each with its place; ticks outside of the axes show none."""
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in texts if text not in hidden]


@EVERY
def test_texts_are_within_the_figure_and_do_not_overlap(name):
    figure = world.draw(name)  # anew, because looking at its ticks would change its layout
    figure.draw_without_rendering()
    texts = written(figure)
    assert max(figure.get_size_inches()) < 9
    inside = figure.bbox.padded(2)
    for text, place in texts:
        assert inside.x0 <= place.x0 and place.x1 <= inside.x1, text
        assert inside.y0 <= place.y0 and place.y1 <= inside.y1, text
    for (one, place), (other, there) in combinations(texts, 2):
        width = min(place.x1, there.x1) - max(place.x0, there.x0)
        height = min(place.y1, there.y1) - max(place.y0, there.y0)
        assert width < 1.5 or height < 1.5, (one, other)
