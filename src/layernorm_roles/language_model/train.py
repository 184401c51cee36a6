"""Training of language models: AdamW, linear decay of the learning rate, gradient clipping, and checkpoints.

A training that was killed goes on from its checkpoint with results equal to the last byte. Two variants of the norm
with equal seeds have equal initial weights, batches in equal order and equal dropout masks: the norm alone differs.
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
from layernorm_roles.gpu.device import Device, on_device, open_device
from layernorm_roles.language_model import parallel, tasks
from layernorm_roles.language_model.diagnostics import diagnose
from layernorm_roles.language_model.runs import LanguageModelRun
from layernorm_roles.language_model.tasks import Task
from layernorm_roles.optimiser import AdamW, linear_decay, rate_taken
from layernorm_roles.provenance import provenance
from layernorm_roles.script import Progress, naming
from layernorm_roles.settings.language_model import BERTSettings, GPTSettings


class TrainingResult(NamedTuple):
    """The weights and tables of one training; the tables lack the columns that name the run."""

    initial: dict[str, Tensor]
    """The model's parameters before training, by name."""
    final: dict[str, Tensor]
    """The model's parameters after training, by name; all are NaN if the training diverged."""
    metrics: pd.DataFrame
    """Training and validation losses by step: rows of the table language_model_metrics."""
    attention: pd.DataFrame
    """What attention contributes, by step: rows of table language_model_attention, if diagnose_every is set."""


def train_batch(
    plan: Mapping[str, Any], inputs: Mapping[str, Any], out: Mapping[str, str], threads: int
) -> None:
    """Train language models one after another, and write their losses and weights to the paths in `out`.

    `plan` has the keys that `LanguageModelRun.of_plan` reads, device ("cpu" or "cuda"), device_check of config.yaml
    ("stop" or "warn"), and hashes of the code. `inputs` has the path of the text's manifest under "manifest" and, under
    "downloads", the paths of downloaded sentences if there are any. `out` has the paths of the tables "metrics" and
    "attention" (see `TrainingResult`), and of "weights", a file of tensors named <run>/initial/<parameter> and
    <run>/final/<parameter>. If the process was killed, another call goes on from the checkpoints beside that file,
    unless they belong to other settings, code or devices. Raises ValueError if the device cannot be used or its memory
    is used up, if a text does not fit the model, or if the loss is not finite before training.
    """
    parallel.use(threads)
    device = open_device(plan["device"], plan["device_check"])
    runs = LanguageModelRun.of_plan(plan, inputs["manifest"])
    settings, results, checkpoints = runs[0].settings, [], []
    downloads = next((Path(file).parent for file in inputs.get("downloads", ())), None)
    with naming(f"language_model.{runs[0].model}"):
        runs[0].contexts()  # a context that does not fit shows now, not after hours of training
    sizes = f"batch_size = {settings.batch_size}, context_length = {settings.context_length}"
    with device.memory_advice(
        f"lower a size of language_model.{runs[0].model} ({sizes}), or run fewer jobs at a time"
    ):
        for number, run in enumerate(runs):
            identity = {**run.identity, "device": device.identity}
            identity["code"] = [plan["code"], plan["norm_code"][run.variant]]
            path = Path(out["weights"]).with_name(f"checkpoint_{number}.safetensors")
            checkpoints.append(Checkpoint(path, identity))
            with naming(f"language_model.{run.model}"):
                task = tasks.build(run.settings, run.text, run.tokenizer, run.seed, downloads)
            model = run.build_model(task.classes)
            device.compare(model, task.validation[0], run.name)
            results.append(train(model, task, run.settings, run.seed, device, checkpoints[-1], run.name))
    done = [*zip(runs, results, strict=True)]
    weights = {
        f"{run.name}/{checkpoint}/{name}": tensor
        for run, result in done
        for checkpoint in ("initial", "final")
        for name, tensor in getattr(result, checkpoint).items()
    }
    save(weights, out["weights"], {"identity": plan})
    about = provenance(plan, device.description, *tasks.task_type(settings).streams, torch=True)
    for kind in ("metrics", "attention"):
        table = pd.concat(getattr(result, kind).assign(**run.columns, **run.point) for run, result in done)
        store.write(table, f"language_model_{kind}", out[kind], about)
    for checkpoint in checkpoints:
        checkpoint.remove()


def train(
    model: nn.Module,
    task: Task,
    settings: GPTSettings | BERTSettings,
    seed: int,
    device: Device | None = None,
    checkpoint: Checkpoint | None = None,
    title: str = "language model",
) -> TrainingResult:
    """Train `model` on `task`, on the CPU unless `device` is given; `seed` decides the dropout masks.

    If `checkpoint` is given, training goes on from its file if that exists, and writes it every
    settings.checkpoint_every steps and at the end; the caller removes the file. The result is then equal, to the last
    byte, to that of a training without interruption. If the loss stops being finite, training ends: all later
    evaluations have infinite losses, and the final weights are NaN. Raises ValueError if the loss is not finite before
    training. `title` names the training in messages.
    """
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    device = device or Device()
    model.to(device.name)
    random_streams.seed_torch(seed)
    training = _Training(model, task, settings, device.name, title)
    if checkpoint:
        training.go_on_from(checkpoint)
    progress = Progress(title, settings.steps, "steps", training.step)
    checkpoints = _every(settings.checkpoint_every, settings.steps)
    model.train()
    if training.step == 0:
        training.diagnose()
    while training.step < settings.steps:
        training.take_step()
        if training.step in training.evaluations:
            row = training.measure()
            if training.diverged:
                break
            progress(row["step"], f"train {row['train_loss']:.3f}, valid {row['valid_loss']:.3f}")
        training.diagnose()
        if checkpoint and training.step in checkpoints:
            training.keep(checkpoint)
    metrics = pd.DataFrame(training.rows).assign(unigram_loss=task.unigram_loss)
    final = model.state_dict()
    if training.diverged:
        final = {name: torch.full_like(tensor, torch.nan) for name, tensor in final.items()}
    columns = ["step", "layer", "mean_kept_worth", "zero_scores_worth", "input_rms", "score_deviation"]
    attention = pd.DataFrame(training.attention, columns=columns).astype({"layer": "Int64"})
    return TrainingResult(initial, final, metrics, attention)


