import numpy as np
import pytest
import torch
from default_settings import example
from torch import nn

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings.statements import PLACEMENTS, Placement
from layernorm_roles.statements import placement as P
from layernorm_roles.statements import position
from layernorm_roles.statements import training as R
from layernorm_roles.statements import transformer as T

TOKENS = np.random.default_rng(0).integers(0, 40, size=3000)
REDUCED = R.reduce_vocabulary(TOKENS, 20)
SHAPE = T.TransformerShape("pre", depth=2, d_model=8, heads=2, context_length=5, vocabulary=20)
STEPS = {"steps": 6, "every": 2}
SMALL = {"depths": [1, 3], "untrained_depths": [2, 3], "d_model": 8, "heads": 2, "context_length": 5}
SMALL |= {"vocabulary": 20, "steps": 4, "gradients_every": 2}
SMALL |= {"learning_rates": [1e-2], "warmup": [0]}


def by_hand(shape, matrices, windows):
    """What every part of one run receives, the stream before it, and the loss, from the formulas."""
    weights = iter(matrices)
    d, heads = shape.d_model, shape.heads
    x = next(weights)[windows[:, :-1]] + next(weights)
    hidden = torch.ones(shape.context_length, shape.context_length, dtype=torch.bool).triu(1)
    received, streams = [], []

    def norm(y, gain, bias):
        return nn.functional.layer_norm(y, (d,), gain[0], bias[0])

    for _ in range(shape.depth):
        for part in P.PARTS:
            gain, bias, first, second = (next(weights) for _ in range(4))
            y = norm(x, gain, bias) if shape.placement == "pre" else x
            received.append(y)
            streams.append(x)
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
    return received, streams, nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("placement", ["pre", "post", "none"])
def test_losses_and_part_scales_are_those_of_the_formulas(placement, residual):
    shape = SHAPE._replace(placement=placement, residual=residual)
    rows = T.initial(shape, [3, 4])
    rows += 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))  # gains and biases too
    windows = torch.from_numpy(np.random.default_rng(1).integers(0, 20, size=(2, 3, 6)))
    losses = T.losses(shape, shape.matrices(rows), windows)
    scales = R.part_scales(shape, shape.matrices(rows), windows)
    for run in range(2):
        *streams, loss = by_hand(shape, [m[run] for m in shape.matrices(rows)], windows[run])
        assert losses[run].item() == pytest.approx(loss.item(), abs=2e-5)
        for found, expected in zip(scales.values(), streams, strict=True):
            assert np.allclose(found[run], [y.square().mean().sqrt() for y in expected], rtol=1e-4)


def test_optimiser_is_adam_with_linear_warmup():
    rate, warmup, seed = 1e-2, 4, 7
    ours = R.train(SHAPE, REDUCED, [(rate, warmup, seed)], **STEPS).loss[0]
    matrices = [m.clone().requires_grad_() for m in SHAPE.matrices(T.initial(SHAPE, [seed]))]
    adam = torch.optim.Adam(matrices, lr=rate, betas=R.BETAS, eps=R.EPS)
    warm = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1.0, (step + 1) / warmup))
    rng = generator(Stream.PLACEMENT_BATCHES, seed)
    theirs = []
    for _ in range(6):
        windows = torch.from_numpy(R._windows(rng, REDUCED, 5))[None]
        loss = T.losses(SHAPE, matrices, windows).sum()
        theirs.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
        warm.step()
    assert np.allclose(ours, theirs, rtol=1e-4)


def gradients_of_layers(shape, seed):
    """The norm of each layer's gradient on the first batch, before training."""
    rng = generator(Stream.PLACEMENT_BATCHES, seed)
    windows = torch.from_numpy(R._windows(rng, REDUCED, 5))[None]
    matrices = [m.clone().requires_grad_() for m in shape.matrices(T.initial(shape, [seed]))]
    T.losses(shape, matrices, windows).sum().backward()
    layers = [matrices[2 + 8 * layer : 2 + 8 * (layer + 1)] for layer in range(shape.depth)]
    return [torch.stack([m.grad.norm() for m in own if m.grad is not None]).norm().item() for own in layers]


def test_gradient_norm_is_that_of_the_layers_own_parameters():
    curve = R.train(SHAPE, REDUCED, [(1e-3, 0, 0)], **STEPS)
    assert [*curve.gradient_norm[0, 0]] == pytest.approx(gradients_of_layers(SHAPE, 0), rel=1e-4)


def test_untrained_gradients_are_autograds():
    found = P.untrained_gradients(REDUCED, "pre", example(Placement, **SMALL), [5, 6])
    alone = P.untrained_gradients(REDUCED, "post", example(Placement, **SMALL), [5])
    assert [set(table.placement) for table in (found, alone)] == [{"pre", "none"}, {"post"}]
    groups = found.groupby(["placement", "residual", "depth", "seed"])
    assert groups.ngroups == 2 * 2 * 2 * 2  # those without a norm are measured along with pre-norm
    for (placement, residual, depth, seed), rows in groups:
        shape = SHAPE._replace(placement=placement, residual=bool(residual), depth=depth)
        known = gradients_of_layers(shape, seed)
        expected = [known[layer - 1] for layer in rows.layer]
        assert rows.gradient_norm.tolist() == pytest.approx(expected, rel=1e-4)


