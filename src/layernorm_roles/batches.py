"""Divides the training runs of a configuration into batches: the runs that one process trains one after another.

Snakemake imports this module whenever it plans, so it imports neither torch nor pandas.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple

from layernorm_roles.settings.language_model import POINT, GPTModel
from layernorm_roles.settings.reproduction import Settings
from layernorm_roles.shown import is_single
from layernorm_roles.slices import slices
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING

Run = dict[str, Any]
"""A training run: its unique `name`; the columns that identify it in tables, such as variant and seed; and `norm`, the
name with which `norms.build_pair` builds its norm before attention."""

GROUPS = {"majority": "experiment", "language_model": "model"}
"""By section of config.yaml, the column of tables that names the experiment or model of a training run."""

LISTED = {
    "majority": {"d_model": "d_model", "base_learning_rate": "learning_rate"},
    "language_model": POINT,
}
"""By section, the keys that may hold a list of values to train with, by the column of tables that has a run's value."""

MAJORITY_STEP, GPU_STEP = 0.01, 0.03
"""Assumed seconds per training step, for the time limits of cluster jobs: on 6,000 sequences of the majority task, and
of a language model on a GPU (not measured)."""

LAYER, HIDDEN, ENTRY = 3e-6, 10e-9, 60e-12
"""Seconds per token that a training step of a language model takes on one core: for each layer, for each hidden unit of
a layer's feed-forward part, and for each number in the embedding table, which also gives the logits. `step_seconds`
adds them up, to 0.61 s for the paper's GPT, which takes 0.69 to 0.72 s on an AMD EPYC."""


class Batch(NamedTuple):
    """A batch: the training runs that one process trains one after another."""

    name: str
    """Path of the batch's results below results/<name>/runs/majority_train/ or language_model_train/."""
    group: str
    """Name of the majority experiment or language model in config.yaml to which the runs belong."""
    runs: tuple[Run, ...]
    minutes: int
    """The time limit of the batch's job on a cluster, in minutes, at the first attempt."""

    @property
    def seeds(self) -> list[int]:
        """The distinct random seeds of the batch's runs, in ascending order."""
        return sorted({run["seed"] for run in self.runs})


def batches(settings: Settings, section: str, device: str = "cpu") -> dict[str, Batch]:
    """The training runs of a section, "majority" or "language_model", in batches, by the batches' names.

    If `runs_per_job` of an experiment or model is "all", one batch has all its runs. Otherwise a batch has at most so
    many runs, which differ in the seed alone, so that full batches stay as they are when seeds are added.
    """
    by_name = {}
    for group, entry in getattr(settings, section).items():
        for runs in _split(list(runs_of(settings, section, group)), entry.runs_per_job):
            name = _batch_name(group, runs, entry.runs_per_job)
            by_name[name] = Batch(name, group, runs, _minutes(settings, section, device, group, runs))
    return by_name


def runs_of(settings: Settings, section: str, group: str) -> Iterator[Run]:
    """The runs of an experiment or model: one for each variant, seed and combination of listed values."""
    entry, listed = getattr(settings, section)[group], LISTED[section]
    for values in product(*(getattr(entry, key, (1.0,)) for key in listed.values())):
        point = dict(zip(listed, values, strict=True))
        for variant, number in entry.seeds.items():
            for seed in seeds(settings, number):
                folder = "/".join([group, variant, *(f"{key}_{value}" for key, value in point.items())])
                yield {
                    "name": f"{folder}/seed_{seed}",
                    GROUPS[section]: group,
                    "variant": variant,
                    "seed": seed,
                    **point,
                    "norm": settings.norm_class(variant),
                }


def seeds(settings: Settings, number: int | Sequence[int]) -> list[int]:
    """The first `number` seeds of a configuration, first_seed, first_seed + 1 and so on, or those that are listed."""
    if not isinstance(number, int):
        return list(number)
    return list(range(settings.first_seed, settings.first_seed + number))


def measured(settings: Settings, batch: Batch) -> list[Run]:
    """The runs of a batch of language models to measure after training, with three flags for what to measure.

    The flag `keys`, always true, asks which keys some query can select; `ceilings`, in the first `ceiling_seeds` runs
    of layernorm and projection, for the largest attention weight of each key; `samples`, with layernorm in the first
    GPT, for activations for statements.fusion. Runs without attention are left out, and models with several points.
    """
    model, gpts = settings.language_model[batch.group], single_gpts(settings)
    if not is_single(model.model_dump()):
        return []
    bounded = {
        (variant, seed)
        for variant in PAPER_SCALING
        if batch.group in gpts
        for seed in seeds(settings, model.seeds.get(variant, 0))[: model.ceiling_seeds]
    }
    return [
        {
            **run,
            "keys": True,
            "ceilings": (run["variant"], run["seed"]) in bounded,
            "samples": run["variant"] == "layernorm" and batch.group in gpts[:1],
        }
        for run in batch.runs
        if run["variant"] != NO_ATTENTION_VARIANT
    ]


def single_gpts(settings: Settings) -> list[str]:
    """The names of the GPTs with a single point of listed values, in the order of config.yaml."""
    models = settings.language_model.items()
    return [name for name, model in models if isinstance(model, GPTModel) and is_single(model.model_dump())]


def _split(runs: list[Run], per_job: int | str) -> list[tuple[Run, ...]]:
    if per_job == "all":
        return [tuple(runs)] if runs else []
    alike = [tuple(each) for _, each in groupby(runs, key=_without_seed)]
    return [each[rows] for each in alike for rows in slices(len(each), per_job)]


def _without_seed(run: Mapping[str, Any]) -> str:
    return run["name"].rpartition("/seed_")[0]


def _batch_name(group: str, runs: tuple[Run, ...], per_job: int | str) -> str:
    if per_job == "all":
        return f"{group}/all"
    if per_job == 1:
        return runs[0]["name"]
    return f"{_without_seed(runs[0])}/seeds_{runs[0]['seed']}_to_{runs[-1]['seed']}"


def _minutes(settings: Settings, section: str, device: str, group: str, runs: tuple[Run, ...]) -> int:
    entry = getattr(settings, section)[group]
    if section == "majority":
        seconds = len(runs) * entry.steps * MAJORITY_STEP * max(entry.batch_size, 6000) / 6000
    elif device == "cpu":
        seconds = 2 * sum(step_seconds(settings, group) * run["steps"] for run in runs)
    else:
        seconds = sum(GPU_STEP * run["steps"] for run in runs)
    return 5 + math.ceil(seconds / 60)


def step_seconds(settings: Settings, model: str) -> float:
    """An estimate of the seconds that one training step of the language model called `model` takes on one core."""
    entry = settings.language_model[model]
    logits = 0 if entry.labelled_sources else settings.text[entry.text].entries
    token = entry.layers * (LAYER + entry.hidden * HIDDEN) + logits * entry.d_model * ENTRY
    return entry.batch_size * entry.context_length * token
