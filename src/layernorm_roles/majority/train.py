"""One training run of the majority transformer, as released: Adam, an epoch's permutation, linear decay."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.adam import adam

from layernorm_roles import store
from layernorm_roles.checkpoint import Checkpoint, save
from layernorm_roles.gpu import be_deterministic
from layernorm_roles.job import Progress
from layernorm_roles.majority.data import Sequences
from layernorm_roles.majority.model import MajorityTransformer, Tables, pair_loss

BATCH_STREAM = 1
"""Stream of the seed: `np.random.default_rng([seed, BATCH_STREAM])` orders the batches."""

SEED_RULE = (
    "data: numpy default_rng([seed, 0]); batch order: default_rng([seed, 1]); parameters: torch.manual_seed(seed); "
    "the same for every variant"
)


class Run(NamedTuple):
    """What a run leaves: `majority_metrics` and `majority_vectors` rows, and the trained model."""

    metrics: pd.DataFrame
    vectors: pd.DataFrame
    model: MajorityTransformer


def train(
    task: dict,
    norm: str,
    seed: int,
    data: dict[str, Sequences],
    device: str = "cpu",
    title: str = "majority",
    checkpoint: Checkpoint | None = None,
) -> Run:
    """Train one model; `task` is an experiment of config.yaml's `majority`, `norm` a name for `norms.build`.

    On the CPU the numba kernel computes loss and gradients, elsewhere PyTorch does; same numbers up to
    rounding. On one machine the same arguments give the same bytes, also when the run goes on from `checkpoint`,
    which it writes every `task["checkpoint_every"]` steps and at the end, for the caller to remove once the results
    are safe. Raises ValueError if the loss stops being finite.
    """
    be_deterministic(device)
    torch.manual_seed(seed)
    model = MajorityTransformer(task["classes"], task["dim"], task["feed_forward"], norm).to(device)
    loss_of = losses(device)
    split = {name: OnDevice(rows, device) for name, rows in data.items()}
    frequency = split["train"].counts.sum(dim=0, dtype=torch.float64)

    flat = flatten(model)
    set_gradient = gradients(device)(model, flat)
    optimiser = Adam(flat)
    reached = (checkpoint and checkpoint.load(model, optimiser)) or {"step": 0, "rows": []}
    first, rows = reached["step"], reached["rows"]
    # Drawn again up to here: a permutation an epoch is cheap, the state of a generator is one more thing to keep.
    batches = islice(batch_rows(len(split["train"].label), task["batch"], seed), first, None)
    progress = Progress(title, task["steps"], "steps", first)
    for step in range(first, task["steps"] + 1):
        if checkpoint and step > first and (step % task["checkpoint_every"] == 0 or step == task["steps"]):
            checkpoint.save(model, optimiser, {"step": step, "rows": rows})
        rate = task["learning_rate"] * max(0.0, 1 - step / task["schedule_steps"])
        if step % task["metrics_every"] == 0 or step == task["steps"]:
            rows.append({"step": step, "learning_rate": rate, **evaluate(model, split, frequency, loss_of)})
            refuse_nan(rows[-1], title)
            progress(step, f"test loss {rows[-1]['test_loss']:.4f}")
        if step == task["steps"]:
            break
        batch = torch.from_numpy(next(batches)).to(device)
        set_gradient(*split["train"].take(batch))
        optimiser.step(rate)
    return Run(pd.DataFrame(rows), vectors_of(model), model)


def write(result: Run, run: dict, task: dict, norm: str, device: str, files: Sequence[str]) -> None:
    """The files of one run: its metrics, vectors and weights. `run` says which: experiment, variant and seed."""
    metrics, vectors, weights = files
    about = store.provenance(task | {"norm": norm}, device, SEED_RULE)
    save(result.model.state_dict(), weights, {"identity": {"norm": norm, "seed": run["seed"], "task": task}})
    store.write(result.vectors.assign(**run), "majority_vectors", vectors, about)
    store.write(result.metrics.assign(**run), "majority_metrics", metrics, about)


def flatten(model: MajorityTransformer) -> Float[nn.Parameter, " parameters"]:
    """Make all parameters and gradients views of one vector, which is returned: a step of Adam is then one call.

    They lie in the order of `Tables`, those of the norm last. Adam works elementwise, so the numbers are the same
    as with the parameters one by one.
    """
    parameters = [*model.tables()[1:], *model.layer.norm1.parameters()]
    flat = nn.Parameter(nn.utils.parameters_to_vector(parameters).detach())
    flat.grad = torch.zeros_like(flat)
    sizes = [parameter.numel() for parameter in parameters]
    for parameter, value, gradient in zip(
        parameters, flat.detach().split(sizes), flat.grad.split(sizes), strict=True
    ):
        parameter.data = value.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    return flat


class Adam:
    """torch's Adam on one parameter, by its function: the class brings torch's compiler, a second to import.

    State and numbers are those of `torch.optim.Adam(fused=True)`.
    """

    def __init__(self, parameter: nn.Parameter):
        self.parameter = parameter
        zero = torch.zeros_like(parameter.detach())
        self.state = {"step": zero.new_zeros(()), "exp_avg": zero, "exp_avg_sq": zero.clone()}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        adam(
            [self.parameter],
            [self.parameter.grad],
            [self.state["exp_avg"]],
            [self.state["exp_avg_sq"]],
            [],
            [self.state["step"]],
            fused=True,
            foreach=False,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def state_dict(self) -> dict:
        return {"state": {0: self.state}, "param_groups": []}

    def load_state_dict(self, kept: dict) -> None:
        self.state = {name: value.to(self.parameter.device) for name, value in kept["state"][0].items()}


class OnDevice:
    """A set of sequences on the device."""

    def __init__(self, sequences: Sequences, device: str):
        self.counts = torch.from_numpy(sequences.counts).to(device)
        self.label = torch.from_numpy(sequences.label).to(device)

    def take(self, rows: Int[Tensor, " batch"]) -> tuple[Tensor, Tensor]:
        return self.counts.index_select(0, rows), self.label.index_select(0, rows)


Loss = Callable[[Tables, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Of tables, counts and labels: loss in nats per token, number of tokens whose prediction is right."""

