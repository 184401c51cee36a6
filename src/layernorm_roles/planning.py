"""What a reproduction consists of: its settings, its runs and their files. Snakemake's rules are written with it.

Snakemake imports this module whenever it plans, so neither torch, pandas nor pyarrow is imported here.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, product
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from layernorm_roles import files, provenance, shown
from layernorm_roles.gpu import driver
from layernorm_roles.gpu.choice import Choice, choose
from layernorm_roles.pretrained.source import locate
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.loading import load
from layernorm_roles.settings.reproduction import KEPT, Settings
from layernorm_roles.settings.text import Source
from layernorm_roles.text.prepared import TEXT_FILES
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_SCALING

MAJORITY_STEP, GPU_STEP = 0.01, 0.03
"""Seconds that a cluster is asked for: for a majority step of 6,000 sequences, and for a language model's step on a
GPU, which nobody has measured."""

LAYER, HIDDEN, ENTRY, THREADS = 3e-6, 10e-9, 60e-12, 0.6
"""Seconds that a token of a language model's step costs on one core: in a layer, for each hidden unit of its
feed-forward part, and for each number in the table of embeddings, with which logits are computed; k threads are
k ** THREADS times as fast as one. A step of the paper's GPT is then 0.61 s (measured on an AMD EPYC: 0.69 to 0.72), of
its BERT 0.56 (0.54), of gpt_bytes in config.yaml 12 ms (12), of gpt 35 ms (20); two threads were 1.5 times as fast."""

SHORT = 30
"""Training jobs that ask for at most so many minutes share a submission to a cluster."""

DEVICE_KEYS = {"majority": "majority_device", "language_model": "device"}
"""The key of config.yaml that names the device of each stage that trains."""

POINT = {
    "majority": {"d_model": "d_model", "base_learning_rate": "learning_rate"},
    "language_model": {"base_learning_rate": "learning_rate", "steps": "steps"},
}
"""By stage, the settings that may list several values, of which each run has one: the key in config.yaml by the name
that the setting has in `Run.point`, in the names of folders and in the columns of tables."""

FOLDERS = {
    "majority": (
        "{experiment}/{variant}/d_model_{d_model}/base_learning_rate_{base_learning_rate}/seeds_{seeds}"
    ),
    "language_model": "{model}/{variant}/base_learning_rate_{base_learning_rate}/steps_{steps}/seed_{seed}",
}
"""By stage, the folder of the files of a batch or run, relative to results/<name>/runs/<stage>/, with wildcards."""

MAJORITY_DATA = "data/majority/{experiment}/seed_{seed}.parquet"
"""The path of the data set of a majority experiment for one seed, relative to results/<name>/, with wildcards."""

GROUPS = {"majority": "experiment", "language_model": "model"}
"""By stage, what its runs are grouped by, which is a wildcard."""


def merged(base: Any, overlay: Any) -> Any:
    """`base` with `overlay` laid over it, as Snakemake lays one configuration file over another.

    Mappings are merged key by key, at any depth; any other value of `overlay` replaces the one in `base`.
    """
    if not isinstance(base, Mapping) or not isinstance(overlay, Mapping):
        return overlay
    return {**base, **{key: merged(base.get(key), value) for key, value in overlay.items()}}


def configured(
    defaults: str | Path, overlay: Mapping[str, Any], files: Iterable[str | Path] = ()
) -> Settings:
    """The settings of the YAML file `defaults` with `overlay` laid over them, which was read from `files`.

    Raises ValueError with one line for every wrong value, and for what the files say ambiguously.
    """
    for file in files:
        yaml_files.read(file)
    return load(merged(yaml_files.read(defaults), overlay))


def refuse_read_only(folder: str | Path, snakefile: str | Path) -> None:
    """Raise ValueError unless Snakemake's notes and the reproduction at `folder` can be written.

    Both are relative to the working folder. `snakefile` is the one to start from another working folder.
    """
    for wanted in (Path(".snakemake"), Path(folder)):
        there = next(place for place in (wanted, *wanted.parents) if os.path.lexists(place))
        if not os.access(there, os.W_OK | os.X_OK):
            raise ValueError(
                f"{there.absolute()}: no file can be written there; run in a folder of your own: "
                f"snakemake --snakefile {snakefile} --directory FOLDER"
            )


class Run(NamedTuple):
    """One training run: the experiment or model it belongs to, its variant of the norm, and its seed."""

    group: str
    variant: str
    seed: int
    point: tuple[tuple[str, int | float], ...] = ()
    """The names and values of what an experiment or model may have a list of, such as the learning rate."""

    @property
    def group_folder(self) -> str:
        """The folder of all runs that differ from this one in the seed only, below results/<name>/runs/<stage>/."""
        return "/".join([self.group, self.variant, *(f"{name}_{value}" for name, value in self.point)])

    @property
    def folder(self) -> str:
        """The folder of the run's files, relative to results/<name>/runs/<stage>/."""
        return f"{self.group_folder}/seed_{self.seed}"


