"""The workflow runs from another folder, and as a module of somebody else's workflow."""

import yaml
from checkouts import ROOT, TINY_RUNS, Checkout, snakemake

TINY = {"name": "tiny", "device": "cpu", "majority": {"only": ["mine"]}}
TINY["majority"]["mine"] = {"like": "d3", "seeds": {"layernorm": 1, "scale": 1}} | TINY_RUNS
MODULE = f"""
configfile: "tiny.yaml"
module roles:
    snakefile: "{ROOT / "Snakefile"}"
    config: config
use rule * from roles as roles_*
"""
TABLE = "results/tiny/parquet/majority_metrics.parquet"


def test_as_a_module(tmp_path):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    (tmp_path / "Snakefile").write_text(MODULE)
    done = snakemake(tmp_path, TABLE, package=ROOT)
    assert done.returncode == 0 and (tmp_path / TABLE).exists(), done.stdout
    done = snakemake(tmp_path, "--dry-run", "roles_all", package=ROOT)
    assert done.returncode == 0 and "roles_page" in done.stdout, done.stdout


def test_a_clone_runs_from_another_folder_and_not_the_code_of_another_clone(tmp_path):
    """An environment may have another clone installed: equal code may run from anywhere."""
    made = Checkout(tmp_path / "clone", {"name": "tiny", "device": "cpu"})
    made.copy_package()
    (tmp_path / "elsewhere").mkdir()
    plan = (tmp_path / "elsewhere", "--dry-run", "--snakefile", str(made.folder / "Snakefile"))
    done = snakemake(*plan, package=ROOT)
    assert done.returncode == 0 and "page" in done.stdout, "the whole reproduction can be planned"
    (made.folder / "src/layernorm_roles/memory.py").write_text("EDITED = True\n")
    done = snakemake(*plan, package=ROOT)
    says = f"the code in {made.folder}/src/layernorm_roles would not run, but that in {ROOT}/src"
    assert done.returncode != 0 and "Traceback" not in done.stdout and says in done.stdout
