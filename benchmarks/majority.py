"""One training step of the majority transformer, five ways, side by side in one process on one thread.

    python benchmarks/majority.py [--rounds 9] [--seed 1] [--authors CLONE]

Then the same training in one process and in two at once: what a second core adds.

Each round times every way in turn, so that a change of the machine's load meets all of them; the table gives
medians over the rounds. The seed chooses the data: the more pairs (sequence, class) are present, the longer a step on
class counts. CLONE is a clone of the paper's repository (tech-srl/layer_norm_expressivity_role), whose
majority/majority_exp.py must be importable: it needs wandb, torch_scatter, scikit-learn and transformers.
"""

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from layernorm_roles.majority import data, kernel
from layernorm_roles.majority.model import MajorityTransformer, pair_loss
from layernorm_roles.majority.train import MajorityRun, train
from layernorm_roles.reproduction import configured
from layernorm_roles.settings.majority import MajorityExperiment

ROOT = Path(__file__).resolve().parents[1]
BATCH = 6000
SHORT, LONG = 1, 21
"""Steps of two trainings; the difference of their times is that of LONG - SHORT steps, without start and evaluation."""
PAIRED = 400
"""Steps for the comparison of one process with two."""


class TokenTransformer(nn.Module):
    """The released model as torch computes it, on tokens."""

    def __init__(self, model: MajorityTransformer):
        super().__init__()
        self.embedding, self.layer = model.embedding, model.layer
        # torch's own class, without gain and bias, as released.
        self.layer.norm1 = nn.LayerNorm(self.embedding.embedding_dim, eps=0.0, elementwise_affine=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(tokens)) @ self.embedding.weight.T


def token_step(model: nn.Module, tokens: torch.Tensor, target: torch.Tensor) -> None:
    """Forward and backward on tokens."""
    model.zero_grad()
    out = model(tokens)
    logits = out[0] if isinstance(out, tuple) else out  # the authors' model returns queries and keys, too
    F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()


def count_step(model: MajorityTransformer, counts: torch.Tensor, label: torch.Tensor) -> None:
    """Forward and backward on class counts, by PyTorch."""
    model.zero_grad()
    pair_loss(model.loss_parameters(), counts, label)[0].backward()


