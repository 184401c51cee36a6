"""Runs trained as a stack against the same runs trained one by one, on the CPU."""

import numpy as np
import pandas as pd
import pytest
import torch
from oracle import loss_and_correct
from test_train import TASK

from layernorm_roles.majority import data, stacked, train
from layernorm_roles.majority.model import MajorityTransformer, Tables, attention_and_values, pair_loss
from layernorm_roles.majority.stacked import Member, fixed_shape_loss, stackable
from layernorm_roles.norms import VARIANTS

# An epoch's sixth and last batch has 34 of 90 rows; 50 steps are more than eight epochs.
SHORT = TASK | {"batch": 90, "steps": 50, "metrics_every": 10}
MEMBERS = [
    Member("none", 1, "none 1"),
    Member("layernorm", 0, "layernorm 0"),
    Member("examples.dynamic_tanh:DynamicTanh", 0, "dynamic_tanh 0"),
    Member("scale_released", 1, "scale_released 1"),
    Member("layernorm", 1, "layernorm 1"),
    Member("examples.dynamic_tanh:DynamicTanh", 1, "dynamic_tanh 1"),
]


@pytest.fixture(scope="module")
def sets():
    found = {}
    for seed in (0, 1):
        frame = data.generate(SHORT, seed)
        counts, label, test = (
            np.stack(frame.counts),
            frame.label.to_numpy(),
            (frame.split == "test").to_numpy(),
        )
        parts = (("train", ~test), ("test", test))
        found[seed] = {name: data.Sequences(counts[rows], label[rows]) for name, rows in parts}
    return found


@pytest.fixture(scope="module")
def together(sets):
    return stacked.train(SHORT, MEMBERS, sets, "cpu")


def assert_same_run(ours, alone):
    assert list(ours.metrics) == list(alone.metrics)
    assert (ours.metrics[["step", "learning_rate"]] == alone.metrics[["step", "learning_rate"]]).all(
        axis=None
    )
    for column in ("train_loss", "test_loss"):
        np.testing.assert_allclose(ours.metrics[column], alone.metrics[column], rtol=1e-5)
    # A prediction on the edge may fall to the other side.
    np.testing.assert_allclose(ours.metrics.test_accuracy, alone.metrics.test_accuracy, atol=1e-3)
    np.testing.assert_allclose(ours.metrics.query_angle_mean, alone.metrics.query_angle_mean, rtol=1e-4)
    pd.testing.assert_frame_equal(ours.vectors, alone.vectors, rtol=1e-4, atol=1e-5)
    for name, value in alone.model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("i", range(len(MEMBERS)), ids=lambda i: MEMBERS[i].title)
@pytest.mark.parametrize("loss", ["pytorch", "compiled"])
def test_every_run_is_the_one_trained_alone(sets, together, monkeypatch, i, loss):
    if loss == "pytorch":
        monkeypatch.setattr(train, "losses", lambda device: pair_loss)
        monkeypatch.setattr(train, "gradients", lambda device: train.autograd_gradient)
    norm, seed, title = MEMBERS[i]
    assert_same_run(together[i], train.train(SHORT, norm, seed, sets[seed], title=title))


def test_norms_that_cannot_be_stacked_are_trained_one_by_one(sets, together):
    stateful = Member("stateful:Stateful", 0, "stateful 0")
    runs = stacked.train(SHORT, [stateful, MEMBERS[0]], sets, "cpu")
    pd.testing.assert_frame_equal(
        runs[0].metrics, train.train(SHORT, "stateful:Stateful", 0, sets[0]).metrics, check_exact=True
    )
    assert_same_run(runs[1], together[0])


class Branching(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()

    def forward(self, x):
        return x if x.sum() > 0 else -x


class Noisy(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()

    def forward(self, x):
        return x + torch.randn_like(x)


@pytest.mark.parametrize("norm", [*VARIANTS, "examples.dynamic_tanh:DynamicTanh"])
def test_what_can_be_stacked(norm):
    assert stackable(MajorityTransformer(6, 4, 5, norm))


@pytest.mark.parametrize("norm", ["stateful:Stateful", "test_stacked:Branching", "test_stacked:Noisy"])
def test_what_keeps_a_state_or_branches_or_draws_cannot(norm):
    assert not stackable(MajorityTransformer(6, 4, 5, norm))


def gradients(loss, tables):
    return torch.autograd.grad(loss, tables)


def double_tables(norm="layernorm"):
    torch.manual_seed(0)
    model = MajorityTransformer(6, 4, 5, norm).double()
    return model, Tables(*(table.detach().requires_grad_() for table in model.tables()))


def test_fixed_shapes_change_no_loss_and_no_gradient(sets):
    counts, label = map(torch.from_numpy, sets[0]["train"])
    model, tables = double_tables()
    loss, (expected, _) = fixed_shape_loss(tables, counts, label), pair_loss(tables, counts, label)
    torch.testing.assert_close(loss, expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(loss, loss_and_correct(model, counts[:], label)[0], rtol=1e-12, atol=0)
    for ours, theirs in zip(gradients(loss, tables), gradients(expected, tables), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-14)


def test_rows_without_tokens_contribute_nothing(sets):
    counts, label = (torch.from_numpy(x[:40]) for x in sets[0]["train"])
    filled = (
        torch.cat([counts, torch.zeros_like(counts[:9])]),
        torch.cat([label, torch.zeros_like(label[:9])]),
    )
    _, tables = double_tables()
    loss, expected = fixed_shape_loss(tables, *filled), fixed_shape_loss(tables, counts, label)
    torch.testing.assert_close(loss, expected, rtol=1e-14, atol=0)
    for ours, theirs in zip(gradients(loss, tables), gradients(expected, tables), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-16)


def test_a_query_that_sees_nothing_counts_only_if_it_is_there():
    """Attention of class 0 to all others underflows: nothing to divide by, but no sequence has a 0 to ask for it."""
    _, tables = double_tables()
    normed, in_weight = tables.normed.detach().clone(), tables.in_weight.detach().clone()
    normed[0], normed[1:, 0] = torch.tensor([100.0, 0, 0, 0]), 0
    in_weight[:4] = in_weight[4:8] = torch.eye(4)
    tables = tables._replace(normed=normed.requires_grad_(), in_weight=in_weight.requires_grad_())
    assert (attention_and_values(tables)[0][0, 1:] == 0).all()
    counts = torch.tensor([[0, 3, 1, 0, 0, 0]], dtype=torch.uint8)
    loss = fixed_shape_loss(tables, counts, torch.tensor([1]))
    torch.testing.assert_close(loss, pair_loss(tables, counts, torch.tensor([1]))[0])
    assert all(gradient.isfinite().all() for gradient in gradients(loss, tables))


def test_a_run_that_diverges_is_named(sets):
    with pytest.raises(ValueError, match=r"my run: train_loss is nan at step \d+; expected a finite number"):
        stacked.train(SHORT | {"learning_rate": 1e30}, [Member("none", 1, "my run")], sets, "cpu")


def test_seeds_with_data_of_different_sizes_are_refused(sets):
    smaller = {name: data.Sequences(s.counts[:-1], s.label[:-1]) for name, s in sets[1].items()}
    with pytest.raises(ValueError, match=r"training sequences of each seed: \{0: 484, 1: 483\}"):
        stacked.train(SHORT, MEMBERS, {0: sets[0], 1: smaller}, "cpu")
