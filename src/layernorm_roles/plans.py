"""Makes the plan of every job of the workflow: the settings, seeds, code and other jobs' results that it depends on."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from layernorm_roles import batches, catalogue, exhibits, files, plan, source_code
from layernorm_roles.batches import Batch
from layernorm_roles.reproduction import Reproduction
from layernorm_roles.settings.statements import PLACEMENTS

Plans = dict[str, dict[str, Any]]


def plans_of(of: Reproduction) -> Plans:
    """A dictionary of the plans of all jobs of a reproduction, by the name of the job, such as "settings".

    A job's plan is a dictionary of all that its result depends on. Jobs come after those whose results they read.
    """
    planned: Plans = {}
    add = partial(_add, planned)
    _texts(of, add)
    _majority(of, add)
    _language_models(of, add)
    _placement(of, add)
    for name, model in of.plain["pretrained"].items():
        add("pretrained", f"pretrained/{name}", [f"text/{model['text']}"], model=name, settings=model)
    made_by = {}
    for table in of.tables:
        if table in of.in_parts:
            settings, made_by[table] = catalogue.settings_behind(table, of.plain), f"tables/{table}"
            add("tables", made_by[table], of.jobs_of(table), table=table, settings=settings)
        else:
            made_by[table] = of.jobs_of(table)[0]
    _random_keys(of, add)
    _small_statements(of, add)
    add("settings", "settings", settings=of.plain)
    add("durations", "durations", made_by.values())
    sources = {table: (job, plan.hash_of(planned[job])) for table, job in made_by.items()}
    options = exhibits.command_options(of.settings.name, of.presets)
    planned |= exhibits.plans(of.exhibits, sources, options)
    return planned


def benchmarks(folder: str, planned: Plans) -> list[str]:
    """The paths of the files in which Snakemake notes the time and memory of each job that computes results.

    `folder` is the path results/<name> of the reproduction whose plans, by the job's name, are `planned`. Jobs that
    judge claims or make figures, tables for readers and pages have no such file here.
    """
    computing = (job for job, each in planned.items() if each["stage"] not in catalogue.EVIDENCE)
    return [f"{folder}/benchmarks/{job}.tsv" for job in computing]


def ends(folder: str, planned: Plans) -> list[str]:
    """The paths of the files that mark a reproduction's last jobs as done: the copies of their plans.

    `planned` has the plans of the reproduction in `folder`, by the job's name. The last jobs judge
    claims, and make figures, tables for readers and pages.
    """
    last = (job for job, each in planned.items() if each["stage"] in catalogue.EVIDENCE)
    return [f"{folder}/origin/{job}.json" for job in last]


def _add(planned: Plans, stage: str, job: str, reads: Iterable[str] = (), **parameters: Any) -> None:
    planned[job] = plan.plan(stage, job, {name: plan.hash_of(planned[name]) for name in reads}, **parameters)


def _texts(of: Reproduction, add: Any) -> None:
    for file, source in of.hub_sources.items():
        add("download", f"download/{file}", source=source.model_dump(mode="json"))
    for name in of.settings.text:
        try:
            content = {file: files.sha256_of(file) for file in of.corpus_files(name)}
        except (ValueError, OSError):  # the text's rule says so, if the text is needed
            content = {}
        reads = [f"download/{source.file_name}" for source in of.text_sources(name) if source.kind == "hub"]
        seed = of.settings.first_seed
        add("text", f"text/{name}", reads, settings=of.plain["text"][name], seed=seed, corpus=content)


def _majority(of: Reproduction, add: Any) -> None:
    for batch in of.training["majority"].values():
        settings, reads = of.settings.majority[batch.group], []
        for seed in batch.seeds:
            reads.append(f"majority_data/{batch.group}/seed_{seed}")
            add("majority_data", reads[-1], settings=settings.of_data(), seed=seed)
        add("majority", f"majority/{batch.name}", reads, **_training(of, "majority", batch))


def _language_models(of: Reproduction, add: Any) -> None:
    for batch in of.training["language_model"].values():
        model, job = of.settings.language_model[batch.group], f"language_model/{batch.name}"
        downloads = [f"download/{source.file_name}" for source in of.labelled_sources(batch.group)]
        reads = [f"text/{model.text}", *downloads]
        device = {"device": of.device.device, "device_check": of.settings.device_check}
        add("language_model", job, reads, **_training(of, "language_model", batch), **device)
        if batch.name in of.measured:
            add(
                "measure",
                f"measure/{batch.name}",
                [job, reads[0]],
                settings=model.of_training(),
                runs=of.measured[batch.name],
                norm_code=_norm_code(batch),
                ceiling_contexts=getattr(model, "ceiling_contexts", 0),
                block_contexts=of.settings.statements.fusion.contexts,
            )


def _training(of: Reproduction, stage: str, batch: Batch) -> dict[str, Any]:
    return {
        "settings": getattr(of.settings, stage)[batch.group].of_training(),
        "runs": [*batch.runs],
        "norm_code": _norm_code(batch),
    }


def _norm_code(batch: Batch) -> dict[str, str | None]:
    """By variant in a batch of training runs, a hash of the user's own code of the norm; None for a built-in norm."""
    return {run["variant"]: source_code.of_norm(run["norm"]) for run in batch.runs}


def _random_keys(of: Reproduction, add: Any) -> None:
    parameters = {"settings": of.plain["random_keys"], "seed": of.settings.first_seed}
    norms = {norm: of.settings.norm_class(norm) for norm in of.settings.random_keys.norms}
    code = {name: source_code.of_norm(norm) for name, norm in norms.items()}
    add("random_keys", "random_keys", **parameters, norms=norms, norm_code=code)


def _placement(of: Reproduction, add: Any) -> None:
    placement = of.settings.statements.placement
    parameters = {"settings": of.plain["statements"]["placement"]}
    for key in ("seeds", "untrained_seeds"):
        parameters[key] = batches.seeds(of.settings, getattr(placement, key))
    for each in PLACEMENTS:
        add("placement", f"placement/{each}", [f"text/{placement.text}"], placement=each, **parameters)


def _small_statements(of: Reproduction, add: Any) -> None:
    add("geometry", "geometry", settings=of.plain["statements"]["geometry"], seed=of.settings.first_seed)
    for name in ("fusion", "batch_dependence", "score_scale"):
        number = getattr(of.settings.statements, name).seeds
        parameters = {"settings": of.plain["statements"][name], "seeds": batches.seeds(of.settings, number)}
        reads = [f"measure/{batch}" for batch in of.sampled] if name == "fusion" else []
        add(name, name, reads, **parameters)
