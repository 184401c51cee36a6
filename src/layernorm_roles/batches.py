"""The units of work: a batch is the runs of one experiment or language model that one process trains in turn.

This module says what each run is called and which runs there are, from the settings alone. Snakemake asks it
whenever it plans, so it imports neither torch nor pandas.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby, product
from typing import Any, NamedTuple

from layernorm_roles.settings.language_model import GPTModel
from layernorm_roles.settings.reproduction import Settings
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING

Run = dict[str, Any]
"""What names a training run: its unique `name`, the columns of its tables such as variant and seed, and its `norm`,
which `norms.build_pair` takes."""

GROUPS = {"majority": "experiment", "language_model": "model"}
"""By stage, the column that says which experiment or model of config.yaml a run belongs to."""

LISTED = {
    "majority": {"d_model": "d_model", "base_learning_rate": "learning_rate"},
    "language_model": {"base_learning_rate": "learning_rate", "steps": "steps"},
}
"""By stage, the columns whose values are listed in config.yaml, where each run has one of them, and the keys there."""

MAJORITY_STEP, GPU_STEP = 0.01, 0.03
"""Seconds that a cluster is asked for: for a majority step of 6,000 sequences, and for a language model's step on a
GPU, which nobody has measured."""

LAYER, HIDDEN, ENTRY = 3e-6, 10e-9, 60e-12
"""Seconds that a token of a language model's step costs on one core: in a layer, for each hidden unit of its
feed-forward part, and for each number in the table of embeddings, with which logits are computed. The formula gives
0.61 s for a step of the paper's GPT (0.69 to 0.72 measured on an AMD EPYC), 12 ms for gpt_bytes in config.yaml (12) and
35 ms for gpt (20). What more threads gain depends on the machine, and is not counted on."""


class Batch(NamedTuple):
    """The runs that one process trains in turn."""

    name: str
    """Unique in its stage: a wildcard of the rules, and a folder below results/<name>/runs/<stage>/."""
    group: str
    """The experiment or language model in config.yaml."""
    runs: tuple[Run, ...]
    minutes: int
    """Minutes that a cluster is asked for, about twice what the training took where it was measured."""

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs, sorted."""
        return sorted({run["seed"] for run in self.runs})


def batches(settings: Settings, stage: str) -> dict[str, Batch]:
    """The batches of a stage, majority or language_model, by name.

    `runs_per_job` of an experiment or model says how many of its runs a batch has: a number of runs that differ in the
    seed only, so that more seeds keep the batches that are full, or all.
    """
    by_name = {}
    for group, entry in getattr(settings, stage).items():
        for runs in _split(list(runs_of(settings, stage, group)), entry.runs_per_job):
            name = _batch_name(group, runs, entry.runs_per_job)
            by_name[name] = Batch(name, group, runs, _minutes(settings, stage, group, runs))
    return by_name


def runs_of(settings: Settings, stage: str, group: str) -> Iterator[Run]:
    """The runs of an experiment or model: one for each combination of listed values, variant and seed."""
    entry, listed = getattr(settings, stage)[group], LISTED[stage]
    for values in product(*(getattr(entry, key) for key in listed.values())):
        point = dict(zip(listed, values, strict=True))
        for variant, number in entry.seeds.items():
            for seed in seeds(settings, number):
                folder = "/".join([group, variant, *(f"{key}_{value}" for key, value in point.items())])
                yield {
                    "name": f"{folder}/seed_{seed}",
                    GROUPS[stage]: group,
                    "variant": variant,
                    "seed": seed,
                    **point,
                    "norm": settings.norm_class(variant),
                }


def seeds(settings: Settings, number: int) -> list[int]:
    """The seeds of `number` runs or draws."""
    return list(range(settings.first_seed, settings.first_seed + number))


def measured(settings: Settings, batch: Batch) -> list[Run]:
    """The runs of a batch of language models of which something is measured after training, each with what.

    `keys`, for all with attention of models that have one learning rate and length: which keys can win. `ceilings`, for
    the first seeds of GPTs with and without scaling: how much attention keys can get. `samples`, for layernorm in the
    first GPT: the activations that the statements on fusion read.
    """
    model, gpts = settings.language_model[batch.group], single_gpts(settings)
    if not is_single(model):
        return []
    with_ceilings = seeds(settings, model.ceiling_seeds) if batch.group in gpts else []
    return [
        {
            **run,
            "keys": True,
            "ceilings": run["variant"] in PAPER_SCALING and run["seed"] in with_ceilings,
            "samples": run["variant"] == "layernorm" and batch.group in gpts[:1],
        }
        for run in batch.runs
        if run["variant"] != NO_ATTENTION_VARIANT
    ]


def single_gpts(settings: Settings) -> list[str]:
    """The GPTs with a single learning rate and length, in the order of the configuration."""
    models = settings.language_model.items()
    return [name for name, model in models if isinstance(model, GPTModel) and is_single(model)]


def is_single(entry: Any) -> bool:
    """Whether all runs of an experiment or model have one width, learning rate and length.

    Only of such models keys are certified; the others are for losses by learning rate and by length.
    """
    listed = (getattr(entry, key) for key in ("d_model", "learning_rate", "steps"))
    return all(len(values) == 1 for values in listed if isinstance(values, list | tuple))


def _split(runs: list[Run], per_job: int | str) -> list[tuple[Run, ...]]:
    if per_job == "all":
        return [tuple(runs)] if runs else []
    split = []
    for _, alike in groupby(runs, key=_without_seed):
        alike = list(alike)
        split += [tuple(alike[first : first + per_job]) for first in range(0, len(alike), per_job)]
    return split


def _without_seed(run: Mapping[str, Any]) -> str:
    return run["name"].rpartition("/seed_")[0]


def _batch_name(group: str, runs: tuple[Run, ...], per_job: int | str) -> str:
    if per_job == "all":
        return f"{group}/all"
    if per_job == 1:
        return runs[0]["name"]
    return f"{_without_seed(runs[0])}/seeds_{runs[0]['seed']}_to_{runs[-1]['seed']}"


def _minutes(settings: Settings, stage: str, group: str, runs: tuple[Run, ...]) -> int:
    entry = getattr(settings, stage)[group]
    if stage == "majority":
        seconds = len(runs) * entry.steps * MAJORITY_STEP * max(entry.batch_size, 6000) / 6000
    elif settings.device == "cpu":
        seconds = 2 * sum(step_seconds(settings, group) * run["steps"] for run in runs)
    else:
        seconds = sum(GPU_STEP * run["steps"] for run in runs)
    return 5 + math.ceil(seconds / 60)


def step_seconds(settings: Settings, model: str) -> float:
    """The seconds that a step of a language model takes on one core, see LAYER."""
    entry = settings.language_model[model]
    is_gpt = isinstance(entry, GPTModel)
    hidden = 4 * entry.d_model if is_gpt else entry.d_ff
    logits = 0 if not is_gpt and entry.task == "labelled" else settings.text[entry.text].entries
    token = entry.layers * (LAYER + hidden * HIDDEN) + logits * entry.d_model * ENTRY
    return entry.batch_size * entry.context_length * token
