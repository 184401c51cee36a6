"""Training: AdamW, a learning rate that falls linearly to 0, clipped gradients; a killed run goes on to the byte.

Two variants with equal seeds start from equal weights, read equal batches in equal order and drop the same units: the
norm is their only difference.
"""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from layernorm_roles import random_streams, store
from layernorm_roles.checkpoint import Checkpoint, save
from layernorm_roles.divergence import rows_after_divergence
from layernorm_roles.gpu.agreement import derivatives
from layernorm_roles.gpu.device import Device, open_device
from layernorm_roles.job import Progress, naming
from layernorm_roles.language_model import parallel, tasks
from layernorm_roles.language_model.operators import operators
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import Batch, Task
from layernorm_roles.optimiser import AdamW, linear_decay, rate_taken
from layernorm_roles.provenance import provenance
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings


class Outputs(NamedTuple):
    """The files of one run. They appear when it ends, but for `checkpoint`, which is there only until then."""

    initial: Path
    """The weights before training."""
    final: Path
    """The weights after training."""
    metrics: Path
    """Table language_model_metrics."""
    checkpoint: Path
    """What a killed run goes on from."""


class TrainingResult(NamedTuple):
    """What training leaves behind."""

    initial: dict[str, Tensor]
    """The weights before training."""
    final: dict[str, Tensor]
    """The weights after training."""
    metrics: pd.DataFrame
    """Table language_model_metrics without the columns that name the run."""


def train_run(
    run: LanguageModelRun,
    out: Outputs,
    device: str,
    threads: int,
    code: Any = None,
    on_difference: str = "stop",
    downloads: Path | None = None,
) -> None:
    """Train the model of one run on `device`, cpu or cuda, and write its files.

    `code` is the version of the code, anything that JSON can hold: a checkpoint of other code is not used.
    `on_difference` is the key device_check of config.yaml, `downloads` the folder of the hub's texts. Raises ValueError
    if the device cannot be used, its memory is used up, the text or a context does not fit the model, or the loss is
    not finite before training.
    """
    parallel.use(threads)
    opened = open_device(device, on_difference)
    with naming(f"language_model.{run.model}"):
        run.contexts()  # a context that does not fit shows now, not after hours of training
        task = tasks.build(run.settings, run.text, run.tokenizer, run.seed, downloads)
    model = run.build_model(getattr(task, "classes", None))
    checkpoint = Checkpoint(out.checkpoint, {**run.identity, "device": opened.identity, "code": code})
    with opened.memory_advice(_smaller(run)):
        opened.check(operators(run.settings, run.tokenizer.get_vocab_size()), run.title)
        opened.compare(partial(derivatives, model, task.validation[0]), run.title)
        result = train(model, task, run.settings, run.seed, opened, checkpoint, run.title)
    write(result, run, out, provenance(run.identity, opened.description, *task.streams, torch=True))
    checkpoint.remove()


def _smaller(run: LanguageModelRun) -> str:
    """What to lower where the memory does not hold the training of a run."""
    sizes = ", ".join(f"{name} = {getattr(run.settings, name)}" for name in ("batch_size", "context_length"))
    return (
        f"lower a size of language_model.{run.model} ({sizes}), or run fewer jobs at a time "
        "(--resources gpu=1 where they share a GPU, else --cores)"
    )


def train(
    model: nn.Module,
    task: Task,
    settings: GPTSettings | BERTSettings,
    seed: int,
    device: Device | None = None,
    checkpoint: Checkpoint | None = None,
    title: str = "language model",
) -> TrainingResult:
    """Train `model` on `task`; `seed` is for dropout, since model and task are drawn already.

    Without a `device` the CPU trains. The run goes on from `checkpoint`, if one is given and its file is there, and
    writes it every settings.checkpoint_every steps: the result has the bytes of a run that never stopped. A run whose
    loss stops being finite ends there: the rows of later evaluations are `divergence.rows_after_divergence`, and its
    final weights are NaN. Raises ValueError if the loss is not finite before training.
    """
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    device = device or Device()
    model.to(device.name)
    random_streams.seed_torch(seed)
    training = _Training(model, task, settings, device, title)
    if checkpoint:
        training.go_on_from(checkpoint)
    progress = Progress(title, settings.steps, "steps", training.step)
    model.train()
    while training.step < settings.steps:
        training.take_step()
        if training.step in training.evaluations:
            row = training.measure()
            if training.diverged:
                break
            progress(row["step"], f"train {row['train_loss']:.3f}, valid {row['valid_loss']:.3f}")
        if checkpoint and training.step % settings.checkpoint_every == 0 and training.step < settings.steps:
            training.keep(checkpoint)
    metrics = pd.DataFrame(training.rows).assign(unigram_loss=task.unigram_loss())
    final = model.state_dict()
    if training.diverged:
        final = {name: torch.full_like(tensor, torch.nan) for name, tensor in final.items()}
    return TrainingResult(initial, final, metrics)


