"""What Snakemake's rules ask about the results of a configuration: settings, tables, and the paths of files.

Snakemake imports this module whenever it plans, so neither torch, pandas nor pyarrow is imported here.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from layernorm_roles import batches, catalogue, plan
from layernorm_roles.batches import Batch
from layernorm_roles.exhibits import Exhibits
from layernorm_roles.gpu.choice import Choice, choose
from layernorm_roles.pretrained.source import locate
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.loading import load
from layernorm_roles.settings.reproduction import Settings
from layernorm_roles.settings.statements import PLACEMENTS
from layernorm_roles.settings.text import Source
from layernorm_roles.text.prepared import TEXT_FILES


def merged(base: Any, overlay: Any) -> Any:
    """Merge `overlay` into `base`, key by key at any depth, as Snakemake merges configuration files.

    Where both have a value, the result has that of `overlay`. Both arguments stay as they are.
    """
    if not isinstance(base, Mapping) or not isinstance(overlay, Mapping):
        return overlay
    return {**base, **{key: merged(base.get(key), value) for key, value in overlay.items()}}


def configured(defaults: str | Path, overlay: Mapping[str, Any]) -> Settings:
    """The checked settings of a reproduction: those in the YAML file `defaults`, unless `overlay` replaces them.

    `overlay` has nested keys as the file has. Raises ValueError, with a line for each fault, if a value is not allowed.
    """
    return load(merged(yaml_files.read(defaults), overlay))


def refuse_read_only(folder: str | Path, snakefile: str | Path) -> None:
    """Raise ValueError if the workflow cannot write to `folder`, which is results/<name>/, or to .snakemake/.

    ValueError is also raised if a file lies where a folder is needed, or if an earlier version of this package, whose
    results lay elsewhere, made the folder. The message says what to do, for instance how to run the workflow,
    `snakefile`, in another folder.
    """
    if (old := Path(folder, "plan")).is_dir():
        raise ValueError(
            f"{old.absolute()}: these results are of an earlier version, with another layout; expected another `name`, "
            "or the folder moved away"
        )
    inside = [
        Path(folder, name) for name in ("data", "runs", "parquet", "figures", "tables", *plan.UNCHECKED)
    ]
    for wanted in (Path(".snakemake"), Path(folder), *inside):
        there = next(place for place in (wanted, *wanted.parents) if os.path.lexists(place))
        if not there.is_dir():
            raise ValueError(f"{there.absolute()}: expected a folder, or nothing; move away the file or link")
        if wanted not in inside and not os.access(there, os.W_OK | os.X_OK):
            raise ValueError(
                f"{there.absolute()}: no file can be written there; run in a folder of your own: "
                f"snakemake --snakefile {snakefile} --directory FOLDER"
            )


@dataclass(frozen=True)
class Reproduction:
    """All that one configuration makes: the names of its jobs and tables, and the paths of their files."""

    settings: Settings
    presets: Path
    """The folder of the configuration files that come with the project, such as smoke.yaml."""

    @cached_property
    def plain(self) -> dict[str, Any]:
        """All settings as nested dictionaries and lists of values that JSON can hold."""
        return self.settings.model_dump(mode="json")

    @property
    def folder(self) -> str:
        """The folder for all outputs, results/<name>, relative to the working directory."""
        return f"results/{self.settings.name}"

    @cached_property
    def device(self) -> Choice:
        """The device on which language models are trained, and why."""
        return choose(self.settings.device)

    @property
    def gpus(self) -> int:
        """The number of GPUs that Snakemake reserves for each training of a language model, 1 or 0."""
        return int(self.device.device == "cuda")

    @cached_property
    def training(self) -> dict[str, dict[str, Batch]]:
        """The batches of training runs, as training[section][name]."""
        return {stage: batches.batches(self.settings, stage, self.device.device) for stage in batches.GROUPS}

    @cached_property
    def sampled(self) -> list[str]:
        """The names of the batches of language models whose activations statements.fusion reads."""
        return [name for name, runs in self.measured.items() if any(run["samples"] for run in runs)]

    @cached_property
    def of_gradients(self) -> list[str]:
        """The names of the GPTs whose gradients at initialisation are measured."""
        models = self.settings.language_model
        return [name for name in batches.single_gpts(self.settings) if models[name].gradient_seeds]

    @cached_property
    def measured(self) -> dict[str, list[batches.Run]]:
        """The runs of language models that are measured after training, by the name of their batch."""
        trained = self.training["language_model"].items()
        measured = ((name, batches.measured(self.settings, batch)) for name, batch in trained)
        return {name: runs for name, runs in measured if runs}

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The names of the Parquet tables that this reproduction's jobs write, in the order of `catalogue.TABLES`."""
        return tuple(table for table in catalogue.TABLES if self.jobs_of(table))

    @cached_property
    def exhibits(self) -> Exhibits:
        """The claims, figures, tables for readers and pages to be made from this reproduction's Parquet tables."""
        return Exhibits(self.folder, self.plain, self.tables)

    @property
    def in_parts(self) -> list[str]:
        """The names of the Parquet tables whose rows jobs write to separate files, which are joined afterwards."""
        return [table for table in self.tables if self.jobs_of(table) != [catalogue.TABLES[table]]]

    def jobs_of(self, table: str) -> list[str]:
        """The names of the jobs that write rows of the Parquet table `table`; an empty list if no job does."""
        stage = catalogue.TABLES[table]
        if stage == "language_model_measure":
            flag = {"language_model_ceilings": "ceilings"}.get(table, "keys")
            asked = any(run[flag] for runs in self.measured.values() for run in runs)
            return [f"{stage}/{name}" for name in self.measured] if asked else []
        if table == "language_model_attention":
            models, jobs = self.settings.language_model, self.training["language_model"].values()
            diagnosed = (batch for batch in jobs if models[batch.group].diagnose_every)
            return [f"{stage}/{batch.name}" for batch in diagnosed]
        names = {
            "majority_train": self.training["majority"],
            "language_model_train": self.training["language_model"],
            "language_model_gradients": self.of_gradients,
            "pretrained_measure": self.settings.pretrained,
            "placement": PLACEMENTS,
        }
        return [f"{stage}/{name}" for name in names[stage]] if stage in names else [stage]

    def parts(self, table: str) -> list[str]:
        """The paths of the files that are joined to make the Parquet table `table`, one for each job."""
        return [f"{self.folder}/runs/{job}/{table}.parquet" for job in self.jobs_of(table)]

    def text_files(self, name: str) -> dict[str, str]:
        """The paths of the prepared files of the text called `name`: tokenizer, training, validation and so on."""
        return {key: f"{self.folder}/data/text/{name}/{file}" for key, file in TEXT_FILES.items()}

    def text_of(self, batch: Batch) -> dict[str, str]:
        """The paths of the prepared files of the text on which `batch` is trained, as `text_files` has them."""
        return self.text_files(self.settings.language_model[batch.group].text)

    def majority_data(self, batch: Batch) -> list[str]:
        """The paths of the data sets on which `batch` is trained: one for each seed."""
        return [f"{self.folder}/data/majority/{batch.group}/seed_{seed}.parquet" for seed in batch.seeds]

    def downloaded(self, sources: Iterable[Source]) -> list[str]:
        """The paths to which those of `sources` that are data sets of the Hugging Face hub are downloaded."""
        return [f"{self.folder}/data/downloads/{each.file_name}" for each in sources if each.kind == "hub"]

    def text_sources(self, name: str) -> list[Source]:
        """The sources of the text called `name`: of its corpus, and of test texts that are not from the corpus."""
        text = self.settings.text[name]
        return [source for source in (text.corpus, text.long.source, text.sentences.source) if source]

    def labelled_sources(self, model: str) -> list[Source]:
        """The two sources of labelled sentences of a BERT classifier; none for any other model."""
        return list(self.settings.language_model[model].labelled_sources)

    @cached_property
    def hub_sources(self) -> dict[str, Source]:
        """All sources of texts and labelled sentences on the Hugging Face hub, by the name of their file."""
        sources = [source for name in self.settings.text for source in self.text_sources(name)]
        sources += [source for name in self.settings.language_model for source in self.labelled_sources(name)]
        return {source.file_name: source for source in sources if source.kind == "hub"}

    def corpus_files(self, name: str) -> list[str]:
        """The sorted paths of the local files of which the text called `name` is made.

        Raises ValueError if a pattern matches nothing, if a source would read a file twice, or if a match is not a
        file, is in results/ or has a name that Snakemake cannot take.
        """
        corpus = []
        for source in self.text_sources(name):
            matched = source.matching_files()
            if missing := [path for path, files in matched.items() if not files]:
                raise ValueError(f"text.{name}: no file matches {', '.join(missing)}; expected at least one")
            read = list(chain(*matched.values()))
            for file in read:
                by_name = Path(os.path.abspath(file))  # noqa: PTH100, links are not followed
                if by_name.is_relative_to(Path.cwd() / "results"):
                    raise ValueError(f"text.{name}: {file} is a result; expected a copy outside results/")
                if not by_name.is_file() or {*"{}"} & {*file} or not file.isprintable():
                    expected = "a file, whose name has no {, no } and no control characters"
                    raise ValueError(f"text.{name}: {file!r}: expected {expected}")
            if again := [file for file, n in Counter(map(os.path.realpath, read)).items() if n > 1]:
                raise ValueError(f"text.{name}: {again[0]} is found twice by a source's paths; expected once")
            corpus += read
        return sorted(set(corpus))

    def text_of_pretrained(self, name: str) -> dict[str, str]:
        """The paths of the prepared files of the text that the pretrained model `name` reads.

        Raises ValueError if files of the model are missing or have another SHA-256 than config.yaml says, unless the
        model is on the Hugging Face hub or has been measured.
        """
        model = self.settings.pretrained[name]
        measured = Path(self.folder, "runs/pretrained_measure", name, "pretrained_keys.parquet")
        if model.hub is None and not measured.is_file():
            locate(name, model)
        return self.text_files(model.text)
