"""The smoke reproduction, with fewer trainings, on a real SLURM of one node, through profiles/slurm as it is; parts of
it again through profiles/cluster-generic. What SLURM recorded is compared with what the rules ask for."""

import re
import signal
import subprocess
import time
from collections import Counter
from types import SimpleNamespace

import one_node
import pytest
from checkouts import SMOKE, command

CANCELLED = "rule_text_wildcards_words"
REPEATED = "majority_train/d3/none/d_model_3/base_learning_rate_0.001/seed_0"
# The devices are fake, so the models train on the CPU; SLURM is asked for a GPU all the same, as with device: cuda.
GPU_ON_PAPER = ["--config", "device=cpu"]
GPU_ON_PAPER += ["--set-resources", "majority_train:gpu=1", "language_model_train:gpu=1"]

SECONDS = 480
COMMON = ["--cores", "2", "--latency-wait", "20", "--workflow-profile"]
# There is no slurmdbd.
SLURM = ["slurm", "--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2"]
GENERIC = ["cluster-generic", "--seconds-between-status-checks", "1"]

pytestmark = pytest.mark.long

RUNS = {
    "majority": {"d8": ("layernorm",), "d3": ("layernorm", "none"), "d8_uniform": ("layernorm",)},
    "language_model": {"gpt": ("layernorm", "projection"), "bert": ()},
}
FILES = ["parquet/geometry.parquet"]
FILES += [
    f"runs/language_model_train/gpt/{variant}/base_learning_rate_0.01/steps_20/query_key_rate_1.0/seed_0/weights.safetensors"
    for variant in RUNS["language_model"]["gpt"]
]
TARGETS = ["majority", "random_keys", *(f"results/tiny/{file}" for file in FILES)]


def few_runs():
    """The smoke preset with one seed of some variants, and one training in a job."""
    settings = SMOKE | {"name": "tiny", "first_seed": 0}
    for part, kept in RUNS.items():
        settings[part] = {"only": [*kept]}
        for group, variants in kept.items():
            seeds = {variant: int(variant in variants) for variant in SMOKE[part][group]["seeds"]}
            settings[part][group] = SMOKE[part][group] | {"runs_per_job": 1, "seeds": seeds}
    return settings


def cancel_first():
    """The first job that makes the text, when it runs."""
    found = [job for job in one_node.jobs() if job.get("Comment") == CANCELLED]
    if len(found) == 1 and found[0]["JobState"] == "RUNNING":
        one_node.cancel(found[0]["JobId"])


def submit(checkout, profile, *arguments, watch=lambda: None):
    """What a user's command with a profile prints, with shorter waits; while it runs, `watch` is called."""
    output = checkout.folder / "snakemake.out"
    with output.open("w") as out:
        own = {"cwd": checkout.folder, "env": checkout.environment()}
        process = subprocess.Popen(command(*arguments, *COMMON, *profile), stdout=out, stderr=out, **own)
    end = time.monotonic() + SECONDS
    try:
        while process.poll() is None:
            assert time.monotonic() < end, f"not done in {SECONDS} s:\n{output.read_text()[-4000:]}"
            time.sleep(0.3)
            watch()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)  # it cancels its jobs
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    text = output.read_text(errors="replace")
    assert process.returncode == 0, text[-6000:]
    return text


@pytest.fixture(scope="module")
def ran(checkout):
    if why := one_node.missing():
        pytest.skip(why)
    made = checkout(few_runs())
    results = made.folder / "results/tiny"
    facts = SimpleNamespace(checkout=made, results=results)
    with one_node.running():
        facts.output = submit(made, SLURM, *TARGETS, *GPU_ON_PAPER, watch=cancel_first)
        facts.jobs = {job["JobId"]: job for job in one_node.jobs()}
        facts.seen = what_the_jobs_saw(results)
        facts.again = submit(made, SLURM, *TARGETS, *GPU_ON_PAPER, "--dry-run")
        facts.bytes = outputs(results)
        again_through_cluster_generic(made, results)
        facts.generic_bytes = outputs(results)
        facts.generic_jobs = [job for job in one_node.jobs() if job["JobId"] not in facts.jobs]
        facts.generic_seen = what_the_jobs_saw(results)
    return facts


def outputs(results):
    """The files of the run that is repeated, with what they hold."""
    return {path: path.read_bytes() for path in (results / "runs" / REPEATED).iterdir() if path.is_file()}


def again_through_cluster_generic(checkout, results):
    """One training job again, and one job whose first request for memory is too small."""
    for path in (*outputs(results), results / "parquet/geometry.parquet"):
        path.unlink()
    targets = [f"results/tiny/runs/{REPEATED}/weights.safetensors", "results/tiny/parquet/geometry.parquet"]
    little = "geometry:mem_mb=50 * 6 ** (attempt - 1)"
    submit(checkout, GENERIC, *targets, *GPU_ON_PAPER, little)


