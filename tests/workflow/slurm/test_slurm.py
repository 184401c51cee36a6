"""The smoke reproduction, with fewer trainings, on a real SLURM of one node, through profiles/slurm as it is; parts of
it again through profiles/cluster-generic. What SLURM recorded is compared with what the rules ask for."""

import re
from collections import Counter
from types import SimpleNamespace

import one_node
import pytest
from checkouts import SMOKE
from submitting import on_slurm, through_cluster_generic

CANCELLED = "rule_text_wildcards_words"
REPEATED = "majority/d3/none/d_model_3/base_learning_rate_0.001/seed_0"
# The devices are fake, so the models train on the CPU; SLURM is asked for a GPU all the same, as with device: cuda.
GPU_ON_PAPER = [
    "--config",
    "device=cpu",
    "--set-resources",
    "majority_train:gpu=1",
    "language_model_train:gpu=1",
]

pytestmark = pytest.mark.long

RUNS = {
    "majority": {"d8": ("layernorm",), "d3": ("layernorm", "none"), "d8_uniform": ("layernorm",)},
    "language_model": {"gpt": ("layernorm", "projection"), "bert": ()},
}
GPT = "runs/language_model/gpt/{}/base_learning_rate_0.01/steps_20/seed_0/weights.safetensors"
FILES = ["parquet/geometry.parquet", *map(GPT.format, RUNS["language_model"]["gpt"])]
TARGETS = ["majority", "random_keys", *(f"results/tiny/{file}" for file in FILES)]


def few_runs():
    """The smoke preset with one seed of some variants, and one training in a job."""
    settings = SMOKE | {"name": "tiny", "first_seed": 0}
    for part, kept in RUNS.items():
        settings[part] = {"only": [*kept]} | {
            group: SMOKE[part][group] | {"runs_per_job": 1} for group in kept
        }
        for group, variants in kept.items():
            seeds = {variant: int(variant in variants) for variant in SMOKE[part][group]["seeds"]}
            settings[part][group]["seeds"] = seeds
    return settings


def cancel_first(comment):
    """Cancels the running job with this comment, if there is one."""
    for job in one_node.jobs():
        if job.get("Comment") == comment and job["JobState"] == "RUNNING":
            one_node.cancel(job["JobId"])
            return True
    return False


@pytest.fixture(scope="module")
def ran(checkout):
    """Runs everything, stops SLURM, and keeps what the tests compare."""
    if why := one_node.missing():
        pytest.skip(why)
    made, cancelled = checkout(few_runs()), False
    results = made.folder / "results/tiny"
    facts = SimpleNamespace(checkout=made, results=results, repeated=results / "runs" / REPEATED)
    with one_node.running():
        with on_slurm(made, *TARGETS, *GPU_ON_PAPER) as run:
            while run.running():
                cancelled = cancelled or cancel_first(CANCELLED)
            facts.output = run.finish()
        facts.jobs = {job["JobId"]: job for job in one_node.jobs()}
        facts.seen = what_the_jobs_saw(results)
        with on_slurm(made, *TARGETS, *GPU_ON_PAPER, "--dry-run") as run:
            facts.again = run.finish()
        facts.bytes = contents(facts.repeated)
        again_through_cluster_generic(facts)
        facts.generic_bytes = contents(facts.repeated)
        facts.generic_jobs = [job for job in one_node.jobs() if job["JobId"] not in facts.jobs]
        facts.generic_seen = what_the_jobs_saw(results)
    return facts


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def again_through_cluster_generic(facts):
    """One training job again, and one job whose first request for memory is too small."""
    geometry = facts.results / "parquet/geometry.parquet"
    for path in (*(facts.repeated / name for name in facts.bytes), geometry):
        path.unlink()
    targets = [f"results/tiny/runs/{REPEATED}/weights.safetensors", "results/tiny/parquet/geometry.parquet"]
    little = "geometry:mem_mb=50 * 6 ** (attempt - 1)"
    with through_cluster_generic(facts.checkout, *targets, *GPU_ON_PAPER, little) as run:
        run.finish()


def what_the_jobs_saw(results):
    """From the logs, which the jobs themselves write: (SLURM job, CUDA_VISIBLE_DEVICES) of each, by log file."""
    seen = {}
    for path in {*(results / "logs").rglob("*.log")} - {results / "logs/settings.log"}:  # a local rule
        found = re.search(r"SLURM job (\d+) on \S+, GPUs (\S+)", path.read_text())
        seen[str(path.relative_to(results / "logs").with_suffix(""))] = found.groups() if found else None
    return seen


