"""Parts alone, by the table in docs/guide.md; and the workflow from other folders and workflows."""

import re
import textwrap

import pytest
import yaml
from checkouts import ROOT, TINY_RUNS, Checkout, snakemake

GUIDE = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
PARTS = {
    part: ({*rules.split(", "), part, "settings"}, int(jobs))
    for part, rules, jobs in re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (\d+) \|$", GUIDE, re.MULTILINE)
}
"""For each part its rules, those that the guide names for all parts included, and its number of jobs in the default."""

SHOWN = re.findall(r"^    # (\w+\.yaml)[^\n]*\n((?:    .*\n)+)", GUIDE, re.MULTILINE)
"""The configurations that the guide shows, by the name of their file."""


def planned(folder, *arguments):
    """The number of jobs of each rule that a dry run plans in a folder without results."""
    (folder / "results").mkdir(exist_ok=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    done = snakemake(folder, "--snakefile", str(ROOT / "Snakefile"), "-n", *arguments, package=ROOT)
    assert done.returncode == 0, done.stdout
    return {rule: int(n) for rule, n in re.findall(r"^(\w+) +(\d+)$", done.stdout, re.MULTILINE)}


@pytest.mark.parametrize("part", ["random_keys", "majority", "language_model", "pretrained", "statements"])
def test_a_part_plans_what_the_guide_says(tmp_path, part):
    found = planned(tmp_path, part)
    assert ({*found} - {"tables"}, sum(found.values())) == PARTS[part], found


@pytest.mark.parametrize(("name", "text"), SHOWN)
def test_an_example_of_the_guide_plans_no_more_than_its_part(tmp_path, name, text):
    (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/a.txt").write_text("words")
    target = re.search(rf"snakemake --cores all (\S+) --configfile {name}", GUIDE)[1]
    part = target if target in PARTS else "language_model"
    # A pretrained model that was measured need not be there to be planned.
    measured = tmp_path / "results/smol/runs/pretrained/smollm2/pretrained_keys.parquet"
    if part == "pretrained":
        measured.parent.mkdir(parents=True)
        measured.touch()
    found = planned(tmp_path, target, "--configfile", name)
    assert {*found} <= PARTS[part][0] | {"tables"} and (part in found) == (part == target), found


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
