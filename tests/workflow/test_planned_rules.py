"""What the rules of the default reproduction say, read from Snakemake: which file is which, and whose code counts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from default_settings import DEFAULT, ROOT

from layernorm_roles.provenance import code_version

# In a process of its own: the Snakefile sets environment variables for the jobs.
PROGRAM = """
import json
from pathlib import Path
from types import SimpleNamespace
from snakemake.api import SnakemakeApi
from snakemake.settings.types import ConfigSettings, OutputSettings, Quietness, ResourceSettings

def called(value, **wildcards):
    value = getattr(value, "_file", value)  # Snakemake wraps an input function, and one that is unpacked twice
    value = getattr(value, "callable", None) or value
    return value(SimpleNamespace(**wildcards)) if callable(value) else value

def named(files):
    return {name: str(file) for name, file in files.items() if isinstance(file, str)}

with SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
    workflow = api.workflow(
        resource_settings=ResourceSettings(cores=1), config_settings=ConfigSettings(), snakefile=Path("Snakefile")
    )._workflow
    rules = {
        rule.name: {
            "input": named(rule.input),
            "output": named(rule.output),
            "script": rule.script and Path(rule.script).name,
            "code": dict(rule.params.items()).get("code"),
        }
        for rule in workflow.rules
    }
    def rule(name):
        return workflow.get_rule(name)
    models = {}
    for model in json.loads(MODELS):
        wildcards = {"model": model, "variant": "layernorm", "seed": "0"}
        wildcards |= {"base_learning_rate": "0.25", "steps": "7"}
        inputs = [called(file, **wildcards) for file in rule("language_model_train").input]
        texts = next(files for files in inputs if isinstance(files, dict))
        settings = {
            name: called(dict(rule(name).params.items())["settings"], **wildcards)
            for name in ("language_model_train", "language_model_keys", "language_model_activations")
        }
        models[model] = {"texts": {k: str(v) for k, v in texts.items()}, "settings": settings}
    collected = {
        table: [str(file) for file in called(rule("language_model_tables").input[0], table=table)]
        for table in ("language_model_metrics", "key_selectability", "sentence_tokens")
    }
    collected |= {
        f"majority_{kind}": [str(file) for file in called(rule("majority_tables").input[0], kind=kind)]
        for kind in ("metrics", "vectors")
    }
print("RESULT" + json.dumps({"rules": rules, "models": models, "collected": collected}))
"""

NAMES = {
    "language_model_train": {"initial": "initial.safetensors", "final": "final.safetensors"}
    | {"metrics": "metrics.parquet"},
    "language_model_keys": {"initial": "initial.safetensors", "final": "final.safetensors"}
    | {"verdicts": "keys.parquet", "tokens": "tokens.parquet"},
    "language_model_activations": {"final": "final.safetensors"},
    "pretrained_measure": {name: f"{name}.parquet" for name in ("pretrained_keys", "attention_ceilings")},
    "random_keys_table": {"norms": "random_keys.parquet", "precision": "random_keys_precision.parquet"},
    "geometry": {"measured": "geometry.parquet", "cloud": "geometry_cloud.parquet"},
    "score_scale": {"vectors": "majority_vectors.parquet"},
}
"""The file behind each name that a rule gives to an input or output."""

COLLECTED = {
    "language_model_metrics": "metrics.parquet",
    "key_selectability": "keys.parquet",
    "sentence_tokens": "tokens.parquet",
    "majority_metrics": "metrics.parquet",
    "majority_vectors": "vectors.parquet",
}
"""The files of the runs of which each table consists."""

LISTED = {"learning_rate", "steps", "seeds"}
"""Keys of a language model whose values name its runs."""

WITHOUT_RESULTS = {"publish", "check"}
"""Rules that copy or read files: an edit of the code changes none of their outputs."""


@pytest.fixture(scope="module")
def read():
    program = f"MODELS = {json.dumps(json.dumps(list(DEFAULT['language_model'])))}\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.partition("RESULT")[2])


@pytest.mark.parametrize("rule", NAMES)
def test_each_file_is_the_one_that_its_name_means(read, rule):
    found = read["rules"][rule]
    files = {name: Path(file).name for name, file in (found["input"] | found["output"]).items()}
    assert {name: files[name] for name in NAMES[rule]} == NAMES[rule]


@pytest.mark.parametrize("table", COLLECTED)
def test_each_table_is_collected_from_the_files_of_its_runs(read, table):
    files = read["collected"][table]
    assert {Path(file).name for file in files} == {COLLECTED[table]}
    assert len(set(files)) == len(files) > 1


def modules(rule: str) -> list[Path]:
    """The module that a rule of figures or readable tables imports by a name made at run time."""
    for kind in ("figures", "tables"):
        folder = ROOT / "src/layernorm_roles/evidence" / kind
        name = rule.removeprefix("published_")
        for file in folder.rglob("*.py") if name.startswith(f"{kind}_") else ():
            if "_".join(file.relative_to(folder).with_suffix("").parts) == name.removeprefix(f"{kind}_"):
                return [file]
    return []


def test_an_edit_of_the_code_that_computes_makes_a_result_again(read):
    for name, rule in read["rules"].items():
        if rule["script"] and name not in WITHOUT_RESULTS:
            script = ROOT / "workflow/scripts" / rule["script"]
            assert rule["code"], f"{name} does not depend on its code"
            if name.removeprefix("published_") not in ("page", "durations"):
                assert rule["code"] == code_version(script, *modules(name)), name


@pytest.mark.parametrize("model", DEFAULT["language_model"])
def test_each_model_has_its_own_settings_and_reads_its_own_text(read, model):
    known = {key: value for key, value in DEFAULT["language_model"][model].items() if key not in LISTED}
    for rule, settings in read["models"][model]["settings"].items():
        assert {key: settings[key] for key in known} == known, rule
    for file in read["models"][model]["texts"].values():
        assert f"/{known['text']}/" in file
