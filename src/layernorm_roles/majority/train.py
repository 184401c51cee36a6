"""Training of the majority task's transformers as in Brody et al. (2023): Adam, linear decay, shuffled epochs."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int

from layernorm_roles import store
from layernorm_roles.checkpoint import Checkpoint, save
from layernorm_roles.divergence import rows_after_divergence
from layernorm_roles.gpu.device import Device
from layernorm_roles.majority.data import Sequences, load
from layernorm_roles.majority.evaluation import evaluate, evaluation_steps, vectors_of
from layernorm_roles.majority.gradients import as_tensors, compiled_gradient, flatten
from layernorm_roles.majority.model import MajorityTransformer
from layernorm_roles.optimiser import AdamW, linear_decay, rate_taken
from layernorm_roles.plan import Plan
from layernorm_roles.provenance import provenance
from layernorm_roles.random_streams import Stream, generator, seed_torch
from layernorm_roles.script import Progress
from layernorm_roles.settings.majority import MajorityTraining


class MajorityRun(NamedTuple):
    """The description of one training of the majority task's transformer: an entry of `runs` in a plan file (JSON)."""

    name: str
    """Unique name of the run, which begins its lines in logs and the names of its weights."""
    experiment: str
    """The entry of `majority` in config.yaml that the run belongs to."""
    variant: str
    """Variant of the norm before attention, by its name in tables and figures."""
    norm: str
    """The name of the variant's norm for `norms.build_pair`: that of a built-in one, or package.module:Class."""
    seed: int
    """Seed of data, training batches and initial parameters."""
    d_model: int
    """Size of the model's residual stream, and of its queries and keys."""
    base_learning_rate: float
    """Adam's learning rate at the first step, from which it falls linearly."""


class TrainedRun(NamedTuple):
    """The result of a training: the model, a table of its metrics, and a table of its keys and queries."""

    metrics: pd.DataFrame
    """Rows of table `majority_metrics`, one an evaluation: losses, accuracy, query angles, spread of attention."""
    vectors: pd.DataFrame
    """Rows of table `majority_vectors`: keys and queries before training and, unless it diverged, after training."""
    model: MajorityTransformer


def train_batch(plan: Plan, data: Sequence[str | Path], out: Mapping[str, str | Path]) -> None:
    """Train the majority transformers in `plan` one after another, and write their metrics and weights to files.

    `plan` has the runs and their settings. `out` has the paths to write to, under "metrics", "vectors" (a table of keys
    and queries) and "weights"; a weight's name in the file is <run>/<parameter>. `data` are the paths of the data sets,
    one for each seed, in ascending order. If the process is killed, a call with an equal plan continues
    from the runs' last checkpoints, which are kept until all runs are finished.
    """
    torch.set_num_threads(1)  # the processes share the cores, not the threads of one
    settings = MajorityTraining.model_validate(plan["settings"])
    cpu, results, checkpoints = Device(), {}, []
    seeds = sorted({run["seed"] for run in plan["runs"]})
    files = dict(zip(seeds, zip(data, plan["made_by"].values(), strict=True), strict=True))
    for number, run in enumerate(MajorityRun(**each) for each in plan["runs"]):
        identity = {**run._asdict(), "settings": plan["settings"], "device": cpu.identity}
        identity |= {"code": [plan["code"], plan["norm_code"][run.variant]]}
        file = Path(out["weights"]).with_name(f"checkpoint_{number}.safetensors")
        checkpoints.append(Checkpoint(file, identity))
        with cpu.memory_advice(f"lower majority.{run.experiment}.batch_size = {settings.batch_size}"):
            results[run] = train(settings, run, load(*files[run.seed]), checkpoints[-1])
    write(results, plan, cpu.description, out)
    for checkpoint in checkpoints:
        checkpoint.remove()


