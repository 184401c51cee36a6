import numpy as np
import pytest
import torch
from default_settings import example
from torch import nn

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import PLACEMENTS, Placement
from layernorm_roles.statements import placement as P
from layernorm_roles.statements import position
from layernorm_roles.statements import transformer as T

TOKENS = np.random.default_rng(0).integers(0, 40, size=3000)
REDUCED = T.reduce_vocabulary(TOKENS, 20)
SHAPE = T.TransformerShape("pre", depth=2, d_model=8, heads=2, context_length=5, vocabulary=20)
SMALL = {"depths": [1, 3], "untrained_depths": [2, 3], "d_model": 8, "heads": 2, "context_length": 5}
SMALL |= {"vocabulary": 20, "steps": 4, "learning_rates": [1e-2]}


def by_hand(shape, matrices, windows):
    """The stream before every layer of one run, and the loss, from the formulas."""
    weights = iter(matrices)
    d, heads = shape.d_model, shape.heads
    x = next(weights)[windows[:, :-1]] + next(weights)
    hidden = torch.ones(shape.context_length, shape.context_length, dtype=torch.bool).triu(1)
    streams = []

    def norm(y, gain, bias):
        return nn.functional.layer_norm(y, (d,), gain[0], bias[0])

    for _ in range(shape.depth):
        streams.append(x)
        for part in ("attention", "feed_forward"):
            gain, bias, first, second = (next(weights) for _ in range(4))
            y = norm(x, gain, bias) if shape.placement == "pre" else x
            if part == "attention":
                q, k, v = (z.unflatten(-1, (heads, -1)).transpose(1, 2) for z in (y @ first).chunk(3, -1))
                scores = (q @ k.transpose(-1, -2) / (d / heads) ** 0.5).masked_fill(hidden, -torch.inf)
                y = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2) @ second
            else:
                y = (y @ first).clamp(min=0) @ second
            x = x + y if shape.residual else y
            x = norm(x, gain, bias) if shape.placement == "post" else x
    if shape.placement == "pre":
        x = norm(x, next(weights), next(weights))
    logits = x @ next(weights)
    return streams, nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("placement", ["pre", "post", "none"])
def test_losses_and_streams_are_those_of_the_formulas(placement, residual):
    shape = SHAPE._replace(placement=placement, residual=residual)
    rows = T.initial(shape, [3, 4])
    rows += 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))  # gains and biases too
    for embedding in shape.matrices(rows)[:2]:
        embedding *= 0.01  # so small that eps counts
    windows, seen = torch.from_numpy(np.random.default_rng(1).integers(0, 20, size=(2, 3, 6))), []
    losses = T.losses(shape, shape.matrices(rows), windows, seen.append)
    for run in range(2):
        streams, loss = by_hand(shape, [m[run] for m in shape.matrices(rows)], windows[run])
        assert losses[run].item() == pytest.approx(loss.item(), abs=2e-5)
        for found, expected in zip(seen, streams, strict=True):
            assert torch.allclose(found[run], expected.flatten(0, 1), rtol=1e-4, atol=1e-4)


def test_optimiser_is_adam():
    rate, seed = 1e-2, 7
    ours = T.train(SHAPE, REDUCED, [(rate, seed)], 6)[0][0]
    matrices = [m.clone().requires_grad_() for m in SHAPE.matrices(T.initial(SHAPE, [seed]))]
    adam = torch.optim.Adam(matrices, lr=rate, betas=T.BETAS, eps=T.EPS)
    rng = generator(Stream.PLACEMENT_BATCHES, seed)
    theirs = []
    for _ in range(6):
        windows = torch.from_numpy(T._windows(rng, REDUCED, 5))[None]
        loss = T.losses(SHAPE, matrices, windows).sum()
        theirs.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert np.allclose(ours, theirs, rtol=1e-4)
    assert T._finite(np.array([1.0, np.nan, np.inf])).tolist() == [1.0, np.inf, np.inf]


def test_untrained_gradients_are_autograds_of_the_first_layer():
    found = P.untrained_gradients(REDUCED, "pre", example(Placement, **SMALL), [5, 6])
    alone = P.untrained_gradients(REDUCED, "post", example(Placement, **SMALL), [5])
    assert [set(table.placement) for table in (found, alone)] == [{"pre", "none"}, {"post"}]
    assert len(found) == 2 * 2 * 2 * 2  # those without a norm are measured along with pre-norm
    for row in found.itertuples():
        shape = SHAPE._replace(placement=row.placement, residual=row.residual, depth=row.depth)
        rng = generator(Stream.PLACEMENT_BATCHES, row.seed)
        windows = torch.from_numpy(T._windows(rng, REDUCED, 5))[None]
        matrices = [m.clone().requires_grad_() for m in shape.matrices(T.initial(shape, [row.seed]))]
        T.losses(shape, matrices, windows).sum().backward()
        norms = [m.grad.norm() for m in matrices[2:10] if m.grad is not None]
        assert row.gradient_norm == pytest.approx(torch.stack(norms).norm().item(), rel=1e-4)


