# Shared by all stages: the checked settings, the plan made of them, and the versions of the code behind a result.
import gc
import sys
from functools import cache
from pathlib import Path

from snakemake.logging import get_event, logger
from snakemake_interface_logger_plugins.common import LogEvent

from layernorm_roles import ending, planning, provenance
from layernorm_roles.evidence.figures import registry as figures_registry
from layernorm_roles.evidence.tables import registry as tables_registry
from layernorm_roles.gpu import driver
from layernorm_roles.gpu.choice import hand_down
from layernorm_roles.job import OBJECTS

# As in jobs: a quarter of a dry run was the search for garbage among the syntax trees and the graph, where there is none.
gc.set_threshold(OBJECTS)

# The folder workflow/ of this repository. It is not below the working directory with `snakemake -s .../Snakefile
# -d elsewhere`, or when another workflow uses this one as a module.
WORKFLOW = Path(str(workflow.current_basedir)).parent
SOURCE = Path(planning.__file__).parent

# The files of --configfile. As a module of another workflow this one does not judge that workflow's files.
OVERLAYS = (
    workflow.config_settings.configfiles if Path(workflow.main_snakefile).parent == WORKFLOW.parent else []
)

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
    OTHER = None if AGAINST is None else planning.other(AGAINST, PLAN.settings.name)
    KEPT = planning.KeptReproduction(f"results/{planning.KEPT}")
    KEPT.plain  # a damaged file is named here, as a wrong setting is
except ValueError as fault:
    sys.exit(f"\nerror: {fault}\n")

RUN = PLAN.folder
PLAIN = PLAN.plain


@cache
def code(script, *modules):
    """A hash of the code that a script in workflow/scripts/ reaches by its imports, and of that of `modules`.

    `modules` are paths below src/layernorm_roles of modules that the script imports only by a name made at run time.
    """
    return provenance.code_version(WORKFLOW / "scripts" / script, *(SOURCE / module for module in modules))


def doubling(first):
    """A function that gives Snakemake what a job asks of a cluster, memory in MB or minutes; each retry asks for twice."""
    return lambda wildcards, attempt: first * 2 ** (attempt - 1)


def benchmark_files(rule, runs=()):
    """The paths of the benchmark files of a rule: one for each of `runs`, or a single one without runs."""
    names = [f"{rule}/{run}" for run in runs] if runs else [rule]
    return [f"{RUN}/benchmarks/{name}.tsv" for name in names]


def parquet(folder, tables):
    """The Parquet files of tables in the folder of a reproduction, by the name of the table."""
    return {table: f"{folder}/parquet/{table}.parquet" for table in tables}


def figure_files(folder, names):
    """The PNG and PDF files of the figures called `names`, in the folder of a reproduction."""
    return expand(f"{folder}/figures/{{name}}.{{kind}}", name=names, kind=["png", "pdf"])


def drawn(folder, figures):
    """The files of figures as outputs of a rule, PNG and PDF in turn; `snakemake --report` shows the PNG and its caption."""
    files = []
    for name, figure in figures.items():
        png, pdf = figure_files(folder, [name])
        labels = {"figure": name, "caption": figure.caption}
        files += [report(png, category=figure.category, labels=labels), pdf]
    return files


def by_module(entries):
    """The entries of a registry of figures or tables, grouped by the module that makes them."""
    modules = {entry.module: {} for entry in entries.values()}
    for name, entry in entries.items():
        modules[entry.module][name] = entry
    return modules


def readable(folder, tables):
    """The files of readable tables: CSV for programs and Markdown for readers."""
    return [f"{folder}/tables/{file}" for table in tables.values() for file in tables_registry.files(table)]


def of_category(category):
    """The PNG and PDF files of this reproduction's figures of one category."""
    return figure_files(RUN, [name for name, figure in PLAN.figures().items() if figure.category == category])


def of_module(*modules):
    """The files of this reproduction's readable tables that `modules` of evidence/tables make."""
    tables = tables_registry.made_from(RESULT_TABLES)
    return readable(RUN, {name: table for name, table in tables.items() if table.module in modules})


def downloaded(sources):
    """The files to which those of `sources` that are of kind hub are downloaded."""
    return [f"{DOWNLOADS}/{source.file_name}" for source in sources if source.kind == "hub"]


def text_files(text, *names):
    """The files `names` of a text, as rule `text` names its outputs, by name."""
    return {name: rules.text.output.get(name).format(text=text) for name in names}


def compared(wildcards):
    """The files of the comparison that is asked for; ends the workflow if nobody says with what."""
    if OTHER:
        return rules.comparison.output
    sys.exit("\nerror: compare: with what? snakemake --cores all compare --config against=published\n")


def text_of_model(*names):
    """A function that gives Snakemake the files `names` of the text of the model that a rule's wildcards name."""
    return lambda wildcards: text_files(PLAN.text_of(wildcards.model), *names)