Gradient = Callable[[Tensor, Tensor], float | Tensor]
"""Of counts and labels: sets the gradient of the parameters it was made for, and returns the loss."""


def losses(device: str) -> Loss:
    """The implementation of the loss, chosen by the device alone."""
    if device == "cpu":
        from layernorm_roles.majority.compiled import compiled_loss  # numba: a quarter of a second to import

        return compiled_loss
    return pair_loss


def gradients(device: str) -> Callable[[MajorityTransformer, nn.Parameter], Gradient]:
    """The implementation of the gradient, likewise; made for a model and its vector of parameters."""
    if device == "cpu":
        from layernorm_roles.majority.compiled import compiled_gradient

        return compiled_gradient
    return autograd_gradient


def autograd_gradient(model: MajorityTransformer, flat: Float[nn.Parameter, " parameters"]) -> Gradient:
    """By PyTorch on any device; `flat` is `flatten(model)`."""

    def set_gradient(counts, label):
        flat.grad.zero_()
        loss, _ = pair_loss(model.tables(), counts, label)
        loss.backward()
        return loss.detach()

    return set_gradient


def batch_rows(rows: int, size: int, seed: int) -> Iterator[Int[np.ndarray, " batch"]]:
    """Row numbers of each training batch: a new permutation an epoch; its last batch is what remains."""
    rng = np.random.default_rng([seed, BATCH_STREAM])
    while True:
        order = rng.permutation(rows)
        for start in range(0, rows, size):
            yield order[start : start + size]


@torch.no_grad()
def evaluate(
    model: MajorityTransformer,
    split: dict[str, OnDevice],
    frequency: Float[Tensor, " classes"],
    loss_of: Loss,
) -> dict[str, float]:
    tables = model.tables()
    loss, right = {}, {}
    for name, rows in split.items():
        value, correct = loss_of(tables, rows.counts, rows.label)
        loss[name] = value.item()
        right[name] = correct.item() / rows.counts.sum(dtype=torch.int64).item()
    mean, std = query_angle(model.keys_and_queries()[1], frequency)
    return {
        "train_loss": loss["train"],
        "test_loss": loss["test"],
        "test_accuracy": right["test"],
        "query_angle_mean": mean,
        "query_angle_std": std,
    }


def query_angle(
    queries: Float[Tensor, "classes d"], frequency: Float[Tensor, " classes"]
) -> tuple[float, float]:
    """Mean and standard deviation over tokens of the angle of query to ones vector, folded to 0..90 degrees."""
    queries = queries.double()
    cosine = queries.sum(dim=-1).abs() / (queries.norm(dim=-1) * queries.shape[-1] ** 0.5)
    angle = torch.rad2deg(torch.acos(cosine.clamp(max=1.0)))
    weight = frequency / frequency.sum()
    mean = (weight * angle).sum()
    return mean.item(), (weight * (angle - mean).square()).sum().sqrt().item()


def vectors_of(model: MajorityTransformer) -> pd.DataFrame:
    keys, queries = (x.detach().double().cpu().numpy() for x in model.keys_and_queries())
    return pd.concat(
        pd.DataFrame({"token": range(len(vectors)), "kind": kind, "vector": list(vectors)})
        for kind, vectors in (("key", keys), ("query", queries))
    )


def refuse_nan(row: dict[str, float], title: str) -> None:
    for name in ("train_loss", "test_loss"):
        if not np.isfinite(row[name]):
            raise ValueError(
                f"{title}: {name} is {row[name]} at step {row['step']}; expected a finite number. "
                "A smaller learning_rate, or a norm that is finite everywhere, may help"
            )