def asked(job):
    """CPUs, memory (MB), GPUs and minutes that SLURM gave a job."""
    tres = dict(part.split("=") for part in job["TRES"].split(","))
    hours, minutes, _ = map(int, job["TimeLimit"].split(":"))
    gpus = int(job.get("TresPerJob", "gres:gpu:0").removeprefix("gres:gpu:"))
    megabytes = float(tres["mem"][:-1]) * {"M": 1, "G": 1024}[tres["mem"][-1]]
    return int(tres["cpu"]), megabytes, gpus, 60 * hours + minutes


def submissions(ran, rule):
    """SLURM's records of the completed jobs in which a rule ran, and how often it did there."""
    count = Counter(saw[0] for log, saw in ran.seen.items() if log.split("/")[0] == rule)
    return [(ran.jobs[job], times) for job, times in count.items()]


def test_every_job_ran_in_slurm_and_the_results_are_complete(ran):
    """Those on a GPU saw a device, and no other did."""
    assert "Nothing to be done" in ran.again
    drawn = {path.name for path in (ran.results / "figures").glob("*.pdf")}
    assert {"figure_2a.pdf", "figure_1c.pdf"} <= drawn and len(ran.seen) == 16
    for log, saw in ran.seen.items():
        assert saw, f"{log} names no SLURM job"
        assert ran.jobs[saw[0]]["JobState"] == "COMPLETED", log
        on_gpu = log.split("/")[0] in ("majority", "language_model")
        assert saw[1] in (("0", "1") if on_gpu else ("none",)), log


def test_a_job_alone_was_given_what_its_rule_asks_for(ran):
    found = [job for job, _ in submissions(ran, "random_keys") if job["Comment"] != CANCELLED]
    assert found and all((job["Partition"], *asked(job)) == ("cpu", 1, 1500, 0, 15) for job in found), found


@pytest.mark.parametrize(("rule", "number"), [("majority", 4), ("language_model", 2)])
def test_each_training_is_a_submission_with_a_gpu(ran, rule, number):
    found = submissions(ran, rule)
    assert len(found) == number
    assert all((times, job["Partition"], *asked(job)) == (1, "gpu", 1, 1500, 1, 6) for job, times in found)


@pytest.mark.parametrize(
    ("rule", "number", "memory", "minutes"),
    [("majority_data", 3, 2000, 2 * 5), ("tables", 2, 3000, 5), ("draw", 2, 4000, 10)],
)
def test_small_jobs_share_a_submission_two_side_by_side(ran, rule, number, memory, minutes):
    ((job, times),) = submissions(ran, rule)
    assert times == number and asked(job) == (2, memory, 0, minutes)


def test_a_cancelled_job_is_named_with_its_log_and_submitted_again_with_twice_the_memory(ran):
    named = r"FAILED +text/words\n.*'CANCELLED'.*(?:\n.*)*?its log: (\S+/slurm_logs/\S+)"
    (log,) = re.findall(named, ran.output)
    assert (ran.checkout.folder / log).is_file()
    jobs = [job for job in ran.jobs.values() if job["Comment"] == CANCELLED]
    assert [(job["JobState"], asked(job)[1]) for job in jobs] == [("CANCELLED", 1500), ("COMPLETED", 3000)]
    assert sum(job["JobState"] != "COMPLETED" for job in ran.jobs.values()) == 1


def test_the_generic_template_runs_jobs_and_sees_them_fail(ran):
    """A job killed for its memory is submitted again with more, until it fits."""
    memory = {}
    for job in ran.generic_jobs:
        memory.setdefault(asked(job)[2], []).append((asked(job)[1], job["JobState"]))
    assert memory[1] == [(1500, "COMPLETED")]
    assert memory[0][0] == (50, "FAILED") and memory[0][-1][1] == "COMPLETED"
    assert ran.generic_seen[REPEATED][1] in ("0", "1")


def test_a_run_has_the_same_bytes_wherever_it_was_made(ran):
    assert ran.generic_bytes == ran.bytes
    for name in ran.bytes:
        (ran.repeated / name).unlink()
    ran.checkout.run(f"results/tiny/runs/{REPEATED}/weights.safetensors")
    assert contents(ran.repeated) == ran.bytes