def write(result: TrainingResult, run: LanguageModelRun, out: Outputs, metadata: Mapping[str, str]) -> None:
    """Write the weights and metrics of a run; `metadata` is their provenance."""
    save(result.initial, out.initial, {"identity": run.weights_identity("initial")})
    save(result.final, out.final, {"identity": run.weights_identity("final")})
    metrics = result.metrics.assign(model=run.model, variant=run.variant, seed=run.seed, **run.point)
    store.write(metrics, "language_model_metrics", out.metrics, metadata)


class _Training:
    """A model on its way through training: the optimiser, the steps taken, and the rows of the metrics so far."""

    def __init__(
        self, model: nn.Module, task: Task, settings: GPTSettings | BERTSettings, device: Device, title: str
    ):
        self.model, self.task, self.settings, self.title = model, task, settings, title
        self.device = device.name
        self.step, self.rows, self.began = 0, [], time.monotonic()
        self.diverged = False
        self.evaluations = {
            *range(settings.evaluate_every, settings.steps, settings.evaluate_every),
            settings.steps,
        }
        # Summed on the device: to read the loss at every step would make a GPU wait.
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        self.optimiser = AdamW(model.parameters(), settings.learning_rate, settings.weight_decay)

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Take over the state in the file of `checkpoint`, if it is there."""
        if state := checkpoint.load(self.model, self.optimiser):
            self.step, self.rows = state["step"], state["rows"]
            self.began -= state["seconds"]
            self.loss_sum.fill_(state["loss"])

    def keep(self, checkpoint: Checkpoint) -> None:
        """Write the state to the file of `checkpoint`."""
        progress = {
            "step": self.step,
            "rows": self.rows,
            "loss": self.loss_sum.item(),
            "seconds": self._seconds(),
        }
        checkpoint.save(self.model, self.optimiser, progress)

    def take_step(self) -> None:
        """Train on the next batch; around the first step, measure the untrained model."""
        untrained = validation_loss(self.model, self.task, self.device) if self.step == 0 else None
        settings = self.settings
        rate = linear_decay(settings.learning_rate, self.step, settings.steps, settings.warmup)
        self.optimiser.set_learning_rate(rate)
        loss = self.model.loss(*_on_device(self.task.batch(self.step), self.device))
        self.model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.gradient_clip)
        self.optimiser.step()
        self.loss_sum.add_(loss.detach())
        if self.step == 0:
            self._add_row(self.loss_sum.item(), untrained)
        self.step += 1

    def measure(self) -> dict[str, float | int]:
        """Add a row of the metrics: the mean training loss since the last row, and the validation loss."""
        train_loss = self.loss_sum.item() / (self.step - self.rows[-1]["step"])
        self._add_row(train_loss, validation_loss(self.model, self.task, self.device))
        self.loss_sum.zero_()
        return self.rows[-1]

    def _add_row(self, train_loss: float, valid_loss: float) -> None:
        if np.isfinite([train_loss, valid_loss]).all():
            losses = {"train_loss": train_loss, "valid_loss": valid_loss}
            self.rows.append({**self._at(self.step), **losses, "seconds": self._seconds()})
        else:
            before = self.rows[-1] if self.rows else None
            later = (step for step in self.evaluations if step >= self.step)
            self.rows += rows_after_divergence(self.title, self.step, before, later, self._at)
            self.diverged = True

    def _at(self, step: int) -> dict[str, float | int]:
        """What a row of the metrics says of a step, whatever the losses are."""
        settings = self.settings
        learning_rate = rate_taken(settings.learning_rate, step, settings.steps, settings.warmup)
        return {"step": step, "tokens": step * self.task.tokens_per_step, "learning_rate": learning_rate}

    def _seconds(self) -> float:
        return time.monotonic() - self.began


@torch.no_grad()
def validation_loss(model: nn.Module, task: Task, device: str) -> float:
    """The model's mean loss over the task's validation batches, without dropout."""
    model.eval()
    losses = [model.loss(*_on_device(batch, device)).item() for batch in task.validation]
    model.train()
    return float(np.average(losses, weights=[len(batch[0]) for batch in task.validation]))


def _on_device(batch: Batch, device: str) -> tuple[Tensor, ...]:
    return tuple(torch.from_numpy(array).to(device) for array in batch)
