"""The language model's step, with logits and without: time and memory at equal model, in one process.

    python benchmarks/language_model.py [--vocabulary 50257] [--batch 8] [--context 256] [--steps 5]

One thread. Prints the median of each way, and the peak memory of the cross-entropy alone as its process sees it.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from layernorm_roles.language_model import cross_entropy, model

SETTINGS = {
    "layers": 4,
    "dim": 8,
    "heads": 4,
    "context": 1024,
    "eps": 1e-5,
    "dropout": 0.1,
    "attention_dropout": 0.0,
}


def materialised(hidden, weight, targets):
    return F.cross_entropy(hidden @ weight.T, targets)


def chunked(hidden, weight, targets):
    choose, cross_entropy.choose = cross_entropy.choose, lambda hidden: cross_entropy.chunked
    try:
        return cross_entropy.linear_cross_entropy(hidden, weight, targets)
    finally:
        cross_entropy.choose = choose


WAYS = {
    "materialised": materialised,
    "chunked": chunked,
    "fused": cross_entropy.linear_cross_entropy,
}


def step(network, optimiser, window, loss_of):
    hidden, targets = network(window[:, :-1]), window[:, 1:].flatten()
    loss = loss_of(hidden.flatten(0, 1), network.tokens.weight, targets)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()


def prepare(options):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = model.GPT({**SETTINGS, "vocabulary": options.vocabulary}, "layernorm")
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    return network, optimiser, torch.randint(options.vocabulary, (options.batch, options.context + 1))


def peak():
    """This process's largest memory so far, in KiB (Linux); unlike getrusage's, not that of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--memory-of", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    run = prepare(options)
    if options.memory_of:
        # A tiny step first: what libraries and compilers take is not the step's.
        small = prepare(argparse.Namespace(vocabulary=300, batch=1, context=16))
        step(*small, WAYS[options.memory_of])
        before = peak()
        step(*run, WAYS[options.memory_of])
        after = peak()
        print(f"{(after - before) / 1024:.0f} {after / 1024:.0f}")
        return
    times = {name: [] for name in WAYS}
    for _ in range(options.steps + 1):
        for name, loss_of in WAYS.items():
            began = time.perf_counter()
            step(*run, loss_of)
            times[name].append(time.perf_counter() - began)
    print(f"{options.batch} x {options.context} tokens, vocabulary {options.vocabulary:,}, one thread\n")
    print(
        "| a training step | median, ms | times the speed with logits | adds to memory, MiB | process' peak, MiB |"
    )
    print("|---|---:|---:|---:|---:|")
    slowest = statistics.median(times["materialised"][1:])
    for name, seconds in times.items():
        median = statistics.median(seconds[1:])
        command = [sys.executable, __file__, *sys.argv[1:], "--memory-of", name]
        step_mib, process_mib = subprocess.check_output(command, text=True).split()
        cells = f"{1e3 * median:.0f} | {slowest / median:.1f} | {step_mib} | {process_mib}"
        print(f"| cross-entropy {name} | {cells} |")


if __name__ == "__main__":
    main()
