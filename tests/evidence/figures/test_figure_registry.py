import copy
import subprocess
import sys
from itertools import combinations

import default_settings
import figure_worlds as worlds
import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text

from layernorm_roles import schemas
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.figures import registry, style
from layernorm_roles.settings.loading import load

DEFAULT = load(default_settings.DEFAULT).model_dump(mode="json")
CONTRACT = {f"figure_{name}" for name in ("1a", "1b", "1c", "1d", "2a", "2b", "3", "4a", "4b")}
ROWS_HAVE_NAMES = {"durations", "statement_worked_numbers", "claims_forest"}
"""Figures of rows with a name each instead of a label of the y axis."""


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def default(**changed):
    return registry.figures(DEFAULT | changed)


def without(part, name, variant):
    """The default settings without the seeds of one variant."""
    changed = copy.deepcopy(DEFAULT[part])
    changed[name]["seeds"][variant] = 0
    return default(**{part: changed})


def test_the_default_run_has_every_figure_of_the_paper_and_of_every_experiment():
    names = set(default())
    assert names >= CONTRACT | {
        "figure_4_difference",
        "figure_heads",
        "majority_samplings",
        "majority_samplings_d3",
        "majority_d8_size_and_projection",
        "majority_rates_by_rate",
        "majority_rates_best_rates",
        "majority_widths_by_width",
        "claims_forest",
        "gaussian_law",
        "pretrained_minilm_ceilings",
        "pretrained_minilm_distribution",
        "pretrained_minilm_cut_heads",
    }
    kinds = {"d8": {"loss", "angle", "accuracy", "attention"}}
    kinds["d3"] = kinds["d8"] | {"vectors"}
    for experiment in kinds:
        assert {f"majority_{experiment}_{kind}" for kind in kinds[experiment]} <= names
    assert "majority_d8_vectors" not in names
    assert {f"statement_{name}" for name in ("fusion", "geometry", "placement")} <= names
    models = {f"language_model_{model}_loss" for model in DEFAULT["language_model"]}
    assert models <= names


def test_the_claims_name_figures_of_the_default_run():
    names = set(default())
    assert not {(claim.name, figure) for claim in CLAIMS for figure in claim.figures if figure not in names}


def test_what_varies_over_runs_has_figures_by_it_and_no_curves_of_all_runs():
    names = {name for name in worlds.figures() if name.startswith(("majority_rates", "majority_widths"))}
    assert names == {"majority_rates_by_rate", "majority_rates_best_rates", "majority_widths_by_width"}
    both = {"many": worlds.MAJORITY["widths"] | {"learning_rate": [0.1, 0.2], "seeds": {worlds.OWN: 1}}}
    names = {name for name in registry.figures({"majority": both}) if name.startswith("majority")}
    assert names == {"majority_many_by_rate", "majority_many_best_rates", "majority_many_by_width"}


def test_the_cross_needs_its_four_variants():
    assert "majority_crossed_size_and_projection" in worlds.figures()
    assert "majority_d8_size_and_projection" not in worlds.figures()


def test_models_have_figures_by_their_architecture():
    names = set(worlds.figures())
    assert {
        "language_model_wide_loss",
        "language_model_wide_difference",
        "language_model_wide_heads",
    } <= names
    assert {name for name in names if "bert" in name} == {"language_model_bert_loss"}
    assert not {"language_model_gpt_difference", "language_model_gpt_heads"} & names  # they are the paper's
    assert "figure_4a" not in registry.figures({"language_model": {"wide": worlds.MODELS["wide"]}})


def test_a_registry_without_settings_of_other_parts_has_the_figures_that_need_none():
    names = set(registry.figures({}))
    assert {"figure_1c", "statement_fusion", "claims_forest"} <= names
    assert not any(name.startswith(("majority", "language_model", "figure_4")) for name in names)


def test_figures_of_variants_without_seeds_are_left_out():
    assert "figure_1a" not in without("majority", "d3", "scale_released")
    assert "figure_1b" in without("majority", "d3", "scale_released")
    assert "figure_1b" not in without("majority", "d3", "layernorm")
    assert "figure_2a" in without("majority", "d8", "layernorm")
    assert "figure_4_difference" not in without("language_model", "gpt", "projection")
    assert "figure_4a" in without("language_model", "gpt", "projection")
    assert "figure_1d" not in default(random_keys=DEFAULT["random_keys"] | {"norms": ["none"]})
    assert "figure_random_keys_exact" not in default(
        random_keys=DEFAULT["random_keys"] | {"norms": ["scale", "tanh"]}
    )
    nobody = {"d8": worlds.D8 | {"seeds": {"layernorm": 0}}}
    assert not any(figure.category == registry.MAJORITY for figure in default(majority=nobody).values())


