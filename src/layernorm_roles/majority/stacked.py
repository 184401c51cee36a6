"""Many runs of an experiment trained as one, for a GPU: all seeds and variants in the same few kernels.

One run is too small for a GPU, whose time goes into starting kernels. Here every parameter and table has a leading
axis, the run; shapes are the same at every step; and a step is recorded once, as a CUDA graph, and then replayed.
Initial parameters, batches and their order are those of `train.train`, and so is every run's curve up to float32
rounding. On the CPU, where the tests compare them, a step is a plain call. Not yet run on a GPU: speed not measured.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.func import functional_call, vmap

from layernorm_roles import norms
from layernorm_roles.gpu import be_deterministic, recorded
from layernorm_roles.job import Progress, log
from layernorm_roles.majority import train as single
from layernorm_roles.majority.data import Sequences
from layernorm_roles.majority.model import MajorityTransformer, Tables, attention_and_values


class Member(NamedTuple):
    """One of the runs: `norm` is a name for `norms.build`, `title` what messages call it."""

    norm: str
    seed: int
    title: str


def train(
    task: dict,
    members: Sequence[Member],
    data: dict[int, dict[str, Sequences]],
    device: str = "cuda",
    title: str = "majority",
) -> list[single.Run]:
    """`train.train` for every member, with the data set of its seed; the runs come in the order of `members`.

    Those whose norm cannot be computed for many runs in one call are trained one by one. There are no checkpoints.
    ValueError if any loss stops being finite, or if the seeds' data sets differ in size.
    """
    be_deterministic(device)
    models = {}
    for member in sorted(members):  # in the stack, runs of one norm are neighbours
        torch.manual_seed(member.seed)
        model = MajorityTransformer(task["classes"], task["dim"], task["feed_forward"], member.norm)
        if stackable(model):
            models[member] = model.to(device)
    runs = _train_stack(task, models, data, device, title) if models else {}
    for norm, seed, name in members:
        if (norm, seed, name) not in runs:
            log.info("%s: its norm cannot be computed for many runs in one call; trained by itself", name)
            runs[norm, seed, name] = single.train(task, norm, seed, data[seed], device, name)
    return [runs[member] for member in members]


def _train_stack(
    task: dict,
    models: dict[Member, MajorityTransformer],
    data: dict[int, dict[str, Sequences]],
    device: str,
    title: str,
) -> dict[Member, single.Run]:
    stack = Stack([(member.norm, model) for member, model in models.items()])
    batches = Batches({seed: sets["train"] for seed, sets in data.items()}, task["batch"], device)
    seed_of_run = torch.tensor([list(data).index(member.seed) for member in models], device=device)
    rate = torch.tensor(task["learning_rate"], device=device)
    optimiser = torch.optim.Adam([stack.flat], lr=rate, foreach=False, capturable=device != "cpu")

    def step() -> None:
        losses = vmap(fixed_shape_loss)(stack.tables(), *batches.current(seed_of_run))
        (stack.flat.grad,) = torch.autograd.grad(losses.sum(), stack.flat)
        optimiser.step()

    take_step = recorded(step, device)
    split = {
        seed: {name: single.OnDevice(rows, device) for name, rows in sets.items()}
        for seed, sets in data.items()
    }
    frequency = {seed: sets["train"].counts.sum(dim=0, dtype=torch.float64) for seed, sets in split.items()}
    loss_of = single.losses(device)
    progress = Progress(title, task["steps"], "steps")
    rows: dict[Member, list[dict]] = {member: [] for member in models}
    for number in range(task["steps"] + 1):
        now = task["learning_rate"] * max(0.0, 1 - number / task["schedule_steps"])
        if number % task["metrics_every"] == 0 or number == task["steps"]:
            for member, model in models.items():
                measured = single.evaluate(model, split[member.seed], frequency[member.seed], loss_of)
                rows[member].append({"step": number, "learning_rate": now, **measured})
                single.refuse_nan(rows[member][-1], member.title)
            progress(number, f"mean test loss {np.mean([row[-1]['test_loss'] for row in rows.values()]):.4f}")
        if number == task["steps"]:
            break
        rate.fill_(now)
        batches.draw()
        take_step()
    return {
        member: single.Run(pd.DataFrame(rows[member]), single.vectors_of(model), model)
        for member, model in models.items()
    }


class Stack:
    """The parameters of many models in one vector, `flat`, of which the models' own become views.

    Models of one norm are neighbours and have the same parameters; those of another norm may have others.
    """

    def __init__(self, models: Sequence[tuple[str, MajorityTransformer]]):
        vectors = [nn.utils.parameters_to_vector(model.parameters()).detach() for _, model in models]
        self.flat = nn.Parameter(torch.cat(vectors))
        places = self.flat.detach().split([len(vector) for vector in vectors])
        for (_, model), place in zip(models, places, strict=True):
            nn.utils.vector_to_parameters(place, model.parameters())
        groups = groupby(models, key=lambda pair: pair[0])
        self.groups = [[model for _, model in group] for _, group in groups]
        self.lengths = [sum(p.numel() for m in group for p in m.parameters()) for group in self.groups]

    def tables(self) -> Tables:
        """The models' tables, each with the run as its first axis; differentiable with respect to `flat`."""
        parts = zip(self.groups, self.flat.split(self.lengths), strict=True)
        by_norm = [tables_of(group[0], part.view(len(group), -1)) for group, part in parts]
        return Tables(*map(torch.cat, zip(*by_norm, strict=True)))


