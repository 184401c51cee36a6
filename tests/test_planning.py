"""What a reproduction consists of, for configurations whose answer is counted by hand."""

import re
from pathlib import Path

import pytest
import yaml
from default_settings import ROOT

from layernorm_roles import catalogue, exhibits, files, plan, planning
from layernorm_roles.exhibits import Exhibits

SMOKE = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text(encoding="utf-8"))


def of(overlay):
    settings = planning.configured(ROOT / "config.yaml", overlay)
    return planning.Reproduction(settings, ROOT / "workflow/presets")


def test_an_overlay_changes_what_it_names_at_every_depth():
    base = {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}
    found = planning.merged(base, {"a": {"c": [3]}, "d": None, "f": 1})
    assert found == {"a": {"b": 1, "c": [3]}, "d": None, "f": 1}
    assert base == {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}}


@pytest.fixture(scope="module")
def smoke():
    return of(SMOKE).plans


def test_a_job_comes_after_those_whose_results_it_reads_and_knows_their_plans(smoke):
    seen = {}
    for job, each in smoke.items():
        assert each["job"] == job and each["code"] == catalogue.code(each["stage"])
        assert each["made_by"] == {name: seen[name] for name in each["made_by"]}
        seen[job] = plan.hash_of(each)
    read = {name for each in smoke.values() for name in each["made_by"]}
    ends = {job for job, each in smoke.items() if each["stage"] in catalogue.EVIDENCE}
    assert {*smoke} - read <= ends | {"text/words", "text/bytes"}, "nothing is computed that nobody reads"


def edited(path, value, **changes):
    """The jobs of smoke whose plan differs after a change of one setting."""
    overlay = {}
    inner = overlay
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    found = of(planning.merged(SMOKE, overlay)).plans
    return lambda smoke: {job.split("/")[0] for job in found if job in smoke and found[job] != smoke[job]}


EVIDENCE = {"claims", "draw", "page", "durations", "settings"}


@pytest.mark.parametrize(
    ("path", "value", "jobs"),
    [
        (("majority", "d8", "steps"), 61, {"majority", "tables"}),
        (("majority", "d8", "majority_gap"), 5, {"majority_data", "majority", "tables"}),
        (("language_model", "bytes_rates", "steps"), 19, {"language_model", "tables"}),
        (
            ("language_model", "gpt", "gradient_clip"),
            2.0,
            {"language_model", "measure", "tables", "fusion"},
        ),
        (("statements", "fusion", "seeds"), 4, {"fusion"}),
        (("random_keys", "matrices"), 5, {"random_keys"}),
        (("threads_per_training",), 2, set()),
        (("language_model", "gpt", "runs_per_job"), 1, {"tables", "fusion"}),
    ],
)
def test_a_changed_setting_changes_the_plans_of_what_depends_on_it(smoke, path, value, jobs):
    found = edited(path, value)(smoke)
    assert found - EVIDENCE == jobs and {"claims", "page", "settings"} <= found


def test_the_seed_changes_what_is_drawn_and_not_the_exact_law(smoke):
    changed = of(SMOKE | {"first_seed": 9}).plans
    same = {job for job in changed if job in smoke and changed[job] == smoke[job]}
    assert same == set(), "each job is seeded or reads what was"


def test_tables_that_nothing_is_asked_of_are_not_there():
    none = {"language_model": {"only": ["bert"]}, "pretrained": {"only": []}}
    tables = of({**none, "pretrained": {"minilm": None}}).tables
    assert not {"language_model_ceilings", "language_model_attention", "pretrained_keys"} & {*tables}
    assert {"key_selectability", "language_model_metrics", "majority_metrics"} <= {*tables}
    diagnosed = of({"language_model": {"gpt": {"diagnose_every": 100}}})
    models = {job.split("/")[1] for job in diagnosed.jobs_of("language_model_attention")}
    assert {"gpt", "gpt_bytes"} <= models and "bert" not in models