class Batch(NamedTuple):
    """Training runs that differ in the seed only: one job trains them in turn, and they have their files in common."""

    runs: tuple[Run, ...]

    @property
    def group(self) -> str:
        """The experiment that the runs belong to."""
        return self.runs[0].group

    @property
    def variant(self) -> str:
        """The variant of the norm that the runs have."""
        return self.runs[0].variant

    @property
    def point(self) -> tuple[tuple[str, int | float], ...]:
        """The values of the runs of what an experiment may have a list of."""
        return self.runs[0].point

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs, which follow each other."""
        return [run.seed for run in self.runs]

    @property
    def folder(self) -> str:
        """The folder of the files, relative to results/<name>/runs/<stage>/; `seeds_of` reads its last part."""
        return f"{self.runs[0].group_folder}/seeds_{self.seeds[0]}_to_{self.seeds[-1]}"


def seeds_of(text: str) -> list[int]:
    """The seeds that the folder of a batch names, such as [3, 4, 5] for the text 3_to_5."""
    first, last = map(int, text.split("_to_"))
    return list(range(first, last + 1))


@dataclass(frozen=True)
class Plan:
    """The runs of a reproduction and what they depend on."""

    settings: Settings
    elsewhere: bool = False
    """Whether jobs run on other machines than this one, which then knows nothing of their GPUs."""

    @cached_property
    def plain(self) -> dict[str, Any]:
        """All settings as dictionaries and lists of plain values, as Snakemake passes them to scripts."""
        return self.settings.model_dump(mode="json")

    @property
    def folder(self) -> str:
        """The folder of all outputs, relative to the working directory."""
        return f"results/{self.settings.name}"

    @cached_property
    def devices(self) -> dict[str, Choice]:
        """The device that trains in each stage, majority and language_model, and why."""
        return {
            stage: choose(getattr(self.settings, key), self.elsewhere) for stage, key in DEVICE_KEYS.items()
        }

    def gpus(self, stage: str) -> int:
        """Number of GPUs that a training job of a stage, majority or language_model, asks for: 1 or 0."""
        return int(self.devices[stage].device == "cuda")

    def text_of_pretrained(self, name: str) -> dict[str, str]:
        """The files of the text that a pretrained model reads, by key, if the model is there or has been measured.

        Raises ValueError if the model is not there, or has other weights than its settings say. One of the hub is
        looked for by its job.
        """
        model = self.settings.pretrained[name]
        measured = Path(f"{self.folder}/runs/pretrained/{name}/pretrained_keys.parquet").is_file()
        if model.hub is None and not measured:
            locate(name, model)
        return self.text_files(model.text, "tokenizer", "contexts", "manifest")

    def refuse_without_gpu(self) -> None:
        """Raise ValueError if the configuration names a GPU for runs that are not there yet, and none can be used here.

        Runs that a machine with a GPU has trained are drawn on any machine.
        """
        wanted = []
        for stage, (device, why) in self.devices.items():
            metrics = self.run_files(stage, "metrics.parquet", self.trained(stage))
            if device == "cuda" and not why and not all(map(os.path.exists, metrics)):
                wanted.append(DEVICE_KEYS[stage])
        if not wanted or self.elsewhere:
            return
        try:
            driver.usable_cards()
        except driver.NoGPU as fault:
            raise ValueError(
                f"{', '.join(f'{key} = cuda' for key in wanted)}: {fault}\n    To train on the CPU: --config "
                f"{' '.join(f'{key}=cpu' for key in wanted)}; to send jobs to a cluster: --workflow-profile slurm"
            ) from None

    def devices_in_words(self, jobs: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
        """A line for each stage that one of `jobs` trains, which are given by their rule and its wildcards.

        It says on which device, why, and how long language models take on processors, if they take more than an hour.
        """
        lines, jobs = [], [*jobs]
        for stage, (device, why) in self.devices.items():
            training = {each.rule: each for each in self.jobs(stage, "train")}
            runs = [
                run
                for rule, wildcards in jobs
                if rule in training
                for run in training[rule].runs_of(wildcards)
            ]
            if not runs:
                continue
            line = f"{DEVICE_KEYS[stage]} = {f'auto, which means {device}: {why}' if why else device}"
            if device == "cuda":
                line += "; no GPU has run this code yet, so each training first compares itself with the CPU"
            elif stage == "language_model":
                seconds = sum(self.seconds(run.group, dict(run.point)["steps"]) for run in runs)
                hours = seconds * self.settings.threads_per_training / 3600
                line += f"; about {hours:,.0f} core hours, by measured steps" if hours > 1 else ""
            lines.append(line)
        return lines

    def runs(self, stage: str) -> list[Run]:
        """The runs of a stage, majority or language_model."""
        return [
            Run(group, variant, seed, tuple(zip(POINT[stage], values, strict=True)))
            for group, settings in self.plain[stage].items()
            for values in product(*(settings[key] for key in POINT[stage].values()))
            for variant, number in settings["seeds"].items()
            for seed in self.seeds(number)
        ]

    def seeds(self, number: int) -> list[int]:
        """The seeds of an experiment that has `number` of them."""
        return list(range(self.settings.first_seed, self.settings.first_seed + number))

    def run_files(self, stage: str, file: str, runs: Iterable[Run | Batch]) -> list[str]:
        """The path of `file` in the folder of each run or batch of `stage`, majority or language_model."""
        return [f"{self.folder}/runs/{stage}/{run.folder}/{file}" for run in runs]

    def run_settings(self, stage: str, group: str) -> dict[str, Any]:
        """The settings of an experiment or model on which a run depends, beside what names the run in `Run`.

        Since they do not say which runs there are, more seeds, widths, learning rates or lengths keep the runs that are
        there.
        """
        return getattr(self.settings, stage)[group].of_training()

    def identities(self, stage: str, runs: Iterable[Run | Batch]) -> list[dict[str, Any]]:
        """What the files of runs or batches say of themselves; those of language models add a hash of their text."""
        return [
            provenance.run_identity(
                norm=self.settings.norm_class(run.variant),
                settings=self.run_settings(stage, run.group),
                **self.named(stage, run),
            )
            for run in runs
        ]

    def named(self, stage: str, run: Run | Batch) -> dict[str, Any]:
        """What names a run or batch of a stage, by the names of columns; a batch has its seeds."""
        seeds = {"seeds": run.seeds} if isinstance(run, Batch) else {"seed": run.seed}
        return {GROUPS[stage]: run.group, "variant": run.variant, **seeds, **dict(run.point)}

    def batches(self) -> list[Batch]:
        """The runs of the majority task, in their order, each batch with at most `seeds_per_job` seeds.

        Starting a process takes longer than a short run. More seeds keep the batches that are full.
        """
        found = []
        for _, same in groupby(self.runs("majority"), key=attrgetter("group_folder")):
            runs = tuple(same)
            size = self.plain["majority"][runs[0].group]["seeds_per_job"]
            found += [Batch(runs[first : first + size]) for first in range(0, len(runs), size)]
        return found

    def trained(self, stage: str) -> list[Run] | list[Batch]:
        """What has files of its own in a stage: the batches of the majority task, the runs of the language models."""
        return self.batches() if stage == "majority" else self.runs(stage)

    def jobs(self, stage: str, work: str, runs: Iterable[Run | Batch] | None = None) -> list["Jobs"]:
        """The rules that do `work`, such as train, for `runs`, or else for all of a stage, and their jobs."""
        alone, together = [], {}
        for run in self.trained(stage) if runs is None else runs:
            in_one_job = self.plain[stage][run.group]["in_one_job"]
            (together.setdefault(run.group, []) if in_one_job else alone).append(run)
        found = [Jobs(self, stage, work, tuple(same), True) for same in together.values()]
        return [*found, *([Jobs(self, stage, work, tuple(alone), False)] if alone else [])]

    def seconds(self, model: str, steps: int) -> float:
        """The seconds that `steps` of a language model take on a processor, see LAYER."""
        settings = self.settings.language_model[model]
        is_gpt = settings.architecture == "gpt"
        hidden = 4 * settings.d_model if is_gpt else settings.d_ff
        logits = (
            0 if not is_gpt and settings.task == "labelled" else self.settings.text[settings.text].entries
        )
        token = settings.layers * (LAYER + hidden * HIDDEN) + logits * settings.d_model * ENTRY
        threads = self.settings.threads_per_training**THREADS
        return steps * settings.batch_size * settings.context_length * token / threads

    def minutes(self, stage: str, runs: Collection[Run | Batch], attempt: int = 1) -> int:
        """The minutes that a cluster is asked for, for one job that trains `runs`, all of them in turn.

        They are about twice what the job took where it was measured, on a processor or (estimated) on a GPU. A short
        job asks for twice as much at each further attempt; a long one goes on from its last checkpoint, and more than a
        partition allows would be refused.
        """
        seconds = 0.0
        for run in runs:
            settings = self.plain[stage][run.group]
            if stage == "majority":
                sequences = max(settings["batch_size"], 6000) / 6000
                seconds += settings["steps"] * settings["seeds_per_job"] * MAJORITY_STEP * sequences
            elif self.gpus(stage):
                seconds += dict(run.point)["steps"] * GPU_STEP
            else:
                seconds += 2 * self.seconds(run.group, dict(run.point)["steps"])
        asked = 5 + math.ceil(seconds / 60)
        return asked * 2 ** (attempt - 1) if asked <= SHORT else asked

    def widest_experiment(self) -> str:
        """The majority experiment with the largest d_model, of those with one width and learning rate; else any."""
        experiments = self.plain["majority"]
        single = [name for name, settings in experiments.items() if shown.is_single(settings)]
        return max(single or experiments, key=lambda name: max(experiments[name]["d_model"]))

    def norm_version(self, variant: str) -> str | None:
        """A hash of the code of a user's own norm, and of what it imports; None for a built-in norm."""
        if variant not in self.settings.norms:
            return None
        return provenance.code_version(
            provenance.module_file(self.settings.norm_class(variant).partition(":")[0])
        )

    def judged_runs(self) -> list[Run]:
        """The runs of language models whose keys are judged: with attention, of models with a single point."""
        models = self.plain["language_model"]
        with_attention = (run for run in self.runs("language_model") if run.variant != NO_ATTENTION_VARIANT)
        return [run for run in with_attention if shown.is_single(models[run.group])]

    def recorded_runs(self) -> list[Run]:
        """The runs of language models whose activations are recorded: those of the first GPT with layernorm."""
        first = self._gpts()[:1]
        with_layernorm = (run for run in self.runs("language_model") if run.variant == "layernorm")
        return [run for run in with_layernorm if run.group in first]

    def ceiling_runs(self) -> list[Run]:
        """The runs of GPTs whose ceilings of attention are computed: the first seeds with and without scaling."""
        seeds = {name: self.seeds(self.settings.language_model[name].ceiling_seeds) for name in self._gpts()}
        scaling = (run for run in self.runs("language_model") if run.variant in PAPER_SCALING)
        return [run for run in scaling if run.seed in seeds.get(run.group, [])]

    def _gpts(self) -> list[str]:
        """The names of the GPTs with a single learning rate and length, in the order of the configuration."""
        models = self.plain["language_model"].items()
        return [name for name, model in models if model["architecture"] == "gpt" and shown.is_single(model)]

    def texts(self) -> list[str]:
        """The names of the texts that are read: by the runs of models, by pretrained models, by the placement runs."""
        models = self.settings.language_model
        trained = {models[run.group].text for run in self.runs("language_model")}
        pretrained = {model.text for model in self.settings.pretrained.values()}
        return sorted({self.settings.statements.placement.text, *trained, *pretrained})

    def corpus_files(self, name: str) -> list[str]:
        """The files that the text called `name` is made of, so that an edit of one of them makes the text again.

        Raises ValueError for a path that no file matches, before Snakemake takes away the text that was made of it; for
        what is no file; for a name that Snakemake cannot take; and for a file that a source would read twice.
        """
        corpus = []
        for source in self.text_sources(name):
            found = source.found()
            if missing := [path for path, matched in found.items() if not matched]:
                raise ValueError(f"text.{name}: no file matches {', '.join(missing)}; expected at least one")
            each = list(chain(*found.values()))
            for file in each:
                if not Path(file).is_file():
                    raise ValueError(
                        f"text.{name}: {file} is a folder, or a link to nothing; expected a file"
                    )
                if "{" in file or "}" in file or not file.isprintable():
                    raise ValueError(
                        f"text.{name}: {file!r}: expected a file whose name has no {{, no }} and no control characters"
                    )
            if again := [file for file, n in Counter(map(os.path.realpath, each)).items() if n > 1]:
                raise ValueError(
                    f"text.{name}: {again[0]} is found twice by the paths of a source; expected once"
                )
            corpus += each
        return sorted(set(corpus))

    def text_sources(self, name: str) -> list[Source]:
        """The sources that the text called `name` is made of: of its corpus, and of contexts that have one."""
        text = self.settings.text[name]
        sources = (text.corpus, text.long.source, text.sentences.source)
        return [source for source in sources if source]

    def labelled_sources(self, model: str) -> list[Source]:
        """The sources of the labelled sentences that a language model is trained on; empty for most models."""
        settings = self.settings.language_model[model]
        if settings.architecture != "bert" or settings.task != "labelled":
            return []
        return [settings.training, settings.validation]

    def text_files(self, name: str, *files: str) -> dict[str, str]:
        """The paths of `files`, keys of TEXT_FILES, of the text called `name`, by key."""
        return {file: f"{self.folder}/data/text/{name}/{TEXT_FILES[file]}" for file in files}

    def benchmark_files(self, rule: str, runs: Iterable[str] | None = None) -> list[str]:
        """The paths of the benchmark files of a rule: one for each of `runs`, or the one of a rule that has no runs."""
        names = [rule] if runs is None else [f"{rule}/{run}" for run in runs]
        return [f"{self.folder}/benchmarks/{name}.tsv" for name in names]

    def downloaded(self, sources: Iterable[Source]) -> list[str]:
        """The paths of the files to which the datasets of the Hugging Face hub among `sources` are downloaded."""
        return [f"{self.folder}/data/downloads/{each.file_name}" for each in sources if each.kind == "hub"]

    def hub_sources(self) -> list[Source]:
        """The sources of kind hub, which have to be downloaded: those of all texts and labelled sentences."""
        sources = [source for name in self.settings.text for source in self.text_sources(name)]
        sources += [source for name in self.settings.language_model for source in self.labelled_sources(name)]
        return [source for source in sources if source.kind == "hub"]


