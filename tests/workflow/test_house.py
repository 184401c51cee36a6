"""What holds for the workflow and the package as a whole."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import yaml
from checkouts import ROOT, snakemake
from planned import planned

import layernorm_roles
from layernorm_roles import batches, planning, store
from layernorm_roles.provenance import provenance
from layernorm_roles.schemas import SCHEMAS


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_lint_has_only_its_wish_for_an_environment_per_rule():
    """The pinned pip packages are the environment of all rules, so no rule names one."""
    done = snakemake(ROOT, "--lint", package=ROOT)
    titles = re.findall(r"^    \* (.+):$", done.stdout, flags=re.MULTILINE)
    assert {*titles} == {"Specify a conda environment or container for each rule."}, done.stdout


def test_every_target_says_what_it_is_and_help_lists_them():
    found = re.findall(r"(?m)^(?:use rule \w+ as|rule) (\w+)", text_of("workflow/rules/targets.smk"))
    targets = ["all", *found]
    assert {"majority", "pretrained", "publish", "help"} <= {*targets}
    lines = snakemake(ROOT, "help", "--quiet", "all", package=ROOT).stdout.splitlines()
    listed = dict(line.split(maxsplit=1) for line in lines if line.startswith("    "))
    assert {*listed} == {*targets} and all(meaning.endswith(".") for meaning in listed.values()), listed


NEAREST = "error: statemnts: no target; expected statements: `snakemake --cores 1 help` lists all"


@pytest.mark.parametrize(("target", "says"), [("statemnts", NEAREST), ("results/x.csv", "MissingRuleExc")])
def test_a_mistyped_target_names_the_nearest_and_a_file_is_missed_by_snakemake(target, says):
    done = snakemake(ROOT, target, package=ROOT)
    assert done.returncode == 1 and says in done.stdout, done.stdout
    assert ("no target" in done.stdout) == ("Missing" not in done.stdout)


RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))]
FOLDERS = ("src", "workflow", "benchmarks", "examples")
PYTHON = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
PROFILES = [*(ROOT / "profiles").glob("*/config.yaml")]
NETWORK = r"socket|ssl|http|urllib(?!\.parse)|ftplib|requests|httpx|aiohttp|datasets|huggingface_hub"
PICKLES = "pickle|dill|joblib|shelve|marshal|cloudpickle"
RUNS_CODE = r"(?<![.\w`])(eval|exec)\(|os\.system|_pickle\(|torch\.load\("
RUNS_CODE += r"|yaml\.(unsafe_load|load_all|full_load)|yaml\.load\((?!.*Loader=LOADER)"
RUNS_CODE += r"|(allow_pickle|trust_remote_code|shell)=(?!False)"
UNWANTED = {
    # Of Snakemake what https://snakemake.readthedocs.io names: `workflow.basedir` is the folder of the Snakefile.
    "parts of Snakemake that may change": (RULES, r"\bworkflow\.(?!basedir\b)\w+", ()),
    "modules of Snakemake that may change": (RULES, r"^\s*(from|import) snakemake(?!\.utils\b)", ()),
    # Wildcards and parameters travel as values, never as words of a command.
    "text of the configuration in a shell": (RULES, r"^\s*(shell|run|notebook|wrapper|cwl)\s*:", ()),
    # A value given with --config would replace all of it, silently: the device is in config.yaml or a preset.
    "configuration in a profile": (PROFILES, r"^config:", ()),
    "private parts of other packages": (
        [file for file in PYTHON if not {"benchmarks", "examples"} & {*file.relative_to(ROOT).parts}],
        r"import ctypes|\bnumba\.core\.caching\b|\bdispatcher\._|_cache_dir_locator"
        r"|^\s*from \w[\w.]*(\._[a-z]| import (.*[\s,])?_[a-z])",
        (),
    ),
    "pickles": (PYTHON, rf"^\s*(from|import) ({PICKLES})\b", ()),
    "what may run the code that it reads": (PYTHON, RUNS_CODE, ()),
    "the network, but for a configured dataset or model of the hub": (
        PYTHON,
        rf"^\s*(from|import) ({NETWORK})\b",
        ("src/layernorm_roles/text/downloads.py", "src/layernorm_roles/pretrained/source.py"),
    ),
}
"""By what it is: the files that must not hold it, the lines that do, and files with one such line."""


@pytest.mark.parametrize("what", UNWANTED)
def test_nothing_in_the_sources_reaches_for(what):
    files, pattern, allowed = UNWANTED[what]
    found = [
        file.relative_to(ROOT).as_posix()
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(pattern, re.sub(r'"[^"]*"|#.*$', "", line))
    ]
    assert sorted(found) == sorted(allowed)


CLUSTER = {"jobs", "cores", "latency-wait", "set-resource-scopes", "retries", "groups", "group-components"}
CLUSTER |= {"executor", "default-resources"}


def test_profiles_for_clusters_have_all_that_the_default_one_has():
    """Snakemake takes nothing from the default profile where a command names another one."""
    names = ("default", "slurm", "cluster-generic")
    default, slurm, generic = (yaml.safe_load(text_of(f"profiles/{name}/config.yaml")) for name in names)
    for profile, own in ((slurm, "slurm-|max-status-checks"), (generic, "cluster-generic-")):
        assert {key for key in profile if not re.match(own, key)} == CLUSTER | {*default}
        assert {key for key in default if profile[key] != default[key]} == {"max-jobs-per-timespan"}
    different = {key for key in CLUSTER if slurm[key] != generic[key]}
    assert different == {"executor", "default-resources"}


def test_every_module_imports_only_from_the_floors_below_it():
    """In a process of its own, because import-linter switches off the loggers of the one it runs in."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "0 broken" in done.stdout, done.stdout + done.stderr