def test_reduce_vocabulary():
    tokens = np.array([7, 7, 7, 3, 3, 9, 5])
    assert T.reduce_vocabulary(tokens, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert T.reduce_vocabulary(tokens, 4).tolist() == [0, 0, 0, 1, 1, 3, 2], "the smaller id first"


def test_windows_are_drawn_from_the_whole_text():
    rng = np.random.default_rng(0)
    drawn = np.concatenate([T._windows(rng, np.arange(7), 5) for _ in range(20)])
    assert {tuple(window) for window in drawn.tolist()} == {(0, 1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 6)}


def test_parameters_are_drawn_by_seed_with_xaviers_variances_alike_for_every_placement():
    shape = SHAPE._replace(d_model=64, vocabulary=100, context_length=90, depth=1)
    drawn, again, other = (shape.matrices(T.initial(shape, seeds)) for seeds in ([3, 4], [4], [5]))
    for (name, size), matrix, same, unlike in zip(shape.parameters(), drawn, again, other, strict=True):
        assert torch.equal(matrix[1], same[0])
        if name.startswith(("gain", "bias")):
            assert (matrix == name.startswith("gain")).all()
        else:
            variance = 0.5 if name in ("token", "position") else 2 / sum(size)
            assert matrix.var().item() == pytest.approx(variance, rel=0.06), name
            assert not (matrix[0] == matrix[1]).any() and not (same == unlike).any()
    pre, post = (SHAPE._replace(placement=name) for name in PLACEMENTS)
    a, b = pre.matrices(T.initial(pre, [5])), post.matrices(T.initial(post, [5]))
    # The last norm is pre-norm's alone.
    places = [*[i for i, (name, _) in enumerate(post.parameters()) if name != "readout"], -1]
    assert all(torch.equal(a[i], b[i]) for i in places)


def test_each_run_has_the_rows_that_it_would_have_alone():
    """Of two rates and seeds, in networks of two layers; those of seven are not probed."""
    several = {"learning_rates": [1e-2, 0.5], "depths": [2, 7], "steps": 6}
    plan = {"placement": "pre", "seeds": [7, 8], "untrained_seeds": [5]}
    tables = P.measure(TOKENS, example(Placement, **SMALL | several), plan)
    assert tables["position_probe"].groupby("depth").size().to_dict() == {2: 2 * 2 * 2 * 2 * 2}
    assert tables["placement"].groupby("depth").size().to_dict() == {2: 2 * 2 * 6, 7: 2 * 2 * 6}
    for rate, seed in [(1e-2, 8), (0.5, 7)]:
        mine = f"depth == 2 and learning_rate == {rate} and seed == {seed}"
        curve, probe = (tables[name].query(mine) for name in ("placement", "position_probe"))
        for residual in (True, False):
            shape = SHAPE._replace(residual=residual)
            losses, trained = T.train(shape, REDUCED, [(rate, seed)], 6)
            if residual:
                assert curve.step.to_list() == list(range(6))
                assert curve.train_loss.to_list() == pytest.approx(losses[0], rel=1e-4)
            windows = position.probe_windows(REDUCED, shape.context_length, 7)
            probes = probe.query(f"residual == {residual}")
            for step, parameters in ((0, T.initial(shape, [seed])), (6, trained)):
                (known,) = position.position_accuracy(shape, shape.matrices(parameters), windows)
                row = probes[probes.step == step]
                assert row.layer.to_list() == [1, 2] and set(row.context_length) == {5}
                assert row.position_accuracy.to_list() == pytest.approx(known)


def test_windows_are_judged_on_another_part_of_the_text():
    fitted, judged = position.probe_windows(np.arange(41), 10, seed=1)
    edges = [part.item() for windows in (fitted, judged) for part in (windows.min(), windows.max())]
    assert edges == [0, 19, 20, 39] and (fitted.diff() == 1).all()
    assert fitted.shape == judged.shape == (position.WINDOWS, 11)


def test_the_probe_is_a_ridge_regression_with_a_constant_judged_on_windows_that_it_was_not_fitted_to(
    monkeypatch,
):
    """It is fitted to tokens below 10 and judged on the others."""
    monkeypatch.setattr(position, "RIDGE", 0.5)
    windows = torch.randint(10, (2, 60, 6), generator=torch.Generator().manual_seed(0))
    windows[1] += 10
    matrices = SHAPE.matrices(T.initial(SHAPE, [3, 4]))
    assert position._streams(SHAPE, matrices, windows[0])[0].dtype == torch.float64
    for run, found in enumerate(position.position_accuracy(SHAPE, matrices, windows)):
        streams = (by_hand(SHAPE, [m[run] for m in matrices], part)[0] for part in windows)
        for layer, parts in enumerate(zip(*streams, strict=True)):
            x, y = (np.column_stack([part.flatten(0, 1).double().numpy(), np.ones(300)]) for part in parts)
            places, ridge = np.arange(300) % 5, 0.5 * np.trace(x.T @ x) / 9 * np.eye(9)
            scores = y @ np.linalg.inv(x.T @ x + ridge) @ x.T @ np.eye(5)[places]
            assert found[layer] == pytest.approx(np.mean(scores.argmax(axis=1) == places), abs=1e-9)


def test_a_diverged_run_has_no_accuracy():
    matrices = SHAPE.matrices(T.initial(SHAPE, [3, 4]))
    matrices[0][1] = torch.inf
    found = position.position_accuracy(SHAPE, matrices, position.probe_windows(REDUCED, 5, seed=1))
    assert np.isnan(found[1]).all() and (found[0] > 0.2).all()