def test_placements_share_initialisation_and_batches():
    """So that their difference is the placement's: everything but the last norm is drawn alike."""
    pre, post = (SHAPE._replace(placement=name) for name in PLACEMENTS)
    a, b = pre.matrices(T.initial(pre, [5])), post.matrices(T.initial(post, [5]))
    drawn = [i for i, (name, _) in enumerate(post.parameters()) if name != "readout"]
    assert all(torch.equal(a[i], b[i]) for i in drawn)
    assert torch.equal(a[-1], b[-1])


def test_unigram_loss_is_that_of_the_tokens_that_are_predicted():
    """Every window is the whole stream, whose last token, one of six, is predicted but never read."""
    tokens = np.array([0, 0, 0, 0, 0, 1])
    unigram = R.train(SHAPE, tokens, [(1e-3, 0, 0)], **STEPS).unigram
    assert np.allclose(unigram, (4 * np.log(6 / 5) + np.log(6)) / 5)


def test_reduce_vocabulary():
    tokens = np.array([7, 7, 7, 3, 3, 9, 5])
    assert R.reduce_vocabulary(tokens, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_status():
    flat = np.full(100, 2.0)
    assert P.status(flat, flat, 20) == "stuck"
    falls = np.repeat([2.3, 1.5, 2.3, 1.5], [50, 40, 5, 5])  # the end is the mean of the last tenth, 1.9
    for unigram, known in ((1.94, "stuck"), (1.96, "trained")):  # LEARNT is 0.05
        assert P.status(falls, np.repeat([9.0, unigram], [90, 10]), 20) == known
    for vocabulary, known in ((8, "stuck"), (7, "diverged")):  # at the end above ln(vocabulary)
        assert P.status(np.full(30, 1.99), np.full(30, 1.99), vocabulary) == known
    broken = flat - 1
    broken[50] = np.inf
    assert P.status(broken, flat, 20) == "diverged"
    assert R._finite([np.array([1.0, np.nan, np.inf])])[:, 0].tolist() == [1.0, np.inf, np.inf]


def test_parameters_are_drawn_by_seed_with_xaviers_variances():
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


def test_each_run_has_the_rows_that_it_would_have_alone():
    """Of two rates, warm-ups and seeds each, in networks of two layers; those of seven are not probed."""
    several = {"learning_rates": [1e-2, 0.5], "warmup": [0, 3], "depths": [2, 7], "steps": 6}
    plan = {"placement": "pre", "seeds": [7, 8], "untrained_seeds": [5]}
    tables = P.measure(TOKENS, example(Placement, **SMALL | several), plan)
    assert tables["position_probe"].groupby("depth").size().to_dict() == {2: 2 * 2 * 2 * 2 * 2 * 2}
    for rate, warmup, seed in [(1e-2, 3, 8), (0.5, 0, 7)]:
        mine = f"depth == 2 and learning_rate == {rate} and warmup == {warmup} and seed == {seed}"
        rows = {name: frame.query(mine) for name, frame in tables.items() if name != "untrained_gradients"}
        for residual in (True, False):
            shape = SHAPE._replace(residual=residual)
            trained = R.train(shape, REDUCED, [(rate, warmup, seed)], **STEPS)
            windows = position.probe_windows(REDUCED, shape.context_length, 7)
            probes = rows["position_probe"].query(f"residual == {residual}")
            for step, parameters in ((0, T.initial(shape, [seed])), (6, trained.parameters)):
                (known,) = position.position_accuracy(shape, shape.matrices(parameters), windows)
                row = probes[probes.step == step]
                assert row.layer.to_list() == [1, 2] and set(row.context_length) == {5}
                assert row.position_accuracy.to_list() == pytest.approx(known)
                assert row.final_loss.to_list() == pytest.approx([trained.loss[0, -1]] * 2)
        trained = R.train(SHAPE, REDUCED, [(rate, warmup, seed)], **STEPS)
        curve = rows["placement"]
        assert curve.step.to_list() == list(range(6))
        assert curve.train_loss.to_list() == pytest.approx(trained.loss[0], rel=1e-4)
        assert curve.unigram_loss.to_list() == pytest.approx(trained.unigram[0])
        assert set(curve.status) == {P.status(trained.loss[0], trained.unigram[0], 20)}
        gradients = rows["placement_gradients"].set_index(["step", "layer"]).gradient_norm
        assert list(gradients.index) == [(step, layer) for step in (0, 2, 4, 5) for layer in (1, 2)]
        assert gradients.to_list() == pytest.approx(trained.gradient_norm.ravel(), rel=1e-3)
        first = torch.from_numpy(R._windows(generator(Stream.PLACEMENT_BATCHES, seed), REDUCED, 5))[None]
        sizes = rows["placement_scales"].set_index(["step", "layer", "part"])
        for step, parameters in ((0, T.initial(SHAPE, [seed])), (6, trained.parameters)):
            known = R.part_scales(SHAPE, SHAPE.matrices(parameters), first)
            for name, (values,) in known.items():
                places = [(step, layer, part) for layer in (1, 2) for part in ("attention", "feed_forward")]
                assert sizes.loc[places, name].to_list() == pytest.approx(values, rel=1e-3), name
