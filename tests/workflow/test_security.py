"""A hostile configuration or name does nothing but stop the run; nothing that is read can run code."""

import ast
import re

import pytest
import yaml
from checkouts import ROOT

from layernorm_roles.settings.loading import load, resolve

DEFAULT = resolve(yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8")))
PYTHON = sorted(
    file
    for folder in ("src", "workflow", "benchmarks", "examples")
    for file in (ROOT / folder).rglob("*")
    if file.suffix == ".py"
)
RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow/rules").glob("*.smk"))]

HOSTILE = ["../../../tmp/hacked", "/tmp/hacked", "..", "a\\b", '"><img src=x onerror=alert(1)>', "-rf", "*"]
HOSTILE += ["$(touch hacked)", "a; touch hacked", "a\ntouch hacked", "{wildcards.seed}", "a\0b", "ä", ""]
HOSTILE += ["con\u202egnp"]


def refused(config):
    with pytest.raises(ValueError, match="not usable") as error:
        load(config)
    return str(error.value)


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_a_hostile_name_is_refused_wherever_a_name_is_expected(name):
    """The name of a reproduction is a folder; experiments and variants are folders, HTML and rows of tables."""
    assert "name" in refused(DEFAULT | {"name": name})
    d8 = DEFAULT["majority"]["d8"]
    refused(DEFAULT | {"majority": DEFAULT["majority"] | {name: d8}})
    refused(DEFAULT | {"majority": DEFAULT["majority"] | {"d8": d8 | {"seeds": {name: 1}}}})
    refused(DEFAULT | {"norms": {name: "examples.dynamic_tanh:DynamicTanh"}})
    refused(DEFAULT | {"norms": {"mine": name}})
    refused(DEFAULT | {"random_keys": DEFAULT["random_keys"] | {"norms": [name]}})
    for model in ("gpt", "bert"):
        settings = DEFAULT["language_model"][model] | {"seeds": {name: 1}}
        refused(DEFAULT | {"language_model": DEFAULT["language_model"] | {model: settings}})


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
    assert done.returncode != 0 and says in done.stdout, done.stdout
    assert "Traceback" not in done.stdout
    assert {path.name for path in made.folder.iterdir()} - before <= {".snakemake"}
    assert not list(made.folder.parent.glob("hacked*"))


def calls(file):
    """(dotted name, call) of every call in a Python file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_nothing_that_is_loaded_can_run_code():
    """No pickle, in any of its disguises; no YAML loader but the safe one; no eval of what was read."""
    for file in PYTHON:
        imported = set(re.findall(r"^\s*(?:from|import) ([\w.]+)", file.read_text(), re.M))
        assert not imported & {"pickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}, file
        for name, call in calls(file):
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            last = name.rpartition(".")[2]
            assert name not in ("eval", "exec", "pd.read_pickle", "os.system", "yaml.unsafe_load"), file
            assert name not in ("yaml.load_all", "yaml.full_load"), file
            assert name != "yaml.load" or given.get("Loader") == "LOADER", file
            assert last != "to_pickle", file
            assert name != "torch.load" or given.get("weights_only") == "True", file
            assert given.get("allow_pickle", "False") == "False", file
            assert given.get("trust_remote_code", "False") == "False", file
            assert given.get("shell", "False") == "False", file


def test_no_text_of_the_configuration_reaches_a_shell():
    """Every rule runs a script: wildcards and parameters travel as values, never as words of a command."""
    for file in RULES:
        assert not re.search(r"^\s*(shell|run|notebook|wrapper|cwl)\s*:", file.read_text(), re.M), file


def test_only_a_configured_dataset_or_model_of_the_hub_may_reach_the_network():
    modules = r"socket|ssl|http|urllib(?!\.parse)|ftplib|requests|httpx|aiohttp|datasets|huggingface_hub"
    network = rf"^\s*(?:from|import) ({modules})\b"
    using = {
        file.relative_to(ROOT).as_posix() for file in PYTHON if re.search(network, file.read_text(), re.M)
    }
    allowed = {"src/layernorm_roles/text/downloads.py", "src/layernorm_roles/pretrained/source.py"}
    assert using <= allowed
    for file in allowed:
        assert len(re.findall(network, (ROOT / file).read_text(encoding="utf-8"), re.M)) == 1, (
            "in one function alone"
        )
