"""What a reproduction consists of, for configurations whose answer is counted by hand."""

from pathlib import Path

import pytest

from layernorm_roles import planning
from layernorm_roles.planning import KeptReproduction, Plan, Run

ROOT = Path(__file__).parents[1]
OVERLAY = {
    "name": "mine",
    "device": "cpu",
    "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"},
    "majority": {
        "only": ["mine", "alone"],
        "mine": {"like": "d8", "seeds": {"scale": 3, "none": 0, "dynamic_tanh": 1}, "seeds_per_job": 2},
        "alone": {"like": "d3", "seeds": {"layernorm": 1}},
    },
    "language_model": {"gpt": {"seeds": {"layernorm": 1, "projection": 0}}, "bert": {"seeds": {"none": 2}}},
}


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.chdir(ROOT)
    return Plan(planning.configured(ROOT / "config.yaml", OVERLAY))


def test_an_overlay_changes_what_it_names_at_every_depth():
    base = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}
    assert planning.merged(base, {"a": {"c": [3]}, "d": None, "f": 1}) == {
        "a": {"b": 1, "c": [3]},
        "d": None,
        "f": 1,
    }
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}


def test_runs_are_counted_variant_by_variant(plan):
    expected = [("mine", "scale", 0), ("mine", "scale", 1), ("mine", "scale", 2), ("mine", "dynamic_tanh", 0)]
    expected += [("alone", "layernorm", 0)]
    assert plan.runs("majority") == [Run(*run) for run in expected]
    assert plan.run_files("majority", "metrics.parquet", "alone") == [
        "results/mine/runs/majority/alone/layernorm/seed_0/metrics.parquet"
    ]
    assert len(plan.runs("language_model", "bert")) == 2 + 3  # layernorm keeps the default's three


def test_seeds_share_jobs_in_order_and_no_run_is_left_out(plan):
    jobs = plan.shared_jobs()
    assert [(job.name, [run.seed for run in job.runs]) for job in jobs] == [
        ("mine_scale_0", [0, 1]),
        ("mine_scale_2", [2]),
        ("mine_dynamic_tanh_0", [0]),
    ]


def test_what_a_run_computes_does_not_depend_on_who_else_is_trained(plan):
    settings = plan.run_settings("majority", "mine")
    assert "seeds" not in settings and "seeds_per_job" not in settings and settings["d_model"] == 8


def test_a_norm_of_one_s_own_has_a_version_and_built_in_ones_have_none(plan):
    assert plan.norm_class("dynamic_tanh") == "examples.dynamic_tanh:DynamicTanh"
    assert plan.norm_version("layernorm") is None
    assert len(plan.norm_version("dynamic_tanh")) == 16


def test_figures_are_those_of_the_experiments_in_the_configuration(plan):
    names = [*plan.figures()]
    assert {"majority_mine_loss", "majority_alone_vectors"} <= {*names}
    assert not {"figure_1a", "figure_2a", "majority_d8_loss"} & {*names}


def test_the_files_of_a_corpus_are_found(tmp_path, monkeypatch):
    (tmp_path / "books").mkdir()
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / "books" / name).write_text("text")
    monkeypatch.chdir(tmp_path)
    overlay = {"text": {"corpus": {"kind": "files", "paths": ["books/*.txt"]}}}
    plan = Plan(planning.configured(ROOT / "config.yaml", overlay))
    assert plan.corpus_files() == ["books/a.txt", "books/b.txt"]


def test_a_kept_reproduction_is_what_lies_in_its_folder(tmp_path):
    nothing = KeptReproduction(str(tmp_path))
    assert nothing.figures() == {} and nothing.tables() == []
    kept = KeptReproduction(str(ROOT / "results/published"))
    assert "majority_metrics" in kept.tables() and "claims" not in kept.tables()
    assert {"figure_1a", "figure_2a", "figure_4a", "majority_d8_loss"} <= {*kept.figures()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("default", ""),
        ("published", ""),
        ("smoke", " --configfile workflow/presets/smoke.yaml"),
        ("mine", " --configfile FILE"),
    ],
)
def test_a_command_that_a_text_shows_means_the_reproduction(name, options):
    assert planning.command_options(name, ROOT / "workflow/presets") == options
