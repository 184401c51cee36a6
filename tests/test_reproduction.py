"""What a reproduction consists of, and its runs and batches, for configurations that are counted by hand."""

import math
from itertools import product
from pathlib import Path

import pytest
import yaml
from default_settings import ROOT

from layernorm_roles import batches, catalogue, files, plan, reproduction, source_code
from layernorm_roles.exhibits import Exhibits
from layernorm_roles.plans import command_options, plans_of, plans_of_kept
from layernorm_roles.variants import BUILT_IN

PRESETS = ROOT / "workflow/presets"
SMOKE = yaml.safe_load((PRESETS / "smoke.yaml").read_text(encoding="utf-8"))


def of(overlay):
    return reproduction.Reproduction(reproduction.configured(ROOT / "config.yaml", overlay), PRESETS)


@pytest.fixture(scope="module")
def made():
    return of(SMOKE)


@pytest.fixture(scope="module")
def smoke(made):
    return plans_of(made)


def test_a_job_comes_after_those_whose_results_it_reads_and_knows_their_plans(smoke):
    seen = {}
    for job, each in smoke.items():
        assert each["job"] == job and each["code"] == catalogue.code(each["stage"])
        assert each["made_by"] == {name: seen[name] for name in each["made_by"]}
        seen[job] = plan.hash_of(each)
    read = {name for each in smoke.values() for name in each["made_by"]}
    ends = {job for job, each in smoke.items() if each["stage"] in catalogue.EVIDENCE}
    assert {*smoke} - read <= ends | {"text/words", "text/bytes"}, "nothing is computed that nobody reads"


def test_jobs_have_the_files_and_settings_of_their_stage(made, smoke):
    assert smoke.of_stages(EVIDENCE) == [job for job, each in smoke.items() if each["stage"] in EVIDENCE]
    assert smoke["tables/position_probe"]["settings"] == made.plain["statements"]["placement"]
    assert smoke["tables/key_selectability"]["settings"] == made.plain["language_model"]
    page = smoke["page"]
    assert {job for job in smoke if job.startswith("draw/")} < {*page["made_by"]}
    assert {*smoke["draw/random_keys"]["made_by"]} == {"random_keys_measure"}
    assert page["options"] == " --configfile workflow/presets/smoke.yaml"
    assert page["figures"] == [Path(file).stem for file in made.exhibits.pictures]


def test_statements_have_as_many_seeds_as_are_asked_and_data_the_seed_of_their_name(smoke):
    asked = SMOKE["statements"]
    placed = {"placement/pre": asked["placement"], "placement/post": asked["placement"]}
    for job, settings in {**placed, "score_scale": asked["score_scale"]}.items():
        assert smoke[job].get("placement", "") == job.partition("/")[2]
        for key in {"seeds", "untrained_seeds"} & {*settings}:
            assert smoke[job][key] == [*range(1000, 1000 + settings[key])]
    data = {job: each["seed"] for job, each in smoke.items() if each["stage"] == "majority_data"}
    assert data and all(job.endswith(f"/seed_{seed}") for job, seed in data.items())


EVIDENCE = {"claims", "draw", "page", "durations", "settings"}
CHANGES = {
    "{majority: {d8: {steps: 61}}}": "majority_train tables",
    "{majority: {d8: {majority_gap: 5}}}": "majority_data majority_train tables",
    "{language_model: {bytes_rates: {steps: 19}}}": "language_model_train tables",
    "{language_model: {gpt: {gradient_clip: 2.0}}}": "language_model_train language_model_measure "
    "language_model_gradients tables fusion",
    "{statements: {fusion: {seeds: 4}}}": "fusion",
    "{random_keys: {norms: [none, scale]}}": "random_keys_measure",
    "{language_model: {gpt: {ceiling_contexts: 2}}}": "language_model_measure tables fusion",
    "{language_model: {gpt: {ceiling_seeds: 2}}}": "language_model_measure tables fusion",
    "{norms: {layernorm_half: {like: layernorm, factor: 0.4}}}": "majority_train tables",
    "{statements: {geometry: {dimensions: [2, 3]}}}": "geometry",
    "{statements: {fusion: {contexts: 3}}}": "language_model_measure tables fusion",
    "{statements: {placement: {steps: 21}}}": "placement tables",
    "{text: {bytes: {vocabulary: 257}}}": "text language_model_train language_model_measure language_model_gradients "
    "tables",
    "{text: {words: {vocabulary: 1025}}}": "text language_model_train language_model_measure tables fusion placement "
    "language_model_gradients pretrained_measure",
    "{pretrained: {minilm: {contexts: 3}}}": "pretrained_measure tables",
    "{device: cuda}": "language_model_train language_model_measure tables fusion",
    "{device_check: warn}": "language_model_train language_model_measure tables fusion",
    "{threads_per_training: 2}": "",
    "{language_model: {gpt: {runs_per_job: 1}}}": "tables fusion",
}
"""What is laid over the smoke preset, and the stages whose jobs then have another plan, beside evidence."""


