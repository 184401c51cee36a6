"""The whole smoke reproduction, from nothing to its page; what an edit makes again; the kept reproduction redrawn."""

import copy
import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from checkouts import ROOT, SMOKE

from layernorm_roles import files, planning, store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.plan import Plan
from layernorm_roles.statements import placement

ALONE = "d3_uniform/scale/d_model_3/base_learning_rate_0.001/seeds_1000_to_1001"
"""A batch of an experiment whose batches have a job each, unlike most in the smoke preset."""


def reproduction(smoke):
    settings = planning.configured(smoke.folder / "config.yaml", SMOKE)
    return planning.Reproduction(settings, smoke.folder / "workflow/presets")


def results(smoke):
    return smoke.folder / "results/smoke"


def jobs_of(plan):
    """The number of jobs of each rule that a dry run would run."""
    found = {rule: int(jobs) for rule, jobs in re.findall(r"^(\w+) +(\d+)$", plan, flags=re.MULTILINE)}
    return {rule: jobs for rule, jobs in found.items() if rule not in ("total", "all")}


def test_every_figure_table_and_verdict_is_there_and_intact(smoke):
    expected = {"report.html", "findings.html", "settings.json", "tables/durations.csv"}
    expected |= {f"parquet/{name}.parquet" for name in ("claims", "comparisons")}
    expected |= {
        str(Path(file).relative_to("results/smoke")) for file in reproduction(smoke).exhibits.drawn()
    }
    assert {
        f"figures/figure_{name}.png" for name in ("1a", "1b", "1c", "1d", "2a", "2b", "3", "4a", "4b")
    } < expected
    assert {f"tables/table_{number}.md" for number in (1, 2, 3, 4)} < expected
    for name in expected:
        files.verify(results(smoke) / name)
    claims = store.read(results(smoke) / "parquet/claims.parquet", "claims")
    assert claims.claim.tolist() == [claim.name for claim in CLAIMS]


def test_the_run_prints_less_than_150_lines_and_ends_with_its_report(smoke):
    lines = smoke.printed.splitlines()
    assert len(lines) < 150 and max(map(len, lines)) < 400, smoke.printed
    assert re.fullmatch(r"results/smoke: \d+ claims: .+", lines[-2]), lines[-3:]
    assert lines[-1] == "The report: results/smoke/report.html"


def test_numbers_of_the_page_are_those_of_the_tables(smoke):
    """One number followed from a run to the page: the share of unselectable keys in one head."""
    run = pd.read_parquet(results(smoke) / "runs/measure/gpt/all/key_selectability.parquet")
    whole = pd.read_parquet(results(smoke) / "parquet/key_selectability.parquet")
    mine = whole[whole.model == "gpt"]
    pd.testing.assert_frame_equal(mine.reset_index(drop=True), run)
    heads = whole[(whole.model == "gpt") & (whole.variant == "layernorm") & (whole.checkpoint == "final")]
    heads = heads[(heads.site == "head") & (heads.texts == "long") & ~heads.causal]
    by_seed = (100 * heads.n_unselectable / heads.n_keys).groupby(heads.seed).mean()
    claims = pd.read_parquet(results(smoke) / "parquet/claims.parquet").set_index("claim")
    assert claims.measured["heads"] == pytest.approx(by_seed.mean(), rel=1e-12)
    assert f"{by_seed.mean():.1f}" in (results(smoke) / "report.html").read_text(encoding="utf-8")


def test_placements_are_trained_on_the_training_documents(smoke, tmp_path):
    """The documents for validation lie beside them."""
    plan = Plan(results(smoke) / "plan/placement/pre.json")
    text, run = results(smoke) / "data/text" / plan["settings"]["text"], results(smoke) / "runs/placement/pre"
    out = {path.stem: tmp_path / path.name for path in run.glob("*.parquet")}
    placement.write(plan, text / "manifest.json", out)
    for name in ("placement", "position_probe"):
        pd.testing.assert_frame_equal(
            *(pd.read_parquet(file) for file in (out[name], run / f"{name}.parquet"))
        )


def test_tables_say_what_they_come_from_and_every_job_has_a_log(smoke):
    origin = store.read_provenance(results(smoke) / "parquet/majority_metrics.parquet")
    plan = json.loads(origin["config"])
    assert plan["settings"]["d8"]["steps"] == SMOKE["majority"]["d8"]["steps"]
    assert plan == json.loads((results(smoke) / "origin/tables/majority_metrics.json").read_text())
    assert re.fullmatch(r"cpu \([^,]+ with \d+-bit vectors\)", origin["device"])
    metrics = store.read(results(smoke) / "parquet/majority_metrics.parquet", "majority_metrics")
    runs = metrics[metrics.experiment == "d8"].groupby("variant").seed.unique().map(list)
    assert runs["dynamic_tanh"] == [1000] and runs["layernorm"] == [1000, 1001]
    for log in ("majority_data/d8/seed_1000", "majority/d8/all", f"majority/{ALONE}"):
        assert (results(smoke) / f"logs/{log}.log").stat().st_size
        assert (results(smoke) / f"benchmarks/{log}.tsv").stat().st_size


