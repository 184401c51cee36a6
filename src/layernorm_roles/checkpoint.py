"""Weights and checkpoints: safetensors files with a checksum, and training runs that go on from them to the byte."""

import hashlib
import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from layernorm_roles import store

log = logging.getLogger("layernorm_roles")


def save(tensors: Mapping[str, Tensor], path: str | Path, about: Mapping[str, Any]) -> None:
    """One safetensors file, whole or not at all. `about`, anything JSON can say, goes with it.

    The file's metadata has a single entry: safetensors writes several in no fixed order, and equal runs should give
    equal bytes.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    said = json.dumps(about)
    metadata = {"layernorm_roles": json.dumps({"about": said, "sha256": _sha256(tensors, said)})}
    with store.whole(path) as partial:
        try:
            save_file(tensors, partial, metadata)
        except SafetensorError as error:  # a full disk, which is no fault of the program
            raise OSError(f"{path}: {error}") from error


def load(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the `about` that `save` wrote. ValueError for a missing, damaged or foreign file."""
    try:
        return _verified(path)
    except ValueError as error:
        raise ValueError(f"{error}; delete it and run again") from None


def _verified(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            ours = json.loads((file.metadata() or {})["layernorm_roles"])
        if _sha256(tensors, ours["about"]) != ours["sha256"]:
            raise ValueError("its checksum does not fit")
        return tensors, json.loads(ours["about"])
    except KeyError:
        fault = "it has no checksum"
    except (SafetensorError, OSError, ValueError) as error:
        fault = str(error)
    raise ValueError(f"{path}: damaged or not written here ({fault})")


def _sha256(tensors: Mapping[str, Tensor], said: str) -> str:
    digest = hashlib.sha256(said.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


class Checkpoint:
    """The file from which a killed training run goes on; it is there only while the run is not finished.

    `identity`, anything JSON can say, must tell all that the run depends on: settings, data, seed, code. A file of
    another identity, or a damaged one, is never used: the run then says so and starts from the beginning.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, Any]):
        self.path = Path(path)
        # As it comes back from the file: tuples are lists there.
        self.identity = json.loads(json.dumps({**identity, "torch": torch.__version__}))

    def save(self, model: nn.Module, optimiser: torch.optim.Optimizer, progress: Mapping[str, Any]) -> None:
        """Keep all that a step changes: parameters, the optimiser's state, the generators, and `progress`."""
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for parameter, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{parameter}.{name}": tensor for name, tensor in state.items()}
        tensors["generator.cpu"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            tensors["generator.cuda"] = torch.cuda.get_rng_state()
        save(tensors, self.path, {"identity": self.identity, "progress": progress})

    def load(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any] | None:
        """Put everything back; returns the `progress` saved, or None where there is nothing to go on from."""
        if not self.path.exists():
            return None
        try:
            tensors, about = _verified(self.path)
            if different := self._differences(about.get("identity", {})):
                raise ValueError(f"{self.path}: a checkpoint of another run (different: {different})")
        except ValueError as error:
            line = f"{error}; training starts from the beginning"
            log.warning(line)
            print(line, file=sys.stderr, flush=True)
            return None
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "optimiser": {}, "generator": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimiser"].items():
            parameter, _, rest = name.partition(".")
            state.setdefault(int(parameter), {})[rest] = tensor
        model.load_state_dict(parts["model"])
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": state, "param_groups": groups})
        torch.set_rng_state(parts["generator"]["cpu"])
        if "cuda" in parts["generator"]:
            torch.cuda.set_rng_state(parts["generator"]["cuda"])
        return about["progress"]

    def remove(self) -> None:
        """Once the run's outputs are written."""
        self.path.unlink(missing_ok=True)

    def _differences(self, theirs: Mapping[str, Any]) -> str:
        keys = sorted({*theirs, *self.identity})
        return ", ".join(key for key in keys if theirs.get(key) != self.identity.get(key))