@pytest.mark.parametrize("overlay", CHANGES)
def test_a_changed_setting_changes_the_plans_of_what_depends_on_it(smoke, overlay):
    plans = plans_of(of(reproduction.merged(SMOKE, yaml.safe_load(overlay))))
    changed = {job.split("/")[0] for job in plans if job in smoke and plans[job] != smoke[job]}
    assert changed - EVIDENCE == {*CHANGES[overlay].split()} and {"draw", "page", "settings"} <= changed


def test_another_first_seed_changes_every_plan(smoke):
    plans = plans_of(of(SMOKE | {"first_seed": 9}))
    assert not [job for job in plans if plans[job] == smoke.get(job)], "each job is seeded or reads what was"


def test_tables_that_nothing_is_asked_of_are_not_there():
    tables = of({"language_model": {"only": ["bert"]}, "pretrained": {"minilm": None}}).tables
    assert not {"language_model_ceilings", "language_model_attention", "pretrained_keys"} & {*tables}
    assert {"key_selectability", "language_model_metrics", "majority_metrics"} <= {*tables}
    diagnosed = of({"language_model": {"gpt": {"diagnose_every": 100}}})
    models = {job.split("/")[1] for job in diagnosed.jobs_of("language_model_attention")}
    assert {"gpt", "gpt_bytes"} <= models and "bert" not in models


def test_the_code_of_ones_own_norm_is_in_the_plans_of_what_applies_it():
    name, norm = next(iter(OVERLAY["norms"].items()))
    overlay = {"norms": {name: norm}, "random_keys": {"norms": [name, "none"]}}
    overlay["majority"] = {"only": ["d8"], "d8": {"seeds": {name: 1, "scale": 1}}}
    gpt = {"seeds": {name: 1, "layernorm": 1}, "runs_per_job": "all"}
    overlay["language_model"] = {"only": ["gpt"], "gpt": gpt}
    for job, each in plans_of(of(overlay)).items():
        own = (
            job == "random_keys_measure"
            or each["stage"] in ("language_model_train", "language_model_measure")
            or name in job
        )
        assert each.get("norm_code", {}).get(name) == (source_code.of_norm(norm) if own else None), job
        assert each.get("norms", {name: norm})[name] == norm


