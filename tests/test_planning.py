"""What a reproduction consists of, for configurations whose answer is counted by hand."""

from pathlib import Path

import pytest
import yaml
from default_settings import ROOT

from layernorm_roles import catalogue, exhibits, files, plan, planning
from layernorm_roles.exhibits import Exhibits

PRESETS = ROOT / "workflow/presets"
SMOKE = yaml.safe_load((PRESETS / "smoke.yaml").read_text(encoding="utf-8"))


def of(overlay):
    return planning.Reproduction(planning.configured(ROOT / "config.yaml", overlay), PRESETS)


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


EVIDENCE = {"claims", "draw", "page", "durations", "settings"}
CHANGES = {
    "{majority: {d8: {steps: 61}}}": "majority tables",
    "{majority: {d8: {majority_gap: 5}}}": "majority_data majority tables",
    "{language_model: {bytes_rates: {steps: 19}}}": "language_model tables",
    "{language_model: {gpt: {gradient_clip: 2.0}}}": "language_model measure tables fusion",
    "{statements: {fusion: {seeds: 4}}}": "fusion",
    "{random_keys: {matrices: 5}}": "random_keys",
    "{threads_per_training: 2}": "",
    "{language_model: {gpt: {runs_per_job: 1}}}": "tables fusion",
}
"""What is laid over the smoke preset, and the stages whose jobs then have another plan, beside evidence."""


@pytest.mark.parametrize("overlay", CHANGES)
def test_a_changed_setting_changes_the_plans_of_what_depends_on_it(smoke, overlay):
    plans = of(planning.merged(SMOKE, yaml.safe_load(overlay))).plans
    changed = {job.split("/")[0] for job in plans if job in smoke and plans[job] != smoke[job]}
    assert changed - EVIDENCE == {*CHANGES[overlay].split()} and {"claims", "page", "settings"} <= changed


def test_another_first_seed_changes_every_plan(smoke):
    plans = of(SMOKE | {"first_seed": 9}).plans
    same = {job for job in plans if job in smoke and plans[job] == smoke[job]}
    assert same == set(), "each job is seeded or reads what was"


def test_tables_that_nothing_is_asked_of_are_not_there():
    tables = of({"language_model": {"only": ["bert"]}, "pretrained": {"minilm": None}}).tables
    assert not {"language_model_ceilings", "language_model_attention", "pretrained_keys"} & {*tables}
    assert {"key_selectability", "language_model_metrics", "majority_metrics"} <= {*tables}
    diagnosed = of({"language_model": {"gpt": {"diagnose_every": 100}}})
    models = {job.split("/")[1] for job in diagnosed.jobs_of("language_model_attention")}
    assert {"gpt", "gpt_bytes"} <= models and "bert" not in models


def make(path, target=""):
    """A folder where the name ends like one, a link where there is a target, else a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target) if target else path.mkdir() if path.suffix == ".d" else path.write_text("text")


def test_the_files_of_a_corpus_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "c.md"):
        make(tmp_path / "books" / name)
    books = {"kind": "files", "paths": ["books/*.txt"]}
    found = of({"text": {"words": {"corpus": books}, "bytes": {"corpus": {"kind": "wikipedia_sample"}}}})
    there = ["books/a.txt", "books/b.txt"]
    assert found.corpus_files("words") == there and found.corpus_files("bytes") == []
    assert found.plans["text/words"]["corpus"] == dict.fromkeys(there, files.sha256_of("books/a.txt"))


RESULT = r"results/published/parquet/claims\.parquet is a result; expected a copy"


@pytest.mark.parametrize(
    ("there", "target", "path", "says"),
    [
        ("books/{x}.txt", "", "books/*", r"'books/\{x\}\.txt': expected a file whose name has no"),
        ("books/folder.d", "", "books/*", r"books/folder\.d is a folder, or a link"),
        ("books/link.txt", "nowhere", "books/*", r"books/link\.txt is a folder, or a link to nothing"),
        ("c.md", "", "books/*", r"no file matches books/\*; expected at least one"),
        # Snakemake would judge the kept reproduction anew, and then prepare the text.
        *(
            ("results/published/parquet/claims.parquet", "", path, RESULT)
            for path in (
                "results/published/parquet/claims.parquet",
                "{here}/results/published/parquet/*.parquet",
                "./results/../results/*/*/*.parquet",
            )
        ),
    ],
)
def test_what_is_no_file_of_a_corpus_is_named(tmp_path, monkeypatch, there, target, path, says):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / there, target)
    corpus = {"kind": "parquet" if "results" in path else "files", "paths": [path.format(here=tmp_path)]}
    with pytest.raises(ValueError, match=rf"^text.words: .*{says}"):
        of({"text": {"words": {"corpus": corpus}}}).corpus_files("words")


def test_a_pretrained_model_that_is_not_there_is_named_unless_it_has_been_measured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = {"package": None, "folder": None, "path": "nowhere", "sha256": None}
    found = of({"name": "tiny", "pretrained": {"minilm": model}})
    with pytest.raises(ValueError, match=r"^pretrained.minilm.path = 'nowhere': expected"):
        found.text_of_pretrained("minilm")
    make(tmp_path / "results/tiny/runs/pretrained/minilm/pretrained_keys.parquet")
    assert found.text_of_pretrained("minilm")["manifest"] == "results/tiny/data/text/words/manifest.json"


def test_a_kept_reproduction_is_what_lies_in_its_folder(tmp_path):
    nothing = Exhibits.kept(tmp_path)
    assert (nothing.tables, nothing.groups, nothing.files) == ((), {}, [])
    kept = Exhibits.kept(ROOT / "results/published")
    assert "majority_metrics" in kept.tables and "claims" not in kept.tables
    assert {"figure_1a", "figure_4a", "claims_forest"} <= {Path(file).stem for file in kept.pictures}
    plans = exhibits.plans_of_kept(kept)
    assert [*plans] == ["claims", "draw", "page"]
    assert plans["claims"]["made_by"]["parquet/random_keys"] == files.recorded(kept.results[2])


def test_a_command_that_a_text_shows_means_the_reproduction():
    files = {"default": "", "full": "workflow/presets/published.yaml", "mine": "FILE"}
    for name, file in files.items():
        assert exhibits.command_options(name, PRESETS) == (file and f" --configfile {file}")


def test_each_stage_has_its_device(monkeypatch):
    monkeypatch.setenv("LAYERNORM_ROLES_AUTO_DEVICE", "cuda")
    found = of({"device": "auto"})
    assert (found.devices["majority"].device, found.gpus("majority")) == ("cpu", 0)
    assert (found.devices["language_model"].device, found.gpus("language_model")) == ("cuda", 1)
    assert yaml.safe_load((PRESETS / "paper.yaml").read_text(encoding="utf-8"))["device"] == "auto"


def test_results_without_verdicts_are_nothing_to_compare_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("done/settings.json", "done/parquet/claims.parquet", "begun/settings.json"):
        (tmp_path / "results" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "results" / file).touch()
    assert exhibits.to_compare("done", "mine") == "results/done"
    with pytest.raises(ValueError, match=r"against = 'begun': expected another finished .*: done$"):
        exhibits.to_compare("begun", "mine")
