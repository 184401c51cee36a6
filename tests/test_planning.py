"""What a reproduction consists of, for configurations whose answer is counted by hand."""

import json
import re
from pathlib import Path

import pytest
import yaml
from default_settings import ROOT

from layernorm_roles import files, planning
from layernorm_roles.planning import KeptReproduction, Plan, Run
from layernorm_roles.variants import NO_ATTENTION_VARIANT, QUERY_KEY_VARIANT, SPLIT_VARIANTS, VARIANTS

GPT_VARIANTS = [*VARIANTS, *SPLIT_VARIANTS, QUERY_KEY_VARIANT, NO_ATTENTION_VARIANT]
MINE = {"like": "d8", "seeds": {"scale": 3, "none": 0, "dynamic_tanh": 1}, "seeds_per_job": 2}
ALONE = {"like": "d3", "seeds": {"layernorm": 2, "projected_qk": 1}, "seeds_per_job": 1}
ALONE |= {"d_model": [3, 5], "learning_rate": ["1e-3", 0.1]}
OVERLAY = {
    "name": "mine",
    "device": "cpu",
    "first_seed": 7,
    "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"},
    "majority": {"only": ["mine", "alone"], "mine": MINE, "alone": ALONE},
    "language_model": {"gpt": {"seeds": {"layernorm": 1, "projection": 0}}, "bert": {"seeds": {"none": 2}}},
}


def plan_of(overlay):
    return Plan(planning.configured(ROOT / "config.yaml", overlay))


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.chdir(ROOT)
    return plan_of(OVERLAY)


def test_an_overlay_changes_what_it_names_at_every_depth():
    base = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}
    found = planning.merged(base, {"a": {"c": [3]}, "d": None, "f": 1})
    assert found == {"a": {"b": 1, "c": [3]}, "d": None, "f": 1}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}


def test_runs_are_counted_variant_by_variant(plan):
    released = (("d_model", 8), ("base_learning_rate", 0.001))
    mine = [("scale", 7), ("scale", 8), ("scale", 9), ("dynamic_tanh", 7)]
    runs = plan.runs("majority")
    assert runs[: len(mine)] == [Run("mine", *run, released) for run in mine]
    alone = [
        Run("alone", variant, seed, (("d_model", width), ("base_learning_rate", rate)))
        for width in (3, 5)
        for rate in (0.001, 0.1)
        for variant, seed in (("layernorm", 7), ("layernorm", 8), ("projected_qk", 7))
    ]
    assert runs[len(mine) :] == alone
    berts = [run for run in plan.runs("language_model") if run.group == "bert"]
    assert len(berts) == 2 + 2 + 2  # the others keep the default's two


def test_a_batch_has_the_seeds_of_one_variant_width_and_rate_in_order(plan):
    batches = plan.batches()
    assert [run for batch in batches for run in batch.runs] == plan.runs("majority"), "no run is left out"
    assert all(len({run._replace(seed=0) for run in batch.runs}) == 1 for batch in batches)
    assert [batch.folder for batch in batches if batch.runs[0].group == "mine"] == [
        "mine/scale/d_model_8/base_learning_rate_0.001/seeds_7_to_8",
        "mine/scale/d_model_8/base_learning_rate_0.001/seeds_9_to_9",
        "mine/dynamic_tanh/d_model_8/base_learning_rate_0.001/seeds_7_to_7",
    ]
    assert all(planning.seeds_of(batch.folder.rpartition("seeds_")[2]) == batch.seeds for batch in batches)
    assert plan.run_files("majority", "metrics.parquet", batches)[6] == (
        "results/mine/runs/majority/alone/layernorm/d_model_3/base_learning_rate_0.1/seeds_7_to_7/metrics.parquet"
    )
    assert len({batch.folder for batch in batches}) == len(batches) == 3 + 12
    identities = plan.identities("majority", batches)
    assert [identity["seeds"] for identity in identities[:3]] == [[7, 8], [9], [7]]
    assert identities[5]["base_learning_rate"] == 0.001 and identities[6]["base_learning_rate"] == 0.1


