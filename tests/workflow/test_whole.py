"""The whole smoke reproduction, from nothing to its page; what an edit makes again; the kept reproduction redrawn."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from layernorm_roles import files, planning, store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.tables import registry as tables

ROOT = Path(__file__).parents[2]
SMOKE = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text(encoding="utf-8")) | {"device": "cpu"}


@pytest.fixture(scope="module")
def smoke(checkout):
    """A checkout in which everything has run."""
    made = checkout(SMOKE)
    shutil.copytree(ROOT / "results/published", made.folder / "results/published")
    made.printed = made.run()
    return made


def results(smoke):
    return smoke.folder / "results/smoke"


def rules_of(plan):
    """The rules that a dry run would run."""
    return set(re.findall(r"^(\w+) +\d+$", plan, flags=re.MULTILINE)) - {"total", "all"}


def test_every_figure_table_and_verdict_is_there_and_intact(smoke):
    plan = planning.Plan(planning.configured(smoke.folder / "config.yaml", SMOKE))
    expected = {"report.html", "settings.json", "parquet/claims.parquet", "tables/durations.csv"}
    expected |= {f"figures/{name}.{kind}" for name in plan.figures() for kind in ("png", "pdf")}
    expected |= {f"tables/{file}" for table in tables.TABLES.values() for file in tables.files(table)}
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
    run = results(smoke) / "runs/language_model/gpt/layernorm/seed_1000/keys.parquet"
    whole = pd.read_parquet(results(smoke) / "parquet/key_selectability.parquet")
    mine = whole[(whole.model == "gpt") & (whole.variant == "layernorm") & (whole.seed == 1000)]
    pd.testing.assert_frame_equal(mine.reset_index(drop=True), pd.read_parquet(run))
    heads = whole[(whole.model == "gpt") & (whole.variant == "layernorm") & (whole.checkpoint == "final")]
    heads = heads[(heads.site == "head") & (heads.texts == "long") & ~heads.causal]
    by_seed = (100 * heads.n_unselectable / heads.n_keys).groupby(heads.seed).mean()
    claims = pd.read_parquet(results(smoke) / "parquet/claims.parquet").set_index("claim")
    assert claims.measured["heads"] == pytest.approx(by_seed.mean(), rel=1e-12)
    assert f"{by_seed.mean():.1f}" in (results(smoke) / "report.html").read_text(encoding="utf-8")


def test_a_check_names_the_files_to_delete(smoke):
    assert "results/smoke: every file is as it was written" in smoke.run("check")
    damaged = results(smoke) / "figures/figure_2a.pdf"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1])
    done = smoke.snakemake("check")
    damaged.write_bytes(content)
    assert (
        done.returncode != 0
        and "figures/figure_2a.pdf: damaged" in done.stdout
        and "Traceback" not in done.stdout
    )


def test_a_second_run_does_nothing(smoke):
    assert "Nothing to be done" in smoke.run()


EDITS = {
    # No script imports most of these modules itself, and nothing imports the data files paper.yaml and report.css.
    "evidence/analysis/estimate.py": ({"claims", "draw_majority"}, {"majority_train", "geometry"}),
    "evidence/analysis/random_keys.py": (
        {"claims", "draw_random_keys"},
        {"random_keys_table", "draw_majority"},
    ),
    "evidence/tables/structure.py": ({"draw_language_model", "draw_majority", "page"}, {"claims", "tables"}),
    "random_streams.py": ({"geometry", "text", "majority_data", "placement_train"}, set()),
    "text/token_streams.py": ({"text", "language_model_train"}, {"majority_train", "geometry"}),
    "evidence/analysis/paper.yaml": ({"claims", "draw_majority"}, {"majority_train", "tables"}),
    "selectability/search.py": ({"random_keys_table", "language_model_keys"}, {"majority_train", "geometry"}),
    "evidence/page/report.css": ({"page"}, {"claims", "draw_majority"}),
    "evidence/figures/vectors.py": ({"draw_majority"}, {"draw_statements", "claims"}),
}
"""By edited file: rules that must run again, and rules that must not."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_marks_what_depends_on_it_and_nothing_else(smoke, name):
    file = smoke.folder / "src/layernorm_roles" / name
    before = file.read_bytes()
    file.write_bytes(before + (b"\nEDITED = 1\n" if name.endswith(".py") else b"\n# edited\n"))
    try:
        plan = rules_of(smoke.run("--dry-run"))
    finally:
        file.write_bytes(before)
    again, never = EDITS[name]
    assert again <= plan and not never & plan, plan


def test_the_kept_reproduction_is_drawn_again_without_training(smoke):
    """From its Parquet files alone; and what a second run writes is equal to the byte."""
    targets = ("published_figures", "published_report")
    kept = smoke.folder / "results/published"
    drawing = re.compile(r"published_(claims|page|figures|draw_\w+|report)")
    assert all(drawing.fullmatch(rule) for rule in rules_of(smoke.run("--dry-run", "--forceall", *targets)))
    contents = []
    for _ in range(2):
        smoke.run("--forceall", *targets)
        found = [
            file for file in sorted(kept.rglob("*")) if file.is_file() and file.suffix not in (".log", ".tsv")
        ]
        contents.append({file: file.read_bytes() for file in found})
    assert contents[0] == contents[1]