def test_three_dimensions_need_three_dimensions():
    majority = {"d3": worlds.D3 | {"d_model": [4], "seeds": {"layernorm": 1, "scale_released": 1}}}
    assert not {"figure_1a", "figure_1b", "majority_d3_vectors"} & set(default(majority=majority))


def test_samplings_need_both_experiments():
    alone = {"d8": worlds.MAJORITY["d8"], "mine": worlds.MAJORITY["mine"]}
    assert "majority_samplings" not in registry.figures({"majority": alone})
    assert "majority_samplings" in registry.figures({"majority": worlds.MAJORITY})


def test_tables_exist_and_captions_are_sentences():
    for name, figure in worlds.figures().items():
        assert figure.name == name
        known = set(figure.tables) <= set(schemas.SCHEMAS)
        assert known or figure is registry.DURATIONS
        assert figure.caption[0].isupper() and figure.caption.endswith(".")
        assert "  " not in figure.caption and ".." not in figure.caption


def test_captions_say_the_experiment_s_own_settings():
    captions = {name: figure.caption for name, figure in worlds.figures().items()}
    mine = captions["majority_mine_loss"]
    assert "d_model = 5" in mine and "uniform partitions, split by partitions" in mine
    assert "released" not in mine and "paper" not in mine
    assert "read off the paper" in captions["majority_d8_loss"]
    assert "read off the paper" not in captions["majority_d8_uniform_loss"]
    assert "d_head = 2" in captions["figure_heads"]
    assert "d_head = 16" in captions["language_model_wide_heads"]
    assert "d_model = 3, 4, 8" in captions["majority_widths_by_width"]


@pytest.mark.parametrize("name", sorted(worlds.figures()))
def test_every_figure_draws_data_and_names_its_axes(name):
    figure = worlds.draw(name)
    figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if axes.get_subplotspec()]
    drawn = [axes for axes in panels if axes.has_data() or axes.collections]
    assert drawn
    columns = {}
    for axes in drawn:
        columns.setdefault(axes.get_subplotspec().colspan.start, []).append(axes)
    for number, column in columns.items():
        assert any(axes.get_xlabel() for axes in column), f"column {number} has no label of the x axis"
    assert any(axes.get_ylabel() for axes in columns[0]) or name in ROWS_HAVE_NAMES


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


@pytest.mark.parametrize("name", sorted(worlds.figures()))
def test_texts_are_within_the_figure_and_do_not_overlap(name):
    figure = worlds.draw(name)
    figure.canvas.draw()
    texts = written(figure)
    for text, place in texts:
        inside = figure.bbox.padded(2)
        assert inside.x0 <= place.x0 and place.x1 <= inside.x1, text
        assert inside.y0 <= place.y0 and place.y1 <= inside.y1, text
    for (one, place), (other, there) in combinations(texts, 2):
        width = min(place.x1, there.x1) - max(place.x0, there.x0)
        height = min(place.y1, there.y1) - max(place.y0, there.y0)
        assert width < 1.5 or height < 1.5, (one, other)


def test_a_run_with_three_dimensions_alone_draws():
    majority = {"d3": worlds.MAJORITY["d3"]}
    drawn = [
        worlds.draw(name, majority)
        for name, figure in worlds.figures(majority).items()
        if figure.category == registry.MAJORITY
    ]
    assert len(drawn) == 7  # 1a, 1b, loss, angle, accuracy, attention, vectors


def test_the_registry_imports_nothing_heavy():
    program = (
        "import sys; from layernorm_roles.evidence.figures import registry; registry.figures({}); "
        "print([m for m in ('matplotlib', 'pandas', 'pyarrow', 'numpy', 'torch', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_drawing_imports_neither_torch_nor_numba():
    modules = sorted({figure.module for figure in worlds.figures().values()})
    program = (
        "import sys; from importlib import import_module; from layernorm_roles.evidence.figures import registry; "
        f"[import_module('layernorm_roles.evidence.figures.' + m) for m in {modules}]; "
        "print([m for m in ('torch', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["figure_2a", "figure_1c"])
def test_equal_tables_give_equal_files(name, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths = [tmp_path / folder / f"{name}.{kind}" for kind in ("png", "pdf")]
        style.save(worlds.draw(name), *paths)
    for kind in ("png", "pdf"):
        first, second = ((tmp_path / folder / f"{name}.{kind}").read_bytes() for folder in "ab")
        assert first == second and len(first) > 1000
