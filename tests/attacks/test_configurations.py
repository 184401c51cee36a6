"""Configurations that the check accepts run to the end, through every stage: no traceback, and nothing refused late."""

import copy
import os
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import Checkout
from schema_walk import keys, resolved

from layernorm_roles import planning

ROOT = Path(__file__).parents[2]
LARGEST = {"sequences": 2_000, "vocabulary": 1_100, "longest": 40, "d_ff": 20, "keys": 12, "dimensions": 12}
LARGEST |= {"heads": 8, "steps": 6, "matrices": 4, "layers": 4, "untrained_depths": 4}
LARGEST |= {"depths": 3, "contexts": 3}
"""The largest value that is drawn for a key of this name; 24 for other integers, since a fuzzed run must be tiny."""
LEFT_ALONE = set("name device majority_device device_check norms pretrained corpus tokenizer".split())
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
    overlay["statements"]["placement"] |= {"steps": 4, "seeds": 1, "untrained_seeds": 1}
    overlay["statements"]["placement"] |= {"depths": [1, 2], "untrained_depths": [1, 2]}
    overlay["text"]["words"] |= {"vocabulary": 300}
    return overlay


def _resolved(schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    """The schema of what may stand there; `null` says whether null may, too."""
    schema = resolved(schema, value)
    options = schema.get("anyOf", [])
    rest = [option for option in options if option.get("type") != "null"]
    if len(rest) < len(options):
        return {**_resolved(rest[0] if len(rest) == 1 else {"anyOf": rest}, value), "null": True}
    return schema


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
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", 0)), schema.get("maximum", 2**31)
    match schema.get("type"):
        case "integer":
            largest = min(high, max(LARGEST.get(name, 24), low + 2))
            near = now if isinstance(now, int) else low
            value = rng.choice(
                [low, low + 1, low + 2, rng.randint(low, largest), near + 1, near - 1, near * 2]
            )
            return min(max(value, low), largest)
        case "number":
            high = schema.get("maximum", schema.get("exclusiveMaximum", 10.0))
            near = now if isinstance(now, int | float) else 1.0
            tiny = 1e-320 if low == 0 else low
            return rng.choice(
                [low, high, tiny, high * 0.99999, rng.uniform(low, min(high, 10.0)), near * 2, near / 2]
            )
        case "boolean":
            return not now
        case "array":
            current = now if isinstance(now, list) and now else [None]
            some = [schema.get("items", {})] * min(
                rng.randint(schema.get("minItems", 0), 3), schema.get("maxItems", 3)
            )
            items = enumerate(schema.get("prefixItems", some))
            return [
                drawn(rng, name, _resolved(item, None), current[min(i, len(current) - 1)])
                for i, item in items
            ]
    return now


def configuration(rng: random.Random, base: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An overlay of config.yaml with one to four keys of `base` changed, and the keys with their values."""
    changed, said = copy.deepcopy(dict(base)), []
    plain = planning.configured(ROOT / "config.yaml", base).model_dump(mode="json")
    leaves = [key for key in keys(plain) if not isinstance(key.value, dict) and not LEFT_ALONE & {*key.place}]
    sections = sorted({leaf.place[0] for leaf in leaves})
    wanted = rng.choice([1, 1, 2, 4])
    while len(said) < wanted or changed == base:
        section = rng.choice(sections)  # not the leaf: the majority task has most keys
        leaf = rng.choice([leaf for leaf in leaves if leaf.place[0] == section])
        *sections_above, name = leaf.place
        value = drawn(rng, name, _resolved(leaf.schema, leaf.value), leaf.value)
        place = changed
        for above in sections_above:
            place = place.setdefault(above, {})
        place[name] = value
        said.append(f"{leaf} = {value}")
    return changed, said


class Reproductions:
    """Reproductions of configurations in a folder, each from the results of the smallest one."""

    def __init__(self, folder: Path):
        self.checkout, self.kept = Checkout(folder / "checkout", smallest()), folder / "kept"
        fault = self._fault()
        assert not fault, fault
        shutil.copytree(self.checkout.folder, self.kept, symlinks=True)

    def fault(self, overlay: dict[str, Any]) -> str:
        """What stops the reproduction of an overlay that the check accepts; empty if it runs to the end."""
        shutil.rmtree(self.checkout.folder)
        shutil.copytree(self.kept, self.checkout.folder, symlinks=True)
        self.checkout.configure(overlay)
        return self._fault()

    def _fault(self) -> str:
        done = self.checkout.snakemake("all")
        errors = re.findall(r"^(?:error|\w*Error\w*): .*", done.stdout, re.M)
        return (errors or [done.stdout[-800:]])[-1] if done.returncode else ""


NUMBER = int(os.environ.get("ATTACK_CONFIGURATIONS", "1"))
"""How many accepted configurations are run."""
SEED = int(os.environ.get("ATTACK_SEED", "0"))


@pytest.mark.long
def test_what_is_accepted_runs(tmp_path):
    rng, reproductions, wrong = random.Random(SEED), Reproductions(tmp_path), []
    left = NUMBER
    while left:
        overlay, keys = configuration(rng, smallest())
        try:
            planning.configured(ROOT / "config.yaml", overlay)
        except ValueError:
            continue
        left -= 1
        if fault := reproductions.fault(overlay):
            wrong.append(f"{keys}: {fault}")
    assert not wrong, "\n".join(wrong)
