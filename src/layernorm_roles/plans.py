"""Makes the plan of every job: the settings, seeds, code and other jobs' results that its result depends on."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from layernorm_roles import batches, catalogue, files, source_code
from layernorm_roles.batches import Batch
from layernorm_roles.exhibits import JUDGED, Exhibits
from layernorm_roles.plan import Plans
from layernorm_roles.reproduction import Reproduction
from layernorm_roles.settings import yaml_files
from layernorm_roles.settings.reproduction import KEPT
from layernorm_roles.settings.statements import PLACEMENTS


def plans_of(of: Reproduction) -> Plans:
    """The plans of all jobs of a reproduction; jobs come after those whose results they read."""
    plans = Plans(of.folder)
    _texts(of, plans)
    _majority(of, plans)
    _language_models(of, plans)
    _statements(of, plans)
    _random_keys(of, plans)
    for name, model in of.plain["pretrained"].items():
        job = f"pretrained_measure/{name}"
        plans.add("pretrained_measure", job, [f"text/{model['text']}"], model=name, settings=model)
    made_by = {}
    for table in of.tables:
        if table in of.in_parts:
            settings, made_by[table] = catalogue.settings_behind(table, of.plain), f"tables/{table}"
            plans.add("tables", made_by[table], of.jobs_of(table), table=table, settings=settings)
        else:
            made_by[table] = of.jobs_of(table)[0]
    plans.add("settings", "settings", settings=of.plain)
    measured = [*dict.fromkeys(made_by.values())]
    plans.add("durations", "durations", measured)
    plans.add("claims", "claims", measured)
    made_by |= dict.fromkeys(JUDGED, "claims")
    for name, group in of.exhibits.groups.items():
        reads = [*dict.fromkeys(made_by[table] for table in group.inputs)]
        plans.add("draw", f"draw/{name}", reads, groups=[name], settings=of.plain)
    drawn = [f"draw/{name}" for name in of.exhibits.groups]
    options = command_options(of.settings.name, of.presets)
    page = _page(of.exhibits, [*made_by], options)
    plans.add("page", "page", [*dict.fromkeys(made_by.values()), *drawn], **page)
    return plans


def plans_of_kept(kept: Exhibits) -> Plans:
    """The plans of the jobs that judge claims, draw and write pages from the results/published/ in git.

    A single job draws all. Measured results are not made again, so the plans have checksums of their Parquet files.
    """
    plans = Plans(kept.folder)
    if not kept.tables:
        return plans
    read = zip(kept.tables, kept.results, strict=True)
    checksums = {f"parquet/{table}": files.recorded(path) or "" for table, path in read}
    plans.add("claims", "claims", checksums)
    plans.add("draw", "draw", ["claims"], groups=[*kept.groups], settings=kept.plain, tables=checksums)
    page = _page(kept, [*kept.tables, *JUDGED], "")
    plans.add("page", "page", ["claims", "draw"], **page)
    return plans


def command_options(name: str, presets: str | Path) -> str:
    """The options with which a `snakemake` command makes results/<name>/, as a text to be shown to readers.

    The text is empty for "default" and "published". If a YAML file in the folder `presets` sets this name, it is
    --configfile and the file's path; for any other name, it is --configfile FILE.
    """
    if name in ("default", KEPT):
        return ""
    for file in Path(presets).glob("*.yaml"):
        if yaml_files.read(file).get("name") == name:
            return f" --configfile workflow/presets/{file.name}"
    return " --configfile FILE"


def _page(of: Exhibits, tables: list[str], options: str) -> dict[str, Any]:
    figures = [Path(file).stem for file in of.pictures]
    return {"settings": of.plain, "options": options, "tables": tables, "figures": figures}


def _texts(of: Reproduction, plans: Plans) -> None:
    for file, source in of.hub_sources.items():
        plans.add("download", f"download/{file}", source=source.model_dump(mode="json"))
    for name in of.settings.text:
        reads = [f"download/{source.file_name}" for source in of.text_sources(name) if source.kind == "hub"]
        settings, seed = of.plain["text"][name], of.settings.first_seed
        corpus = partial(_corpus, of, name)
        plans.add("text", f"text/{name}", reads, settings=settings, seed=seed, corpus=corpus)


def _corpus(of: Reproduction, text: str) -> dict[str, str]:
    """The hashes of the local files that a text is made of, which are read if the text's plan is asked for."""
    try:
        return {file: files.sha256_of(file) for file in of.corpus_files(text)}
    except (ValueError, OSError):  # the text's rule says so, if the text is needed
        return {}


