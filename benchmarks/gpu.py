"""What a GPU is asked first: does it compute rightly, what takes its time, and trainings at the paper's rate.

    python benchmarks/gpu.py [--text FOLDER] [--minutes 8] [--only right speed fused curves]

It needs neither Snakemake nor a network, but the prepared texts words and bytes, by default those that
`snakemake --cores 1 results/default/data/text/{words,bytes}/manifest.json` makes. A part that fails does not
stop the others; `curves` trains until the minutes have passed. Without a GPU all sizes are tiny: a rehearsal.
"""

import argparse
import sys
import time
import traceback
from functools import partial
from pathlib import Path

import numpy as np
import torch

from layernorm_roles.gpu.device import largest_difference, open_device
from layernorm_roles.language_model import attention, cross_entropy, model, parallel, tasks, train
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.reproduction import configured
from layernorm_roles.settings.language_model import GPTSettings
from layernorm_roles.text.prepared import PreparedText

ROOT, BEGAN, CPU = Path(__file__).resolve().parents[1], time.monotonic(), not torch.cuda.is_available()
DEVICE, synchronise = ("cpu", lambda: None) if CPU else ("cuda", torch.cuda.synchronize)
TINY = {"batch_size": 2, "context_length": 64, "validation_windows": 2} if CPU else {}
PAPER = {"batch_size": 16, "attention_dropout": 0.1, "learning_rate": 5e-5, "steps": 20 if CPU else 50_000}
VARIANTS = ("layernorm", "projection")
FUSE = {f"realize_{what}_threshold": 10_000 for what in ("reads", "opcount", "acc_reads")}
"""With these options torch.compile stores neither logits nor scores, however many sums read them."""


def say(*words):
    print(f"[{time.monotonic() - BEGAN:4.0f} s]", *words, flush=True)


def median_ms(function, rounds=4 if CPU else 20):
    """The median of the milliseconds of a call, without the first two."""
    times = []
    for _ in range(rounds):
        synchronise()
        began = time.perf_counter()
        function()
        synchronise()
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times[2:]))


def run_of(options, name, variant="layernorm", **changes):
    """A run of a model of config.yaml, with these changes, and its task."""
    configuration = configured(ROOT / "config.yaml", {}).language_model[name]
    point = {"learning_rate": configuration.learning_rate[0], "query_key_rate": 1.0}
    settings = GPTSettings.model_validate(configuration.of_training() | point | changes | TINY)
    text = PreparedText(options.text / settings.text)
    run = LanguageModelRun(f"{name}/{variant}", name, variant, variant, 1000, settings, text)
    return run, tasks.build(settings, text, run.tokenizer, run.seed)


def training_of(run, task, entries=None):
    network = model.build(run.settings, run.variant, run.norm, entries or run.vocabulary, run.seed).to(DEVICE)
    return train._Training(network.train(), task, run.settings, DEVICE, run.name)


def right(options):
    """One batch on both devices; then trainings on both, without dropout."""
    for name in ("gpt", "gpt_bytes"):
        changes = {"dropout": 0.0, "steps": 4 if CPU else 200, "evaluate_every": 2 if CPU else 50}
        for variant in ("layernorm", "projection", "no_attention"):
            run, task = run_of(options, name, variant, **changes)
            what, share = largest_difference(run.build_model(), task.validation[0], DEVICE)
            say(f"{run.name}: {what} differs most, by {share:.1e} of its size")
        run, task = run_of(options, name, **changes)
        for place in (open_device("cpu"), open_device(DEVICE)):
            losses = train.train(run.build_model(), task, run.settings, 0, place).metrics.valid_loss
            say(f"{name}, losses on {place.name}:", *(f"{loss:.6f}" for loss in losses))