def tables_of(model: MajorityTransformer, parameters: Float[Tensor, "runs parameters"]) -> Tables:
    """`model.tables()` for many values of its parameters, flattened in their order."""
    module = _Tabulated(model)
    named = dict(module.named_parameters())
    columns = parameters.split([parameter.numel() for parameter in named.values()], dim=1)
    values = {
        name: column.reshape(-1, *parameter.shape)
        for (name, parameter), column in zip(named.items(), columns, strict=True)
    }
    return vmap(lambda values: functional_call(module, values, ()))(values)


class _Tabulated(nn.Module):
    """A model whose output is its tables: what `functional_call` calls."""

    def __init__(self, model: MajorityTransformer):
        super().__init__()
        self.model = model

    def forward(self) -> Tables:
        return self.model.tables()


@torch.no_grad()
def stackable(model: MajorityTransformer) -> bool:
    """Whether its norm can be computed for many runs in one call: no state or randomness, all operations batched."""
    if next(model.buffers(), None) is not None:
        return False
    flat = nn.utils.parameters_to_vector(model.parameters())
    try:
        tables = tables_of(model, torch.stack([flat, 0.5 * flat]))
    except Exception:  # whatever a norm of one's own may raise under vmap
        return False
    alone = model.tables()
    return all(
        torch.allclose(many[0], one, rtol=1e-4, atol=1e-6) for many, one in zip(tables, alone, strict=True)
    )


def fixed_shape_loss(
    tables: Tables, counts: UInt8[Tensor, "batch classes"], label: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """The loss of `model.pair_loss` over all pairs, present or not: no shape depends on the data.

    A pair that is not present has weight 0 and, with 1 added to the denominator of its attention, nothing infinite
    to multiply it with. So a row without tokens contributes nothing, neither to the loss nor to a gradient.
    """
    t, (batch, classes), dim = tables, counts.shape, tables.embedding.shape[1]
    attention, values = attention_and_values(tables)
    n = counts.to(values.dtype)
    weighted = attention[:, :, None] * torch.cat([values, torch.ones_like(values[:, :1])], dim=1)
    sums = (n @ weighted.transpose(0, 1).flatten(1)).view(batch, classes, dim + 1)
    y = t.embedding + t.out_bias + sums[..., :dim] / (sums[..., dim:] + (n == 0)[..., None])

    z = norms.affine(norms.scale(norms.project(y)), t.norm_gain, t.norm_bias)
    r = y + F.linear(torch.relu(F.linear(z, t.w1, t.b1)), t.w2, t.b2)
    # As a product, because the gradient of an indexed read adds in no fixed order on a GPU.
    wanted = (label[:, None] == torch.arange(classes, device=label.device)).to(n.dtype) @ t.embedding
    loss = (r @ t.embedding.T).logsumexp(dim=-1) - (r * wanted[:, None]).sum(dim=-1)
    return (n * loss).sum() / n.sum()


class Batches:
    """The training batches of every seed, in the order of `train.batch_rows` and all of the same size.

    What an epoch's last batch lacks is row `none`, which has no tokens.
    """

    def __init__(self, training: dict[int, Sequences], size: int, device: str):
        sizes = {seed: len(sequences.label) for seed, sequences in training.items()}
        if len({*sizes.values()}) > 1:
            raise ValueError(f"training sequences of each seed: {sizes}; expected as many for every one")
        self.none = next(iter(sizes.values()))
        counts = np.stack([np.pad(sequences.counts, [(0, 1), (0, 0)]) for sequences in training.values()])
        label = np.stack([np.pad(sequences.label, (0, 1)) for sequences in training.values()])
        self.counts, self.label = (torch.from_numpy(array).to(device) for array in (counts, label))
        self.orders = [single.batch_rows(self.none, size, seed) for seed in training]
        self.rows = torch.full((len(training), min(size, self.none)), self.none, device=device)

    def draw(self) -> None:
        """Go on to the next batch, in the same memory."""
        rows = np.full(self.rows.shape, self.none)
        for row, order in zip(rows, self.orders, strict=True):
            chosen = next(order)
            row[: len(chosen)] = chosen
        self.rows.copy_(torch.from_numpy(rows))

    def current(self, seeds: Int[Tensor, " runs"]) -> tuple[Tensor, Tensor]:
        """Counts (runs, batch, classes) and labels (runs, batch) for runs with the given seeds, by number."""
        which, rows = seeds[:, None], self.rows[seeds]
        return self.counts[which, rows], self.label[which, rows]
