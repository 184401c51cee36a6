"""The language models on processors: their kernels beside torch's operations, and their training steps.

    python benchmarks/language_model.py [--steps 5] [--rounds 40] [--only attention losses steps]

First it prints the fastest times, on one thread, of causal attention for heads of several sizes, and of the
cross-entropy for vocabularies of several sizes. Then the median time of a step of the default run's models and of the
paper's, on one and two threads, with the largest memory of a process.
"""

import argparse
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from layernorm_roles.language_model import attention, cross_entropy, parallel
from layernorm_roles.language_model.runs import ARCHITECTURES
from layernorm_roles.optimiser import AdamW
from layernorm_roles.reproduction import configured

CONFIGURED = configured(Path(__file__).parents[1] / "config.yaml", {}).language_model
HEADS = ((2, 4, 1024, 2), (2, 4, 1024, 4), (2, 4, 1024, 8), (2, 4, 1024, 16), (16, 4, 128, 16))
VOCABULARIES, TOKENS, WIDTH = (2_048, 8_192, 50_257), 2048, 8
SIZES = {
    "gpt": ("gpt", 8_192, {}),
    "gpt_bytes": ("gpt_bytes", 256, {}),
    "the paper's gpt, attention dropout 0": ("gpt", 50_257, {"batch_size": 16, "attention_dropout": 0.0}),
    "the paper's gpt, attention dropout 0.1": ("gpt", 50_257, {"batch_size": 16, "attention_dropout": 0.1}),
    "the paper's bert, 3,072 hidden units": ("bert", 50_257, {"batch_size": 32, "d_ff": 3072}),
}
"""Models of config.yaml, entries and changes; the paper's have GPT-2's entries, and BERT predicts masked tokens."""


def build(name, entries, **changes):
    """A function that takes a training step of the language model `name`, with these changes, on random tokens."""
    kind, build_model = ARCHITECTURES[CONFIGURED[name].architecture]
    values = (
        CONFIGURED[name].of_training() | {"learning_rate": 1e-3, "query_key_rate": 1.0, "steps": 1} | changes
    )
    settings = kind.model_validate({key: value for key, value in values.items() if key in kind.model_fields})
    network = build_model(settings, "layernorm", "layernorm", entries, 0)
    batch, length = settings.batch_size, settings.context_length
    if settings.task == "next":
        given = [torch.randint(entries, (batch, length + 1))]
    else:
        where = torch.rand(batch, length).argsort(dim=1)[:, : length * 15 // 100]
        given = [torch.randint(entries, (batch, length)), where, torch.randint(entries, where.shape)]
    optimiser = AdamW(network.parameters(), 1e-3)

    def step():
        loss = network.loss(*given)
        network.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()

    return step, f"{batch} x {length:,}"


def materialised(hidden, weight, targets):
    """Cross-entropy from the matrix of all logits."""
    return F.cross_entropy(hidden @ weight.T, targets)


def by_torch(qkv, heads):
    q, k, v = attention.split(qkv, heads)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def seconds(function, clock=time.perf_counter):
    began = clock()
    function()
    return clock() - began


def fastest(functions, rounds):
    """The fastest process time, in ms, of each of the functions, which are called in turns, in so many rounds."""
    times = [[seconds(function, time.process_time) for function in functions] for _ in range(rounds + 1)]
    return [1e3 * min(passes) for passes in zip(*times[1:], strict=True)]


def attention_table(options):
    """Causal attention, by the kernel and by torch."""
    print(
        "| batch x heads x n x d_head | forward, ms | dropout 0.1 | torch | backward, ms | dropout 0.1 | torch |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for batch, heads, n, d in HEADS:
        qkv, grad = torch.randn(batch, n, 3 * heads * d, requires_grad=True), torch.randn(batch, n, heads * d)
        kernel = (partial(attention.causal_attention, qkv, heads, rate) for rate in (0.0, 0.1))
        forward = [*kernel, partial(by_torch, qkv, heads)]
        grads = partial(torch.autograd.grad, inputs=qkv, grad_outputs=grad, retain_graph=True)
        times = fastest(forward + [partial(grads, function()) for function in forward], options.rounds)
        print(f"| {batch} x {heads} x {n} x {d} | {' | '.join(f'{t:.2f}' for t in times)} |")


def losses_table(options):
    """The cross-entropy with its gradients, by the kernel and with logits."""
    print(
        f"| {TOKENS:,} tokens of width {WIDTH}, entries | kernel, ms | ns a pair | with logits, ms | times the speed |"
    )
    print("|---:|---:|---:|---:|---:|")
    for entries in VOCABULARIES:
        inputs = [torch.randn(rows, WIDTH).requires_grad_() for rows in (TOKENS, entries)]
        given = *inputs, torch.randint(entries, (TOKENS,))
        ways = (
            lambda loss=loss, inputs=inputs, given=given: torch.autograd.grad(loss(*given), inputs)
            for loss in (cross_entropy.linear_cross_entropy, materialised)
        )
        ours, theirs = fastest([*ways], options.rounds)
        pair = 1e6 * ours / TOKENS / entries
        print(f"| {entries:,} | {ours:.1f} | {pair:.2f} | {theirs:.1f} | {theirs / ours:.1f} |")


def steps_table(options):
    """Training steps on one and two threads, taken in turns, each model in a process of its own."""
    print("| model | a step, tokens | entries | one thread, s | two threads, s | efficiency | peak, MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for title in SIZES:
        command = [sys.executable, __file__, "--steps", str(options.steps), "--size", title]
        print(subprocess.check_output(command, text=True), end="", flush=True)


def print_size(title, steps):
    name, entries, changes = SIZES[title]
    step, size = build(name, entries, **changes)
    times = {1: [], 2: []}
    for _ in range(steps + 1):
        for threads, passes in times.items():
            parallel.use(threads)
            passes.append(seconds(step))
    one, two = (statistics.median(passes[1:]) for passes in times.values())
    # getrusage would count the largest memory of the parent too.
    status = Path("/proc/self/status").read_text().partition("VmHWM:")[2]
    peak = int(status.split()[0]) / 1024
    print(f"| {title} | {size} | {entries:,} | {one:.3f} | {two:.3f} | {one / two / 2:.2f} | {peak:.0f} |")


def main():
    tables = {"attention": attention_table, "losses": losses_table, "steps": steps_table}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=5, help="of each model on each number of threads")
    parser.add_argument("--rounds", type=int, default=40, help="times that a kernel is called")
    parser.add_argument("--only", nargs="+", choices=tables, default=[*tables], help="the tables")
    parser.add_argument("--size", choices=SIZES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parallel.use(1)
    if options.size:
        return print_size(options.size, options.steps)
    for name in options.only:
        tables[name](options)
        print()


if __name__ == "__main__":
    main()
