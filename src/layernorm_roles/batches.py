"""Divides the training runs of a configuration into batches, whose runs one process trains one after another.

All runs of a batch belong to one experiment of the majority task, or to one language model. This module says which runs
there are and what each is called, from the settings alone. Snakemake imports it whenever it plans, so it imports
neither torch nor pandas.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import groupby, product
from typing import Any, NamedTuple

from layernorm_roles.settings.language_model import GPTModel
from layernorm_roles.settings.reproduction import Settings
from layernorm_roles.shown import is_single
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING

Run = dict[str, Any]
"""A training run: its unique `name`, the columns that identify it in tables of results, such as variant and seed, and
as `norm` the name that `norms.build_pair` takes for its norm before attention."""

GROUPS = {"majority": "experiment", "language_model": "model"}
"""By section of config.yaml, the column of tables of results that names the experiment or model of a training run."""

LISTED = {
    "majority": {"d_model": "d_model", "base_learning_rate": "learning_rate"},
    "language_model": {"base_learning_rate": "learning_rate", "steps": "steps"},
}
"""The settings for which config.yaml may list several values, of which every training run has one: by section of
config.yaml, the column of tables of results that holds the run's value, and the key of config.yaml with the list."""

MAJORITY_STEP, GPU_STEP = 0.01, 0.03
"""Assumed seconds per training step, from which time limits of cluster jobs are computed: on 6,000 sequences of the
majority task, and of a language model on a GPU. Nobody has measured the latter."""

LAYER, HIDDEN, ENTRY = 3e-6, 10e-9, 60e-12
"""Seconds per token that a language model's training step takes on one core: for each layer, for each hidden unit of a
layer's feed-forward part, and for each number in the embedding table, with which logits are computed. `step_seconds`
adds them up: to 0.61 s for the paper's GPT (0.69 to 0.72 s measured on an AMD EPYC), 12 ms for gpt_bytes in config.yaml
(12 ms measured) and 35 ms for gpt (20 ms measured). What more threads gain depends on the machine, and is left out."""


class Batch(NamedTuple):
    """A batch of training runs: those that one process trains one after another."""

    name: str
    """Unique name among the batches of majority or of language_model: a wildcard of Snakemake's rules, and the path of
    the batch's folder below results/<name>/runs/majority/ or results/<name>/runs/language_model/."""
    group: str
    """Name of the majority experiment or language model in config.yaml to which the runs belong."""
    runs: tuple[Run, ...]
    minutes: int
    """The time limit of the job on a cluster, in minutes: about twice what the training took where it was measured."""

    @property
    def seeds(self) -> list[int]:
        """The different random seeds of the batch's runs, in ascending order."""
        return sorted({run["seed"] for run in self.runs})


def batches(settings: Settings, stage: str) -> dict[str, Batch]:
    """The batches of training runs of one section of config.yaml, by the names of the batches.

    `stage` is the section, "majority" or "language_model". The setting `runs_per_job` of each experiment or model says
    how many runs a batch has: at most a number of runs that differ in the seed alone, so that full batches stay as they
    are when seeds are added; or "all" runs of the experiment or model.
    """
    by_name = {}
    for group, entry in getattr(settings, stage).items():
        for runs in _split(list(runs_of(settings, stage, group)), entry.runs_per_job):
            name = _batch_name(group, runs, entry.runs_per_job)
            by_name[name] = Batch(name, group, runs, _minutes(settings, stage, group, runs))
    return by_name


def runs_of(settings: Settings, stage: str, group: str) -> Iterator[Run]:
    """The training runs of an experiment or model: one per variant of the norm, seed and combination of listed values.

    `stage` is its section in config.yaml, "majority" or "language_model", and `group` its name there. LISTED names the
    settings whose values may be lists.
    """
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
    """The seeds of `number` runs or draws with equal settings: first_seed of config.yaml, first_seed + 1 and so on."""
    return list(range(settings.first_seed, settings.first_seed + number))


def measured(settings: Settings, batch: Batch) -> list[Run]:
    """The runs of a batch of language models that are measured after training, each with three flags that say what is.

    `keys` asks which keys of the heads some query can select. It is set for every run with attention of a model that
    has one learning rate and one number of steps; models with several are trained to compare losses, and left out.
    `ceilings` asks for the largest attention that keys can get; it is set for the first `ceiling_seeds` seeds of GPTs
    with the variants layernorm and projection. `samples` asks for activations, which the experiment statements.fusion
    reads; it is set for layernorm in the first such GPT of config.yaml.
    """
    model, gpts = settings.language_model[batch.group], single_gpts(settings)
    if not is_single(model.model_dump()):
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
    """The names of the GPTs with a single learning rate and number of training steps, in the order of config.yaml."""
    models = settings.language_model.items()
    return [name for name, model in models if isinstance(model, GPTModel) and is_single(model.model_dump())]


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
    """An estimate of the seconds that one training step of the language model called `model` takes on one core."""
    entry = settings.language_model[model]
    is_gpt = isinstance(entry, GPTModel)
    hidden = 4 * entry.d_model if is_gpt else entry.d_ff
    logits = 0 if not is_gpt and entry.task == "labelled" else settings.text[entry.text].entries
    token = entry.layers * (LAYER + hidden * HIDDEN) + logits * entry.d_model * ENTRY
    return entry.batch_size * entry.context_length * token