def test_the_files_of_a_corpus_are_found(tmp_path, monkeypatch):
    (tmp_path / "books").mkdir()
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / "books" / name).write_text("text")
    monkeypatch.chdir(tmp_path)
    books = {"kind": "files", "paths": ["books/*.txt"]}
    found = of({"text": {"words": {"corpus": books}, "bytes": {"corpus": {"kind": "wikipedia_sample"}}}})
    assert found.corpus_files("words") == ["books/a.txt", "books/b.txt"]
    assert found.corpus_files("bytes") == []
    assert found.plans["text/words"]["corpus"] == dict.fromkeys(
        ["books/a.txt", "books/b.txt"], files.sha256_of("books/a.txt")
    )
    spoilt = {
        "{x}.txt": "'books/{x}.txt': expected a file whose name has no",
        "folder.txt/": "books/folder.txt is a folder, or a link",
        "link.txt -> nowhere": "books/link.txt is a folder, or a link to nothing",
    }
    for made, says in spoilt.items():
        name, _, target = made.partition(" -> ")
        path = tmp_path / "books" / name
        path.symlink_to(target) if target else path.mkdir() if name.endswith("/") else path.touch()
        with pytest.raises(ValueError, match=rf"^text.words: .*{re.escape(says)}"):
            found.corpus_files("words")
        path.rmdir() if name.endswith("/") else path.unlink()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "books" / name).unlink()
    with pytest.raises(
        ValueError, match=r"^text.words: no file matches books/\*\.txt; expected at least one"
    ):
        found.corpus_files("words")


def test_results_are_no_text(tmp_path, monkeypatch):
    """Snakemake would judge the kept reproduction anew, and then prepare the text."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "results/published/parquet"
    place.mkdir(parents=True)
    (place / "claims.parquet").touch()
    for path in (
        "results/published/parquet/claims.parquet",
        f"{place}/*.parquet",
        "./results/../results/*/*/*.parquet",
    ):
        found = of({"text": {"words": {"corpus": {"kind": "parquet", "paths": [path]}}}})
        with pytest.raises(ValueError, match=r"^text.words: .*claims.parquet is a result; expected a copy"):
            found.corpus_files("words")


def test_a_pretrained_model_that_is_not_there_is_named_unless_it_has_been_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = {"package": None, "folder": None, "path": "nowhere", "sha256": None}
    found = of({"name": "tiny", "pretrained": {"minilm": model}})
    with pytest.raises(ValueError, match=r"^pretrained.minilm.path = 'nowhere': expected"):
        found.text_of_pretrained("minilm")
    table = tmp_path / "results/tiny/runs/pretrained/minilm/pretrained_keys.parquet"
    table.parent.mkdir(parents=True)
    table.touch()
    assert found.text_of_pretrained("minilm")["manifest"] == "results/tiny/data/text/words/manifest.json"


def test_a_kept_reproduction_is_what_lies_in_its_folder(tmp_path):
    nothing = Exhibits.kept(tmp_path)
    assert (nothing.tables, nothing.groups, nothing.files) == ((), {}, [])
    kept = Exhibits.kept(ROOT / "results/published")
    assert "majority_metrics" in kept.tables and "claims" not in kept.tables
    assert {"figure_1a", "figure_2a", "figure_4a", "claims_forest"} <= {
        Path(file).stem for file in kept.pictures
    }
    plans = exhibits.plans_of_kept(kept)
    assert [*plans] == ["claims", "draw", "page"]
    assert plans["claims"]["made_by"]["parquet/random_keys"] == files.recorded(kept.results[2])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("default", ""),
        ("full", " --configfile workflow/presets/published.yaml"),
        ("mine", " --configfile FILE"),
    ],
)
def test_a_command_that_a_text_shows_means_the_reproduction(name, options):
    assert exhibits.command_options(name, ROOT / "workflow/presets") == options


def test_each_stage_has_its_device(monkeypatch):
    monkeypatch.setenv("LAYERNORM_ROLES_AUTO_DEVICE", "cuda")
    found = of({"device": "auto"})
    assert (found.devices["majority"].device, found.gpus("majority")) == ("cpu", 0)
    assert (found.devices["language_model"].device, found.gpus("language_model")) == ("cuda", 1)
    preset = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text(encoding="utf-8"))
    assert preset["device"] == "auto"