def test_runs_have_a_job_each_or_one_for_all_of_their_group_and_the_same_files():
    overlay = planning.merged(OVERLAY, {"majority": {"alone": {"in_one_job": True}}})
    plan, apart = plan_of(overlay), plan_of(OVERLAY)
    together, each = plan.jobs("majority", "train")
    assert (together.rule, together.groups, together.in_one) == ("majority_train_alone", ["alone"], True)
    assert (each.rule, each.groups, each.in_one) == ("majority_train", ["mine"], False)
    (of_all,) = apart.jobs("majority", "train")
    assert {*of_all.groups} == {"mine", "alone"}
    wildcards = {"experiment": "alone", "variant": "layernorm", "d_model": "5"}
    wildcards |= {"base_learning_rate": "0.1", "seeds": "8_to_8"}
    (batch,) = of_all.runs_of(wildcards)
    number = [run.folder for run in together.runs].index(batch.folder)
    assert batch == together.runs[number] and batch in apart.batches()
    (pattern,) = of_all.files("metrics.parquet")
    assert together.files("metrics.parquet")[number] == pattern.format(**wildcards)
    assert of_all.named(wildcards) == [together.named({})[number]]
    assert (of_all.seeds(wildcards), together.seeds({})) == ([8], [7, 8])
    assert [Path(file).stem for file in together.data({})] == ["seed_7", "seed_8"]
    assert together.settings({}) == of_all.settings(wildcards) == plan.run_settings("majority", "alone")
    assert together.norms({}) == {"layernorm": "layernorm", "projected_qk": "projected_qk"}
    assert together.benchmarks() == ["results/mine/benchmarks/majority_train/alone.tsv"]
    assert together.note("logs", ".log") == "results/mine/logs/majority_train/alone.log"
    of_each = of_all.note("logs", ".log").format(**wildcards)
    assert of_each == f"results/mine/logs/majority_train/{batch.folder}.log"
    assert of_each.replace("/logs/", "/benchmarks/")[:-4] + ".tsv" in of_all.benchmarks()


def test_what_a_run_computes_does_not_depend_on_who_else_is_trained(plan):
    settings = plan.run_settings("majority", "mine")
    assert settings["d_ff"] == 8 and settings["batch_size"] == 6000
    assert not {"seeds", "seeds_per_job", "in_one_job", "d_model", "learning_rate"} & {*settings}
    model = plan.run_settings("language_model", "gpt")
    assert not {"seeds", "in_one_job", "steps", "learning_rate"} & {*model}


def test_a_norm_of_one_s_own_has_a_version_and_built_in_ones_have_none(plan):
    assert plan.settings.norm_class("dynamic_tanh") == "examples.dynamic_tanh:DynamicTanh"
    assert plan.norm_version("layernorm") is None
    assert len(plan.norm_version("dynamic_tanh")) == 16


def test_figures_are_those_of_the_experiments_in_the_configuration(plan):
    names = [*plan.figures()]
    assert {"majority_curves", "majority_alone_by_rate", "majority_alone_by_width"} <= {*names}
    assert not {"figure_1a", "figure_2a"} & {*names}


def test_the_files_of_a_corpus_are_found(tmp_path, monkeypatch):
    (tmp_path / "books").mkdir()
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / "books" / name).write_text("text")
    monkeypatch.chdir(tmp_path)
    books = {"kind": "files", "paths": ["books/*.txt"]}
    plan = plan_of({"text": {"words": {"corpus": books}, "bytes": {"corpus": {"kind": "wikipedia_sample"}}}})
    assert plan.corpus_files("words") == ["books/a.txt", "books/b.txt"]
    assert plan.corpus_files("bytes") == []
    spoilt = {
        "{x}.txt": "'books/{x}.txt': expected a file whose name has no",
        "x\udcff.txt": "expected a file whose name has no",
        "folder.txt/": "books/folder.txt is a folder, or a link",
        "again.txt -> a.txt": "/books/a.txt is found twice by the paths of a source",
        "link.txt -> nowhere": "books/link.txt is a folder, or a link to nothing",
    }
    for made, says in spoilt.items():
        name, _, target = made.partition(" -> ")
        path = tmp_path / "books" / name
        path.symlink_to(target) if target else path.mkdir() if name.endswith("/") else path.touch()
        with pytest.raises(ValueError, match=rf"^text.words: .*{re.escape(says)}"):
            plan.corpus_files("words")
        path.rmdir() if name.endswith("/") else path.unlink()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "books" / name).unlink()
    with pytest.raises(
        ValueError, match=r"^text.words: no file matches books/\*\.txt; expected at least one"
    ):
        plan.corpus_files("words")


def test_a_pretrained_model_that_is_not_there_is_named_unless_it_has_been_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = {"package": None, "folder": None, "path": "nowhere", "sha256": None}
    plan = plan_of({"name": "tiny", "pretrained": {"minilm": model}})
    with pytest.raises(ValueError, match=r"^pretrained.minilm.path = 'nowhere': expected"):
        plan.text_of_pretrained("minilm")
    table = tmp_path / "results/tiny/runs/pretrained/minilm/pretrained_keys.parquet"
    table.parent.mkdir(parents=True)
    table.touch()
    assert plan.text_of_pretrained("minilm")["manifest"] == "results/tiny/data/text/words/manifest.json"


