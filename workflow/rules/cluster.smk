# What Snakemake's executors need, which run the jobs here or submit them to a cluster. Included after all rules.
import subprocess

# Only jobs that are submitted are put into groups; but a dry run would form those of jobs that run here as well.
if IS_MAIN and not PLAN.elsewhere:
    for RULE in workflow.rules:
        RULE.group = None


def prepare_executor():
    """Before the first job: set what an executor does not do by itself, and refuse a SLURM that cannot run the jobs."""
    if workflow.local_exec:
        # Snakemake's limit of jobs a second leaves a timer behind every finished job; each wakes the scheduler once a
        # second for the rest of the run, a tenth of a core after a hundred jobs. Only clusters need the limit. The
        # attribute is not public: pyproject.toml pins Snakemake's major version, and a test looks for it.
        workflow.scheduler.job_rate_limiter = None
    elif workflow.executor_plugin.name == "slurm":
        refuse_partitions()
        keep_jobs_without_answer()


def refuse_partitions():
    """End the workflow if partitions of the profile are not the cluster's, or if jobs fit into none of them."""
    if file := workflow.executor_settings.partition_config:
        partitions = sys.modules["snakemake_executor_plugin_slurm"].read_partition_file(file)
        sinfo = subprocess.run(["sinfo", "--noheader", "--format=%R"], text=True, capture_output=True)
        there = None if sinfo.returncode else sinfo.stdout.split()
        jobs = [job for job in workflow.dag.needrun_jobs() if not job.rule.norun and not job.is_local]
        alone = {job.rule.name for job in jobs if all(p.score_job_fit(job) is None for p in partitions)}
        if fault := planning.partition_fault(file, [p.name for p in partitions], there, alone):
            sys.exit(f"\nerror: {fault}\n")


def keep_jobs_without_answer():
    """While SLURM does not say how its jobs are, take them to go on; and take jobs that stay preempted as cancelled.

    Its plugin forgets all jobs after some questions without an answer, and Snakemake waits for them for ever, as it does
    for a job that was preempted. The function is not public: the test of a controller that is away looks for it.
    """
    plugin = sys.modules["snakemake_executor_plugin_slurm"]
    ask = plugin.query_job_status
    preempted = set()

    async def ask_and_keep(command, plugin_logger):
        states, seconds = await ask(command, plugin_logger)
        if states is None:
            logger.warning("SLURM does not answer how the jobs are; they go on, and it is asked again.")
            return {}, 0.0
        ended = planning.ended_by_preemption(states, preempted)
        preempted.update(job for job, state in states.items() if state == "PREEMPTED")
        preempted.difference_update(job for job, state in states.items() if state != "PREEMPTED")
        return ended, seconds

    plugin.query_job_status = ask_and_keep
