"""The workflow runs from another folder, and as a module of somebody else's workflow."""

import subprocess
import sys
from pathlib import Path

import pytest
from checkouts import environment

ROOT = Path(__file__).parents[2]
TINY = """
name: tiny
device: cpu
majority:
  only: [mine]
  mine:
    like: d3
    sequences: 200
    batch_size: 100
    steps: 2
    schedule_steps: 2
    evaluate_every: 1
    seeds: {layernorm: 1, scale: 1}
"""
MODULE = f"""
configfile: "tiny.yaml"
module roles:
    snakefile: "{ROOT / "Snakefile"}"
    config: config
use rule * from roles as roles_*
"""
TABLE = "results/tiny/parquet/majority_metrics.parquet"


def snakemake(folder, *arguments):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(ROOT),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.fixture
def elsewhere(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return tmp_path


def test_from_another_folder(elsewhere):
    workflow = ("--snakefile", str(ROOT / "Snakefile"), "--configfile", "tiny.yaml")
    snakemake(elsewhere, "majority", *workflow)
    assert (elsewhere / TABLE).exists() and (elsewhere / "results/tiny/figures/majority_curves.png").exists()
    assert "page" in snakemake(elsewhere, "--dry-run", *workflow), "the whole reproduction can be planned"


def test_as_a_module(elsewhere):
    (elsewhere / "Snakefile").write_text(MODULE)
    snakemake(elsewhere, TABLE)
    assert (elsewhere / TABLE).exists()
    assert "roles_page" in snakemake(elsewhere, "--dry-run", "roles_all")
