"""One training step of the majority transformer, several ways, side by side in one process on one thread.

    python benchmarks/majority.py [--rounds 9] [--seed 1] [--authors CLONE]

Each round times every way in turn, so that a change of the machine's load meets all of them; the table gives
medians over the rounds. The seed chooses the data: the more pairs (sequence, class) are present, the longer a step on
class counts. CLONE is a clone of the paper's repository (tech-srl/layer_norm_expressivity_role), whose
majority/majority_exp.py must be importable: it needs wandb, torch_scatter, scikit-learn and transformers.
"""

import argparse
import importlib.util
import statistics
import time
from functools import partial
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

ROOT, BATCH = Path(__file__).resolve().parents[1], 6000
SETTINGS = configured(ROOT / "config.yaml", {}).majority["d8"]
SHORT, LONG = 1, 21
"""Steps of two trainings; the difference of their times is that of LONG - SHORT steps, without start and evaluation."""


class TokenTransformer(nn.Module):
    """The released model as torch computes it, on tokens: its norm is torch's own class, without gain and bias."""

    def __init__(self, model):
        super().__init__()
        self.embedding, self.layer = model.embedding, model.layer
        self.layer.norm1 = nn.LayerNorm(self.embedding.embedding_dim, eps=0.0, elementwise_affine=False)

    def forward(self, tokens):
        return self.layer(self.embedding(tokens)) @ self.embedding.weight.T


def token_step(model, tokens, target):
    model.zero_grad()
    out = model(tokens)
    logits = out[0] if isinstance(out, tuple) else out  # the authors' model returns queries and keys, too
    F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()


def count_step(model, counts, label):
    model.zero_grad()
    pair_loss(model.loss_parameters(), counts, label)[0].backward()


def authors_model(clone):
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
    return module.Model(SETTINGS.classes, SETTINGS.d_model[0], 1, module.LAYER_NORM.WITH_PROJ)


def trained(sequences, steps):
    """Train for so many steps, with two evaluations."""
    changes = {"batch_size": BATCH, "steps": steps, "evaluate_every": steps}
    sizes = SETTINGS.d_model[0], SETTINGS.learning_rate[0]
    run = MajorityRun("benchmark", "d8", "layernorm", "layernorm", 0, *sizes)
    train(SETTINGS.model_copy(update=changes), run, {"train": sequences, "test": sequences})


def seconds(function, repeat=1):
    began = time.perf_counter()
    for _ in range(repeat):
        function()
    return (time.perf_counter() - began) / repeat


def ways(seed, authors):
    """Functions that return the seconds of one step, by what they time."""
    frame = data.generate(SETTINGS, seed).query("split == 'train'").sample(BATCH, random_state=0)
    sequences = data.Sequences(np.stack(frame["counts"].tolist()), frame["label"].to_numpy(copy=True))
    counts, label = torch.from_numpy(sequences.counts), torch.from_numpy(sequences.label)
    size, present = (
        f"{len(counts):,} sequences of {SETTINGS.sequence_length} tokens",
        counts.gt(0).float().mean(),
    )
    print(f"{size}, {present:.0%} of (sequence, class) present")
    tokens = torch.stack([torch.repeat_interleave(torch.arange(len(row)), row) for row in counts.long()])
    target = label[:, None].expand_as(tokens)

    def model():
        torch.manual_seed(0)
        return MajorityTransformer(SETTINGS.classes, SETTINGS.d_model[0], SETTINGS.d_ff, "layernorm")

    def whole_step():
        short, long = (seconds(partial(trained, sequences, steps)) for steps in (SHORT, LONG))
        return (long - short) / (LONG - SHORT)

    given = *sequences, [parameter.detach().numpy() for parameter in model().loss_parameters()]
    by_torch, by_counts = (partial(token_step, TokenTransformer(model()), tokens, target),
                           partial(count_step, model(), counts, label))  # fmt: skip
    timed = {
        "tokens, torch.nn.TransformerEncoderLayer": partial(seconds, by_torch),
        "class counts, PyTorch": partial(seconds, by_counts, 3),
        "class counts, kernel alone": partial(seconds, partial(kernel.loss_and_gradients, *given), 10),
        "class counts, kernel, whole step with Adam": whole_step,
        "class counts, kernel, evaluation only": partial(seconds, partial(kernel.loss_only, *given), 10),
    }
    if authors:
        theirs = partial(token_step, authors_model(authors), tokens, target)
        timed["tokens, the authors' Model"] = partial(seconds, theirs)
    return timed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="times that every way is timed")
    parser.add_argument("--seed", type=int, default=1, help="of the data")
    parser.add_argument("--authors", type=Path, metavar="CLONE", help="of the paper's repository")
    options = parser.parse_args()
    torch.set_num_threads(1)
    timed = ways(options.seed, options.authors)
    rounds = [[way() for way in timed.values()] for _ in range(options.rounds + 1)]
    print(f"torch {torch.__version__}, numba {numba.__version__}, one thread, {options.rounds} rounds\n")
    print("| forward and backward of one batch | median, ms | fastest, ms | times the token level's speed |")
    print("|---|---:|---:|---:|")
    first, *others = zip(*rounds[1:], strict=True)  # the first round compiles
    for name, times in zip(timed, (first, *others), strict=True):
        median = statistics.median(times)
        share = statistics.median(first) / median
        print(f"| {name} | {1e3 * median:.2f} | {1e3 * min(times):.2f} | {share:.1f} |")


if __name__ == "__main__":
    main()