def make(path, target=""):
    """A folder where the name ends like one, a link where there is a target, else a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target) if target else path.mkdir() if path.suffix == ".d" else path.write_text("text")


def test_the_files_of_a_corpus_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "c.md"):
        make(tmp_path / "books" / name)
    make(tmp_path / "books/deep/d.txt")
    books = {"kind": "files", "paths": ["books/**/?.txt"]}
    long = {"source": {"kind": "files", "paths": ["a.txt", "books/b.txt"]}, "shortest": 1, "longest": 9}
    make(tmp_path / "a.txt")
    corpus = {"kind": "wikipedia_sample"}
    found = of({"text": {"words": {"corpus": books, "long": long}, "bytes": {"corpus": corpus}}})
    there = ["a.txt", "books/a.txt", "books/b.txt", "books/deep/d.txt"]
    assert found.corpus_files("words") == there and found.corpus_files("bytes") == []
    assert plans_of(found)["text/words"]["corpus"] == dict.fromkeys(there, files.sha256_of("books/a.txt"))
    make(tmp_path / "again.txt", "books/a.txt")
    for once_more in ("books/a.*", "again.txt"):
        twice = of({"text": {"words": {"corpus": books | {"paths": ["books/*.txt", once_more]}}}})
        with pytest.raises(ValueError, match=r"^text.words: .*books/a\.txt is found twice"):
            twice.corpus_files("words")
    assert plans_of(twice)["text/words"]["corpus"] == {}, "what needs no text is made all the same"


def of_hub(name, **more):
    return {"kind": "hub", "dataset": name, "split": "s", "column": "c", **more}


def test_what_is_downloaded_is_named_by_the_jobs_that_read_it():
    parts = {part: of_hub(part, label_column="n") for part in ("training", "validation")}
    models = {"only": ["bert", "gpt"], "bert": {"task": "labelled", **parts}}
    text, sizes = {"corpus": of_hub("corpus")}, {"shortest": 1, "longest": 9, "contexts": 1}
    text |= {key: {"source": of_hub(key), **sizes} for key in ("long", "sentences")}
    sample = {"corpus": {"kind": "wikipedia_sample"}}
    found = of({"language_model": models, "text": {"words": text, "bytes": sample}})
    reads = {"text/words": ["corpus", "long", "sentences"]}
    for job, each in plans_of(found).items():
        names = [name.split("/")[1].split("_")[0] for name in each["made_by"] if name.startswith("download/")]
        assert names == reads.get(job, [*parts] if job.startswith("language_model_train/bert") else []), job
        if job.startswith("language_model_train/"):
            assert next(iter(each["made_by"])) == "text/words", "in the order in which the job reads"
    assert [name.split("_")[0] for name in found.hub_sources] == [*reads["text/words"], *parts]


KEPT = "results/published/parquet/claims.parquet"
RESULT = r"results/published/parquet/claims\.parquet is a result; expected a copy"


@pytest.mark.parametrize(
    ("there", "target", "path", "says"),
    [
        ("books/{x}.txt", "", "books/*", r"'books/\{x\}\.txt': expected a file, whose name has no"),
        ("books/\t.txt", "", "books/*", r"'books/\\t\.txt': expected a file, .* control characters"),
        ("books/folder.d", "", "books/*", r"'books/folder\.d': expected a file, "),
        ("books/link.txt", "nowhere", "books/*", r"'books/link\.txt': expected a file, "),
        ("c.md", "", "books/*", r"no file matches books/\*; expected at least one"),
        # Snakemake would judge the kept reproduction anew, and then prepare the text.
        (KEPT, "", KEPT, RESULT),
        (KEPT, "", "{here}/results/published/parquet/*.parquet", RESULT),
        (KEPT, "", "./results/../results/*/*/*.parquet", RESULT),
    ],
)
def test_what_is_no_file_of_a_corpus_is_named(tmp_path, monkeypatch, there, target, path, says):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / there, target)
    paths = [path.format(here=tmp_path), there]  # one that fits nothing, beside one that does
    corpus = {"kind": "parquet" if "results" in path else "files", "paths": paths}
    with pytest.raises(ValueError, match=rf"^text.words: .*{says}"):
        of({"text": {"words": {"corpus": corpus}}}).corpus_files("words")


def test_a_pretrained_model_that_is_not_there_is_named_unless_it_has_been_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = {"package": None, "folder": None, "path": "nowhere", "sha256": None}
    found = of({"name": "tiny", "pretrained": {"minilm": model}})
    with pytest.raises(ValueError, match=r"^pretrained.minilm.path = 'nowhere': expected"):
        found.text_of_pretrained("minilm")
    make(tmp_path / "results/tiny/runs/pretrained_measure/minilm/pretrained_keys.parquet")
    assert found.text_of_pretrained("minilm")["manifest"] == "results/tiny/data/text/words/manifest.json"
    of_hub = of({"name": "new", "pretrained": {"minilm": model | {"path": None, "hub": "a/b"}}})
    assert "manifest" in of_hub.text_of_pretrained("minilm"), "it is downloaded when it is measured"


def test_a_folder_that_cannot_be_written_or_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reproduction.refuse_read_only("results/x", "Snakefile")
    inside = [f"results/x/{name}" for name in "data runs parquet figures tables origin logs".split()]
    for place, target in ((".snakemake", "nowhere"), *((each, "") for each in inside)):
        make(path := tmp_path / place, target)
        with pytest.raises(ValueError, match=rf"^{path}: expected a folder, or nothing; move away"):
            reproduction.refuse_read_only("results/x", "Snakefile")
        path.unlink()
    (old := tmp_path / "results/x/plan").mkdir(parents=True)
    with pytest.raises(ValueError, match=rf"^{old}: these results are of an earlier version"):
        reproduction.refuse_read_only("results/x", "Snakefile")
    old.rmdir()
    for shut, named in (("", tmp_path), ("results", tmp_path / "results")):
        monkeypatch.setattr(reproduction.os, "access", lambda at, how, shut=shut: (at.name, how) != (shut, 3))
        with pytest.raises(ValueError, match=rf"^{named}: no file can be written there; .*--snakefile Mine "):
            reproduction.refuse_read_only("results/y/z", "Mine")


def test_a_kept_reproduction_is_what_lies_in_its_folder(tmp_path):
    make(tmp_path / "v1.2/parquet/random_keys.parquet")
    nothing = Exhibits.kept(tmp_path / "v1.2")
    assert (nothing.tables, nothing.groups, nothing.files, len(plans_of_kept(nothing))) == ((), {}, [], 0)
    assert nothing.ending() == nothing.judged == []
    kept = Exhibits.kept(ROOT / "results/published")
    assert "majority_metrics" in kept.tables and "claims" not in kept.tables
    assert {"figure_1a", "figure_4a", "claims_forest"} <= {Path(file).stem for file in kept.pictures}
    assert [Path(file).stem for file in kept.judged] == [*kept.tables, "claims", "comparisons"]
    read = [Path(file).stem for file in kept.read_by("language_model")]
    assert read[-2:] == ["language_model_metrics", "sentence_tokens"], "by figures alone, and by tables alone"
    plans = plans_of_kept(kept)
    assert [*plans] == ["claims", "draw", "page"] and not plans["page"]["options"]
    assert plans["claims"]["made_by"]["parquet/random_keys"] == files.recorded(kept.results[2])
    (tmp_path / "report.html").touch()
    for name in ("tables/claims.csv", "settings.json"):
        files.write_text(tmp_path / name, "{}")
        (tmp_path / name).write_text("{ }")
        with pytest.raises(ValueError, match=rf"{name}: damaged"):
            Exhibits.kept(tmp_path).ending()


def test_a_command_that_a_text_shows_means_the_reproduction():
    files = {"default": "", "published": "", "full": "workflow/presets/published.yaml", "mine": "FILE"}
    for name, file in files.items():
        assert command_options(name, PRESETS) == (file and f" --configfile {file}")


NONE = dict.fromkeys(BUILT_IN)
MINE = {"like": "d8", "seeds": {"scale": 3, "none": 0, "dynamic_tanh": 1}, "runs_per_job": 2}
ALONE = {"like": "d3", "seeds": {"layernorm": 2, "projected_qk": 1}, "runs_per_job": 1}
ALONE |= {"d_model": [3, 5], "learning_rate": ["1e-3", 0.1]}
OVERLAY = {"name": "mine", "first_seed": 7, "norms": {"dynamic_tanh": "examples.dynamic_tanh:DynamicTanh"}}
AT = "d_model_8/base_learning_rate_0.001"


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.chdir(ROOT)


def of_majority(**experiments):
    return of(OVERLAY | {"majority": {"only": [*experiments], **experiments}}).settings


def test_runs_are_counted_width_by_rate_by_variant_by_seed():
    settings = of_majority(mine=MINE, alone=ALONE)
    found = [*batches.runs_of(settings, "majority", "alone")]
    runs = ("layernorm", 7), ("layernorm", 8), ("projected_qk", 7)
    expected = [(*point, *run) for point in product((3, 5), (0.001, 0.1)) for run in runs]
    columns = ("d_model", "base_learning_rate", "variant", "seed")
    assert [tuple(run[column] for column in columns) for run in found] == expected
    assert len({run["name"] for run in found}) == len(found)
    (mine, *_, own) = batches.runs_of(settings, "majority", "mine")
    point = {"experiment": "mine", "variant": "scale", "seed": 7, "d_model": 8, "base_learning_rate": 0.001}
    assert mine == {"name": f"mine/scale/{AT}/seed_7", "norm": "scale", **point}
    assert (own["variant"], own["norm"]) == ("dynamic_tanh", "examples.dynamic_tanh:DynamicTanh")


def test_a_batch_has_as_many_runs_of_one_kind_as_its_experiment_says_and_keeps_their_order():
    """More seeds keep the batches that are full; and all runs of an experiment may be one batch."""
    settings = of_majority(mine=MINE, alone=ALONE)
    found = batches.batches(settings, "majority")
    names = {f"mine/scale/{AT}/seeds_7_to_8": [7, 8], f"mine/scale/{AT}/seeds_9_to_9": [9]}
    names[f"mine/dynamic_tanh/{AT}/seeds_7_to_7"] = [7]
    assert {name: batch.seeds for name, batch in found.items() if batch.group == "mine"} == names
    alone = [batch for batch in found.values() if batch.group == "alone"]
    assert len(alone) == 12 and all(batch.name == batch.runs[0]["name"] for batch in alone)
    runs = [run["name"] for batch in found.values() for run in batch.runs]
    each = [run["name"] for one in ("mine", "alone") for run in batches.runs_of(settings, "majority", one)]
    assert runs == each, "no run is left out or trained twice"
    many = batches.batches(of_majority(mine=MINE | {"seeds": {"scale": 5, "dynamic_tanh": 1}}), "majority")
    kept = {name.rpartition("/")[2] for name in found if many.get(name) == found[name]}
    assert kept == {"seeds_7_to_8", "seeds_7_to_7"}
    ((name, one),) = batches.batches(of_majority(alone=ALONE | {"runs_per_job": "all"}), "majority").items()
    assert (name, one.group, one.seeds, len(one.runs)) == ("alone/all", "alone", [7, 8], 12)


MODELS = {
    "only": ["bert", "rates", "gpt_bytes", "gpt"],
    "bert": {"seeds": {"none": 1, "layernorm": 0, "no_attention": 1}},
    "gpt_bytes": {"seeds": NONE | {"layernorm": 2, "projection": 1, "scale": 1, "no_attention": 2}},
    "gpt": {"seeds": NONE | {"layernorm": 1, "scale": 1}, "ceiling_seeds": 0, "runs_per_job": "all"},
    "rates": {"like": "gpt_bytes", "learning_rate": [0.1, 0.2], "seeds": NONE | {"layernorm": 1}},
}
MODELS["gpt_bytes"]["ceiling_seeds"] = 1


def test_what_is_measured_is_asked_of_the_settings():
    settings, found = of(OVERLAY | {"language_model": MODELS}).settings, {}
    for batch in batches.batches(settings, "language_model").values():
        for run in batches.measured(settings, batch):
            what = "".join(flag[0] for flag in ("keys", "ceilings", "samples") if run[flag])
            found[f"{run['model']}/{run['variant']}/{run['seed'] - 7}"] = what
            listed = ("base_learning_rate", "steps", "query_key_rate", "seed")
            point = "/".join(f"{key}_{run[key]}" for key in listed)
            assert run["name"] == f"{run['model']}/{run['variant']}/{point}"
    assert found == {
        "bert/none/0": "k",
        "gpt_bytes/layernorm/0": "kcs",
        "gpt_bytes/layernorm/1": "ks",
        "gpt_bytes/projection/0": "kc",
        "gpt_bytes/scale/0": "k",
        "gpt/layernorm/0": "k",
        "gpt/scale/0": "k",
    }


@pytest.mark.parametrize(("size", "seconds"), [(500, 200), (6000, 200), (12_000, 400)])
def test_time_limits_of_majority_jobs_grow_with_their_batches(size, seconds):
    found = batches.batches(of_majority(mine=MINE | {"batch_size": size}), "majority")
    assert found[f"mine/scale/{AT}/seeds_7_to_8"].minutes == 5 + math.ceil(seconds / 60)


def test_language_models_have_the_device_that_auto_means_and_on_a_cpu_twice_the_estimated_time(monkeypatch):
    preset = yaml.safe_load((PRESETS / "paper.yaml").read_text("utf-8"))
    paper = reproduction.configured(ROOT / "config.yaml", preset)
    masked = of({}).settings
    assert paper.device == "auto" and masked.language_model["bert"].task == "masked"
    known = [(paper, "gpt", 0.612817), (paper, "bert", 0.556785), (masked, "bert", 0.0355259)]
    for settings, name, seconds in known:
        assert batches.step_seconds(settings, name) == pytest.approx(seconds, rel=1e-5)
    model = {"layers": 9, "batch_size": 64, "steps": [1000, 2000], "runs_per_job": "all"}
    model["seeds"] = NONE | {"layernorm": 2}
    for device in ("cpu", "cuda"):
        monkeypatch.setenv("LAYERNORM_ROLES_AUTO_DEVICE", device)
        found = of({"device": "auto", "language_model": {"only": ["gpt"], "gpt": model}})
        second = 2 * batches.step_seconds(found.settings, "gpt") if device == "cpu" else 0.03
        (batch,) = found.training["language_model"].values()
        assert batch.minutes == 5 + math.ceil(6000 * second / 60)
        assert found.gpus == int(device == "cuda")
        assert plans_of(found)["language_model_train/gpt/all"]["device"] == device
