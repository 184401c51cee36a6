"""Training: AdamW, a learning rate that falls linearly to 0, clipped gradients; resumable to the byte.

Two variants with the same seed start from the same draw of the weights, read the same batches in the same order
and drop out the same units: their difference is the norm.
"""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from layernorm_roles import checkpoint, store
from layernorm_roles.gpu import be_deterministic, recorded
from layernorm_roles.job import Progress
from layernorm_roles.text import contexts

BATCHES = 11
"""Stream of np.random.default_rng([seed, stream, epoch]) that orders the training windows."""

SEED_RULE = (
    "torch.manual_seed(seed) for weights and dropout; batches by default_rng([seed, BATCHES = 11, epoch])"
)

Batch = tuple[np.ndarray, ...]
"""What a model's `loss` takes; the shapes are the same at every step."""


class Task(Protocol):
    """What to train on. `tokens_per_step` is for the metrics."""

    tokens_per_step: int

    def batch(self, step: int) -> Batch:
        """The batch of step `step`, from 0; depends on nothing but the step, so resuming needs no position."""

    def validation(self) -> Iterator[Batch]:
        """The batches of the validation loss, always the same."""


class NextToken:
    """Next-token prediction on disjoint windows of `context` tokens, each epoch in an order and offset of its own."""

    def __init__(
        self, training: Path, validation: Path, vocabulary: int, settings: Mapping[str, Any], seed: int
    ):
        self.context, self.size, self.seed = settings["context"], settings["batch"], seed
        self.tokens_per_step = self.size * self.context
        self.training = contexts.stream(training, vocabulary, self.context)
        held_back = contexts.stream(validation, vocabulary, self.context)
        # One window less than fit leaves room for an offset.
        self.windows = (len(self.training) - 1) // self.context - 1
        if self.windows < self.size:
            raise ValueError(
                f"{training}: {self.windows} windows of language_model.context = {self.context} tokens; "
                f"expected at least language_model.batch = {self.size}"
            )
        possible = (len(held_back) - 1) // self.context
        chosen = np.unique(np.linspace(0, possible - 1, settings["validation_windows"]).astype(int))
        self.held_back = np.stack([_window(held_back, i * self.context, self.context) for i in chosen])

    def batch(self, step: int) -> Batch:
        epoch, position = divmod(step, self.windows // self.size)
        rng = np.random.default_rng([self.seed, BATCHES, epoch])
        offset = rng.integers(self.context)
        chosen = rng.permutation(self.windows)[position * self.size :][: self.size]
        return (np.stack([_window(self.training, offset + i * self.context, self.context) for i in chosen]),)

    def validation(self) -> Iterator[Batch]:
        for start in range(0, len(self.held_back), self.size):
            yield (self.held_back[start : start + self.size],)


def _window(stream: np.ndarray, start: int, length: int) -> np.ndarray:
    """`length` tokens and the one after them."""
    return stream[start : start + length + 1].astype(np.int64)


class Outputs(NamedTuple):
    """The files of one run; all of them appear at its end, `checkpoint` only while it lasts."""

    initial: Path
    final: Path
    metrics: Path
    checkpoint: Path


def train(
    model: nn.Module,
    task: Task,
    settings: Mapping[str, Any],
    identity: Mapping[str, Any],
    out: Outputs,
    device: str = "cpu",
    threads: int = 1,
    code: Any = None,
) -> None:
    """Train `model` on `task`; write its weights before and after, and the metrics.

    `identity` says which run this is (variant, seed and all settings) and goes with the outputs. Resumed from its
    checkpoint, a run gives the bytes of one that never stopped; a checkpoint of another identity, device or `code`
    is not used. ValueError: a loss that is no longer finite.
    """
    torch.set_num_threads(threads)
    be_deterministic(device)
    initial = {name: p.clone() for name, p in model.state_dict().items()}
    model.to(device)
    torch.manual_seed(identity["seed"])
    on_gpu = device != "cpu"
    optimiser = torch.optim.AdamW(
        model.parameters(),
        # For a CUDA graph the rate must be a place in memory.
        lr=torch.tensor(settings["learning_rate"], device=device) if on_gpu else settings["learning_rate"],
        weight_decay=settings["weight_decay"],
        fused=True,
        capturable=on_gpu,
    )
    saved = checkpoint.Checkpoint(out.checkpoint, {**identity, "device": device, "code": code})
    reached = saved.load(model, optimiser) or {"step": 0, "rows": [], "loss": 0.0, "seconds": 0.0}
    step, rows = reached["step"], reached["rows"]
    # Summed on the device: to read the loss at every step would make the GPU wait.
    loss_sum = torch.tensor(reached["loss"], dtype=torch.float64, device=device)
    steps, every = settings["steps"], settings["evaluate_every"]
    title = f"language model {identity['model']} {identity['variant']} seed {identity['seed']}"
    progress, began = Progress(title, steps, "steps", step), time.monotonic() - reached["seconds"]

    def rate(step: int) -> float:
        return settings["learning_rate"] * (1 - step / steps)

    def measure(step: int, train_loss: float, valid_loss: float) -> None:
        row = {
            "step": step,
            "tokens": step * task.tokens_per_step,
            "train_loss": train_loss,
            "valid_loss": valid_loss,
            "learning_rate": rate(step),
            "seconds": time.monotonic() - began,
        }
        if not np.isfinite([row["train_loss"], row["valid_loss"]]).all():
            raise ValueError(f"{title}: the loss is no longer finite at step {step}; lower learning_rate")
        rows.append(row)

    batch = _to(device, task.batch(step))

    def take() -> None:
        loss = model.loss(*batch)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimiser.step()
        loss_sum.add_(loss.detach())

    take_step = recorded(take, device)
    untrained = _validate(model, task, device) if step == 0 else None
    model.train()
    while step < steps:
        for place, array in zip(batch, task.batch(step), strict=True):
            place.copy_(torch.from_numpy(array))
        for group in optimiser.param_groups:
            if on_gpu:
                group["lr"].fill_(rate(step))
            else:
                group["lr"] = rate(step)
        take_step()
        if step == 0:
            measure(0, loss_sum.item(), untrained)
        step += 1
        if step % every == 0 or step == steps:
            mean = loss_sum.item() / (step - rows[-1]["step"])
            measure(step, mean, _validate(model, task, device))
            loss_sum.zero_()
            progress(step, f"train {rows[-1]['train_loss']:.3f}, valid {rows[-1]['valid_loss']:.3f}")
        if step % settings["checkpoint_every"] == 0 and step < steps:
            seconds = time.monotonic() - began
            saved.save(
                model, optimiser, {"step": step, "rows": rows, "loss": loss_sum.item(), "seconds": seconds}
            )

    about = store.provenance(dict(identity), device, SEED_RULE)
    metrics = pd.DataFrame(rows).assign(variant=identity["variant"], seed=identity["seed"])
    checkpoint.save(initial, out.initial, {"identity": identity})
    checkpoint.save(model.state_dict(), out.final, {"identity": identity})
    store.write(metrics, "language_model_metrics", out.metrics, about)
    saved.remove()


@torch.no_grad()
def _validate(model: nn.Module, task: Task, device: str) -> float:
    model.eval()
    losses, sizes = zip(
        *((model.loss(*_to(device, batch)).item(), len(batch[0])) for batch in task.validation()), strict=True
    )
    model.train()
    return float(np.average(losses, weights=sizes))


def _to(device: str, batch: Batch) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array).to(device) for array in batch)