def what_the_jobs_saw(results):
    """From the logs, which the jobs themselves write: (SLURM job, CUDA_VISIBLE_DEVICES) of each, by log file."""
    seen = {}
    for path in {*(results / "logs").rglob("*.log")} - {results / "logs/settings.log"}:  # a local rule
        found = re.search(r"SLURM job (\d+) on \S+, GPUs (\S+)", path.read_text())
        seen[str(path.relative_to(results / "logs").with_suffix(""))] = found.groups() if found else None
    return seen


def asked(job):
    tres = dict(part.split("=") for part in job["TRES"].split(","))
    hours, minutes, _ = map(int, job["TimeLimit"].split(":"))
    gpus = int(job.get("TresPerJob", "gres:gpu:0").removeprefix("gres:gpu:"))
    memory = tres["mem"]
    megabytes = float(memory[:-1]) * {"M": 1, "G": 1024}[memory[-1]]
    return int(tres["cpu"]), megabytes, gpus, 60 * hours + minutes


def submissions(ran, rule):
    """SLURM's records of the completed jobs in which a rule ran, how often it did there, and the factor of a retry: a
    busy node may fail to take a submission, and each retry asks for twice as much."""
    logs = [log for log in ran.seen if log.split("/")[0] == rule]
    retried = {ran.seen[log][0]: 2 ** len(re.findall(rf"FAILED +{log}\n", ran.output)) for log in logs}
    count = Counter(ran.seen[log][0] for log in logs)
    return [(ran.jobs[job], times, retried[job]) for job, times in count.items()]


def test_every_job_ran_in_slurm_and_the_results_are_complete(ran):
    assert "Nothing to be done" in ran.again
    drawn = {path.name for path in (ran.results / "figures").glob("*.pdf")}
    assert {"figure_2a.pdf", "figure_1c.pdf"} <= drawn
    assert len(ran.seen) == 16
    for log, saw in ran.seen.items():
        assert saw and ran.jobs[saw[0]]["JobState"] == "COMPLETED", log


@pytest.mark.parametrize(
    ("rule", "submitted", "together", "cpus", "memory", "gpus", "minutes"),
    [
        ("random_keys_measure", 1, 1, 1, 1500, 0, 15),
        ("majority_train", 4, 1, 1, 1500, 1, 6),
        ("language_model_train", 2, 1, 1, 1500, 1, 6),
        # Small jobs share a submission, two side by side.
        ("majority_data", 1, 3, 2, 3000, 0, 2 * 10),
        ("tables", 1, 2, 2, 3000, 0, 10),
        ("draw", 1, 2, 2, 4000, 0, 10),
    ],
)
def test_jobs_got_what_their_rule_asks_for(ran, rule, submitted, together, cpus, memory, gpus, minutes):
    found = submissions(ran, rule)
    assert len(found) == submitted
    for job, times, factor in found:
        assert (times, *asked(job)) == (together, cpus, factor * memory, gpus, factor * minutes), job
        assert times > 1 or job["Partition"] == ("gpu" if gpus else "cpu")


def test_gpu_jobs_saw_a_device_and_no_other_job_did(ran):
    for log, (_, devices) in ran.seen.items():
        on_gpu = log.split("/")[0] in ("majority_train", "language_model_train")
        assert devices in (("0", "1") if on_gpu else ("none",)), log


def test_a_cancelled_job_is_named_with_its_log_and_submitted_again_with_twice_the_memory(ran):
    (log,) = re.findall(
        r"FAILED +text/words\n.*'CANCELLED'.*(?:\n.*)*?its log: (\S+/slurm_logs/\S+)", ran.output
    )
    assert (ran.checkout.folder / log).is_file()
    first, second = (job for job in ran.jobs.values() if job["Comment"] == CANCELLED)
    assert (first["JobState"], second["JobState"]) == ("CANCELLED", "COMPLETED")
    assert (asked(first)[1], asked(second)[1]) == (1500, 3000)
    assert sum(job["JobState"] != "COMPLETED" for job in ran.jobs.values()) == 1


def test_the_generic_template_runs_jobs_and_sees_them_fail(ran):
    """A job killed for its memory is submitted again with more, until it fits."""
    memory = {}
    for job in ran.generic_jobs:
        memory.setdefault(asked(job)[2], []).append((asked(job)[1], job["JobState"]))
    assert memory[1] == [(1500, "COMPLETED")]
    assert memory[0][0] == (50, "FAILED")
    assert memory[0][-1][1] == "COMPLETED"
    assert ran.generic_seen[REPEATED][1] in ("0", "1")


def test_a_run_has_the_same_bytes_wherever_it_was_made(ran):
    for path in ran.bytes:
        path.unlink()
    ran.checkout.run(f"results/tiny/runs/{REPEATED}/weights.safetensors")
    assert outputs(ran.results) == ran.generic_bytes == ran.bytes
