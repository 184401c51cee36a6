"""Weights and checkpoints as safetensors files: a resumed training ends with the bytes of one never interrupted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from layernorm_roles import files, provenance
from layernorm_roles.memory import warn
from layernorm_roles.optimiser import AdamW


def save(tensors: Mapping[str, Tensor], path: str | Path, facts: Mapping[str, Any]) -> None:
    """Write `tensors` to a safetensors file, and `facts`, a mapping that JSON can hold, as metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with files.atomic_write(path) as partial:
        try:  # with a single entry of metadata, since safetensors writes several in no fixed order
            save_file(tensors, partial, {"layernorm_roles": json.dumps(facts)})
        except SafetensorError as error:  # a full disk, which is no fault of the program
            raise OSError(f"{path}: {error}") from error


def load(path: str | Path, identity: Mapping[str, Any] = {}) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and facts that `save` wrote to `path`; ValueError if damaged, or if they contradict `identity`."""
    files.verify(path)
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})["layernorm_roles"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise files.Unusable.because(path, f"no weights of this project ({error!r})") from None
    provenance.refuse_contradiction(path, facts.get("identity", {}), identity)
    return tensors, facts


class Checkpoint:
    """A file with the state of a training run, from which the run goes on after it was killed.

    `identity`, a mapping that JSON can hold, names all that the run depends on, such as settings, data, seed and code.
    A file that is damaged, or that was written with another `identity` or version of torch, is ignored with a warning.
    """

    def __init__(self, path: str | Path, identity: Mapping[str, Any]):
        self.path, self.identity = Path(path), {**identity, "torch": torch.__version__}

    def save(self, model: nn.Module, optimiser: AdamW, progress: Mapping[str, Any]) -> None:
        """Write the weights, the optimiser's state, torch's random states and `progress` to the checkpoint's file."""
        tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for number, state in enumerate(optimiser.state):
            tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in state.items()}
        tensors["generator.cpu"] = torch.get_rng_state()
        if torch.cuda.is_initialized():
            tensors["generator.cuda"] = torch.cuda.get_rng_state()
        save(tensors, self.path, {"identity": self.identity, "progress": progress})

    def load(self, model: nn.Module, optimiser: AdamW) -> dict[str, Any] | None:
        """Restore what `save` wrote, and return its `progress`; None, with a warning, if it is of another run."""
        if not self.path.exists():
            return None
        try:
            tensors, facts = load(self.path, self.identity)
        except ValueError as error:
            # What a reader of a file should do, the training does itself.
            warn(f"{str(error).removesuffix(files.ADVICE)}: training starts from the beginning")
            return None
        model.load_state_dict({name: tensors[f"model.{name}"] for name in model.state_dict()})
        for number, (parameter, state) in enumerate(zip(optimiser.parameters, optimiser.state, strict=True)):
            for name in state:
                state[name] = tensors[f"optimiser.{number}.{name}"].to(parameter.device)
        torch.set_rng_state(tensors["generator.cpu"])
        if "generator.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["generator.cuda"])
        return facts["progress"]

    def remove(self) -> None:
        """Delete the checkpoint and its checksum file. Call this once the run's results are written."""
        self.path.unlink(missing_ok=True)
        files.checksum_file(self.path).unlink(missing_ok=True)
