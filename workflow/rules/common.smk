# Shared by all stages: the checked settings, the plan made of them, and the versions of the code behind a result.
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.iocontainers import InputFiles, OutputFiles
from snakemake.persistence import RECORD_FORMAT_VERSION, MetadataRecord
from snakemake.persistence.file import FilePersistence

import layernorm_roles

# The folder workflow/ of this repository. It is not below the working directory with `snakemake -s .../Snakefile
# -d elsewhere`, or when another workflow uses this one as a module.
WORKFLOW = Path(str(workflow.current_basedir)).parent
SOURCE = Path(layernorm_roles.__file__).parent


def modules(package):
    """The Python files of a package, by their path in its folder."""
    return {file.relative_to(package): file.read_bytes() for file in package.rglob("*.py")}


# In an environment in which another clone is installed, that clone's code would run, unseen.
CLONE = WORKFLOW.parent / "src/layernorm_roles"
if CLONE.is_dir() and not CLONE.samefile(SOURCE) and modules(CLONE) != modules(SOURCE):
    sys.exit(
        f"\nerror: the code in {CLONE} would not run, but that in {SOURCE}; "
        f"in an environment of its own: pip install -c constraints.txt -e {WORKFLOW.parent}\n"
    )

from layernorm_roles import ending, made_from, planning, provenance, shown
from layernorm_roles.gpu.choice import hand_down
from layernorm_roles.job import search_garbage_rarely

# As in jobs: a quarter of a dry run was the search for garbage in the graph of jobs, where there is none.
search_garbage_rarely()

# As a module of another workflow this one leaves alone that workflow's rules and files of --configfile.
IS_MAIN = Path(workflow.main_snakefile).parent == WORKFLOW.parent
OVERLAYS = workflow.config_settings.configfiles if IS_MAIN else []

# Whether jobs are submitted to other machines. Snakemake does not say yet which executor will run them, but only one that
# submits has a number of nodes; or a dry run with --jobs alone, to which Snakemake gives one core.
RESOURCES = workflow.resource_settings
SUBMITTED = RESOURCES.nodes is not None and not (workflow.output_settings.dryrun and RESOURCES.cores == 1)

# `--config against=NAME` says for the target compare what to compare with; it is no setting of a reproduction.
AGAINST = workflow.config_settings.config.get("against")
SET = {key: value for key, value in config.items() if AGAINST is None or key != "against"}

try:
    PLAN = planning.Plan(
        planning.configured(WORKFLOW.parent / "config.yaml", SET, OVERLAYS),
        elsewhere=workflow.remote_exec or SUBMITTED,
    )
    planning.refuse_read_only(PLAN.folder, WORKFLOW.parent / "Snakefile")
    PLAN.refuse_without_gpu()
    OTHER = None if AGAINST is None else planning.other(AGAINST, PLAN.settings.name)
    KEPT = planning.KeptReproduction(f"results/{planning.KEPT}")
    KEPT.plain  # a damaged file is named here, as a wrong setting is
except ValueError as fault:
    sys.exit(f"\nerror: {fault}\n")

RUN = PLAN.folder
PLAIN = PLAN.plain

# The benchmark files of all jobs that compute a result, from which the durations are tabulated.
BENCHMARKS = []

# The Parquet tables that are put together from those of runs, by name.
COLLECTED = {}

for CHOICE in PLAN.devices.values():
    hand_down(CHOICE)

provenance.remember(".snakemake/layernorm_roles.json")


def remind():
    """Give Snakemake what the notes in the reproductions say of their files, whatever it knows or has forgotten.

    It then compares parameters, and the content of inputs whose times say that they are newer, by itself. Snakemake has
    no public way to be told so; if its records change, tests/attacks/test_made_from.py sees old results pass as new.
    """
    persistence = FilePersistence()
    for folder in (RUN, KEPT.folder):
        for file, facts in made_from.records(folder, complete=folder == RUN):
            record = persistence._read_record(file)
            if record is None or any(record[key] != value for key, value in facts.items()):
                written = Path(file).stat().st_mtime if Path(file).exists() else None
                record = record or MetadataRecord(starttime=written, endtime=written)
                for key, value in facts.items():
                    setattr(record, key, value)
                record.record_format_version = RECORD_FORMAT_VERSION
                persistence._write_record(file, record)


