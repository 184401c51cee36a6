"""Configurations drawn by the settings' own schema, and a reproduction of each, tiny, in one process after another.

What the check accepts must run to the end. A configuration is the smallest complete one with one to four keys
changed, to a bound, just beside it, or to another value that is allowed. Snakemake itself runs the reproduction: it
starts from the results of the unchanged configuration, so that only what depends on the changed keys is made again.
Its jobs run in its own process, because most of the time of so small a job would be the start of another.
"""

import contextlib
import copy
import gc
import importlib
import os
import queue
import random
import re
import runpy
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from layernorm_roles import planning
from layernorm_roles.settings.json_schema import json_schema

ROOT = Path(__file__).parents[2]
LARGEST = {
    "sequences": 2_000,
    "steps": 6,
    "matrices": 4,
    "samples": 8,
    "keys": 12,
    "dimensions": 12,
    "layers": 4,
    "depths": 3,
    "untrained_depths": 4,
    "heads": 8,
    "d_ff": 20,
    "contexts": 3,
    "longest": 40,
    "vocabulary": 1_100,
}
"""The largest value that is drawn for a key of this name; 24 for other integers, since a fuzzed run must be tiny."""
LEFT_ALONE = {
    "name",
    "device",
    "majority_device",
    "device_check",
    "norms",
    "pretrained",
    "corpus",
    "tokenizer",
}
"""Keys that say where, not what."""
SMALL_RUN = {"steps": 2, "evaluate_every": 1, "checkpoint_every": 2}


def smallest() -> dict[str, Any]:
    """The smoke preset with fewer runs of fewer steps, every experiment and model still there."""
    overlay = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text(encoding="utf-8"))
    overlay |= {"name": "fuzzed", "device": "cpu", "pretrained": {"minilm": None}}
    for experiment in overlay["majority"].values():
        experiment |= SMALL_RUN | {"sequences": 200, "batch_size": 100, "schedule_steps": 8}
        experiment["seeds"] = dict.fromkeys(experiment["seeds"], 0) | {"layernorm": 1, "scale": 1}
    for model in overlay["language_model"].values():
        if model is not None and "steps" in model:
            model |= SMALL_RUN
            model["seeds"] = {name: min(number, 1) for name, number in model["seeds"].items()}
    overlay["language_model"]["gpt"] |= {"context_length": 64}
    overlay["text"]["words"]["long"] |= {"shortest": 48, "longest": 64}
    overlay["text"]["words"]["sentences"] |= {"longest": 64}
    overlay["random_keys"] |= {"keys": [3, 5], "dimensions": [3, 4], "matrices": 2}
    overlay["statements"]["placement"] |= {"steps": 4, "gradients_every": 2, "seeds": 1, "untrained_seeds": 1}
    overlay["statements"]["placement"] |= {"depths": [1, 2], "untrained_depths": [1, 2]}
    overlay["text"]["words"] |= {"vocabulary": 300}
    return overlay


class Leaf(NamedTuple):
    """A key of the configuration that holds a value, and what the schema allows there."""

    place: tuple[str, ...]
    schema: Mapping[str, Any]


