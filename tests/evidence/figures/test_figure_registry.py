import copy
import subprocess
import sys

import figure_worlds as worlds
import matplotlib.pyplot as plt
import pytest
from default_settings import DEFAULT

from layernorm_roles import schemas
from layernorm_roles.evidence.figures import registry, style

CONTRACT = {f"figure_{name}" for name in ("1a", "1b", "1c", "1d", "2a", "2b", "3", "4a", "4b")}
ROWS_HAVE_NAMES = {"durations", "statement_worked_numbers"}
"""Figures of bars with a name each instead of a label of the y axis."""


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def tables():
    return worlds.tables()


def default(**changed):
    settings = DEFAULT | changed
    return registry.figures(settings["majority"], settings["language_model"], settings["random_keys"])


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
        "figure_bert_loss",
        "majority_samplings",
    }
    for experiment, settings in DEFAULT["majority"].items():
        kinds = {"loss", "angle", "accuracy"} | ({"vectors"} if settings["d_model"] == 3 else set())
        assert {f"majority_{experiment}_{kind}" for kind in kinds} <= names
    assert ("majority_d8_vectors" in names) is False
    assert {f"statement_{name}" for name in ("fusion", "geometry", "placement")} <= names


def test_a_registry_without_settings_of_other_parts_has_their_figures():
    names = set(registry.figures({}))
    assert {"figure_1c", "figure_4a", "figure_heads", "figure_bert_loss", "statement_fusion"} <= names
    assert not any(name.startswith("majority") for name in names)


def test_figures_of_variants_without_seeds_are_left_out():
    assert "figure_1a" not in without("majority", "d3", "scale_released")
    assert "figure_1b" in without("majority", "d3", "scale_released")
    assert "figure_1b" not in without("majority", "d3", "layernorm")
    assert "figure_2a" in without("majority", "d8", "layernorm")
    assert "figure_4_difference" not in without("language_model", "gpt", "projection")
    assert "figure_4a" in without("language_model", "gpt", "projection")
    assert "figure_1d" not in default(random_keys={"norms": ["none"]})
    assert "figure_random_keys_exact" not in default(random_keys={"norms": ["scale", "tanh"]})
    nobody = {"d8": worlds.D8 | {"seeds": {"layernorm": 0}}}
    assert not any(figure.category == registry.MAJORITY for figure in default(majority=nobody).values())


def test_three_dimensions_need_three_dimensions():
    majority = {"d3": worlds.D3 | {"d_model": 4, "seeds": {"layernorm": 1, "scale_released": 1}}}
    assert not {"figure_1a", "figure_1b", "majority_d3_vectors"} & set(default(majority=majority))


def test_samplings_need_both_experiments():
    alone = {"d8": worlds.MAJORITY["d8"], "mine": worlds.MAJORITY["mine"]}
    assert "majority_samplings" not in registry.figures(alone)
    assert "majority_samplings" in registry.figures(worlds.MAJORITY)


def test_tables_exist_and_captions_are_sentences():
    for name, figure in worlds.figures().items():
        assert figure.name == name
        known = {registry.schema_of(table) for table in figure.tables} <= set(schemas.SCHEMAS)
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


@pytest.mark.parametrize("name", sorted(worlds.figures()))
def test_every_figure_draws_data_and_names_its_axes(name, tables):
    figure = registry.draw(worlds.figures()[name], tables)
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


def test_a_run_with_three_dimensions_alone_draws():
    majority = {"d3": worlds.MAJORITY["d3"]}
    tables = worlds.tables(majority)
    drawn = [
        registry.draw(figure, tables)
        for figure in worlds.figures(majority).values()
        if figure.category == registry.MAJORITY
    ]
    assert len(drawn) == 6  # 1a, 1b, loss, angle, accuracy, vectors


def test_the_registry_imports_nothing_heavy():
    program = (
        "import sys; from layernorm_roles.evidence.figures import registry; registry.figures({}); "
        "print([m for m in ('matplotlib', 'pandas', 'pyarrow', 'numpy', 'torch', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_drawing_imports_neither_torch_nor_numba():
    program = (
        "import sys; from importlib import import_module; from layernorm_roles.evidence.figures import registry; "
        "[import_module(f'layernorm_roles.evidence.figures.{f.module}') for f in registry.figures({}).values()]; "
        "print([m for m in ('torch', 'numba') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["figure_2a", "figure_1c"])
def test_equal_tables_give_equal_files(name, tables, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths = [tmp_path / folder / f"{name}.{kind}" for kind in ("png", "pdf")]
        style.save(registry.draw(worlds.figures()[name], tables), *paths)
    for kind in ("png", "pdf"):
        first, second = ((tmp_path / folder / f"{name}.{kind}").read_bytes() for folder in "ab")
        assert first == second and len(first) > 1000
