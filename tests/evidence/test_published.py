"""The kept run, and the README's table of verdicts, which must be of it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import worlds

from layernorm_roles import store
from layernorm_roles.evidence import claims, published

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results/published/parquet/claims.parquet"
FILES = ["parquet/claims.parquet", "parquet/fusion.parquet", "figures/figure_2a.png", "tables/convergence.md"]


def test_an_unfinished_run_is_refused_and_the_kept_one_stays(run, tmp_path):
    kept = tmp_path / "published"
    published.publish(run, kept, FILES, {})
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=re.escape("lacks figures/figure_99.png; run snakemake")):
        published.publish(run, kept, [*FILES, "figures/figure_99.png"], {})
    spoilt = tmp_path / "spoilt"
    shutil.copytree(run, spoilt)
    (spoilt / "parquet/fusion.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"fusion\.parquet: damaged"):
        published.publish(spoilt, kept, FILES, {})
    assert before == {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}


def test_what_is_kept_is_the_run_and_a_report_and_nothing_older(run, tmp_path):
    kept = tmp_path / "published"
    (kept / "figures").mkdir(parents=True)
    (kept / "figures/figure_of_last_year.png").write_bytes(b"old")
    published.publish(run, kept, FILES, {})
    found = {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()}
    assert found == {*FILES, "report.html"}
    assert (kept / FILES[1]).read_bytes() == (run / FILES[1]).read_bytes()


def test_the_table_has_a_row_for_each_claim_and_as_many_cells():
    table = claims.judge({"language_model_metrics": worlds.losses(0.05)})
    table.loc[0, "statement"] = "a | b"
    lines = published.verdicts(table).splitlines()
    assert len(lines) == 2 + len(claims.CLAIMS)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    row = next(line for line in lines if "language model’s training and test loss" in line)
    assert "**reproduced**" in row and re.search(r"0\.0\d+ nats \[0\.0\d+, 0\.0\d+\]", row)


def test_the_table_replaces_what_stands_between_the_markers():
    table = claims.judge({})
    text = f"# Title\n\n{published.BEGIN}\nold\n{published.END}\n\nrest\n"
    once = published.with_verdicts(text, table)
    assert once.startswith("# Title\n\n") and once.endswith("\n\nrest\n") and "old" not in once
    assert published.with_verdicts(once, table) == once
    with pytest.raises(ValueError, match="expected the lines"):
        published.with_verdicts("# Title\n", table)


def test_redrawing_the_kept_run_trains_nothing(tmp_path):
    """The plan for its figures and its report, from nothing but its Parquet tables, has drawing rules only."""
    for name in ("Snakefile", "config.yaml", "workflow", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    folder = tmp_path / "results/published/parquet"
    folder.mkdir(parents=True)
    for name in [*claims.TABLES, "geometry_cloud", "bert_metrics", "sentence_tokens"]:
        (folder / f"{name}.parquet").touch()
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--cores",
        "1",
        "--dry-run",
        "published_figures",
        "published_report",
    ]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    jobs = set(
        re.findall(r"^(\w+) +\d+$", (done.stdout + done.stderr).split("Reasons:")[0], flags=re.MULTILINE)
    )
    assert {"page", "claims", "majority_figures"} <= jobs
    drawing = re.compile(
        r"\w+_figures?|\w+_table|\w+_reports|statement_findings|claims|page|published_\w+|total"
    )
    assert all(drawing.fullmatch(job) for job in jobs) and "random_keys_table" not in jobs, jobs


@pytest.mark.skipif(not KEPT.exists(), reason="results/published has no claims yet")
def test_the_readme_shows_the_verdicts_of_the_kept_run():
    """If this fails: snakemake --cores all readme"""
    readme = (ROOT / "README.md").read_text()
    assert published.with_verdicts(readme, store.read(KEPT, "claims")) == readme


@pytest.mark.skipif(not KEPT.exists(), reason="results/published has no claims yet")
def test_the_kept_verdicts_are_those_of_today_s_tests(tmp_path):
    """If this fails: snakemake --cores all --forcerun claims published_report"""
    claims.judge_files(sorted(KEPT.parent.glob("*.parquet")), tmp_path / "claims.parquet")
    now, kept = store.read(tmp_path / "claims.parquet", "claims"), store.read(KEPT, "claims")
    assert now[["claim", "verdict", "n_seeds", "reason"]].equals(
        kept[["claim", "verdict", "n_seeds", "reason"]]
    )
