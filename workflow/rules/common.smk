# The checked settings, and the plan files of all jobs: JSON that says all that a job's result depends on. A job is done
# again if its plan file is newer, or the copy of it that a job left whose results it reads; data are `ancient`. See
# src/layernorm_roles/plan.py.
import os
import re
import sys
from difflib import get_close_matches
from pathlib import Path

import layernorm_roles

# This repository. If another workflow uses this one as a module, it is the clone whose package is installed.
INSTALLED = Path(layernorm_roles.__file__).parent
PLACES = (Path(workflow.basedir), INSTALLED.parents[1])
REPOSITORY = next((place for place in PLACES if (place / "workflow/rules/common.smk").is_file()), None)
if REPOSITORY is None:
    sys.exit("\nerror: as a module this workflow needs its clone installed: pip install -e CLONE\n")


def modules(package):
    """The content of every Python file under the folder `package`, by its path in that folder."""
    return {file.relative_to(package): file.read_bytes() for file in package.rglob("*.py")}


# In an environment in which another clone is installed, that clone's code would run, unseen.
CLONE = REPOSITORY / "src/layernorm_roles"
if CLONE.is_dir() and not CLONE.samefile(INSTALLED) and modules(CLONE) != modules(INSTALLED):
    sys.exit(
        f"\nerror: the code in {CLONE} would not run, but that in {INSTALLED}; "
        f"in an environment of its own: pip install -c constraints.txt -e {REPOSITORY}\n"
    )

from layernorm_roles import exhibits, plan, plans, reproduction
from layernorm_roles.script import search_garbage_rarely
from layernorm_roles.settings import yaml_files

search_garbage_rarely()

try:
    # Of a repeated key Snakemake keeps the last value. A version that no longer tells the files would only do so again.
    for FILE in getattr(workflow, "overwrite_configfiles", ()):
        yaml_files.read(FILE)
    THIS = reproduction.Reproduction(
        reproduction.configured(REPOSITORY / "config.yaml", config), REPOSITORY / "workflow/presets"
    )
    RUN = THIS.folder
    reproduction.refuse_read_only(RUN, REPOSITORY / "Snakefile")
    KEPT = exhibits.Exhibits.kept("results/published")
    JOBS = plans.plans_of(THIS)
    PLANS = {THIS.settings.name: JOBS}
    if KEPT.tables and os.access(KEPT.folder, os.W_OK):  # it may be another user's
        PLANS[KEPT.name] = exhibits.plans_of_kept(KEPT)
    for NAME in PLANS:
        plan.write(f"results/{NAME}", PLANS[NAME])
except (ValueError, OSError) as fault:
    sys.exit(f"\nerror: {fault}\n")

EXHIBITS = {THIS.settings.name: THIS.exhibits, KEPT.name: KEPT}

if THIS.device.why:
    print(f"device = auto, which means {THIS.device.device}: {THIS.device.why}", file=sys.stderr)


def done(job, name=THIS.settings.name):
    """An input function: the files that say that the jobs whose results `job` reads are done as planned."""

    def found(wildcards):
        reproduction = name.format(**wildcards)
        plans = PLANS.get(reproduction, {})
        # Of a job that is not planned Snakemake misses the plan file, which names it better than an error here.
        reads = plans.get(job.format(**wildcards), {}).get("made_by", ())
        return [f"results/{reproduction}/origin/{each}.json" for each in reads if each in plans]

    return found


def or_end(find):
    """The input function `find`, except that its ValueError ends the workflow, with one line instead of many."""

    def found(wildcards):
        try:
            return find(wildcards)
        except ValueError as fault:
            sys.exit(f"\nerror: {fault}\n")

    return found


def no_target(wildcards):
    """Raise ValueError, which says that `wildcards.word` is no target, and which targets are spelt like it."""
    text = (REPOSITORY / "workflow/rules/targets.smk").read_text(encoding="utf-8")
    targets = ["all", *re.findall(r"^(?:use rule \w+ as|rule) (\w+)", text, re.MULTILINE)]
    near = " or ".join(get_close_matches(wildcards.word, targets)) or "another"
    raise ValueError(f"{wildcards.word}: no target; expected {near}: `snakemake --cores 1 help` lists all")


def shown(exhibits, *names):
    """Yield the files of the groups of figures and tables `names`, or of all groups; a report shows PNGs with captions."""
    groups = [exhibits.groups[name] for name in names or exhibits.groups if name in exhibits.groups]
    for group in groups:
        for figure in group.figures:
            labels = {"figure": figure.name, "caption": figure.caption}
            png, pdf = (f"{exhibits.folder}/{file}" for file in figure.files)
            yield from (report(png, category=group.title, labels=labels), pdf)
        yield from (f"{exhibits.folder}/{file}" for table in group.tables for file in table.files)


def doubling(first):
    """A function for `resources`: `first`, such as a job's memory in MB or its minutes, doubled at each retry."""
    return lambda wildcards, attempt: first * 2 ** (attempt - 1)


wildcard_constraints:
    name="|".join(EXHIBITS),
    batch=r"[a-z][a-z0-9_]*/.+",
    seed=r"\d+",


# Before the first job it is written down how the claims will be judged.
onstart:
    # Asked here as well, since the import below takes a second.
    if not plan.begun(RUN):
        from layernorm_roles.evidence.claims import (
            CLAIMS,
            preregistration,
        )  # imports pandas, which no plan needs
        from layernorm_roles.provenance import git_commit

        preregistration.write_rules(Path(RUN, "rules.json"), CLAIMS, THIS.plain, git_commit())


onsuccess:
    for line in THIS.exhibits.ending():
        print(line, file=sys.stderr)