def train(
    settings: MajorityTraining,
    run: MajorityRun,
    data: Mapping[str, Sequences],
    checkpoint: Checkpoint | None = None,
) -> TrainedRun:
    """Train the model that `run` describes on data["train"], and evaluate it on both data["train"] and data["test"]."""
    seed_torch(run.seed)
    model = MajorityTransformer(settings.classes, run.d_model, settings.d_ff or run.d_model, run.norm)
    initial = vectors_of(model).assign(checkpoint="initial")
    parameters = flatten(model)
    set_gradient = compiled_gradient(model, parameters)
    optimiser = AdamW([parameters], run.base_learning_rate)
    training, test = (as_tensors(data[name]) for name in ("train", "test"))
    class_tokens = training[0].sum(dim=0, dtype=torch.float64)

    state = (checkpoint and checkpoint.load(model, optimiser)) or {"step": 0, "rows": []}
    first, rows = state["step"], state["rows"]
    # Drawn again up to here: a permutation an epoch is cheap, the state of a generator is one more thing to keep.
    batches = islice(batch_rows(len(data["train"].label), settings.batch_size, run.seed), first, None)

    evaluated = evaluation_steps(settings.evaluate_every, settings.steps)
    progress = Progress(run.name, settings.steps, "steps", first)

    def at(step: int) -> dict[str, float | int]:
        learning_rate = rate_taken(run.base_learning_rate, step, settings.schedule_steps)
        return {"step": step, "learning_rate": learning_rate}

    for step in range(first, settings.steps + 1):
        last = step == settings.steps
        if checkpoint and step > first and (last or step % settings.checkpoint_every == 0):
            checkpoint.save(model, optimiser, {"step": step, "rows": rows})
        if step in evaluated:
            metrics = evaluate(model, training, test, class_tokens)
            if not np.isfinite([metrics["train_loss"], metrics["test_loss"]]).all():
                later = (evaluation for evaluation in evaluated if evaluation >= step)
                before = rows[-1] if rows else None
                rows += rows_after_divergence(run.name, step, before, later, at)
                return TrainedRun(pd.DataFrame(rows), initial, model)
            rows.append({**at(step), **metrics})
            progress(step, f"test loss {metrics['test_loss']:.4f}")
        if not last:
            rows_of_batch = torch.from_numpy(next(batches))
            set_gradient(*(part.index_select(0, rows_of_batch) for part in training))
            optimiser.lr = linear_decay(run.base_learning_rate, step, settings.schedule_steps)
            optimiser.step()
    vectors = pd.concat([initial, vectors_of(model).assign(checkpoint="final")])
    return TrainedRun(pd.DataFrame(rows), vectors, model)


def batch_rows(rows: int, size: int, seed: int) -> Iterator[Int[np.ndarray, " batch"]]:
    """Yield, without end, the indices of the sequences in one training batch after another."""
    rng = generator(Stream.MAJORITY_BATCHES, seed)
    while True:
        order = rng.permutation(rows)
        for start in range(0, rows, size):
            yield order[start : start + size]


def write(
    results: Mapping[MajorityRun, TrainedRun],
    plan: Mapping[str, Any],
    device: str,
    out: Mapping[str, str | Path],
) -> None:
    """Write the results of trained runs to the files out["weights"], out["vectors"] and out["metrics"]."""
    weights = {
        f"{run.name}/{name}": tensor
        for run, result in results.items()
        for name, tensor in result.model.state_dict().items()
    }
    save(weights, out["weights"], {"identity": plan})
    streams = Stream.MAJORITY_DATA, Stream.MAJORITY_BATCHES
    about = provenance(plan, device, *streams, torch=True)
    for kind in ("vectors", "metrics"):
        frames = {run: getattr(result, kind) for run, result in results.items()}
        rows = [frame.assign(**run._asdict()).drop(columns=["name", "norm"]) for run, frame in frames.items()]
        store.write(pd.concat(rows), f"majority_{kind}", out[kind], about)