def text_of_pretrained(wildcards):
    """The held-out contexts that a pretrained model reads, the tokenizer that decodes them, and their text's manifest."""
    return text_files(PLAIN["pretrained"][wildcards.pretrained]["text"], "tokenizer", "contexts", "manifest")


# The benchmark files of all jobs that compute a result, from which the durations are tabulated.
BENCHMARKS = []


wildcard_constraints:
    experiment=r"[a-z][a-z0-9_]*",
    variant=r"[a-z][a-z0-9_]*",
    seed=r"\d+",


DEVICE_KEYS = {"majority": "majority_device", "language_model": "device"}


def check_devices():
    """Say on which device the training jobs that are due will run, and why; end the workflow if they cannot."""
    due = {job.rule.name for job in workflow.dag.needrun_jobs() if not job.rule.is_checkpoint}
    stages = [stage for stage in PLAN.devices if any(name.startswith(f"{stage}_train") for name in due)]
    for stage in stages:
        choice = PLAN.devices[stage]
        said = f"auto, which means {choice.device}: {choice.why}" if choice.why else choice.device
        logger.info(f"{DEVICE_KEYS[stage]} = {said}")
    keys = [DEVICE_KEYS[stage] for stage in stages if PLAN.device(stage) == "cuda"]
    if keys and not PLAN.elsewhere and not workflow.touch:
        try:
            driver.usable_cards()
        except driver.NoGPU as fault:
            sys.exit(
                f"\nerror: {', '.join(f'{key} = cuda' for key in keys)}: {fault}\n    To train on the CPU: --config "
                f"{' '.join(f'{key}=cpu' for key in keys)}; to send jobs to a cluster: --workflow-profile slurm\n"
            )


def check_when_planned(record):
    """Check the devices when `record`, of Snakemake's log, says how many jobs are due; no record is left out of the log.

    That is before the first job, also in a dry run, which has no onstart, and outside of all functions of rules, whose
    faults Snakemake shows with a traceback.
    """
    if get_event(record) == LogEvent.RUN_INFO:
        logger.removeFilter(check_when_planned)
        check_devices()
    return True


def say_why(record):
    """Before Snakemake's error about a failed job of a cluster, `record`, the reason that the job's logs give."""
    if get_event(record) in (LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR):
        logs = [*(getattr(record, "log", None) or []), *(getattr(record, "aux_logs", None) or [])]
        for reason in ending.reasons(logs):
            logger.error(reason)
    return True


def keep_jobs_without_answer():
    """While SLURM does not say how its jobs are, take them to go on.

    Its plugin forgets all jobs after some questions without an answer, and Snakemake waits for them for ever. The
    function is not public: the test of a controller that is away looks for it.
    """
    plugin = sys.modules["snakemake_executor_plugin_slurm"]
    ask = plugin.query_job_status

    async def ask_and_keep(command, plugin_logger):
        states, seconds = await ask(command, plugin_logger)
        if states is None:
            logger.warning("SLURM does not answer how the jobs are; they go on, and it is asked again.")
            return {}, 0.0
        return states, seconds

    plugin.query_job_status = ask_and_keep


def announce_results():
    """Say where the files are that were asked for; of a report also how many verdicts of each word it has."""
    asked = set()
    for job in workflow.dag.targetjobs:
        asked.update(job.input if job.rule.norun else job.output)
    for folder in (RUN, KEPT.folder):
        if f"{folder}/report.html" in asked:
            logger.info(f"{folder}: {ending.verdicts(folder)}")
    if pages := sorted(file for file in asked if file.endswith(".html")):
        places = [f"The report: {page}" for page in pages]
    else:
        places = [f"Made: {folder}/" for folder in sorted({str(Path(file).parent) for file in asked})]
    for place in places:
        logger.info(place)


def name_failed_jobs():
    """Say which jobs failed, by their logs."""
    failed = [job for jobs in workflow.scheduler.failed for job in (jobs if jobs.is_group() else [jobs])]
    for line in ending.failure([log for job in failed for log in job.log or [job.rule.name]]):
        logger.error(line)


for CHOICE in PLAN.devices.values():
    hand_down(CHOICE)


logger.addFilter(check_when_planned)
logger.addFilter(say_why)


onstart:
    # Snakemake's limit of jobs a second leaves a timer behind every finished job; each wakes the scheduler once a
    # second for the rest of the run, a tenth of a core after a hundred jobs. Only clusters need the limit. The
    # attribute is not public: pyproject.toml pins Snakemake's major version, and a test looks for it.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None
    elif workflow.executor_plugin.name == "slurm":
        keep_jobs_without_answer()


onsuccess:
    announce_results()


onerror:
    name_failed_jobs()
