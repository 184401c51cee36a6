"""What holds for the workflow and the package as a whole."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from checkouts import ROOT, snakemake
from default_settings import example

import layernorm_roles
from layernorm_roles import batches, reproduction
from layernorm_roles.settings.text import Text


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
        asked = profile["default-resources"]
        for name, first in (("mem_mb", 1500), ("runtime", 10)):
            assert [eval(asked[name], {"attempt": n}) for n in (1, 2, 3)] == [first, 2 * first, 4 * first]
    exec(re.search(r"(?s)def doubling.*?\n\n", text_of("workflow/rules/common.smk"))[0], of_rules := {})
    assert [of_rules["doubling"](5)(None, attempt=n) for n in (1, 2, 3)] == [5, 10, 20]
    different = {key for key in CLUSTER if slurm[key] != generic[key]}
    assert different == {"executor", "default-resources"} and default["keep-going"]
    rules = re.findall(r"(?m)^ *(?:use rule \w+ as|rule) (\w+)", "".join(file.read_text() for file in RULES))
    assert {*rules} >= {*slurm["groups"]} and {*slurm["groups"].values()} == {*slurm["group-components"]}
    assert not {"majority_train", "language_model_train", "text", "pretrained_measure"} & {*slurm["groups"]}
    most = yaml.safe_load(text_of("profiles/slurm/partitions.yaml"))["partitions"]["cpu"]["max_runtime"]
    paper = reproduction.configured(
        ROOT / "config.yaml", yaml.safe_load(text_of("workflow/presets/paper.yaml"))
    )
    longest = max(each.minutes for each in batches.batches(paper, "language_model").values())
    assert longest // 60 == 65 < 24 * int(most.removesuffix("d")), "as README.md there says"


STATES = {
    "success": "COMPLETED FORGOTTEN",
    "failed": "BOOT_FAIL CANCELLED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT",
    "running": "CONFIGURING COMPLETING PENDING RUNNING REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD "
    "REVOKED SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED unable",
}
"""By what Snakemake is to think of a job: the states that SLURM documents, a forgotten job, and no answer."""


def test_the_generic_profile_asks_slurm_for_what_a_job_needs_and_knows_every_state(tmp_path, monkeypatch):
    submit = yaml.safe_load(text_of("profiles/cluster-generic/config.yaml"))["cluster-generic-submit-cmd"]
    needs = {"threads": 2, "resources": SimpleNamespace(mem_mb=3000, runtime=15, gpu=1)}
    asked = "--cpus-per-task=2 --mem=3000 --time=15 --gpus=1 --output=.snakemake/cluster_generic_%j.log"
    assert submit.format(**needs) == f"sbatch --parsable {asked}"
    said = {"FORGOTTEN": "slurm_load_jobs error: Invalid job id specified", "unable": "Unable to contact"}
    (tmp_path / "scontrol").write_text('#!/bin/sh\n[ "$*" = \'show job 7\' ] && echo "$SAID" >&2\n')
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for becomes, state in ((key, state) for key, states in STATES.items() for state in states.split()):
        monkeypatch.setenv("SAID", said.get(state, f"JobId=7 JobName=a JobState={state} Reason=None"))
        status = [ROOT / "profiles/cluster-generic/status.sh", "7"]
        assert subprocess.check_output(status, text=True) == f"{becomes}\n", state


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


PLAN = {"table": "t", "settings": example(Text).model_dump(mode="json"), "seed": 5}


class Given(dict):
    __getattr__ = dict.__getitem__
    __iter__ = lambda self: iter(self.values())  # noqa: E731


INPUT = Given(parts=["p"], tables=["in/a.parquet"], figures=["f"])
OUTPUT = Given((name, f"x/out/{name}") for name in "measured cloud table comparisons report findings".split())
OUTPUT |= {"claims": "x/y/parquet/a", "manifest": "x/y/data/text/words/manifest.json", "origin": "o"}
PARAMS = Given(folder="x/y", kept="x/published", plan=PLAN)
TEXT = Path("x/y/data/text/words")
PAGE = {"a": "in/a.parquet", "figures": ["f"]}
CALLS = {
    "collect_table": ("store.collect", PLAN, ["p"], "t", OUTPUT.table),
    "draw": ("evidence.draw.draw_groups", PLAN, INPUT.tables, [path for path in OUTPUT if path != "o"]),
    "judge_claims": ("evidence.claims.judge_files", {"a": "in/a.parquet"}, OUTPUT.claims, OUTPUT.comparisons),
    "measure_geometry": ("statements.geometry.write", PLAN, OUTPUT.measured, OUTPUT.cloud),
    "prepare_text": ("text.prepare.prepare", example(Text), TEXT, 5, Path("x/y/data/downloads")),
    "publish": ("evidence.page.publish.publish", PLAN, "x/y", "x/published"),
    "train_language_model": ("language_model.train.train_batch", PLAN, INPUT, OUTPUT, 3),
    "write_page": ("evidence.page.page.write", PLAN, PAGE, OUTPUT.report, OUTPUT.findings),
}
"""By script of the workflow, the function that it calls, and with what, where its arguments could be exchanged."""


@pytest.mark.parametrize("script", CALLS)
def test_a_script_gives_its_function_what_the_rule_names(script, monkeypatch):
    """And no table of another plan is judged or drawn."""
    (name, *expected), called = CALLS[script], []
    monkeypatch.setattr("layernorm_roles.script.job", lambda _: nullcontext(PLAN))
    for each in ("store.refuse_unplanned", name):
        monkeypatch.setattr(f"layernorm_roles.{each}", lambda *given: called.append([*given]) or [])
    given = {"input": INPUT, "output": OUTPUT, "params": PARAMS, "threads": 3}
    runpy.run_path(str(ROOT / f"workflow/scripts/{script}.py"), {"snakemake": SimpleNamespace(**given)})
    assert called == [[PLAN, INPUT.tables]] * (script in ("draw", "judge_claims")) + [expected]


@pytest.mark.parametrize("left", [0, 1])
def test_check_says_how_many_jobs_are_not_done(left, monkeypatch, capsys):
    monkeypatch.setattr("layernorm_roles.script.job", lambda _: nullcontext())
    monkeypatch.setattr("layernorm_roles.plan.check", lambda folder: left)
    given = {"snakemake": SimpleNamespace(params=PARAMS)}
    runpy.run_path(str(ROOT / "workflow/scripts/check_files.py"), given)
    said = capsys.readouterr().out
    assert said.startswith("x/y: every file is as it was") and ("\nx/y: 1 of the" in said) == bool(left)