def authors_model(clone: Path, settings: MajorityExperiment) -> nn.Module:
    """The model of the authors' repository, from a clone of it."""
    path = clone / "majority" / "majority_exp.py"
    spec = importlib.util.spec_from_file_location("majority_exp", path)
    if spec is None or not path.is_file():
        raise SystemExit(f"--authors {clone}: expected a clone with majority/majority_exp.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise SystemExit(f"{path} cannot be imported: {error}") from None
    return module.Model(settings.classes, settings.d_model[0], 1, module.LAYER_NORM.WITH_PROJ)


def batch_of(settings: MajorityExperiment, seed: int) -> data.Sequences:
    """`BATCH` training sequences of a seed's data set."""
    frame = data.generate(settings, seed)
    rows = frame[frame["split"] == "train"].sample(BATCH, random_state=0)
    return data.Sequences(np.stack(rows["counts"].tolist()), rows["label"].to_numpy(copy=True))


def training_seconds(settings: MajorityExperiment, sequences: data.Sequences, steps: int) -> float:
    """Seconds of a training with so many steps and two evaluations."""
    both = {"train": sequences, "test": sequences}
    settings = settings.model_copy(update={"batch_size": BATCH, "steps": steps, "evaluate_every": steps})
    start = time.perf_counter()
    run = MajorityRun(
        name="benchmark",
        experiment="d8",
        variant="layernorm",
        norm="layernorm",
        seed=0,
        d_model=settings.d_model[0],
        base_learning_rate=settings.learning_rate[0],
    )
    train(settings, run, both)
    return time.perf_counter() - start


def in_processes(number: int, seed: int) -> float:
    """Seconds of `PAIRED` steps in each of `number` processes at once, mean; start and compilation not counted."""
    command = [sys.executable, __file__, "--seed", str(seed), "--paired"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(number)]
    for process in processes:
        process.stdout.readline()  # ready
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return statistics.mean(float(process.communicate()[0]) for process in processes)


def ways(settings: MajorityExperiment, seed: int, authors: Path | None) -> dict[str, Callable[[], float]]:
    """Name of each way: function that returns the seconds of one step."""
    sequences = batch_of(settings, seed)
    counts, label = torch.from_numpy(sequences.counts), torch.from_numpy(sequences.label)
    present = (counts > 0).float().mean().item()
    print(
        f"{len(counts):,} sequences of {settings.sequence_length} tokens, {present:.0%} of (sequence, class) present"
    )

    classes = torch.arange(settings.classes)
    tokens = torch.stack([torch.repeat_interleave(classes, row) for row in counts.long()])
    target = label[:, None].expand_as(tokens)

    def model() -> MajorityTransformer:
        torch.manual_seed(0)
        return MajorityTransformer(settings.classes, settings.d_model[0], settings.d_ff, "layernorm")

    def once(function, *arguments, repeat=1) -> Callable[[], float]:
        """A function that returns the seconds of one call of `function`."""

        def seconds() -> float:
            start = time.perf_counter()
            for _ in range(repeat):
                function(*arguments)
            return (time.perf_counter() - start) / repeat

        return seconds

    def whole_step() -> float:
        """Seconds of one step of a training."""
        seconds = [training_seconds(settings, sequences, steps) for steps in (SHORT, LONG)]
        return (seconds[1] - seconds[0]) / (LONG - SHORT)

    parameters = [parameter.detach().numpy() for parameter in model().loss_parameters()]
    steps = {
        "tokens, torch.nn.TransformerEncoderLayer": once(
            token_step, TokenTransformer(model()), tokens, target
        ),
        "class counts, PyTorch": once(count_step, model(), counts, label, repeat=3),
        "class counts, kernel alone": once(
            kernel.loss_and_gradients, sequences.counts, sequences.label, parameters, repeat=10
        ),
        "class counts, kernel, whole step with Adam": whole_step,
        "class counts, kernel, evaluation only": once(
            kernel.loss_only, sequences.counts, sequences.label, parameters, repeat=10
        ),
    }
    if authors:
        steps["tokens, the authors' Model"] = once(
            token_step, authors_model(authors, settings), tokens, target
        )
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="times that every way is timed (default 9)")
    parser.add_argument("--seed", type=int, default=1, help="of the data (default 1)")
    parser.add_argument(
        "--authors", type=Path, help="a clone of the paper's repository, timed beside the others"
    )
    parser.add_argument("--paired", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)

    settings = configured(ROOT / "config.yaml", {}).majority["d8"]
    if options.paired:
        sequences = batch_of(settings, options.seed)
        training_seconds(settings, sequences, SHORT)
        print("ready", flush=True)
        sys.stdin.readline()
        print(training_seconds(settings, sequences, PAIRED))
        return
    steps = ways(settings, options.seed, options.authors)
    for step in steps.values():
        step()  # compilation, caches
    seconds = {name: [] for name in steps}
    for _ in range(options.rounds):
        for name, step in steps.items():
            seconds[name].append(step())

    print(f"torch {torch.__version__}, numba {numba.__version__}, one thread, {options.rounds} rounds\n")
    print("| forward and backward of one batch | median, ms | fastest, ms | times the token level's speed |")
    print("|---|---:|---:|---:|")
    first = statistics.median(next(iter(seconds.values())))
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {1e3 * median:.2f} | {1e3 * min(times):.2f} | {first / median:.1f} |")

    alone, together = (
        statistics.median(in_processes(number, options.seed) for _ in range(min(3, options.rounds)))
        for number in (1, 2)
    )
    print(
        f"\nTwo trainings at once: {2 * alone / together:.2f} times the throughput of one "
        f"({1e3 * alone / PAIRED:.2f} ms a step alone, {1e3 * together / PAIRED:.2f} ms in each of two)."
    )


if __name__ == "__main__":
    main()
