"""The first hour of a kind of card that has not run this code: does it compute rightly, and how fast?

    python benchmarks/first_hour.py [--steps 500] [--only tests speed ...]

The steps below run in their order, each in a process of its own, and each prints what it finds. A step that fails does
not stop those after it. At the end there is a table of all; the exit status is 1 if one has failed.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpu
import yaml

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("gpt/layernorm", "gpt/projection", "gpt_bytes/layernorm", "bert/layernorm")
FEW = 50
"""Training steps that are compared bit by bit."""


def run(*command: str | Path) -> str:
    """What a command prints, which is also printed here; ends this process where the command fails."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    print(done.stdout.strip())
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}")
    return done.stdout


def tests(steps: int) -> None:
    """The tests that need a card."""
    run(sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--no-header", "--durations=0")


def speed(steps: int) -> None:
    """A training step of four models that have the card for themselves."""
    options = ("--together", "1", "--steps", str(steps), "--only", *MODELS)
    run(sys.executable, ROOT / "benchmarks/gpu.py", *options)


def dropout(steps: int) -> None:
    """Training with the paper's dropouts, once more, and resumed halfway: equal bits?"""
    import torch

    from layernorm_roles.checkpoint import Checkpoint
    from layernorm_roles.language_model.train import train

    class Ended(Checkpoint):
        """A checkpoint whose first writing ends the run, as a kill does."""

        def save(self, *state):
            super().save(*state)
            raise InterruptedError

    differ = False
    for name in ("gpt/layernorm", "bert/layernorm"):
        settings, place, task, build = gpu.trainer(*name.split("/"))
        changes = {"steps": FEW, "evaluate_every": FEW, "checkpoint_every": FEW // 2}
        settings = settings.model_copy(update=changes)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "checkpoint.safetensors")
            results = {way: train(build(), task, settings, 0, place) for way in ("once", "once more")}
            try:
                train(build(), task, settings, 0, place, Ended(file, {}))
            except InterruptedError:
                results["resumed"] = train(build(), task, settings, 0, place, Checkpoint(file, {}))
        first = results["once"]
        for way, result in results.items():
            equal = all(torch.equal(tensor, result.final[key]) for key, tensor in first.final.items())
            differ |= not equal
            loss = result.metrics.train_loss.iloc[-1]
            print(f"{name}, {way}: loss {loss:.6f}, weights {'equal' if equal else 'NOT equal'}")
    sys.exit(differ)


def devices(steps: int) -> None:
    """One run of gpt_bytes through the workflow on both devices: validation losses within 1 %."""
    import pandas as pd

    seeds = dict.fromkeys(gpu.SETTINGS.language_model["gpt_bytes"].seeds, 0) | {"layernorm": 1}
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        for device in ("cpu", "cuda"):
            file, name = Path(folder, f"{device}.yaml"), f"on_{device}"
            models = {"only": ["gpt_bytes"], "gpt_bytes": {"seeds": seeds}}
            file.write_text(yaml.safe_dump({"name": name, "device": device, "language_model": models}))
            table = f"results/{name}/parquet/language_model_metrics.parquet"
            began = time.monotonic()
            command = ["snakemake", "--cores", "1", "--snakefile", ROOT / "Snakefile", "--directory", folder]
            run(*command, table, "--configfile", file)
            losses[device] = pd.read_parquet(Path(folder, table)).sort_values("step").valid_loss.iloc[-1]
            print(f"{device}: validation loss {losses[device]:.4f}, {time.monotonic() - began:.0f} s")
    sys.exit(not abs(losses["cuda"] / losses["cpu"] - 1) < 0.01)


def profile(steps: int) -> None:
    """The kernels of a step of the paper's GPT that take most of its time."""
    import torch

    from layernorm_roles.language_model.train import train

    settings, place, task, build = gpu.trainer("gpt", "layernorm")
    settings = settings.model_copy(update={"steps": FEW, "evaluate_every": FEW})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        train(build(), task, settings, 0, place)
    print(found.key_averages().table(sort_by="self_cuda_time_total", row_limit=20, max_name_column_width=80))


def attention(steps: int) -> None:
    """Forward and backward of the paper's attention by torch's kernels: one takes too few of the card's processors."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    gpu.trainer("gpt", "layernorm")  # it sets torch as a training does
    q, k, v = (torch.randn(16, 4, 1024, 8, device="cuda", requires_grad=True) for _ in range(3))
    for kernel in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        for share in (0.0, 0.1):
            times = []
            with sdpa_kernel(kernel):
                for _ in range(20):
                    begins, ends = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    begins.record()
                    F.scaled_dot_product_attention(q, k, v, dropout_p=share, is_causal=True).sum().backward()
                    ends.record()
                    torch.cuda.synchronize()
                    times.append(begins.elapsed_time(ends))
            print(f"{kernel.name}, dropout {share}: {sorted(times)[10]:.2f} ms")


def together(steps: int) -> None:
    """Four trainings of the GPT at a time, without NVIDIA's multi-process service and with it."""
    options = ("--together", "4", "--steps", str(steps), "--only", "gpt/layernorm")
    run(sys.executable, ROOT / "benchmarks/gpu.py", *options)
    if not shutil.which("nvidia-cuda-mps-control"):
        print("there is no nvidia-cuda-mps-control here")
        return
    subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
    try:
        run(sys.executable, ROOT / "benchmarks/gpu.py", *options)
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True)


STEPS = {step.__name__: step for step in (tests, speed, dropout, devices, profile, attention, together)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=500, help="training steps that are timed")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=[*STEPS], metavar="STEP")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        STEPS[options.step](options.steps)
        return
    rows, failed = [], False
    for name in options.only:
        print(f"### {STEPS[name].__doc__}\n\n```", flush=True)
        began = time.monotonic()
        done = subprocess.run([sys.executable, __file__, "--step", name, "--steps", str(options.steps)])
        failed |= done.returncode != 0
        print("```\n", flush=True)
        rows.append((name, "failed" if done.returncode else "passed", f"{time.monotonic() - began:.0f} s"))
    print("| step | | time |\n|---|---|---:|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.exit(failed)


if __name__ == "__main__":
    main()
