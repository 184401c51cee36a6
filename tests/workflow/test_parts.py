"""Parts alone, by the table in docs/guide.md; and the workflow from other folders and workflows."""

import re
import textwrap

import pytest
import yaml
from checkouts import ROOT, TINY_RUNS, Checkout, jobs_of, snakemake

from layernorm_roles import reproduction
from layernorm_roles.plans import plans_of

GUIDE = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
PARTS = {
    part: ({*rules.split(", "), f"draw_{part}", part, "settings"}, int(jobs))
    for part, rules, jobs in re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (\d+) \|$", GUIDE, re.MULTILINE)
}
"""For each part its rules, those that the guide names for all parts included, and its number of jobs in the default."""

SHOWN = re.findall(r"^    # (\w+\.yaml)[^\n]*\n((?:    .*\n)+)", GUIDE, re.MULTILINE)
"""The configurations that the guide shows, by the name of their file."""


def elsewhere(folder, *arguments):
    """A dry run of the workflow in a folder without results."""
    return snakemake(folder, "--snakefile", str(ROOT / "Snakefile"), "-n", *arguments, package=ROOT)


def planned(folder, *arguments):
    """The number of jobs of each rule that a dry run plans in a folder without results."""
    (folder / "results").mkdir(exist_ok=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    done = elsewhere(folder, *arguments)
    assert done.returncode == 0, done.stdout
    return jobs_of(done.stdout)


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
    measured = tmp_path / "results/smol/runs/pretrained_measure/smollm2/pretrained_keys.parquet"
    if part == "pretrained":
        measured.parent.mkdir(parents=True)
        measured.touch()
    found = planned(tmp_path, target, "--configfile", name)
    assert {*found} <= PARTS[part][0] | {"tables"} and (part in found) == (part == target), found


HUB = {"kind": "hub", "dataset": "a", "split": "s", "column": "c", "label_column": "l"}
ON_GPU = {"name": "gpu", "device": "cuda", "threads_per_training": 2, "text": {"words": {"corpus": HUB}}}
ON_GPU["language_model"] = {"bert": {"task": "labelled"} | {key: HUB for key in ("training", "validation")}}
NEEDS = {"draw": (2000, 10), "language_model_train": (4000, None), "language_model_measure": (2000, 30)}
NEEDS |= {"majority_train": (1500, None), "placement": (2000, 60), "pretrained_measure": (3000, 60)}
NEEDS |= {"random_keys_measure": (1500, 15), "text": (1500, 120)}
"""The megabytes and minutes that jobs ask for, unless the profile says so; those of trainings are in their batch."""


def test_every_job_reads_what_the_jobs_of_its_plan_make_and_asks_for_what_the_settings_say(tmp_path):
    """Of the whole reproduction: a job waits for the jobs that its plan names, reads files of each, and of no other."""
    (tmp_path / "gpu.yaml").write_text(yaml.safe_dump(ON_GPU))
    done, jobs, maker = elsewhere(tmp_path, "--verbose", "all", "--configfile", "gpu.yaml"), {}, {}
    blocks = re.findall(r"^( *)rule (?!all)(\w+):\n((?:\1    .+\n)+)", done.stdout, re.MULTILINE)
    for _, rule, block in blocks:
        facts = dict(line.strip().partition(": ")[::2] for line in block.splitlines())
        job = re.search(r"results/gpu/origin/(\S+)\.json", facts["output"])[1]
        jobs[job] = rule, facts
        maker |= dict.fromkeys(facts["output"].split(", "), job)
    made = reproduction.Reproduction(reproduction.configured(ROOT / "config.yaml", ON_GPU), ROOT)
    minutes = {
        f"{section}_train/{name}": each.minutes
        for section, batches in made.training.items()
        for name, each in batches.items()
    }
    plans = plans_of(made)
    assert {*minutes} < {*jobs} == {*plans}, done.stdout
    for job, (rule, facts) in jobs.items():
        assert facts["log"] == f"results/gpu/logs/{job}.log"
        assert rule == job.split("/")[0] or job == f"draw/{rule.removeprefix('draw_')}", (
            "a job is named by its rule"
        )
        newer, *read = (file for file in facts.get("input", "").split(", ") if file.startswith("results/"))
        assert newer == "results/gpu/origin/.differs", "of a job that is not done"
        made_by = plans[job]["made_by"]
        assert {maker[file] for file in read} == {*made_by}, job
        text = {file for file, each in maker.items() if each.startswith("text/") and each in made_by}
        assert {file for file in text if "/origin/" not in file} <= {*read}, (
            "a text that lost a file is prepared again"
        )
        if job not in ("settings", "durations"):
            assert facts["benchmark"] == f"results/gpu/benchmarks/{job}.tsv"
        asked = {key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", facts["resources"])}
        on_gpu = rule == "language_model_train"
        assert (facts.get("threads", "1"), asked.get("gpu", 0)) == (("2", 1) if on_gpu else ("1", 0))
        memory, time = NEEDS.get(job.split("/")[0], (None, None))
        assert (asked.get("mem_mb"), asked.get("runtime")) == (memory, minutes.get(job, time)), job
        assert ("priority" in facts) == (job in ("settings", "random_keys_measure", "draw/random_keys")), job


NO_FILE = {"text": {"words": {"corpus": {"kind": "files", "paths": ["a/*"]}}}}
NO_MODEL = {"pretrained": {"minilm": {"package": None, "folder": None, "path": "a"}}}


@pytest.mark.parametrize(
    ("settings", "target", "says"),
    [
        (NO_FILE, "language_model", "text.words: no file"),
        (NO_MODEL, "pretrained", "pretrained.minilm.path = 'a'"),
        ({}, "help", "{here}/results/tiny: expected a folder, or nothing; move away"),
    ],
)
def test_what_is_not_there_or_in_the_way_stops_planning_with_one_line(tmp_path, settings, target, says):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(settings | {"name": "tiny"}))
    (tmp_path / "results").mkdir()
    (tmp_path / "results/tiny").touch() if target == "help" else None
    done = elsewhere(tmp_path, target, "--configfile", "tiny.yaml")
    assert done.returncode == 1 and f"\nerror: {says.format(here=tmp_path)}" in done.stdout, done.stdout
    assert 'File "' not in done.stdout


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
    plan += ("--config", "device=auto")
    done = snakemake(*plan, package=ROOT)
    assert done.returncode == 0 and "page" in done.stdout, "the whole reproduction can be planned"
    assert re.search(r"^device = auto, which means (cpu|cuda): torch", done.stdout, re.MULTILINE)
    (made.folder / "src/layernorm_roles/majority/model.py").write_text("EDITED = True\n")
    done = snakemake(*plan, package=ROOT)
    says = f"the code in {made.folder}/src/layernorm_roles would not run, but that in {ROOT}/src"
    assert done.returncode != 0 and "Traceback" not in done.stdout and says in done.stdout
