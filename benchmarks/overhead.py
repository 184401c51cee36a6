"""Many short training runs: what starting processes and Snakemake's own work add to the training itself.

    python benchmarks/overhead.py [--runs 200] [--steps 1000] [--runs-per-job 1 34] [--cores 2]

Trains `runs` tiny majority models through the workflow, data made beforehand, for each number of seeds that share a
process. `work` is the time the same runs take one after another in one process that has imported everything, and
`in jobs` the time of the jobs themselves, imports and all, both divided by the cores. What the workflow's wall time
adds to them is the overhead.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch
import yaml

from layernorm_roles.majority.train import train_batch
from layernorm_roles.plan import Plan

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = ("layernorm", "scale_released", "scale", "none", "projection", "layernorm_small")
RESULTS = Path("results/overhead")
SAMPLE = 20
"""Runs, at least, by which the time of all is estimated."""


def configuration(runs: int, steps: int, runs_per_job: int) -> dict:
    """An overlay of config.yaml: experiment d8 alone, with `runs` runs and little data."""
    seeds = [len(range(first, runs, len(VARIANTS))) for first in range(len(VARIANTS))]
    d8 = {"sequences": 4000, "batch_size": 500, "steps": steps, "evaluate_every": steps // 4}
    d8 |= {"seeds": dict(zip(VARIANTS, seeds, strict=True)), "runs_per_job": runs_per_job}
    return {"name": "overhead", "device": "cpu", "first_seed": 0, "majority": {"only": ["d8"], "d8": d8}}


def snakemake(folder: Path, cores: int, *targets: Path) -> float:
    """Seconds that the workflow takes for `targets`."""
    command = [
        sys.executable,
        "-m",
        "snakemake",
        *targets,
        "--cores",
        str(cores),
        "--configfile",
        "tiny.yaml",
    ]
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    environment, began = os.environ | {"PYTHONPATH": path}, time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.monotonic() - began


def work(results: Path) -> float:
    """Seconds that one run takes in a process that has trained before: reading, training, writing."""
    torch.set_num_threads(1)
    out, spent, runs = {kind: results / kind for kind in ("metrics", "vectors", "weights")}, [], []
    for file in sorted((results / "plan/majority").rglob("*.json")):
        plan, began = Plan(file), time.monotonic()
        seeds = (plan.of(job)["seed"] for job in plan["made_by"])
        train_batch(plan, [results / f"data/majority/d8/seed_{seed}.parquet" for seed in seeds], out)
        spent.append(time.monotonic() - began)
        runs.append(len(plan["runs"]))
        if sum(runs[1:]) >= SAMPLE:
            break
    return sum(spent[1:]) / sum(runs[1:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=1000, help="of each run")
    parser.add_argument("--runs-per-job", type=int, nargs="+", default=[1, 34])
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("workflow", "profiles", "examples"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("Snakefile", "config.yaml"):
            shutil.copy(ROOT / name, folder)
        print(f"{options.runs} majority runs of {options.steps:,} steps on {options.cores} cores:\n")
        print(
            "| runs a process | training jobs | work, s | in jobs, s | wall, s | beyond work | beyond jobs |"
        )
        print("|---|---|---|---|---|---|---|")
        for runs_per_job in options.runs_per_job:
            overlay = configuration(options.runs, options.steps, runs_per_job)
            (folder / "tiny.yaml").write_text(yaml.safe_dump(overlay))
            shutil.rmtree(folder / RESULTS, ignore_errors=True)
            seeds = range(max(overlay["majority"]["d8"]["seeds"].values()))
            snakemake(folder, options.cores, *(RESULTS / f"data/majority/d8/seed_{n}.parquet" for n in seeds))
            wall = snakemake(folder, options.cores, RESULTS / "parquet/majority_metrics.parquet")
            timed = [*(folder / RESULTS / "benchmarks/majority").rglob("*.tsv")]
            in_jobs = sum(pd.read_csv(file, sep="\t").s.sum() for file in timed) / options.cores
            own = work(folder / RESULTS) * options.runs / options.cores
            numbers = (
                f"{own:.0f} | {in_jobs:.0f} | {wall:.0f} | {wall / own - 1:.0%} | {wall / in_jobs - 1:.0%}"
            )
            print(f"| {runs_per_job} | {len(timed)} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