@dataclass(frozen=True)
class Jobs:
    """The jobs of one rule, which do something for runs or batches: one for each, or one for all of a group.

    The group is an experiment or model whose `in_one_job` is true: its runs take less time than a process to start.
    Methods with the argument `wildcards` are functions for Snakemake.
    """

    plan: Plan
    stage: str
    work: str
    """What is done, such as train."""
    runs: tuple[Run | Batch, ...]
    in_one: bool
    """Whether one job does it for all of the runs, which are then of one group."""

    @property
    def rule(self) -> str:
        """The name of the rule."""
        return "_".join([self.stage, self.work, *([self.runs[0].group] if self.in_one else [])])

    @property
    def groups(self) -> list[str]:
        """The experiments or models that the runs belong to."""
        return [*dict.fromkeys(run.group for run in self.runs)]

    def note(self, folder: str, ending: str) -> str:
        """The path of a job's log or benchmark file; it has Snakemake's wildcards unless one job does all of the runs.

        `folder` is logs or benchmarks, `ending` is that of the file's name, such as .log.
        """
        job = self.runs[0].group if self.in_one else FOLDERS[self.stage]
        return f"{self.plan.folder}/{folder}/{self.stage}_{self.work}/{job}{ending}"

    def files(self, file: str) -> list[str]:
        """The paths of `file` in the folders of the runs of a job, in their order."""
        if self.in_one:
            return self.plan.run_files(self.stage, file, self.runs)
        return [f"{self.plan.folder}/runs/{self.stage}/{FOLDERS[self.stage]}/{file}"]

    def benchmarks(self) -> list[str]:
        """The benchmark files of all of the jobs."""
        jobs = self.groups if self.in_one else [run.folder for run in self.runs]
        return self.plan.benchmark_files(f"{self.stage}_{self.work}", jobs)

    def runs_of(self, wildcards: Mapping[str, str]) -> list[Run | Batch]:
        """The runs of the job that the wildcards name."""
        if self.in_one:
            return [*self.runs]
        point = tuple((name, json.loads(wildcards[name])) for name in POINT[self.stage])
        group, variant = wildcards[GROUPS[self.stage]], wildcards["variant"]
        if self.stage == "majority":
            return [Batch(tuple(Run(group, variant, seed, point) for seed in seeds_of(wildcards["seeds"])))]
        return [Run(group, variant, int(wildcards["seed"]), point)]

    def named(self, wildcards: Mapping[str, str]) -> list[dict[str, Any]]:
        """For each run or batch of the job the columns that identify it, such as variant and seed, with values."""
        return [self.plan.named(self.stage, run) for run in self.runs_of(wildcards)]

    def seeds(self, wildcards: Mapping[str, str]) -> list[int]:
        """The seeds of the batches of the job, in their order."""
        return sorted({seed for batch in self.runs_of(wildcards) for seed in batch.seeds})

    def data(self, wildcards: Mapping[str, str]) -> list[str]:
        """The data sets of the batches of the job, one for each of its seeds."""
        path = f"{self.plan.folder}/{MAJORITY_DATA}"
        return [path.format(experiment=self._group(wildcards), seed=seed) for seed in self.seeds(wildcards)]

    def _group(self, wildcards: Mapping[str, str]) -> str:
        return self.runs_of(wildcards)[0].group

    def settings(self, wildcards: Mapping[str, str]) -> dict[str, Any]:
        """The settings on which the runs of the job depend."""
        return self.plan.run_settings(self.stage, self._group(wildcards))

    def ceiling_contexts(self, wildcards: Mapping[str, str]) -> int:
        """The number of contexts behind the ceilings of the language model of the job."""
        return self.plan.settings.language_model[self._group(wildcards)].ceiling_contexts

    def norms(self, wildcards: Mapping[str, str]) -> dict[str, str]:
        """The norm of each variant in the job, as a built-in name or "package.module:Class", by the variant's name."""
        return {run.variant: self.plan.settings.norm_class(run.variant) for run in self.runs_of(wildcards)}

    def norm_code(self, wildcards: Mapping[str, str]) -> dict[str, str | None]:
        """A hash of the code of each norm in the job that is a user's own, by its variant."""
        return {run.variant: self.plan.norm_version(run.variant) for run in self.runs_of(wildcards)}

    def minutes(self, wildcards: Mapping[str, str], attempt: int) -> int:
        """The minutes that a cluster is asked for, for a job that trains."""
        return self.plan.minutes(self.stage, self.runs_of(wildcards), attempt)

    def submission(self, wildcards: Mapping[str, str]) -> str | None:
        """The name under which short training jobs share submissions to a cluster; None for long ones."""
        return f"{self.stage}_train" if self.minutes(wildcards, 1) <= SHORT else None

    def text(self, *files: str) -> Callable[[Any], dict[str, str]]:
        """A function that gives Snakemake the `files` of the text of the language model of a job."""
        models = self.plan.settings.language_model
        return lambda wildcards: self.plan.text_files(models[self._group(wildcards)].text, *files)

    def downloads(self, wildcards: Mapping[str, str]) -> list[str]:
        """The files with the labelled sentences on which the language model of a job is trained."""
        return self.plan.downloaded(self.plan.labelled_sources(self._group(wildcards)))