def speed(options):
    """A step of the paper's size: its time, the host's time, memory and kernels; then as one CUDA graph."""
    run, _ = run_of(options, "gpt", **PAPER)
    for entries in (512,) if CPU else (8192, 50257):
        stream = np.random.default_rng(0).integers(entries, size=200 * 1024, dtype=np.uint16)
        task = tasks.NextToken(stream, stream, entries, run.settings, 0)
        training = training_of(run, task, entries)
        median_ms(training.take_step)
        steps, began = 2 if CPU else 60, time.perf_counter()
        [training.take_step() for _ in range(steps)]
        host = 1e3 * (time.perf_counter() - began) / steps
        synchronise()
        ms = 1e3 * (time.perf_counter() - began) / steps
        say(f"{entries} entries: {ms:.2f} ms a step, {host:.2f} ms of the host's")
        if not CPU:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                training.take_step()
                synchronise()
            kernels = profile.key_averages().table(sort_by="self_cuda_time_total", row_limit=12)
            say(f"peak {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB; the kernels:\n{kernels}")
        ms = median_ms(Graph(training_of(run, task, entries), 100).step)
        say(f"{entries} entries: {ms:.2f} ms a step as one CUDA graph")


def recorded(function):
    """A function that runs `function` as one CUDA graph, on a stream of its own; `function` is called three times."""
    if CPU:
        return [function() for _ in range(3)] and function
    stream, graph, generator = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.cuda.default_generators[0]
    # A state of its own lets the graphs of several trainings run side by side, with equal masks of dropout.
    generator.graphsafe_set_state(generator.clone_state())
    torch.manual_seed(0)
    synchronise()
    with torch.cuda.stream(stream):
        [function() for _ in range(3)]
    synchronise()
    with torch.cuda.graph(graph, stream=stream):
        function()

    def replay():
        with torch.cuda.stream(stream):
            graph.replay()

    return replay


