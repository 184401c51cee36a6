"""Files of tensors: what is written comes back, and nothing else ever does."""

import pytest
import torch
from torch import nn

from layernorm_roles import checkpoint, files
from layernorm_roles.checkpoint import Checkpoint
from layernorm_roles.optimiser import AdamW

TENSORS = {
    "weights": torch.arange(12.0).reshape(3, 4),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "state": torch.arange(5, dtype=torch.uint8),
    "empty": torch.zeros(0, 3),
    "view": torch.arange(12.0).reshape(3, 4).T,
}
FACTS = {"identity": {"seed": 3, "rates": [0.1, 1e-300]}}


def test_what_is_written_is_read(tmp_path):
    checkpoint.save(TENSORS, tmp_path / "new" / "a", FACTS)
    tensors, facts = checkpoint.load(tmp_path / "new" / "a")
    assert facts == FACTS
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype and torch.equal(tensors[name], tensor), name


def test_the_same_tensors_give_the_same_bytes(tmp_path):
    for name in "ab":
        checkpoint.save(TENSORS, tmp_path / name, FACTS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_missing_damaged_and_foreign_files_are_named(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "weights.safetensors"
    checkpoint.save(TENSORS, path, FACTS)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match=r"weights\.safetensors: damaged.*delete it and run again"):
        checkpoint.load(path)
    with files.atomic_write(path) as partial:
        save_file({"a": torch.ones(2)}, partial)
    with pytest.raises(ValueError, match="no weights of this project"):
        checkpoint.load(path)
    with pytest.raises(ValueError, match="nothing: no such file"):
        checkpoint.load(tmp_path / "nothing")


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

    model, optimiser = new()
    trained(model, optimiser, 3)
    kept = Checkpoint(tmp_path / "c", {"seed": 0, "shape": (3, 3)})
    kept.save(model, optimiser, {"rows": [{"b": 0.1, "a": 1}]})
    trained(model, optimiser, 3)
    other, its_optimiser = new()
    progress = kept.load(other, its_optimiser)
    assert progress == {"rows": [{"b": 0.1, "a": 1}]}
    assert list(progress["rows"][0]) == ["b", "a"], "columns keep their order"
    trained(other, its_optimiser, 3)
    for name, value in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
    for _ in range(2):
        kept.remove()
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_checkpoint_that_does_not_fit_is_said_and_leaves_the_model_alone(tmp_path, capsys, monkeypatch):
    model = nn.Linear(2, 2)
    optimiser = AdamW(model.parameters(), lr=0.1)
    assert Checkpoint(tmp_path / "c", {}).load(model, optimiser) is None
    assert not capsys.readouterr().err
    Checkpoint(tmp_path / "c", {"seed": 0, "code": "a"}).save(nn.Linear(2, 2), optimiser, {})
    before = model.weight.clone()
    assert Checkpoint(tmp_path / "c", {"seed": 1, "code": "b"}).load(model, optimiser) is None
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{tmp_path / 'c'}: a checkpoint of another run (different: code, seed)" in said
    assert "training starts from the beginning" in said
    checkpoint.save({"a": torch.ones(1)}, tmp_path / "c", {})
    assert Checkpoint(tmp_path / "c", {"seed": 1}).load(model, optimiser) is None
    Checkpoint(tmp_path / "c", {"seed": 0}).save(nn.Linear(2, 2), optimiser, {})
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    assert Checkpoint(tmp_path / "c", {"seed": 0}).load(model, optimiser) is None
    assert "(different: torch)" in capsys.readouterr().err
    assert torch.equal(model.weight, before)