def leaves(value: Any, schema: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Every key of a complete configuration that holds a value, with its part of the schema."""
    schema = _resolved(schema, value)
    if not isinstance(value, dict):
        yield Leaf(place, schema)
        return
    for name, inner in value.items():
        if name in LEFT_ALONE:
            continue
        patterns = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties")]
        part = schema.get("properties", {}).get(name) or next(p for p in patterns if isinstance(p, dict))
        yield from leaves(inner, part, (*place, name))


def _resolved(schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    whole = json_schema()
    while "$ref" in schema or "discriminator" in schema:
        if "discriminator" in schema:
            tag = schema["discriminator"]
            schema = {"$ref": tag["mapping"][value[tag["propertyName"]]]}
        schema = {**whole["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
        schema.pop("$ref")
    options = schema.get("anyOf", [])
    if any(option.get("type") == "null" for option in options):
        rest = [option for option in options if option.get("type") != "null"]
        return {**_resolved(rest[0] if len(rest) == 1 else {"anyOf": rest}, value), "null": True}
    return dict(schema)


def drawn(rng: random.Random, name: str, schema: Mapping[str, Any], now: Any) -> Any:
    """A value that the schema allows for the key `name`, or hardly allows, near its bounds more often than not."""
    if schema.get("null") and rng.random() < 0.2:
        return None
    if "anyOf" in schema:
        return drawn(rng, name, _resolved(rng.choice(schema["anyOf"]), now), now)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 2**31)
            largest = min(high, max(LARGEST.get(name, 24), low + 2))
            near = now if isinstance(now, int) else low
            value = rng.choice(
                [low, low + 1, low + 2, rng.randint(low, largest), near + 1, near - 1, near * 2]
            )
            return min(value, largest) if value >= low else low
        case "number":
            low = schema.get("minimum", schema.get("exclusiveMinimum", -10.0))
            high = schema.get("maximum", schema.get("exclusiveMaximum", 10.0))
            near = now if isinstance(now, int | float) else 1.0
            tiny, most = 1e-320 if low == 0 else low, high * 0.99999
            return rng.choice(
                [low, high, tiny, most, rng.uniform(low, min(high, 10.0)), near * 2, near / 2, 5.0]
            )
        case "array":
            items = schema.get("prefixItems")
            current = now if isinstance(now, list) and now else [None]
            if items is None:
                size = rng.choice([1, 1, 2, 3, schema.get("minItems", 0)])
                items = [schema.get("items", {})] * min(size, schema.get("maxItems", 3))
            values = [
                drawn(rng, name, _resolved(item, None), current[min(i, len(current) - 1)])
                for i, item in enumerate(items)
            ]
            return values
    return now


def configuration(rng: random.Random, base: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An overlay of config.yaml with one to four keys of `base` changed, and the keys with their values."""
    changed, said = copy.deepcopy(dict(base)), []
    plain = planning.configured(ROOT / "config.yaml", base).model_dump(mode="json")
    found = list(leaves(plain, json_schema()))
    sections = sorted({leaf.place[0] for leaf in found})
    for _ in range(rng.choice([1, 1, 2, 4])):
        section = rng.choice(sections)  # not the leaf: the majority task has most keys
        leaf = rng.choice([leaf for leaf in found if leaf.place[0] == section])
        now: Any = plain
        for name in leaf.place:
            now = now[name]
        value = drawn(rng, leaf.place[-1], leaf.schema, now)
        place = changed
        for name in leaf.place[:-1]:
            place = place.setdefault(name, {})
        place[leaf.place[-1]] = value
        said.append(f"{'.'.join(leaf.place)} = {value}")
    return changed, said


class Outcome(NamedTuple):
    """What became of a configuration: done, refused late by a job, or failed with a traceback or by a signal."""

    kind: str
    keys: list[str]
    message: str = ""


class Reproductions:
    """Reproductions of configurations in `folder`, some side by side, each from the results of the smallest one."""

    def __init__(self, folder: Path, side_by_side: int = 1):
        made = runpy.run_path(str(ROOT / "tests/workflow/checkouts.py"))["Checkout"]
        base, self.kept = smallest(), folder / "kept"
        first, *others = (made(folder / f"checkout_{number}", base) for number in range(side_by_side))
        outcome = _run(first, base, modules=folder / "modules.txt")
        assert outcome.kind == "done", outcome
        shutil.copytree(first.folder, self.kept, symlinks=True)
        for name in (folder / "modules.txt").read_text(encoding="utf-8").split():
            with contextlib.suppress(ImportError):  # what is imported here, no later child needs to import
                importlib.import_module(name)
        self.free: queue.SimpleQueue = queue.SimpleQueue()
        for checkout in (first, *others):
            self.free.put(checkout)

    def trial(self, overlay: dict[str, Any], keys: list[str]) -> Outcome:
        """Run an overlay that the check accepts, whose changed keys are `keys`."""
        checkout = self.free.get()
        try:
            shutil.rmtree(checkout.folder)
            shutil.copytree(self.kept, checkout.folder, symlinks=True)
            return _run(checkout, overlay)._replace(keys=keys)
        finally:
            self.free.put(checkout)


def _run(checkout, overlay: dict[str, Any], modules: Path | None = None) -> Outcome:
    """`snakemake all` of the overlay in a child of this process, which writes what it imported to `modules`."""
    checkout.configure(overlay)
    output = checkout.folder / "output.txt"
    if child := os.fork():
        _, status = os.waitpid(child, 0)
        text = output.read_text(encoding="utf-8", errors="replace")
        if status == 0:
            return Outcome("done", [])
        if os.WIFSIGNALED(status):
            return Outcome("failed", [], f"{signal.Signals(os.WTERMSIG(status)).name} after {text[-800:]!r}")
        said = (
            re.findall(r"^error: .*", text, re.M)
            or re.findall(r"^\w*Error\w*: .*", text, re.M)
            or [text[-800:]]
        )
        return Outcome("failed" if "Traceback" in text else "refused late", [], said[-1])
    try:
        with output.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(checkout.folder)
        _in_one_process()
        from snakemake import cli

        cli.main(["all", "--cores", "1", "--configfile", "tiny.yaml", "--nolock", "--scheduler", "greedy"])
    except SystemExit as end:
        if modules:
            modules.write_text(
                "\n".join(name for name in sys.modules if name != "__main__"), encoding="utf-8"
            )
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _in_one_process() -> None:
    """Let Snakemake run the scripts of Python in its own process, without a check of every call's shapes and types.

    Figures are laid out once, drawn at a tenth of their resolution, and embed no fonts, which is most of their time.
    """
    from jaxtyping import config
    from matplotlib.backends.backend_pdf import PdfFile
    from matplotlib.figure import Figure
    from snakemake import script
    from snakemake.benchmark import benchmarked

    from layernorm_roles import job

    def execute(self, fname, edit=False):
        path = list(sys.path)
        gc.freeze()  # so that only what the job leaves is looked at, as if its process ended
        with benchmarked(os.getpid(), self.bench_record):
            try:
                runpy.run_path(fname)
            except SystemExit as end:  # what `job` ends a process with, after its line on standard error
                raise RuntimeError(f"exit status {end.code}") from None
            except Exception:
                traceback.print_exc()
                raise
            finally:
                sys.path[:] = path  # which every script makes longer by its own whole length
                gc.collect()

    drawn = Figure.savefig

    def savefig(figure, target, **options):
        drawn(figure, target, **options | {"dpi": 22})
        figure.set_layout_engine("none")

    Figure.savefig = savefig
    PdfFile.writeFonts = lambda file: file.writeObject(file.fontObject, {})
    config.update("jaxtyping_disable", True)
    script.PythonScript.execute_script = execute
    job._end_with = lambda parent: None
    job.signal.signal = lambda number, handler: None  # only the main thread may set one