def _majority(of: Reproduction, plans: Plans) -> None:
    for batch in of.training["majority"].values():
        settings, reads = of.settings.majority[batch.group], []
        for seed in batch.seeds:
            reads.append(f"majority_data/{batch.group}/seed_{seed}")
            plans.add("majority_data", reads[-1], settings=settings.of_data(), seed=seed)
        plans.add("majority_train", f"majority_train/{batch.name}", reads, **_training(of, "majority", batch))


def _language_models(of: Reproduction, plans: Plans) -> None:
    device = {"device": of.device.device, "device_check": of.settings.device_check}
    for batch in of.training["language_model"].values():
        model, job = of.settings.language_model[batch.group], f"language_model_train/{batch.name}"
        downloads = [f"download/{source.file_name}" for source in of.labelled_sources(batch.group)]
        reads = [f"text/{model.text}", *downloads]
        plans.add("language_model_train", job, reads, **_training(of, "language_model", batch), **device)
        if batch.name in of.measured:
            plans.add(
                "language_model_measure",
                f"language_model_measure/{batch.name}",
                [job, reads[0]],
                settings=model.of_training(),
                runs=of.measured[batch.name],
                norm_code=_norm_code(batch.runs),
                ceiling_contexts=getattr(model, "ceiling_contexts", 0),
                block_contexts=of.settings.statements.fusion.contexts,
            )

    for name in of.of_gradients:
        model = of.settings.language_model[name]
        parameters = {"model": name, "settings": model.of_training()}
        parameters["seeds"] = batches.seeds(of.settings, model.gradient_seeds)
        stage = "language_model_gradients"
        plans.add(stage, f"{stage}/{name}", [f"text/{model.text}"], **parameters)


def _training(of: Reproduction, section: str, batch: Batch) -> dict[str, Any]:
    settings = getattr(of.settings, section)[batch.group].of_training()
    return {"settings": settings, "runs": [*batch.runs], "norm_code": _norm_code(batch.runs)}


def _norm_code(runs: Iterable[batches.Run]) -> dict[str, str | None]:
    """By variant in `runs`, a hash of the user's own code of the norm; None for a built-in norm."""
    return {run["variant"]: source_code.of_norm(run["norm"]) for run in runs}


def _random_keys(of: Reproduction, plans: Plans) -> None:
    norms = {norm: of.settings.norm_class(norm) for norm in of.settings.random_keys.norms}
    code = {name: source_code.of_norm(norm) for name, norm in norms.items()}
    parameters = {"settings": of.plain["random_keys"], "seed": of.settings.first_seed, "norms": norms}
    plans.add("random_keys_measure", "random_keys_measure", **parameters, norm_code=code)


def _statements(of: Reproduction, plans: Plans) -> None:
    settings, plain = of.settings.statements, of.plain["statements"]
    for name in PLACEMENTS:
        parameters = {"settings": plain["placement"], "placement": name}
        for key in ("seeds", "untrained_seeds"):
            parameters[key] = batches.seeds(of.settings, getattr(settings.placement, key))
        plans.add("placement", f"placement/{name}", [f"text/{settings.placement.text}"], **parameters)
    plans.add("geometry", "geometry", settings=plain["geometry"], seed=of.settings.first_seed)
    for name in ("fusion", "batch_dependence", "score_scale"):
        seeds = batches.seeds(of.settings, getattr(settings, name).seeds)
        reads = [f"language_model_measure/{batch}" for batch in of.sampled] if name == "fusion" else []
        plans.add(name, name, reads, settings=plain[name], seeds=seeds)
