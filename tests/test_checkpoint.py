"""Files of tensors: what is written comes back, and nothing else ever does."""

import re
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from layernorm_roles import checkpoint, files
from layernorm_roles.checkpoint import Checkpoint
from layernorm_roles.optimiser import AdamW

TENSORS = {
    "half": torch.ones(2, dtype=torch.bfloat16),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "state": torch.arange(5, dtype=torch.uint8),
    "empty": torch.zeros(0, 3),
    "view": torch.arange(12.0).reshape(3, 4).T,
}
FACTS = {"identity": {"seed": 3, "rates": [0.1, 1e-300]}}


def test_what_is_written_is_read_and_has_equal_bytes(tmp_path, monkeypatch):
    for name in "ab":
        checkpoint.save(TENSORS, tmp_path / "new" / name, FACTS)
    assert (tmp_path / "new/a").read_bytes() == (tmp_path / "new/b").read_bytes()
    tensors, facts = checkpoint.load(tmp_path / "new" / "a")
    assert facts == FACTS and tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype and torch.equal(tensors[name], tensor), name
    checkpoint.load(tmp_path / "new/a", {"seed": 3})
    with pytest.raises(ValueError, match=r"new/a: a file of another run \(seed = 3, expected 4\)"):
        checkpoint.load(tmp_path / "new/a", {"seed": 4})
    monkeypatch.setattr(checkpoint, "save_file", Mock(side_effect=checkpoint.SafetensorError("no space")))
    with pytest.raises(OSError, match="new/a: no space"):
        checkpoint.save(TENSORS, tmp_path / "new/a", FACTS)


def test_a_file_of_other_tensors_is_refused(tmp_path):
    with files.atomic_write(tmp_path / "a") as partial:
        save_file({"a": torch.ones(2)}, partial)
    with pytest.raises(ValueError, match="a: no weights of this project"):
        checkpoint.load(tmp_path / "a")


def trained(model, optimiser, steps):
    for _ in range(steps):
        model.zero_grad()
        model(torch.randn(4, 3)).square().sum().backward()
        optimiser.step()


def test_all_that_a_step_changes_is_put_back(tmp_path):
    def new():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.3))
        return model, AdamW(model.parameters(), lr=0.1)

    first, second, progress = new(), new(), {"rows": [{"b": 0.1, "a": 1}]}
    trained(*first, 3)
    kept = Checkpoint(tmp_path / "c", {"seed": 0, "shape": (3, 3)})
    kept.save(*first, progress)
    trained(*first, 3)
    found = kept.load(*second)
    assert found == progress and list(found["rows"][0]) == ["b", "a"], "columns keep their order"
    trained(*second, 3)
    for name, value in first[0].state_dict().items():
        assert torch.equal(second[0].state_dict()[name], value), name
    for _ in range(2):
        kept.remove()
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_checkpoint_of_another_torch_or_of_nothing_known_is_not_used(tmp_path, capsys, monkeypatch):
    model = nn.Linear(2, 2)
    optimiser, kept = AdamW(model.parameters(), lr=0.1), Checkpoint(tmp_path / "c", {"seed": 0})

    def said():
        assert Checkpoint(tmp_path / "c", {"seed": 0}).load(model, optimiser) is None
        return capsys.readouterr().err

    assert said() == ""
    checkpoint.save({"a": torch.ones(1)}, tmp_path / "c", {})
    assert "c: a file of another run (no seed, expected 0; no torch, " in said()
    kept.save(model, optimiser, {})
    Checkpoint(tmp_path / "c", {"seed": 1}).load(model, optimiser)
    assert "(seed = 0, expected 1): training starts" in capsys.readouterr().err
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert re.search(r"\(torch = .*, expected '2.99.0'\)", said())
    (tmp_path / "c").write_bytes(b"cut")
    assert "c: damaged" in said()
