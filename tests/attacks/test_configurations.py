"""Configurations that the check accepts run to the end, through every stage: no traceback, and nothing refused late."""

import os
import random
import re
import shutil
from typing import Any

import pytest
from checkouts import ROOT, SMOKE, Checkout
from schema_walk import keys, resolved

from layernorm_roles import planning

LARGEST = {"sequences": 2_000, "vocabulary": 1_100, "longest": 40, "d_ff": 20, "keys": 12, "dimensions": 12}
LARGEST |= {"heads": 8, "steps": 6, "matrices": 4, "layers": 4, "untrained_depths": 4}
LARGEST |= {"depths": 3, "contexts": 3}
"""The largest value that is drawn for a key of this name; 24 for other integers, since a fuzzed run must be tiny."""
LEFT_ALONE = {"name", "device", "majority_device", "norms", "pretrained", "corpus", "tokenizer"}
"""Keys that say where, not what."""


def drawn(rng: random.Random, name: str, schema: dict[str, Any], now: Any) -> Any:
    """A value that the schema allows for the key `name`, or hardly allows, near its bounds more often than not."""
    schema = resolved(schema, now)
    if options := schema.get("anyOf"):
        return drawn(rng, name, rng.choice(options), now)
    if options := schema.get("enum", [schema["const"]] if "const" in schema else None):
        return rng.choice(options)
    kind, low = schema.get("type"), schema.get("minimum", schema.get("exclusiveMinimum", 0))
    high = schema.get("maximum", schema.get("exclusiveMaximum", 10.0 if kind == "number" else 2**31))
    near = now if isinstance(now, int | float) else low or 1
    if kind == "integer":
        largest = min(high, max(LARGEST.get(name, 24), low + 2))
        value = rng.choice([low, low + 1, rng.randint(low, largest), near + 1, near - 1, near * 2])
        return min(max(round(value), low), largest)
    if kind == "number":
        inside = rng.uniform(low, min(high, 10.0))
        return rng.choice([low, high, low or 1e-320, high * 0.99999, inside, near * 2, near / 2])
    if kind == "array":
        current = now if isinstance(now, list) and now else [None]
        number = min(rng.randint(schema.get("minItems", 0), 3), schema.get("maxItems", 3))
        items = schema.get("prefixItems", [schema.get("items", {})] * number)
        return [drawn(rng, name, each, current[min(i, len(current) - 1)]) for i, each in enumerate(items)]
    return {"null": None, "boolean": not now}.get(kind, now)


def configuration(rng: random.Random) -> tuple[dict[str, Any], list[str]]:
    """The smoke preset with one to four keys changed, and the keys with their values."""
    changed, said = SMOKE, []
    plain = planning.configured(ROOT / "config.yaml", SMOKE).model_dump(mode="json")
    leaves = [key for key in keys(plain) if not isinstance(key.value, dict) and not LEFT_ALONE & {*key.place}]
    wanted = rng.choice([1, 1, 2, 4])
    while len(said) < wanted or changed == SMOKE:
        section = rng.choice(sorted({leaf.place[0] for leaf in leaves}))  # the majority task has most keys
        leaf = rng.choice([leaf for leaf in leaves if leaf.place[0] == section])
        value = overlay = drawn(rng, leaf.place[-1], leaf.schema, leaf.value)
        for name in reversed(leaf.place):
            overlay = {name: overlay}
        changed = planning.merged(changed, overlay)
        said.append(f"{leaf} = {value}")
    return changed, said


@pytest.mark.long
def test_what_is_accepted_runs(tmp_path):
    """Each from the results of the smoke preset; ATTACK_CONFIGURATIONS says how many, ATTACK_SEED which."""
    rng, wrong, tried = random.Random(int(os.environ.get("ATTACK_SEED", "0"))), [], 0
    checkout, kept = Checkout(tmp_path / "checkout", SMOKE), tmp_path / "kept"
    checkout.run("all")
    shutil.copytree(checkout.folder, kept, symlinks=True)
    while tried < int(os.environ.get("ATTACK_CONFIGURATIONS", "1")):
        overlay, said = configuration(rng)
        try:
            planning.configured(ROOT / "config.yaml", overlay)
        except ValueError:
            continue
        shutil.rmtree(checkout.folder)
        shutil.copytree(kept, checkout.folder, symlinks=True)
        checkout.configure(overlay)
        done, tried = checkout.snakemake("all"), tried + 1
        if done.returncode:
            errors = re.findall(r"^(?:error|\w*Error\w*): .*", done.stdout, re.M)
            wrong.append(f"{said}: {(errors or [done.stdout[-800:]])[-1]}")
    assert not wrong, "\n".join(wrong)
