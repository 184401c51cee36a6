import numpy as np
import pandas as pd
import pytest
import torch

from layernorm_roles.checkpoint import Checkpoint
from layernorm_roles.majority import data, kernel, train
from layernorm_roles.majority.model import pair_loss

TASK = {
    "sequence_length": 20,
    "classes": 6,
    "gap": 3,
    "sequences": 600,
    "labellings": 5,
    "sampling": "uniform",
    "split": "rows",
    "test_share": 0.2,
    "dim": 4,
    "feed_forward": 5,
    "batch": 100,
    "steps": 60,
    "schedule_steps": 120,
    "learning_rate": 0.01,
    "metrics_every": 20,
    "checkpoint_every": 7,
}


@pytest.fixture(scope="module")
def sets():
    frame = data.generate(TASK, seed=0)
    split = (frame.split == "test").to_numpy()
    counts, label = np.stack(frame.counts), frame.label.to_numpy()
    return {
        name: data.Sequences(counts[rows], label[rows]) for name, rows in (("train", ~split), ("test", split))
    }


def test_the_same_seed_gives_the_same_bytes_and_learns(sets):
    first, again = (train.train(TASK, "layernorm", 3, sets) for _ in range(2))
    pd.testing.assert_frame_equal(first.metrics, again.metrics, check_exact=True)
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    loss = first.metrics.train_loss
    assert loss.iloc[-1] < 0.7 * loss.iloc[0]
    assert list(first.metrics.step) == [0, 20, 40, 60]
    assert list(first.metrics.learning_rate) == pytest.approx([0.01 * (1 - s / 120) for s in (0, 20, 40, 60)])


class Killed(Exception):
    pass


@pytest.mark.parametrize("checkpoints", [1, 5, 8])
@pytest.mark.parametrize("norm", ["layernorm", "stateful:Stateful"])
def test_a_killed_run_goes_on_to_the_same_bytes(sets, tmp_path, monkeypatch, norm, checkpoints):
    """Killed at its first, a middle and its last checkpoint, the last one after more than ten epochs."""
    whole = train.train(TASK, norm, 3, sets)
    kept = Checkpoint(tmp_path / "checkpoint", {"seed": 3})
    save, left = Checkpoint.save, iter(range(checkpoints - 1, -1, -1))

    def save_and_die(*args):
        save(*args)
        if next(left) == 0:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_and_die)
        with pytest.raises(Killed):
            train.train(TASK, norm, 3, sets, checkpoint=kept)
    torch.manual_seed(999)
    taken = []
    monkeypatch.setattr(train, "gradients", counted(taken))
    resumed = train.train(TASK, norm, 3, sets, checkpoint=kept)
    assert len(taken) == TASK["steps"] - 7 * checkpoints, "steps that were kept are not taken again"
    pd.testing.assert_frame_equal(resumed.metrics, whole.metrics, check_exact=True)
    pd.testing.assert_frame_equal(resumed.vectors, whole.vectors, check_exact=True)
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def counted(taken, gradients=train.gradients):
    """Appends the embedding and the batch's counts to `taken` at each step."""

    def watched(model, flat):
        set_gradient = gradients("cpu")(model, flat)

        def watched_step(counts, label):
            taken.append((model.embedding.weight.detach().clone(), counts.clone()))
            return set_gradient(counts, label)

        return watched_step

    return lambda device: watched


def test_compiled_and_pytorch_loss_give_the_same_curve(sets, monkeypatch):
    compiled = train.train(TASK, "layernorm", 1, sets).metrics
    monkeypatch.setattr(train, "losses", lambda device: pair_loss)
    monkeypatch.setattr(train, "gradients", lambda device: train.autograd_gradient)
    plain = train.train(TASK, "layernorm", 1, sets).metrics
    for column in ("train_loss", "test_loss"):
        np.testing.assert_allclose(compiled[column], plain[column], rtol=2e-4)


def test_adam_is_torchs():
    parts = [torch.randn(shape, dtype=torch.float64) for shape in ((3, 5), (1,), (7, 2))]
    theirs = [torch.nn.Parameter(part.clone()) for part in parts]
    flat = torch.nn.Parameter(torch.nn.utils.parameters_to_vector(parts))
    flat.grad = torch.zeros_like(flat)
    ours, optimiser = train.Adam(flat), torch.optim.Adam(theirs)
    for step in range(30):
        optimiser.param_groups[0]["lr"] = rate = 0.1 / (1 + step)
        for parameter in theirs:
            parameter.grad = torch.randn_like(parameter) ** 3
        flat.grad.copy_(torch.cat([parameter.grad.flatten() for parameter in theirs]))
        optimiser.step()
        ours.step(rate)
        expected = torch.nn.utils.parameters_to_vector(theirs)
        torch.testing.assert_close(flat, expected, rtol=1e-13, atol=1e-13)


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_one_flat_adam_is_adam_on_every_parameter(sets, float64):
    """The shortcut of one parameter vector changes nothing: the same training by the book, parameter by parameter.

    In float64, because the fused Adam rounds an element by its place in the vector.
    """
    ours = train.train(TASK, "scale", 2, sets).model.state_dict()
    torch.manual_seed(2)
    model = train.MajorityTransformer(TASK["classes"], TASK["dim"], TASK["feed_forward"], "scale")
    optimiser = torch.optim.Adam(model.parameters(), lr=TASK["learning_rate"], fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda s: 1 - s / TASK["schedule_steps"])
    counts, label = map(torch.from_numpy, sets["train"])
    rng = np.random.default_rng([2, train.BATCH_STREAM])
    step = 0
    while step < TASK["steps"]:
        for rows in np.split(rng.permutation(len(label)), range(100, len(label), 100)):
            if step == TASK["steps"]:
                break
            optimiser.zero_grad()
            tables = model.tables()
            arrays = [table.detach().numpy() for table in tables]
            _, _, gradients = kernel.loss_and_gradients(counts[rows].numpy(), label[rows].numpy(), arrays)
            torch.autograd.backward(tables, list(map(torch.from_numpy, gradients)))
            optimiser.step()
            schedule.step()
            step += 1
    for name, value in model.state_dict().items():
        torch.testing.assert_close(ours[name], value, rtol=1e-9, atol=1e-10)


def test_variants_of_a_seed_start_alike_and_see_the_same_batches(sets, monkeypatch):
    seen = []
    monkeypatch.setattr(train, "gradients", counted(seen))
    for norm in ("layernorm", "none", "scale_released"):
        train.train(TASK | {"steps": 3}, norm, 4, sets)
    runs = [seen[i : i + len(seen) // 3] for i in range(0, len(seen), len(seen) // 3)]
    for run in runs[1:]:
        assert torch.equal(run[0][0], runs[0][0][0])
        assert all(torch.equal(ours[1], first[1]) for ours, first in zip(run, runs[0], strict=True))


def test_query_angle_weights_classes_by_their_tokens():
    queries = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 0.0]])
    mean, std = train.query_angle(queries, torch.tensor([1.0, 1.0, 2.0]))
    assert mean == pytest.approx((0 + 90 + 2 * 45) / 4)
    assert std == pytest.approx(np.std([0, 90, 45, 45]))
    assert train.query_angle(-queries, torch.tensor([1.0, 0, 0]))[0] == pytest.approx(0, abs=1e-5)


def test_a_loss_that_is_not_finite_stops_with_the_runs_name(sets):
    with pytest.raises(ValueError, match=r"my run: train_loss is nan at step \d+; expected a finite number"):
        train.train(TASK | {"learning_rate": 1e30}, "none", 0, sets, title="my run")
