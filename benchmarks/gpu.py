"""The language models of the paper's preset on one GPU: the time of a training step of each, and of all together.

    python benchmarks/gpu.py [--steps 1000] [--together 4] [--only gpt/layernorm ...]

Every model trains on tokens drawn at random, through the functions that its jobs call: compared with the CPU first. A
step's time is the difference between a training of many steps and one of few, in a process that has trained before. It
is measured for a training that has the GPU for itself, and for `--together` that share it, each in a process of its
own, as with `snakemake --resources gpu=4`. The exit status is 1 if a model was found to give other numbers on the GPU.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import yaml

from layernorm_roles.batches import runs_of
from layernorm_roles.gpu.device import APART
from layernorm_roles.reproduction import configured
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings

ROOT = Path(__file__).resolve().parents[1]
PRESET = yaml.safe_load((ROOT / "workflow/presets/paper.yaml").read_text(encoding="utf-8"))
SETTINGS = configured(ROOT / "config.yaml", PRESET)
TOKENS, SENTENCES = 4_000_000, 2000
FEW = 20
"""Steps of the short training."""


def run_settings(model: str) -> GPTSettings | BERTSettings:
    """The settings of a run of a model, at the first of its learning rates and lengths."""
    configured = SETTINGS.language_model[model]
    kind = GPTSettings if configured.architecture == "gpt" else BERTSettings
    point = {"learning_rate": configured.learning_rate[0], "steps": configured.steps[0]}
    return kind.model_validate(configured.of_training() | point)


def trainer(model: str, variant: str):
    """The settings, the device, a task of random tokens, and a function that makes the model of a variant."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    from layernorm_roles.gpu.device import open_device
    from layernorm_roles.language_model import bert, tasks
    from layernorm_roles.language_model import model as gpt

    settings, rng = run_settings(model), np.random.default_rng(0)
    entries = SETTINGS.text[settings.text].entries
    if tasks.task_type(settings) is tasks.LabelledSentences:
        tokenizer = Tokenizer(WordLevel({str(i): i for i in range(entries)}, unk_token="0"))
        tokenizer.pre_tokenizer = Whitespace()
        texts = rng.integers(entries, size=(SENTENCES, 25))
        rows = [(" ".join(map(str, text)), i % 2) for i, text in enumerate(texts)]
        task = tasks.LabelledSentences(rows, rows[: settings.batch_size], tokenizer, settings, 0)
        build = lambda: bert.build(settings, variant, variant, entries, 0, task.classes)  # noqa: E731
    else:
        stream = rng.integers(entries, size=TOKENS, dtype=np.uint16)
        few = settings.model_copy(update={"validation_windows": settings.batch_size})
        task = tasks.NextToken(stream, stream, entries, few, 0)
        build = lambda: gpt.build(settings, variant, SETTINGS.norm_class(variant), entries, 0)  # noqa: E731
    return settings, open_device("cuda", "warn"), task, build


def measure(name: str, steps: int) -> None:
    """Print the milliseconds of a training step of a model, given as model/variant, and what its metadata say of it."""
    from layernorm_roles.gpu.agreement import derivatives
    from layernorm_roles.language_model.train import train

    settings, gpu, task, build = trainer(*name.split("/"))
    compared = build()
    gpu.compare(lambda device: derivatives(compared, task.validation[0], device), name)

    def seconds(number: int) -> float:
        model = build()
        began = time.perf_counter()
        train(model, task, settings.model_copy(update={"steps": number, "evaluate_every": number}), 0, gpu)
        return time.perf_counter() - began

    seconds(FEW)
    print(1e3 * (seconds(FEW + steps) - seconds(FEW)) / steps, gpu.description, flush=True)


def measured(name: str, steps: int, together: int) -> tuple[float, str]:
    """The median of the milliseconds that `together` trainings at once take for a step, and how they took it."""
    command = [sys.executable, __file__, "--measure", name, "--steps", str(steps)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(together)]
    answers = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        sys.exit(f"{name} failed")
    times, ways = zip(*(answer.split(maxsplit=1) for answer in answers), strict=True)
    return statistics.median(map(float, times)), ways[0].strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--together", type=int, default=4)
    parser.add_argument("--only", nargs="+", metavar="MODEL/VARIANT")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.steps)
        return
    runs, steps = Counter(), Counter()
    for model in SETTINGS.language_model:
        for run in runs_of(SETTINGS, "language_model", model):
            runs[f"{model}/{run['variant']}"] += 1
            steps[f"{model}/{run['variant']}"] += run["steps"]
    many, hours, ways = options.together, Counter(), Counter()
    print(
        f"| model | runs | their steps | ms a step | hours | ms a step, {many} together | hours, {many} together |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in options.only or runs:
        alone, way = measured(name, options.steps, 1)
        shared = alone if many == 1 else measured(name, options.steps, many)[0]
        ways[way] += 1
        taken = [steps[name] * ms / 3.6e6 for ms in (alone, shared / many)]
        hours.update(alone=taken[0], shared=taken[1])
        cells = f"{alone:.2f} | {taken[0]:.2f} | {shared:.2f} | {taken[1]:.2f}"
        print(f"| {name} | {runs[name]} | {steps[name]:,} | {cells} |", flush=True)
    print(
        f"| all | {runs.total()} | {steps.total():,} | | {hours['alone']:.2f} | | {hours['shared']:.2f} |\n"
    )
    for way, number in ways.items():
        print(f"{number} of them on {way}")
    if any(APART in way for way in ways):
        sys.exit("the GPU computes other numbers than the CPU, or than float64: see the warnings above")


if __name__ == "__main__":
    main()