if workflow.is_main_process:
    remind()


def outdated():
    """The files of this reproduction that were made with other settings or code than it has now."""
    for note in made_from.read(RUN):
        try:
            made_by = workflow.get_rule(note.rule)
            now = made_by.expand_params(note.wildcards, InputFiles(), OutputFiles(), None)[1]
        except (WorkflowError, LookupError):
            continue  # of an experiment or model that the configuration no longer has
        if made_from.serialised(now) != note.params:
            yield from note.output


@cache
def code(script, *modules):
    """A hash of the code that a script in workflow/scripts/ reaches by its imports, and of that of `modules`.

    `modules` are paths below src/layernorm_roles of modules that the script imports only by a name made at run time.
    """
    return provenance.code_version(WORKFLOW / "scripts" / script, *(SOURCE / module for module in modules))


def or_end(find):
    """The input function `find`, whose ValueError ends the workflow with one line instead of Snakemake's many."""

    def found(wildcards):
        try:
            return find(wildcards)
        except ValueError as fault:
            sys.exit(f"\nerror: {fault}\n")

    return found


def doubling(first):
    """A function that gives Snakemake what a job asks of a cluster, memory in MB or minutes; each retry asks for twice."""
    return lambda wildcards, attempt: first * 2 ** (attempt - 1)


def asking(memory, minutes):
    """The memory in MB and the minutes that a job asks of a cluster at first, as resources of its rule."""
    return {"mem_mb": doubling(memory), "runtime": doubling(minutes)}


def of_runs(jobs):
    """The parameters of every rule for runs, whose `jobs` are those of the rule."""
    return {
        "settings": jobs.settings,
        "runs": jobs.named,
        "norms": jobs.norms,
        "norm_code": jobs.norm_code,
    }


def drawn(folder, room):
    """The files of a room as outputs of a rule; `snakemake --report` shows each PNG with its caption."""
    captions = {f"{folder}/figures/{name}.png": (name, figure) for name, figure in room.figures.items()}
    for file in room.files(folder):
        if file in captions:
            name, figure = captions[file]
            labels = {"figure": name, "caption": figure.caption}
            file = report(file, category=figure.category, labels=labels)
        yield file


def compared(wildcards):
    """The files of the comparison that is asked for; ends the workflow if nobody says with what."""
    if OTHER:
        return rules.comparison.output
    sys.exit("\nerror: compare: with what? snakemake --cores all compare --config against=published\n")


wildcard_constraints:
    experiment=r"[a-z][a-z0-9_]*",
    variant=r"[a-z][a-z0-9_]*",
    seed=r"\d+",


onstart:
    if not Path(
        f"{RUN}/parquet"
    ).exists():  # then the record stays, and claims import pandas, which no plan needs
        from layernorm_roles.evidence import claims

        claims.record(Path(RUN) / "rules.json", PLAIN)
    for line in PLAN.devices_in_words(
        (job.rule.name, job.wildcards_dict) for job in workflow.dag.needrun_jobs()
    ):
        logger.info(line)
    prepare_executor()


onsuccess:
    asked = [
        file for job in workflow.dag.targetjobs for file in (job.input if job.rule.norun else job.output)
    ]
    for line in ending.results(asked, (RUN, KEPT.folder)):
        logger.info(line)


onerror:
    failed = [job for jobs in workflow.scheduler.failed for job in (jobs if jobs.is_group() else [jobs])]
    for line in ending.failure([log for job in failed for log in job.log or [job.rule.name]]):
        logger.error(line)
