"""The workflow runs from another folder, and as a module of somebody else's workflow."""

import subprocess
import sys
from pathlib import Path

import pytest
from checkouts import Checkout, command, environment

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
    plain = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(plain, cwd=folder, env=environment(ROOT), text=True, **pipes)
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


def test_a_clone_does_not_run_the_code_of_another_one(tmp_path):
    made = Checkout(tmp_path, {"name": "tiny", "device": "cpu"})
    plan = command("--cores", "1", "--dry-run", "random_keys")

    def with_the_package_of_this_repository():
        return subprocess.run(plan, cwd=tmp_path, env=environment(ROOT), text=True, capture_output=True)

    assert with_the_package_of_this_repository().returncode == 0, "equal code may run from anywhere"
    (made.folder / "src/layernorm_roles/memory.py").write_text("EDITED = True\n")
    done = with_the_package_of_this_repository()
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert f"the code in {tmp_path}/src/layernorm_roles would not run, but that in {ROOT}/src" in done.stderr