def test_package_citation_and_changelog_have_the_version_of_pyproject():
    citation = yaml.safe_load(text_of("CITATION.cff"))["version"]
    newest = re.search(r"^## ([\d.]+)", text_of("CHANGELOG.md"), re.MULTILINE)[1]
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    assert layernorm_roles.__version__ == citation == newest == project["version"]


def test_a_checkout_that_is_not_installed_has_no_version_and_works(tmp_path):
    shutil.copytree(ROOT / "src/layernorm_roles", tmp_path / "layernorm_roles")
    path = f"['{tmp_path}', *(path for path in sys.path if 'site-packages' not in path)]"
    code = f"import sys; sys.path = {path}; import layernorm_roles as l; print(l.__version__)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert done.stdout == "unknown\n", done.stderr


@pytest.mark.parametrize("script", ["judge_claims", "draw"])
def test_no_table_of_another_plan_is_judged_or_drawn(script, tmp_path):
    """By the scripts of the workflow, which are given what Snakemake gives them."""
    rows = pd.DataFrame({name: [2] for name in SCHEMAS["gaussian_law"].names})
    origin = provenance(planned(tmp_path, "a", steps=3), "cpu")
    store.write(rows, "gaussian_law", tmp_path / "a.parquet", origin)
    planned(tmp_path, "a", steps=5)
    planned(tmp_path, script, ["a"], again={}, settings={}, groups=[])
    program = f"""
import runpy
from types import SimpleNamespace
class Named(dict):
    __getattr__ = dict.__getitem__
    __iter__ = lambda self: iter(self.values())
given = Named(plan="plan/{script}.json", tables=["a.parquet"])
made = Named(origin="origin/x.json", claims="x/y/claims", comparisons="x/y/comparisons")
snakemake = SimpleNamespace(log=["log"], input=given, output=made)
runpy.run_path("{ROOT}/workflow/scripts/{script}.py", dict(snakemake=snakemake))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, text=True, capture_output=True)
    assert done.returncode == 1 and "a.parquet: a file of another run (steps = 3, expected 5)" in done.stderr


def test_what_is_asked_again_differs_from_the_kept_run_in_its_seeds_alone():
    overlays = (yaml.safe_load(text_of(f"workflow/presets/{name}.yaml")) for name in ("published", "again"))
    kept, again = (planning.configured(ROOT / "config.yaml", overlay) for overlay in overlays)
    for stage in batches.GROUPS:
        before, now = (
            {name: each.model_dump() for name, each in getattr(of, stage).items()} for of in (kept, again)
        )
        assert now, stage
        for name, entry in now.items():
            differs = {key for key, value in entry.items() if value != before[name][key]}
            assert differs <= {"seeds", "ceiling_seeds", "runs_per_job"}, (name, differs)
    used, new = (
        {
            seed
            for stage in batches.GROUPS
            for batch in batches.batches(of, stage, "cpu").values()
            for seed in batch.seeds
        }
        for of in (kept, again)
    )
    assert used and new and used.isdisjoint(new)