def planned(text, language_model):
    return plan_of({"text": text, "language_model": language_model})


MODELS = {
    "only": ["bert", "gpt_bytes", "gpt"],
    "bert": {"seeds": {"none": 1, "layernorm": 0, "no_attention": 0}},
    "gpt_bytes": {"seeds": dict.fromkeys(GPT_VARIANTS) | {"layernorm": 2, "no_attention": 2}},
    "gpt": {"seeds": dict.fromkeys(GPT_VARIANTS) | {"layernorm": 1}},
}


def test_models_without_attention_have_no_keys_and_the_first_gpt_is_recorded():
    plan = planned({}, MODELS)
    names = [f"{run.group}/{run.variant}" for run in plan.runs("language_model")]
    layernorm = ["gpt_bytes/layernorm"] * 2
    assert names == ["bert/none", *layernorm, *["gpt_bytes/no_attention"] * 2, "gpt/layernorm"]
    with_attention = [f"{run.group}/{run.variant}" for run in plan.judged_runs()]
    assert with_attention == ["bert/none", *layernorm, "gpt/layernorm"]
    assert [f"{run.group}/{run.variant}" for run in plan.recorded_runs()] == layernorm


def test_ceilings_are_of_the_first_seeds_with_and_without_scaling():
    models = MODELS | {"gpt": {"seeds": dict.fromkeys(GPT_VARIANTS) | {"projection": 9, "layernorm_qk": 2}}}
    plan = planned({}, models)
    runs = [(run.group, run.variant, run.seed - plan.settings.first_seed) for run in plan.ceiling_runs()]
    bytes_runs = [("gpt_bytes", "layernorm", seed) for seed in (0, 1)]
    assert runs == [*bytes_runs, *(("gpt", "projection", seed) for seed in (0, 1, 2))]
    assert not planned({}, {"only": ["bert"]}).ceiling_runs()


def test_a_text_is_read_where_a_run_reads_it():
    more = {"spare": {"like": "words"}, "lone": {"like": "bytes"}}
    assert planned(more, MODELS).texts() == ["bytes", "words"] and planned(more, MODELS).hub_sources() == []
    lone = MODELS | {"gpt_bytes": MODELS["gpt_bytes"] | {"text": "lone"}}
    assert planned(more, lone).texts() == ["lone", "words"]
    idle = MODELS | {"gpt_bytes": {"seeds": dict.fromkeys(GPT_VARIANTS)}}
    assert planned(more, idle).texts() == ["words"]


def test_the_text_of_a_pretrained_model_is_read():
    model = {"path": "a_model", "text": "lone", "contexts": 1, "context_length": 8}
    assert "lone" in plan_of({"text": {"lone": {"like": "bytes"}}, "pretrained": {"mine": model}}).texts()


def test_a_kept_reproduction_is_what_lies_in_its_folder(tmp_path):
    nothing = KeptReproduction(str(tmp_path))
    assert nothing.figures() == {} and nothing.tables() == []
    kept = KeptReproduction(str(ROOT / "results/published"))
    assert "majority_metrics" in kept.tables() and "claims" not in kept.tables()
    assert {"figure_1a", "figure_2a", "figure_4a", "majority_curves"} <= {*kept.figures()}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("default", ""),
        ("published", ""),
        ("smoke", " --configfile workflow/presets/smoke.yaml"),
        ("full", " --configfile workflow/presets/published.yaml"),
        ("mine", " --configfile FILE"),
    ],
)
def test_a_command_that_a_text_shows_means_the_reproduction(name, options):
    assert planning.command_options(name, ROOT / "workflow/presets") == options


def test_each_stage_has_its_device(monkeypatch):
    monkeypatch.chdir(ROOT)
    asked = []

    def choose(wanted, elsewhere, key):
        asked.append((wanted, elsewhere, key))
        return planning.Choice("cuda" if wanted == "auto" else wanted, "")

    monkeypatch.setattr(planning, "choose", choose)
    settings = planning.configured(ROOT / "config.yaml", OVERLAY | {"device": "auto"})
    plan = Plan(settings, elsewhere=True)
    assert (plan.devices["majority"].device, plan.gpus("majority")) == ("cpu", 0)
    assert (plan.devices["language_model"].device, plan.gpus("language_model")) == ("cuda", 1)
    assert asked == [("cpu", True, "majority_device"), ("auto", True, "device")]


