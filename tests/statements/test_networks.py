"""Networks, training and probe beside plain formulas, torch's Adam, and worlds in which the truth is known."""

from itertools import product

import numpy as np
import pytest
import torch
from default_settings import example

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import Placement
from layernorm_roles.statements import networks as N

D, HEADS, T, DEPTH = 8, 2, 5, 2
SMALL = {"d_model": D, "heads": HEADS, "context_length": T, "vocabulary": 20, "learning_rates": [1e-2]}
SETTINGS = example(Placement, depths=[DEPTH], untrained_depths=[1, 3], steps=4, **SMALL)
TEXT = np.random.default_rng(0).integers(0, 40, size=3000)
TOKENS = N.reduce_vocabulary(TEXT, 20)
WINDOWS = torch.from_numpy(np.random.default_rng(1).integers(0, 20, size=(3, T + 1)))


def network(placement="pre", residual=True, seed=3, settings=SETTINGS, depth=DEPTH):
    return N.Network(settings, placement, depth, residual, seed)


def by_hand(network, placement, residual, windows):
    """The streams before every layer and the mean loss, from the formulas and the network's weights."""
    of, streams = dict(network.named_parameters()), []
    x = of["token.weight"][windows[:, :-1]] + of["position.weight"]
    hidden = torch.ones(T, T, dtype=torch.bool).triu(1)

    def linear(y, name, joint="."):
        return y @ of[f"{name}{joint}weight"].T + of[f"{name}{joint}bias"]

    def norm(y, name, where):
        if placement != where:
            return y
        y = y - y.mean(-1, keepdim=True)
        return (
            y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * of[f"{name}.weight"] + of[f"{name}.bias"]
        )

    for at in (f"layers.{number}." for number in range(len(network.layers))):
        streams.append(x)
        qkv = linear(norm(x, f"{at}norm1", "pre"), f"{at}self_attn.in_proj", "_").chunk(3, -1)
        q, k, v = (z.unflatten(-1, (HEADS, -1)).transpose(1, 2) for z in qkv)
        weights = (q @ k.mT / (D / HEADS) ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        y = linear((weights @ v).transpose(1, 2).flatten(2), f"{at}self_attn.out_proj")
        x = norm(x * residual + y, f"{at}norm1", "post")
        y = linear(norm(x, f"{at}norm2", "pre"), f"{at}linear1").clamp(min=0)
        x = norm(x * residual + linear(y, f"{at}linear2"), f"{at}norm2", "post")
    logits = norm(x, "norm", "pre") @ of["readout.weight"].T
    return streams, (logits.logsumexp(-1) - logits.gather(-1, windows[:, 1:, None])[..., 0]).mean()


@pytest.mark.parametrize(("placement", "residual"), [*product(("pre", "post", "none"), (True, False))])
def test_losses_and_streams_are_those_of_the_formulas(placement, residual, monkeypatch):
    net = network(placement, residual)
    with torch.no_grad():
        for each in net.parameters():  # gains and biases too
            each += 0.1 * torch.randn(each.shape, generator=torch.Generator().manual_seed(each.numel()))
        net.token.weight *= 0.01  # so small that eps counts
        net.position.weight *= 0.01
    streams, loss = by_hand(net, placement, residual, WINDOWS)
    assert net(WINDOWS).item() == pytest.approx(loss.item(), abs=2e-5)
    seen = []
    monkeypatch.setattr(N, "_named", lambda *halves: seen.append(torch.cat(halves)) or 0.0)
    N.position_accuracy(net, WINDOWS[None].expand(2, -1, -1))
    for found, expected in zip(seen, streams, strict=True):
        assert found.dtype == torch.float64
        assert torch.allclose(found[3:], expected.double(), rtol=1e-4, atol=1e-4)


def test_weights_are_xaviers_alike_for_every_placement_and_others_by_seed():
    large = example(Placement, **SMALL | {"d_model": 64, "vocabulary": 100, "context_length": 90})
    first, again, other = (dict(network(seed=seed, settings=large).named_parameters()) for seed in (3, 3, 4))
    post = dict(network("post", False, settings=large).named_parameters())
    for name, weight in first.items():
        assert torch.equal(weight, again[name])
        assert name.startswith("norm.") or torch.equal(weight, post[name]), (
            "the last norm is pre-norm's alone"
        )
        if weight.dim() == 1:
            assert (weight == ("norm" in name and name.endswith("weight"))).all()
        else:
            variance = 0.5 if name in ("token.weight", "position.weight") else 2 / sum(weight.shape)
            assert weight.var().item() == pytest.approx(variance, rel=0.06), name
            assert not (weight == other[name]).any()


def test_training_is_torchs_adam_of_each_run_alone_whatever_becomes_of_the_others():
    """Beside a run at an absurd rate, which is lost at once."""
    runs, lost = [(1e-2, 7), (0.3, 8), (0.3, 7)], (1e30, 7)
    losses = N.train({run: network(seed=run[1]) for run in [lost, *runs]}, TOKENS, 6, "")
    assert np.isposinf(losses[0]).any() and not np.isnan(losses).any()
    for (rate, seed), found in zip(runs, losses[1:], strict=True):
        net, rng, alone = network(seed=seed), generator(Stream.PLACEMENT_BATCHES, seed), []
        adam = torch.optim.Adam(net.parameters(), lr=rate)
        for _ in range(6):
            loss = net(N.batch(rng, TOKENS, T))
            alone.append(loss.item())
            adam.zero_grad()
            loss.backward()
            adam.step()
        assert found == pytest.approx(alone, rel=1e-3)
    assert len({losses[run][-1] for run in (1, 2, 3)}) == 3


def test_untrained_gradients_are_those_of_the_formulas_in_the_first_layer():
    found = N.untrained_gradients(SETTINGS, TOKENS, "pre", [5, 6])
    alone = N.untrained_gradients(SETTINGS, TOKENS, "post", [5])
    assert [{*table.placement} for table in (found, alone)] == [{"pre", "none"}, {"post"}]
    assert (len(found), len(alone)) == (2 * 2 * 2 * 2, 2 * 2)
    for row in [*found.itertuples(), *alone.itertuples()]:
        net = network(row.placement, row.residual, row.seed, depth=row.depth).double()
        windows = N.batch(generator(Stream.PLACEMENT_BATCHES, row.seed), TOKENS, T)
        _, loss = by_hand(net, row.placement, row.residual, windows)
        gradients = torch.autograd.grad(loss, [*net.layers[0].parameters()])
        square = sum(each.square().sum().item() for each in gradients)
        assert row.gradient_norm == pytest.approx(square**0.5, rel=1e-4)


def test_a_run_has_the_rows_that_it_would_have_alone_before_training_and_after_it():
    """Networks of seven layers are not probed, and not trained without residual connections."""
    rates = SMALL | {"learning_rates": [0.1, 0.5]}
    several = example(Placement, depths=[2, 7], untrained_depths=[1], steps=6, **rates)
    tables, windows = N.measure(several, TEXT, "pre", [7, 8], [5]), N.probe_windows(TOKENS, T, 7)
    sizes = [tables[name].groupby("depth").size().to_dict() for name in ("placement", "position_probe")]
    assert sizes == [{2: 2 * 2 * 6, 7: 2 * 2 * 6}, {2: 2 * 2 * 2 * 2 * 2}]
    alone = {(0.5, 8): network(residual=False, seed=8)}
    shares = [*N.position_accuracy(alone[0.5, 8], windows)]
    N.train(alone, TOKENS, 6, "")
    shares += [*N.position_accuracy(alone[0.5, 8], windows)]
    probe = tables["position_probe"].query("learning_rate == 0.5 and seed == 8 and not residual")
    assert probe[["step", "layer"]].to_numpy().tolist() == [[0, 1], [0, 2], [6, 1], [6, 2]]
    assert probe.position_accuracy.to_list() == pytest.approx(shares, abs=0.01)
    (losses,) = N.train({(0.5, 8): network(seed=8)}, TOKENS, 6, "")
    curve = tables["placement"].query("learning_rate == 0.5 and seed == 8 and depth == 2")
    assert curve.step.to_list() == [*range(6)]
    assert curve.train_loss.to_list() == pytest.approx(losses, rel=1e-3)


def test_the_probe_is_a_ridge_regression_with_a_constant_judged_on_other_windows(monkeypatch):
    monkeypatch.setattr(N, "RIDGE", 0.5)
    fitted, judged = torch.from_numpy(np.random.default_rng(2).standard_normal((2, 60, T, D)))
    x, y = (np.column_stack([part.flatten(0, 1).numpy(), np.ones(300)]) for part in (fitted, judged))
    places, ridge = np.arange(300) % T, 0.5 * np.trace(x.T @ x) / 9 * np.eye(9)
    scores = y @ np.linalg.inv(x.T @ x + ridge) @ x.T @ np.eye(T)[places]
    assert N._named(fitted, judged) == pytest.approx(np.mean(scores.argmax(axis=1) == places), abs=1e-9)


def test_the_probe_reads_positions_where_they_are_and_no_others():
    """Positions alone are read without a fault, tokens alone no better than by guessing, infinities not at all."""
    windows, found = N.probe_windows(TOKENS, T, seed=1), {}
    for embedding, value in (("token", 0), ("position", 0), ("token", torch.inf)):
        net = network()
        getattr(net, embedding).weight.data[:] = value
        found[embedding, value] = N.position_accuracy(net, windows)
    assert found["token", 0].tolist() == [1, 1]
    assert found["position", 0][0] == pytest.approx(1 / T, abs=0.06)
    assert np.isnan(found["token", torch.inf]).all()


def test_windows_are_cut_anywhere_for_training_and_from_either_half_for_the_probe():
    rng = np.random.default_rng(0)
    drawn = torch.cat([N.batch(rng, np.arange(7), T) for _ in range(20)])
    assert {tuple(window) for window in drawn.tolist()} == {(0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)}
    fitted, judged = N.probe_windows(np.arange(41), 10, seed=1)
    edges = [part.item() for windows in (fitted, judged) for part in (windows.min(), windows.max())]
    assert edges == [0, 19, 20, 39] and (fitted.diff() == 1).all()
    assert fitted.shape == judged.shape == (N.WINDOWS, 11)


def test_the_most_frequent_tokens_are_kept_and_of_equals_the_smaller():
    tokens = np.array([7, 7, 7, 3, 3, 9, 5])
    assert N.reduce_vocabulary(tokens, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert N.reduce_vocabulary(tokens, 4).tolist() == [0, 0, 0, 1, 1, 3, 2]