class Graph:
    """A training after its third step, whose steps are one CUDA graph; all tokens and rates are on the device."""

    def __init__(self, training, steps):
        self.training, settings, task = training, training.settings, training.task
        at = [divmod(step, task.windows // task._size) for step in range(steps)]
        starts = np.stack([task._starts(epoch)[place * task._size :][: task._size] for epoch, place in at])
        schedule = {"last": settings.rate_ends, "warmup": settings.warmup}
        rates = [train.linear_decay(settings.learning_rate, step, **schedule) for step in range(steps)]
        arrays = starts, rates, task._training.astype(np.int64), np.arange(task._length + 1)
        starts, rates, tokens, inside = (torch.as_tensor(array, device=DEVICE) for array in arrays)
        number, training.optimiser.lr = torch.zeros(1, dtype=torch.int64, device=DEVICE), rates[0].clone()

        def update():
            training.optimiser.lr.copy_(rates[number][0])
            loss = training.model.loss(tokens[starts[number][0][:, None] + inside])
            training.model.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(training.model.parameters(), settings.gradient_clip)
            training.optimiser.step()
            training.loss_sum.add_(loss.detach())
            number.add_(1).remainder_(steps)

        self.step = recorded(update)


def loss_as_sums(h, w, t):
    """The cross-entropy and its gradients as sums that a compiler can fuse, so that no logit is stored."""
    x = sum(h[:, c, None] * w[:, c] for c in range(h.shape[1]))
    top = x.amax(1, keepdim=True)
    e = (x - top).exp()
    total, wanted = e.sum(1, keepdim=True), w[t]
    mean, p = torch.stack([(e * column).sum(1) for column in w.T], 1) / total, h / total
    w_grad = torch.stack([(e * column[:, None]).sum(0) for column in p.T], 1).index_add(0, t, h, alpha=-1)
    return ((total.log() + top)[:, 0] - (h * wanted).sum(1)).mean(), (mean - wanted) / len(h), w_grad / len(h)


def attention_as_sums(qkv, heads, dropout=0.0):
    """Causal attention as sums that a compiler can fuse, so that no score is stored."""
    q, k, v = attention.split(qkv, heads)
    i, d = torch.arange(q.shape[-2], device=qkv.device), q.shape[-1]
    x = sum(q[..., :, None, c] * k[..., None, :, c] for c in range(d)) * d**-0.5
    p = torch.dropout(x.masked_fill(i > i[:, None], -torch.inf).softmax(-1), dropout, True)
    return torch.stack([(p * v[..., None, :, c]).sum(-1) for c in range(d)], -1).transpose(1, 2).flatten(2)


def fused(options):
    """Cross-entropy and attention as sums that torch.compile fuses; used from here on where 1.5 times as fast."""
    compiled = (lambda way: way) if CPU else partial(torch.compile, options=FUSE, dynamic=False)
    loss, of_loss = compiled(loss_as_sums), cross_entropy.chunked
    heads, of_heads = compiled(attention_as_sums), model.causal_attention

    def faster(what, call, ours, theirs, exact):
        times = []
        for way in (ours, theirs):
            apart = max(((a - b).norm() / b.norm()).item() for a, b in zip(call(way), exact, strict=True))
            times.append(median_ms(recorded(lambda: call(way))))  # noqa: B023
            say(f"{what} {'as it is' if way is ours else 'as sums'}: {times[-1]:.2f} ms, error {apart:.1e}")
        return 1.5 * times[1] < times[0] and apart < 1e-5

    for entries in (512,) if CPU else (50257, 8192):
        h, w = (torch.randn(rows, 8, device=DEVICE) for rows in (128 if CPU else 16384, entries))
        t = torch.randint(entries, h.shape[:1], device=DEVICE)
        exact = of_loss(h.double(), w.double(), t)
        chosen = faster(f"loss, {entries} entries,", lambda way: way(h, w, t), of_loss, loss, exact)  # noqa: B023

    def both_passes(way, dtype=torch.float32):
        x = qkv.detach().to(dtype).requires_grad_()
        return (out := way(x, 4)).detach(), *torch.autograd.grad(out, x, torch.ones_like(out))

    qkv = torch.randn(*((2, 64) if CPU else (16, 1024)), 24, device=DEVICE)
    if faster("attention", both_passes, of_heads, heads, both_passes(of_heads, torch.float64)):
        model.causal_attention = lambda *given: (heads if torch.is_grad_enabled() else of_heads)(*given)
    if chosen:
        cross_entropy.chunked = lambda *inputs, gradients: (
            loss(*(x.detach() for x in inputs)) if gradients else of_loss(*inputs, gradients=False)
        )


def curves(options):
    """Variants at the paper's rate and batch, side by side: losses of training and validation."""
    every, steps, last = 5 if CPU else 1000, PAPER["steps"], 0
    # As gpt_paper_rate of published.yaml but for the batch, so without dropout of attention weights.
    changes = PAPER | {"attention_dropout": 0.0, "validation_windows": 80}
    graphs = [Graph(training_of(*run_of(options, "gpt", name, **changes)), steps) for name in VARIANTS]
    print("| variant | step | training loss | validation loss |\n|---|---:|---:|---:|")
    for step in range(4, steps + 1):
        [graph.step() for graph in graphs]
        if step % every and step < steps:
            continue
        synchronise()
        for variant, graph in zip(VARIANTS, graphs, strict=True):
            trained = graph.training.loss_sum.item() / (step - last)
            graph.training.loss_sum.zero_()
            valid = graph.training.loss_of(graph.training.model)
            print(f"| {variant} | {step} | {trained:.4f} | {valid:.4f} |", flush=True)
        last = step
        if time.monotonic() - BEGAN > 60 * options.minutes:
            return


def main():
    parts = {part.__name__: part for part in (right, speed, fused, curves)}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--text", type=Path, default=ROOT / "results/default/data/text")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--only", nargs="+", choices=parts, default=[*parts])
    options, failed = parser.parse_args(), []
    if not (options.text / "words/manifest.json").exists():
        sys.exit(f"--text {options.text}: expected a folder with the prepared texts words and bytes")
    parallel.use(1)
    say(open_device(DEVICE).description, "torch", torch.__version__)
    for name in options.only:
        say(f"{name}: {parts[name].__doc__}")
        try:
            parts[name](options)
        except Exception:
            failed.append(say(name, "FAILED", traceback.format_exc()))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
