"""A hostile configuration or name does nothing but stop the run."""

import pytest
import yaml
from checkouts import ROOT

from layernorm_roles.planning import merged
from layernorm_roles.settings.loading import load, resolve

DEFAULT = resolve(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))
HOSTILE = ["../../../tmp/hacked", "/tmp/hacked", "..", "a\\b", '"><img src=x onerror=alert(1)>', "-rf", "*"]
HOSTILE += ["$(touch hacked)", "a; touch hacked", "a\ntouch hacked", "{wildcards.seed}", "a\0b", "ä", ""]
HOSTILE += ["con\u202egnp"]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_a_hostile_name_is_refused_wherever_a_name_is_expected(name):
    """The name of a reproduction is a folder; experiments and variants are folders, HTML and rows of tables."""
    for overlay in (
        {"name": name},
        {"majority": {name: DEFAULT["majority"]["d8"]}},
        {"majority": {"d8": {"seeds": {name: 1}}}},
        {"norms": {name: "examples.dynamic_tanh:DynamicTanh"}},
        {"norms": {"mine": name}},
        {"random_keys": {"norms": [name]}},
        {"language_model": {"gpt": {"seeds": {name: 1}}}},
        {"language_model": {"bert": {"seeds": {name: 1}}}},
    ):
        with pytest.raises(ValueError, match="not usable"):
            load(merged(DEFAULT, overlay))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: !!python/object/apply:os.system ['touch hacked']", "constructor for the tag"),
        ("majority: {d8: {steps: -1}}", "majority.d8.steps = -1: Input should be greater than or equal to 1"),
    ],
)
def test_snakemake_stops_with_one_message_before_anything_is_done(checkout, text, says):
    made = checkout({})
    (made.folder / "tiny.yaml").write_text(text)
    before = {path.name for path in made.folder.iterdir()}
    done = made.snakemake("majority")
    assert done.returncode != 0 and says in done.stdout and "Traceback" not in done.stdout, done.stdout
    assert {path.name for path in made.folder.iterdir()} - before <= {".snakemake"}
    assert not list(made.folder.parent.glob("hacked*"))
