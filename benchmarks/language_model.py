"""The language models on processors: their kernels beside torch's operations, and their training steps.

    python benchmarks/language_model.py [--steps 5] [--rounds 40] [--only attention,losses,steps,sizes]

First it prints the fastest times, on one thread, of causal attention for heads of several sizes, and of the
cross-entropy for vocabularies of several sizes. Then the median time of a step of the default run's models; and of the
paper's, on one and two threads, with the largest memory of a process.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import yaml
from torch import nn

from layernorm_roles.language_model import attention, bert, cross_entropy, model, parallel
from layernorm_roles.optimiser import AdamW
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings

ROOT = Path(__file__).parents[1]
CONFIGURED = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["language_model"]
"""The language models of the default run."""
VOCABULARIES = (2_048, 8_192, 50_257)
SIZES = {
    "gpt, attention dropout 0": ("gpt", {"batch_size": 16, "attention_dropout": 0.0}),
    "gpt, attention dropout 0.1": ("gpt", {"batch_size": 16, "attention_dropout": 0.1}),
    "bert, 3,072 hidden units": ("bert", {"batch_size": 32, "d_ff": 3072}),
}
"""The paper's sizes, with the 50,257 entries of GPT-2's tokenizer; BERT predicts masked tokens here."""


def build(name, entries, **changes):
    """A function that takes a training step of the language model `name`, with these changes, on random tokens."""
    configured = CONFIGURED[name]
    values = CONFIGURED.get(configured.get("like"), {}) | configured | changes
    kind = GPTSettings if values["architecture"] == "gpt" else BERTSettings
    settings = kind.model_validate({key: value for key, value in values.items() if key in kind.model_fields})
    if kind is GPTSettings:
        network = model.build(settings, "layernorm", "layernorm", entries, seed=0)
        batch = [torch.randint(entries, (settings.batch_size, settings.context_length + 1))]
    else:
        network = bert.build(settings, "layernorm", "layernorm", entries, 0)
        shape, masked = (settings.batch_size, settings.context_length), settings.context_length * 15 // 100
        where = torch.rand(shape).argsort(dim=1)[:, :masked]
        batch = [torch.randint(entries, shape), where, torch.randint(entries, where.shape)]
    optimiser = AdamW(network.parameters(), 1e-3)

    def step():
        loss = network.loss(*batch)
        network.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()

    size = f"{settings.batch_size} x {settings.context_length:,}"
    return step, size


def materialised(hidden, weight, targets):
    """Cross-entropy from the matrix of all logits."""
    return F.cross_entropy(hidden @ weight.T, targets)


def fastest(functions, rounds):
    """The fastest process time, in ms, of each of the functions, which are called in turns, in so many rounds."""
    times = [[] for _ in functions]
    for _ in range(rounds + 1):
        for function, passes in zip(functions, times, strict=True):
            began = time.process_time()
            function()
            passes.append(time.process_time() - began)
    return [1e3 * min(passes[1:]) for passes in times]


def forward_and_backward(function, inputs, grad):
    """Two functions that call `function` and differentiate what it returns."""
    out = function(*inputs)
    return [lambda: function(*inputs), lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)]


def attention_table(rounds):
    """Print the times of causal attention, by the kernel and by torch."""
    print(
        "| batch x heads x n x d_head | forward, ms | dropout 0.1 | torch | backward, ms | dropout 0.1 | torch |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for batch, heads, n, d in (
        (2, 4, 1024, 2),
        (2, 4, 1024, 4),
        (2, 4, 1024, 8),
        (2, 4, 1024, 16),
        (16, 4, 128, 16),
    ):
        qkv, grad = torch.randn(batch, n, 3 * heads * d, requires_grad=True), torch.randn(batch, n, heads * d)

        def by_torch(qkv, heads=heads):
            q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, dim=-1))
            return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

        kernel = [lambda qkv, p=p, heads=heads: attention.causal_attention(qkv, heads, p) for p in (0.0, 0.1)]
        passes = [forward_and_backward(function, [qkv], grad) for function in (*kernel, by_torch)]
        times = fastest([one[i] for i in (0, 1) for one in passes], rounds)
        print(f"| {batch} x {heads} x {n} x {d} | {' | '.join(f'{t:.2f}' for t in times)} |")
    print()


def losses_table(rounds, tokens=2048, d=8):
    """Print the times of the cross-entropy with its gradients, by the kernel and with logits."""
    print(
        f"| {tokens:,} tokens of width {d}, entries | kernel, ms | ns a pair | with logits, ms | times the speed |"
    )
    print("|---:|---:|---:|---:|---:|")
    for entries in VOCABULARIES:
        inputs = [torch.randn(rows, d).requires_grad_() for rows in (tokens, entries)]
        targets = torch.randint(entries, (tokens,))
        ours, theirs = fastest(
            [
                lambda loss=loss, inputs=inputs, targets=targets: torch.autograd.grad(
                    loss(*inputs, targets), inputs
                )
                for loss in (cross_entropy.linear_cross_entropy, materialised)
            ],
            rounds,
        )
        pair = 1e6 * ours / tokens / entries
        print(f"| {entries:,} | {ours:.1f} | {pair:.2f} | {theirs:.1f} | {theirs / ours:.1f} |")
    print()


def steps_table(steps=30):
    """Print the median time of a training step of the default run's models."""
    print("| model | a step, tokens | entries | median, ms | fastest, ms |")
    print("|---|---:|---:|---:|---:|")
    for name, entries in (("gpt", 8192), ("gpt_bytes", 256)):
        step, size = build(name, entries)
        times = sorted(timed(step) for _ in range(steps + 3))
        print(
            f"| {name} | {size} | {entries:,} | {1e3 * statistics.median(times):.1f} | {1e3 * times[0]:.1f} |"
        )
    print()


def timed(step):
    """The seconds that a call takes."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def sizes_table(steps):
    """Print the times of steps of the paper's sizes on one and two threads, taken in turns, and the memory."""
    print(
        f"| {steps} steps of 50,257 entries | tokens | one thread, s | two threads, s | efficiency | peak, MiB |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for title in SIZES:
        command = [sys.executable, __file__, "--steps", str(steps), "--size", title]
        print(subprocess.check_output(command, text=True), end="", flush=True)


def print_size(title, steps):
    """Print the row of `sizes_table` that measures one of SIZES in this process."""
    name, changes = SIZES[title]
    step, size = build(name, 50_257, **changes)
    times = {1: [], 2: []}
    for _ in range(steps + 1):
        for threads, passes in times.items():
            parallel.use(threads)
            passes.append(timed(step))
    one, two = (statistics.median(passes[1:]) for passes in times.values())
    print(f"| {title} | {size} | {one:.3f} | {two:.3f} | {one / two / 2:.2f} | {peak() / 1024:.0f} |")


def peak():
    """The largest memory of this process so far, in KiB (Linux); getrusage would count its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=5, help="steps of the paper's sizes on every number of threads"
    )
    parser.add_argument("--rounds", type=int, default=40, help="times that a kernel is called")
    parser.add_argument("--only", default="attention,losses,steps,sizes", help="the tables, with commas")
    parser.add_argument("--size", choices=SIZES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parallel.use(1)
    if options.size:
        print_size(options.size, options.steps)
        return
    tables = {
        "attention": lambda: attention_table(options.rounds),
        "losses": lambda: losses_table(options.rounds),
        "steps": steps_table,
        "sizes": lambda: sizes_table(options.steps),
    }
    for name in options.only.split(","):
        tables[name]()


if __name__ == "__main__":
    main()