class _Training:
    """A training in progress: model, optimiser, number of steps taken, and rows of its tables so far."""

    def __init__(
        self, model: nn.Module, task: Task, settings: GPTSettings | BERTSettings, device: str, title: str
    ):
        self.model, self.task, self.settings, self.device, self.title = model, task, settings, device, title
        self.loss_of = partial(validation_loss, task=task, device=device)
        self.step, self.rows, self.attention, self.diverged = 0, [], [], False
        self.began = time.monotonic()
        self.evaluations = _every(settings.evaluate_every, settings.steps)
        every = settings.diagnose_every
        self.diagnoses = _every(every, settings.steps) | {0} if every else set()
        # Summed on the device: to read the loss at every step would make a GPU wait.
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=device)
        self.optimiser = AdamW(
            model.parameters(),
            settings.learning_rate,
            settings.weight_decay,
            settings.adam_eps,
            _factors(model, settings),
        )

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        if state := checkpoint.load(self.model, self.optimiser):
            self.step, self.rows, self.attention = state["step"], state["rows"], state["attention"]
            self.began -= state["seconds"]
            self.loss_sum.fill_(state["loss"])

    def keep(self, checkpoint: Checkpoint) -> None:
        progress = {name: getattr(self, name) for name in ("step", "rows", "attention")}
        progress |= {"loss": self.loss_sum.item(), "seconds": time.monotonic() - self.began}
        checkpoint.save(self.model, self.optimiser, progress)

    def take_step(self) -> None:
        """Train on the next batch; the first step also adds a row for the untrained model to the metrics."""
        settings, untrained = self.settings, self.loss_of(self.model) if self.step == 0 else None
        self.optimiser.lr = linear_decay(
            settings.learning_rate, self.step, settings.rate_ends, settings.warmup
        )
        loss = self.model.loss(*on_device(self.task.batch(self.step), self.device))
        self.model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), settings.gradient_clip)
        self.optimiser.step()
        self.loss_sum.add_(loss.detach())
        if self.step == 0:
            self.add_row(self.loss_sum.item(), untrained)
        self.step += 1

    def measure(self) -> dict[str, float | int]:
        """Append a row of the mean training loss since the row before and the validation loss, and return it."""
        self.add_row(self.loss_sum.item() / (self.step - self.rows[-1]["step"]), self.loss_of(self.model))
        self.loss_sum.zero_()
        return self.rows[-1]

    def diagnose(self) -> None:
        """Measure what attention contributes, if the settings ask for it at this step."""
        if self.step in self.diagnoses:
            found = diagnose(self.model, self.task.validation, self.loss_of)
            self.attention += [{"step": self.step, **row} for row in found]

    def add_row(self, train_loss: float, valid_loss: float) -> None:
        """Append a row of the table of metrics or, if a loss is not finite, infinite rows from here to the end.

        Raises ValueError if a loss is not finite in the first row.
        """
        if np.isfinite([train_loss, valid_loss]).all():
            losses = {"train_loss": train_loss, "valid_loss": valid_loss}
            self.rows.append({**self.at(self.step), **losses, "seconds": time.monotonic() - self.began})
        else:
            before = self.rows[-1] if self.rows else None
            later = (step for step in self.evaluations if step >= self.step)
            self.rows += rows_after_divergence(self.title, self.step, before, later, self.at)
            self.diverged = True

    def at(self, step: int) -> dict[str, float | int]:
        """The columns of the table of metrics that are not losses."""
        settings = self.settings
        tokens = step * settings.batch_size * settings.context_length  # padding and class tokens included
        learning_rate = rate_taken(settings.learning_rate, step, settings.rate_ends, settings.warmup)
        return {"step": step, "tokens": tokens, "learning_rate": learning_rate}


def _factors(model: nn.Module, settings: GPTSettings | BERTSettings) -> dict[nn.Parameter, tuple[int, float]]:
    """The argument `factors` of `AdamW`: the factor on the rate of W_Q and W_K, the first rows of the fused matrix."""
    if settings.query_key_rate == 1:
        return {}
    attentions = (layer.attention for layer in model.layers if layer.attention is not None)
    return {each.qkv.weight: (2 * settings.d_model, settings.query_key_rate) for each in attentions}


def _every(number: int, last: int) -> set[int]:
    return {*range(number, last, number), last}


@torch.no_grad()
def validation_loss(model: nn.Module, task: Task, device: str) -> float:
    """The model's mean loss, in nats, over the task's validation batches, without dropout; `device` has the model."""
    model.eval()
    losses = [model.loss(*on_device(batch, device)).item() for batch in task.validation]
    model.train()
    return float(np.average(losses, weights=[len(batch[0]) for batch in task.validation]))
