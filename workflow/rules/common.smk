# The checked settings, the plans of all jobs, and the functions that the rules use.
#
# A rule gets its plan, all that its result depends on, as a parameter; its script leaves it in origin/<job>.json. A job
# whose plan is not what lies there has one more input, a file that is newer than all results, so that Snakemake does it
# again: also without its notes in .snakemake, beside another machine's results, and after --touch. See
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

from layernorm_roles import plan
from layernorm_roles.catalogue import COMPUTING, TABLES
from layernorm_roles.exhibits import Exhibits
from layernorm_roles.plans import plans_of, plans_of_kept
from layernorm_roles.reproduction import Reproduction, configured, refuse_read_only
from layernorm_roles.script import search_garbage_rarely
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.reproduction import KEPT as PUBLISHED

search_garbage_rarely()

try:
    # Of a repeated key Snakemake keeps the last value. A version that no longer lists the files would only do so again.
    for FILE in getattr(workflow, "overwrite_configfiles", ()):
        yaml_files.read(FILE)
    REPRODUCTION = Reproduction(
        configured(REPOSITORY / "config.yaml", config), REPOSITORY / "workflow/presets"
    )
    NAME, FOLDER = REPRODUCTION.settings.name, REPRODUCTION.folder
    refuse_read_only(FOLDER, REPOSITORY / "Snakefile")
    KEPT = Exhibits.kept(f"results/{PUBLISHED}")
    EXHIBITS = {NAME: REPRODUCTION.exhibits, PUBLISHED: KEPT}
    PLANS = {NAME: plans_of(REPRODUCTION), PUBLISHED: plans_of_kept(KEPT)}
except (ValueError, OSError) as fault:
    sys.exit(f"\nerror: {fault}\n")

if REPRODUCTION.device.why:
    print(
        f"device = auto, which means {REPRODUCTION.device.device}: {REPRODUCTION.device.why}", file=sys.stderr
    )


def or_end(find):
    """The input function `find`, except that its ValueError ends the workflow, with one line instead of many."""

    def found(wildcards):
        try:
            return find(wildcards)
        except ValueError as fault:
            sys.exit(f"\nerror: {fault}\n")

    return found


def planned(job, name=NAME):
    """A function for `params`: the plan of `job`, in which wildcards stand in braces."""

    # A file of no job, such as a mistyped target, is missed by Snakemake, which names it.
    return lambda wildcards: PLANS.get(name.format(**wildcards), {}).get(job.format(**wildcards))


def differs(job, name=NAME):
    """An input function: a file newer than all results, unless `job` left its present plan; then none."""

    def newer(wildcards):
        plans, this = PLANS.get(name.format(**wildcards), {}), job.format(**wildcards)
        return [str(plans.folder / plan.DIFFERS)] if this in plans and plans.differs(this) else []

    return or_end(newer)


def no_target(wildcards):
    """Raise ValueError, which says that `wildcards.word` is no target, and which targets are spelt like it."""
    text = (REPOSITORY / "workflow/rules/targets.smk").read_text(encoding="utf-8")
    targets = ["all", *re.findall(r"^rule (\w+)", text, re.MULTILINE)]
    near = " or ".join(get_close_matches(wildcards.word, targets)) or "another"
    raise ValueError(f"{wildcards.word}: no target; expected {near}: `snakemake --cores 1 help` lists all")


def shown(exhibits, *names):
    """Yield the files of groups of figures and tables, or of all groups; Snakemake's report shows PNGs with captions."""
    for group in (exhibits.groups[name] for name in names or exhibits.groups):
        for figure in group.figures:
            labels = {"figure": figure.name, "caption": figure.caption}
            png, pdf = (f"{exhibits.folder}/{file}" for file in figure.files)
            yield from (report(png, category=group.title, labels=labels), pdf)
        yield from (f"{exhibits.folder}/{file}" for table in group.tables for file in table.files)


def part(group):
    """An input function: the settings, and the figures and tables for readers of one group, which has to have some."""

    def files(wildcards):
        if group not in REPRODUCTION.exhibits.groups:
            raise ValueError(f"{group}: nothing to do; expected an entry of `{group}` that is not null")
        shown = REPRODUCTION.exhibits.groups[group].files
        return [f"{FOLDER}/settings.json", *(f"{FOLDER}/{file}" for file in shown)]

    return or_end(files)


def doubling(first):
    """A function for `resources`: `first`, such as a job's memory in MB or its minutes, doubled at each retry."""
    return lambda wildcards, attempt: first * 2 ** (attempt - 1)


def doubling_minutes(batches):
    """A function for `resources`: the minutes of the batch that the job trains, doubled at each retry."""
    return lambda wildcards, attempt: batches[wildcards.batch].minutes * 2 ** (attempt - 1)


wildcard_constraints:
    name="|".join(EXHIBITS),
    batch=r"[a-z][a-z0-9_]*/.+",
    seed=r"\d+",


onsuccess:
    for line in REPRODUCTION.exhibits.ending():
        print(line, file=sys.stderr)