def test_the_line_before_the_first_job_says_how_long_processors_take(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(planning, "choose", lambda wanted, elsewhere, key: planning.Choice(wanted, ""))
    overlay = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text(encoding="utf-8"))

    def jobs(model, steps, number):
        named = {"variant": "layernorm", "base_learning_rate": "0.001", "seed": "1"}
        return [("language_model_train", {"model": model, "steps": str(steps), **named})] * number

    gpt, bert, small = jobs("gpt", 50_000, 35), jobs("bert", 210_500, 15), jobs("gpt_bytes", 3_000, 1)

    def said(device, jobs, threads=1):
        changed = overlay | {"device": device, "threads_per_training": threads}
        return Plan(planning.configured(ROOT / "config.yaml", changed)).devices_in_words(jobs)

    # Measured on one core of an AMD EPYC: 0.69 to 0.72 s a step, and 0.54.
    assert said("cpu", gpt) == ["device = cpu; about 298 core hours, by measured steps"]
    assert said("cpu", bert) == ["device = cpu; about 488 core hours, by measured steps"]
    assert said("cpu", gpt, threads=2) == ["device = cpu; about 393 core hours, by measured steps"]
    assert said("cpu", small) == ["device = cpu"]
    of_majority = {"experiment": "d8", "variant": "scale", "d_model": "8", "base_learning_rate": "0.001"}
    majority = ("majority_train", of_majority | {"seeds": "1_to_2"})
    assert said("cpu", [majority, *small]) == ["majority_device = cpu", "device = cpu"]
    assert said("cpu", [("claims", {})]) == []
    (on_gpu,) = said("cuda", gpt)
    assert on_gpu.startswith("device = cuda; no GPU has run this code yet")


def test_the_default_trains_on_processors_and_the_papers_preset_on_a_gpu_if_there_is_one():
    default = planning.configured(ROOT / "config.yaml", {})
    assert (default.device, default.majority_device) == ("cpu", "cpu")
    preset = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text(encoding="utf-8"))
    assert preset["device"] == "auto"


def test_a_job_that_stays_preempted_is_cancelled_and_one_that_starts_again_is_not():
    states = {"1": "PREEMPTED", "2": "PREEMPTED", "3": "PENDING"}
    found = planning.ended_by_preemption(states, before={"1", "3"})
    assert found == {"1": "CANCELLED", "2": "PREEMPTED", "3": "PENDING"}


@pytest.mark.parametrize(
    ("only", "chosen"),
    [(["d3", "d8"], "d8"), (["d8", "d3"], "d8"), (["d3", "widths"], "d3"), (["widths"], "widths")],
)
def test_scores_are_those_of_the_widest_experiment_of_a_single_width(only, chosen):
    """`widths` trains in up to 16 dimensions, and is read only where there is no other experiment."""
    assert plan_of({"majority": {"only": only}}).widest_experiment() == chosen


def test_files_of_contexts_with_a_source_of_their_own_are_watched(tmp_path):
    for name in ("long", "sentences"):
        (tmp_path / f"{name}.txt").write_text(name)
    sources = {
        name: {"source": {"kind": "files", "paths": [str(tmp_path / f"{name}.txt")]}}
        for name in ("long", "sentences")
    }
    watched = plan_of({"text": {"words": sources}}).corpus_files("words")
    assert watched == [str(tmp_path / "long.txt"), str(tmp_path / "sentences.txt")]


def kept(folder, tables):
    """A kept reproduction in `folder` with these Parquet tables."""
    files.write_text(folder / "settings.json", json.dumps(plan_of({}).plain))
    (folder / "parquet").mkdir()
    for name in tables:
        (folder / f"parquet/{name}.parquet").touch()
    return KeptReproduction(str(folder))


@pytest.mark.parametrize("there", [["gaussian_law"], ["key_selectability"], ["random_keys", "gaussian_law"]])
def test_a_kept_reproduction_has_the_figures_whose_tables_are_all_there(tmp_path, there):
    figures = kept(tmp_path, there).figures()
    assert "claims_forest" in figures
    assert set().union(*(figure.tables for figure in figures.values())) == {*there, "claims"}


def test_a_damaged_file_of_settings_is_named(tmp_path):
    reproduction = kept(tmp_path, [])
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match=r"settings\.json: damaged"):
        reproduction.figures()


@pytest.mark.parametrize(("overlay", "drawn"), [({"random_keys": {"keys": [1, 2]}}, False), ({}, True)])
def test_the_figure_of_the_exact_expectation_is_left_out_where_nothing_is_expected(overlay, drawn):
    figures = plan_of(overlay).figures()
    assert ("figure_random_keys_exact" in figures) == drawn and "figure_1c" in figures
