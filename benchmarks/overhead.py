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

from layernorm_roles.majority import data, train
from layernorm_roles.planning import configured
from layernorm_roles.settings.majority import MajorityExperiment

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = ("layernorm", "scale_released", "scale", "none", "projection", "layernorm_small")
TABLE = "results/overhead/parquet/majority_metrics.parquet"


def configuration(runs: int, steps: int, runs_per_job: int) -> dict:
    """An overlay of config.yaml: experiment d8 alone, with `runs` runs and little data."""
    seeds = [len(range(first, runs, len(VARIANTS))) for first in range(len(VARIANTS))]
    d8 = {
        "sequences": 4000,
        "batch_size": 500,
        "steps": steps,
        "evaluate_every": steps // 4,
        "seeds": dict(zip(VARIANTS, seeds, strict=True)),
        "runs_per_job": runs_per_job,
    }
    return {"name": "overhead", "device": "cpu", "first_seed": 0, "majority": {"only": ["d8"], "d8": d8}}


def snakemake(folder: Path, cores: int, *targets: str) -> float:
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
    began = time.monotonic()
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.monotonic() - began


def work(folder: Path, settings: MajorityExperiment, sample: int) -> float:
    """Seconds that one run takes in a process that has done one already: reading, training, writing."""
    torch.set_num_threads(1)
    for number in range(sample + 1):
        if number == 1:
            began = time.monotonic()
        seed, norm = number // len(VARIANTS), VARIANTS[number % len(VARIANTS)]
        written = (folder / name for name in ("metrics.parquet", "vectors.parquet", "weights.safetensors"))
        run = train.MajorityRun("d8", norm, norm, seed, settings.d_model[0], settings.learning_rate[0])
        result = train.train(
            settings, run, data.load(folder / f"results/overhead/data/majority/d8/seed_{seed}.parquet")
        )
        train.write({run: result}, settings, "cpu", train.Outputs(*written))
    return (time.monotonic() - began) / sample


def in_jobs(folder: Path) -> float:
    """Seconds of all training jobs together, as Snakemake's benchmark files have them."""
    files = (folder / "results/overhead/benchmarks/majority_train").rglob("*.tsv")
    return sum(pd.read_csv(file, sep="\t").s.sum() for file in files)


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
        rows = []
        for runs_per_job in options.runs_per_job:
            overlay = configuration(options.runs, options.steps, runs_per_job)
            (folder / "tiny.yaml").write_text(yaml.safe_dump(overlay))
            d8 = configured(ROOT / "config.yaml", overlay).majority["d8"]
            shutil.rmtree(folder / "results", ignore_errors=True)
            seeds = range(max(d8.seeds.values()))
            snakemake(
                folder,
                options.cores,
                *(f"results/overhead/data/majority/d8/seed_{seed}.parquet" for seed in seeds),
            )
            wall = snakemake(folder, options.cores, TABLE)
            jobs = sum(-(-number // runs_per_job) for number in d8.seeds.values())
            own = work(folder, d8, min(20, options.runs - 1)) * options.runs / options.cores
            rows.append((runs_per_job, jobs, own, in_jobs(folder) / options.cores, wall))
    print(f"{options.runs} majority runs of {options.steps:,} steps on {options.cores} cores:\n")
    print("| runs a process | training jobs | work, s | in jobs, s | wall, s | beyond work | beyond jobs |")
    print("|---|---|---|---|---|---|---|")
    for *counts, own, jobs, wall in rows:
        shares = f"{wall / own - 1:.0%}", f"{wall / jobs - 1:.0%}"
        cells = [*counts, f"{own:.0f}", f"{jobs:.0f}", f"{wall:.0f}", *shares]
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