@dataclass(frozen=True)
class KeptReproduction:
    """A finished reproduction in `folder`: settings and Parquet files that the workflow reads but does not make."""

    folder: str

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The settings in the file settings.json of the folder; empty without that file.

        Raises ValueError if the file is damaged.
        """
        file = Path(self.folder) / "settings.json"
        return json.loads(files.read_bytes(file)) if file.is_file() else {}

    def tables(self) -> list[str]:
        """The names of the Parquet tables in the folder, but for claims, which is made from the others."""
        found = {path.stem for path in Path(self.folder, "parquet").glob("*.parquet")}
        return sorted(found - {"claims"})


def room_files(found: Iterable[shown.Room], name: str, folder: str) -> list[str]:
    """The files of the room called `name` in the folder of a reproduction; empty if it is not among those `found`."""
    return [file for room in found if room.name == name for file in room.files(folder)]


class Collected(NamedTuple):
    """A Parquet table that is put together from the tables of many runs."""

    files: list[str]
    """The files of the runs."""
    settings: Mapping[str, Any]
    """The settings of all these runs."""
    identities: list[dict[str, Any]]
    """What each of the files must say of itself."""


def parquet(folder: str, names: Iterable[str]) -> dict[str, str]:
    """The paths of the Parquet files of the tables `names`, by table, in the reproduction in `folder`."""
    return {name: f"{folder}/parquet/{name}.parquet" for name in names}


def partition_fault(
    file: str | Path, named: Iterable[str], there: Collection[str] | None, too_large: Collection[str]
) -> str | None:
    """What is wrong with the partitions that `file` names, in one line, or None.

    `there` are the names of the cluster's partitions, None where it does not say; the jobs of the rules `too_large` ask
    for more than any of the partitions allows.
    """
    if there is not None and (unknown := sorted(set(named) - set(there))):
        known = ", ".join(sorted(there)) or "none"
        return f"{file}: the cluster has no partition {', '.join(unknown)}; sinfo knows {known}"
    if too_large:
        rules = ", ".join(sorted(too_large))
        return f"{file}: no partition allows what {rules} asks for: max_runtime, max_mem_mb, max_threads, max_gpu"
    return None


def ended_by_preemption(states: Mapping[str, str], before: Collection[str]) -> dict[str, str]:
    """The `states` of SLURM's jobs, with CANCELLED for each of the jobs `before` that is PREEMPTED still.

    A preempted job that SLURM starts again is PENDING soon; one that SLURM has cancelled stays PREEMPTED, for which its
    plugin would wait for ever. Cancelled jobs are submitted again.
    """
    return {
        job: "CANCELLED" if state == "PREEMPTED" and job in before else state for job, state in states.items()
    }


def other(name: Any, own: str) -> KeptReproduction:
    """The reproduction results/<name>/, or that in the folder `name`, with which the one called `own` is compared.

    Of the tables that a comparison reads it needs the claims. Raises ValueError if there is none.
    """
    name = str(name)
    finished = sorted(path.parent.name for path in Path("results").glob("*/settings.json"))
    folder = Path(name) if "/" in name else Path("results") / name
    if not (folder / "settings.json").is_file() or folder.resolve() == Path("results", own).resolve():
        known = ", ".join(each for each in finished if each != own) or "none is there"
        raise ValueError(
            f"against = {name!r}: expected another finished reproduction, by its path or in results/: {known}"
        )
    if not (folder / "parquet/claims.parquet").is_file():
        raise ValueError(f"against = {name!r}: {folder} has no verdicts, it lacks parquet/claims.parquet")
    return KeptReproduction(str(folder))


def command_options(name: str, presets: str | Path) -> str:
    """What a `snakemake` command needs after its targets to mean the reproduction `name`, for texts that show commands.

    It is empty for the default and the kept reproduction. For a preset in the folder `presets` it names the file, and
    FILE stands for the file of a user's own.
    """
    if name in ("default", KEPT):
        return ""
    for file in Path(presets).glob("*.yaml"):
        if yaml_files.read(file).get("name") == name:
            return f" --configfile workflow/presets/{file.name}"
    return " --configfile FILE"