def test_a_check_names_the_files_to_delete(smoke):
    assert "results/smoke: every file is as it was written" in smoke.run("check")
    damaged = results(smoke) / "figures/figure_2a.pdf"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1])
    done = smoke.snakemake("check")
    damaged.write_bytes(content)
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "figures/figure_2a.pdf: damaged" in done.stdout


def test_verdicts_are_set_beside_those_of_a_finished_reproduction_and_of_no_other(smoke):
    said = smoke.run("compare", "--config", "against=published")
    assert "results/smoke/tables/compare_published.md" in said
    table = pd.read_csv(results(smoke) / "tables/compare_published.csv").set_index("claim")
    assert table.verdict_other["faster"] == "confounded" and set(table.index) == {
        claim.name for claim in CLAIMS
    }
    for arguments, says in (
        (("--config", "against=published", "name=never"), "results/never has no verdicts; run snakemake"),
        ((), "compare: with what?"),
        (("--config", "against=nowhere"), "against = 'nowhere': expected another finished reproduction"),
    ):
        done = smoke.snakemake("compare", *arguments)
        assert done.returncode != 0 and says in done.stdout and "Traceback" not in done.stdout, done.stdout


def test_a_second_run_does_nothing(smoke):
    assert "Nothing to be done" in smoke.run()


def test_a_comment_and_one_more_seed_or_width_keep_what_is_there(smoke):
    train = smoke.folder / "src/layernorm_roles/majority/train.py"
    before, more = train.read_bytes(), copy.deepcopy(SMOKE)
    train.write_bytes(before + b"\n# nothing new\n")
    more["majority"]["d3_uniform"]["seeds"]["layernorm"] = (
        3  # a batch of two is full, and a second one begins
    )
    more["majority"]["d3_uniform"]["d_model"] = [3, 5]
    smoke.configure(more)
    try:
        plan = jobs_of(smoke.run("results/smoke/parquet/majority_metrics.parquet", "--dry-run"))
    finally:
        smoke.configure(SMOKE)
        train.write_bytes(before)
    assert (plan["majority_train"], plan["majority_data"]) == (1 + 3, 1), plan
    assert "geometry" not in plan


def test_what_was_lost_is_made_again_with_the_same_bytes(smoke):
    lost = [
        "data/majority/d8/seed_1001.parquet",
        "runs/majority/d8/all/majority_metrics.parquet",
        "runs/majority/d8/all/weights.safetensors",
        "parquet/majority_metrics.parquet",
        "figures/figure_2a.png",
        "tables/convergence.md",
    ]
    before = {name: (results(smoke) / name).read_bytes() for name in lost}
    for name in lost:
        (results(smoke) / name).unlink()
    smoke.run("majority")
    for name, content in before.items():
        assert (results(smoke) / name).read_bytes() == content, name


def test_snakemake_makes_its_own_report_with_captions(smoke):
    smoke.run("--report", "snakemake.html", "majority")
    page = (smoke.folder / "snakemake.html").read_text()
    caption = reproduction(smoke).exhibits.rooms["majority"].figures["figure_2a"].caption
    assert " ".join(caption.split()[:6]) in page


KEPT = ("published_figures", "results/published/report.html")


def test_no_job_of_the_kept_reproduction_trains(checkout):
    made = checkout(SMOKE)
    shutil.copytree(ROOT / "results/published", made.folder / "results/published")
    assert {*jobs_of(made.run("--dry-run", "--forceall", *KEPT))} == {"claims", "page", "published_figures"}


@pytest.mark.long
def test_the_kept_reproduction_is_drawn_again_with_the_same_bytes(checkout):
    """From its Parquet files alone; and what a second run writes is equal to the byte."""
    made = checkout(SMOKE)
    kept = made.folder / "results/published"
    shutil.copytree(ROOT / "results/published", kept)
    contents = []
    for _ in range(2):
        made.run("--forceall", *KEPT)
        found = [f for f in sorted(kept.rglob("*")) if f.is_file() and f.suffix not in (".log", ".tsv")]
        contents.append({file: file.read_bytes() for file in found})
    assert contents[0] == contents[1]
    judged = pd.read_parquet(kept / "parquet/claims.parquet")
    assert "before" in set(judged.rule_fixed), "its rules are compared with its own settings"
