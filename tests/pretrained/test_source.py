"""Where a model's files are, and what is said where they are not."""

import hashlib
import json
import re
import shutil
import sys
from fnmatch import fnmatch

import pytest

from layernorm_roles.pretrained import contexts, recording
from layernorm_roles.pretrained.source import files_at, locate
from layernorm_roles.settings.pretrained import PretrainedModel

SIZES = {"text": "words", "contexts": 2, "context_length": 8}


def at(path, **more):
    return PretrainedModel(path=str(path), **SIZES, **more)


@pytest.fixture
def model(saved, tmp_path):
    """A folder with a model of one file, to be spoilt."""
    return shutil.copytree(saved("bert"), tmp_path / "model")


def test_a_folder_holds_one_file_or_the_shards_of_its_index(model, tmp_path):
    assert locate("m", at(model)).weights == (model / "model.safetensors",)
    (model / "model.safetensors").unlink()
    for name in ("b.safetensors", "a.safetensors"):
        (model / name).write_text(name)
    index = {"weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    files = locate("m", at(model))
    assert [path.name for path in files.weights] == ["a.safetensors", "b.safetensors"]
    assert files.sha256() == hashlib.sha256(b"a.safetensorsb.safetensors").hexdigest()


WEIGHTS, INDEX, NO_INDEX = "model.safetensors", "model.safetensors.index.json", "expected an index with a"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config.json": None}, "expected a model with .*config.json, which"),
        ({WEIGHTS: None}, "expected a model with .*has neither"),
        ({INDEX: "{}"}, "expected one of model.safetensors and .*, and .* has both"),
        ({WEIGHTS: None, INDEX: ""}, NO_INDEX),
        ({WEIGHTS: None, INDEX: '{"weight_map": {"x": "../a.safetensors"}}'}, NO_INDEX),
        ({WEIGHTS: None, INDEX: '{"weight_map": {"x": "a.bin"}}'}, NO_INDEX),
        ({WEIGHTS: None, INDEX: '{"weight_map": {"x": "a.safetensors"}}'}, "expected the shard a"),
        ({"config.json": "[" * 10**5}, "no model that transformers can load"),
        ({"config.json": {"num_hidden_layers": 0}}, "expected a model with layers"),
        ({"config.json": {"num_hidden_layers": 1}}, "encoder.layer.1.* is in the weights, .* no place"),
        *(
            (
                {"config.json": {"quantization_config": {"quant_method": method}}},
                f"quantization_config = .*'{method}'",
            )
            for method in ("new", "fp8")
        ),
        ({"config.json": {"max_position_embeddings": 32}}, "the sizes in config.json, .*of the weights$"),
    ],
)
def test_a_folder_that_holds_no_whole_model_is_refused(changes, said, model):
    """Files that are gone, have another text, or other values of some keys."""
    for name, content in changes.items():
        if content is None:
            (model / name).unlink()
        elif isinstance(content, dict):
            config = json.loads((model / name).read_text())
            (model / name).write_text(json.dumps(config | content))
        else:
            (model / name).write_text(content)
    with pytest.raises(ValueError, match=rf"^(pretrained.m.path = .*|{model}(/config.json)?): {said}"):
        recording.load(locate("m", at(model)))


def test_a_package_is_found_without_running_its_code(model, tmp_path, monkeypatch):
    package = tmp_path / "some_model"
    shutil.copytree(model, package / "inner")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    files = locate("m", PretrainedModel(package="some_model", folder="inner", **SIZES))
    assert files.folder == package / "inner"
    assert "some_model" not in sys.modules
    for given, said in (
        ({"package": "some_model", "folder": "other"}, "folder = 'other': expected the folder of a model"),
        ({"package": "some_model"}, "package = 'some_model': .* with config.json"),
        ({"package": "no_such.package"}, "package = 'no_such.package': .*an installed package"),
        ({"package": "json.tool"}, "package = 'json.tool': .*an installed package"),
    ):
        with pytest.raises(ValueError, match=rf"^pretrained.m.{said}"):
            locate("m", PretrainedModel(**given, **SIZES))


def test_weights_of_another_sha256_are_refused(model):
    right = hashlib.sha256((model / "model.safetensors").read_bytes()).hexdigest()
    assert locate("m", at(model, sha256=right)).sha256() == right
    with (model / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    with pytest.raises(ValueError, match=rf"^pretrained.m.sha256 = '{right}': expected the SHA-256 of"):
        locate("m", at(model, sha256=right))


def test_a_hub_gives_a_folder_and_one_that_is_not_reached_is_named(model, monkeypatch):
    import huggingface_hub

    def unreachable(*arguments, **options):
        raise OSError("no network\nat all")

    wanted = []

    def downloaded(name, allow_patterns):
        wanted.extend((name, *allow_patterns))
        return str(model)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", downloaded)
    assert locate("m", PretrainedModel(hub="a/b", **SIZES)).folder == model
    files = ("config.json", "merges.txt", "tokenizer.model", "model.safetensors", "pytorch_model.bin")
    taken = [name for name in files if any(fnmatch(name, pattern) for pattern in wanted)]
    assert wanted[0] == "a/b" and taken == [*files[:-1]]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(ValueError, match=r"^pretrained.m.hub = 'a/b': expected .*\(no network\)$"):
        locate("m", PretrainedModel(hub="a/b", **SIZES))


def test_code_of_a_folder_is_not_run(model, tmp_path, monkeypatch):
    """A BERT whose configuration, model and tokenizer name the folder's code, which would write a file."""
    marker = tmp_path / "marker"
    (model / "own.py").write_text(f"from pathlib import Path\nPath({str(marker)!r}).touch()\n")
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Model"}}
    (model / "config.json").write_text(json.dumps(config))
    words = {"tokenizer_class": "Words", "auto_map": {"AutoTokenizer": ["own.Words", "own.Words"]}}
    (model / "tokenizer_config.json").write_text(json.dumps(words))
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question is asked"))
    files = files_at(model, "path")
    for read, name in ((recording.load, "config"), (contexts.tokens_of, "tokenizer_config")):
        with pytest.raises(ValueError, match=rf"^{re.escape(str(model))}/{name}\.json: auto_map") as refused:
            read(files)
        assert "\n" not in str(refused.value) and not marker.exists()
        (model / "config.json").write_text("{}")
    (model / "tokenizer_config.json").unlink()
    with pytest.raises(ValueError, match=r"model: expected tokenizer_config.json or tokenizer.json"):
        contexts.tokens_of(files)
