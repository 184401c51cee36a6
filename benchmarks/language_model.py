"""The language model on one thread: attention against torch's, and a training step with logits and without.

    python benchmarks/language_model.py [--vocabulary 50257] [--batch 8] [--context 256] [--steps 5]

First it prints the fastest times of causal attention for heads of several sizes, and of the cross-entropy for
vocabularies of several sizes. Then the median time of a step of the default run's models; and, for every implementation
of the cross-entropy, the median time of a step, what a step adds to the memory of a process of its own, and the largest
memory of that process.
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

from layernorm_roles.language_model import attention, cross_entropy, model
from layernorm_roles.settings.language_model import GPTSettings

ROOT = Path(__file__).parents[1]
CONFIGURED = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["language_model"]
SETTINGS = GPTSettings.model_validate(CONFIGURED["gpt"])
"""The settings of the default run."""
VOCABULARIES = (2_048, 8_192, 50_257)


def materialised(hidden, weight, targets):
    """Cross-entropy from the matrix of all logits."""
    return F.cross_entropy(hidden @ weight.T, targets)


def chunked(hidden, weight, targets):
    """Cross-entropy from a few tokens' logits at a time, by matrix products."""
    choose, cross_entropy.choose = cross_entropy.choose, lambda hidden: cross_entropy.chunked
    try:
        return cross_entropy.linear_cross_entropy(hidden, weight, targets)
    finally:
        cross_entropy.choose = choose


IMPLEMENTATIONS = {
    "materialised": materialised,
    "chunked": chunked,
    "fused": cross_entropy.linear_cross_entropy,
}


def step(network, optimiser, window, loss_of):
    """Take one training step with an implementation of the cross-entropy."""
    hidden, targets = network(window[:, :-1]), window[:, 1:].flatten()
    loss = loss_of(hidden.flatten(0, 1), network.tokens.weight, targets)
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimiser.step()


def prepare(options):
    """The model, its optimiser and a batch of random windows."""
    torch.set_num_threads(1)
    network = model.build(SETTINGS, "layernorm", "layernorm", options.vocabulary, seed=0)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    return network, optimiser, torch.randint(options.vocabulary, (options.batch, options.context + 1))


def torch_attention(q, k, v):
    """torch's own causal attention."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def attention_table(rounds=9):
    """Print the fastest process times of causal attention, with the kernel and with torch's, measured in turns."""
    print("| batch x heads x positions x d_head | forward, ms | torch | backward, ms | torch |")
    print("|---|---:|---:|---:|---:|")
    for shape in ((2, 4, 1024, 2), (2, 4, 1024, 4), (2, 4, 1024, 8), (2, 4, 1024, 16), (16, 4, 128, 16)):
        q, k, v, grad = (torch.randn(shape) for _ in range(4))
        inputs = [t.requires_grad_() for t in (q, k, v)]
        fastest = {}
        for _ in range(rounds + 1):
            for attend in (attention.causal_attention, torch_attention):
                times = [time.process_time()]
                out = attend(*inputs)
                times.append(time.process_time())
                torch.autograd.grad(out, inputs, grad)
                times.append(time.process_time())
                fastest.setdefault(attend, []).append((times[1] - times[0], times[2] - times[1]))
        ours, theirs = (
            [1e3 * min(one[i] for one in passes[1:]) for i in (0, 1)] for passes in fastest.values()
        )
        cells = " | ".join(f"{t:.2f}" for t in (ours[0], theirs[0], ours[1], theirs[1]))
        print(f"| {' x '.join(map(str, shape))} | {cells} |")
    print()


def cross_entropy_table(rounds=9, tokens=2048, d=8):
    """Print the fastest process times of the cross-entropy with its gradients, by the kernel and with logits."""
    print(
        f"| {tokens:,} tokens of width {d}, entries | kernel, ms | ns a pair | with logits, ms | times the speed |"
    )
    print("|---:|---:|---:|---:|---:|")
    for entries in VOCABULARIES:
        inputs = [torch.randn(rows, d).requires_grad_() for rows in (tokens, entries)]
        targets = torch.randint(entries, (tokens,))
        times = {fused: [] for fused in (True, False)}
        for _ in range(rounds + 1):
            for fused, passes in times.items():
                began = time.process_time()
                loss = (cross_entropy.linear_cross_entropy if fused else materialised)(*inputs, targets)
                torch.autograd.grad(loss, inputs)
                passes.append(time.process_time() - began)
        ours, theirs = (min(passes[1:]) for passes in times.values())
        pair = 1e9 * ours / tokens / entries
        print(f"| {entries:,} | {1e3 * ours:.1f} | {pair:.2f} | {1e3 * theirs:.1f} | {theirs / ours:.1f} |")
    print()


def step_table(steps=30):
    """Print the median time of a training step of the default run's models."""
    print("| model | a step, tokens | entries | median, ms |")
    print("|---|---:|---:|---:|")
    for name, entries in (("gpt", 8192), ("gpt_bytes", 256)):
        own = {key: value for key, value in CONFIGURED[name].items() if key != "like"}
        settings = GPTSettings.model_validate(CONFIGURED["gpt"] | own)
        network = model.build(settings, "layernorm", "layernorm", entries, seed=0)
        optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
        window = torch.randint(entries, (settings.batch_size, settings.context_length + 1))
        times = []
        for _ in range(steps + 3):
            began = time.perf_counter()
            step(network, optimiser, window, cross_entropy.linear_cross_entropy)
            times.append(time.perf_counter() - began)
        size = f"{settings.batch_size} x {settings.context_length:,}"
        print(f"| {name} | {size} | {entries:,} | {1e3 * statistics.median(times[3:]):.1f} |")
    print()


def peak():
    """The largest memory of this process so far, in KiB (Linux); getrusage would count its parent's too."""
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
    parser.add_argument("--memory-of", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    run = prepare(options)
    if options.memory_of:
        # A tiny step comes first, so that what libraries and compilers take does not count.
        small = prepare(argparse.Namespace(vocabulary=300, batch=1, context=16))
        step(*small, IMPLEMENTATIONS[options.memory_of])
        before = peak()
        step(*run, IMPLEMENTATIONS[options.memory_of])
        after = peak()
        print(f"{(after - before) / 1024:.0f} {after / 1024:.0f}")
        return
    attention_table()
    cross_entropy_table()
    step_table()
    times = {name: [] for name in IMPLEMENTATIONS}
    for _ in range(options.steps + 1):
        for name, loss_of in IMPLEMENTATIONS.items():
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
