import numpy as np
import pytest
import torch
from default_settings import example
from torch import nn

from layernorm_roles.random_streams import Stream, generator
from layernorm_roles.settings import Placement
from layernorm_roles.statements import placement as P

TOKENS = np.random.default_rng(0).integers(0, 40, size=3000)
SHAPE = P.TransformerShape("pre", depth=2, d_model=8, heads=2, context_length=5, vocabulary=20)
SETTINGS = example(Placement, steps=6, batch_size=2, gradients_every=2)


def reference_loss(shape, matrices, windows):
    """The same network for one run, from torch's own modules."""
    weights = iter(m.detach() for m in matrices)
    d, heads = shape.d_model, shape.heads
    token, position = next(weights), next(weights)
    x = token[windows[:, :-1]] + position
    mask = nn.Transformer.generate_square_subsequent_mask(shape.context_length)
    for _ in range(shape.depth):
        g1, b1, qkv, out, g2, b2, up, down = (next(weights) for _ in range(8))
        layer = nn.TransformerEncoderLayer(
            d, heads, 4 * d, 0.0, batch_first=True, norm_first=shape.placement == "pre"
        ).eval()
        state = {
            "self_attn.in_proj_weight": qkv.T,
            "self_attn.out_proj.weight": out.T,
            "linear1.weight": up.T,
            "linear2.weight": down.T,
            "norm1.weight": g1[0],
            "norm1.bias": b1[0],
            "norm2.weight": g2[0],
            "norm2.bias": b2[0],
        }
        zeros = {name: torch.zeros_like(value) for name, value in layer.state_dict().items()}
        layer.load_state_dict(zeros | state)
        x = layer(x, src_mask=mask)
    if shape.placement == "pre":
        x = nn.functional.layer_norm(x, (d,), next(weights)[0], next(weights)[0])
    logits = x @ next(weights)
    return nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


@pytest.mark.parametrize("placement", P.PLACEMENTS)
def test_loss_is_that_of_torchs_encoder_layers(placement):
    shape = SHAPE._replace(placement=placement)
    rows = P.initial(shape, [3, 4])
    rows += 0.1 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))  # gains and biases too
    windows = torch.from_numpy(np.random.default_rng(1).integers(0, 20, size=(2, 3, 6)))
    ours = P.losses(shape, shape.matrices(rows), windows)
    for i in range(2):
        theirs = reference_loss(shape, [m[i] for m in shape.matrices(rows)], windows[i])
        assert ours[i].item() == pytest.approx(theirs.item(), abs=2e-5)


def test_runs_do_not_mix():
    tokens = P.reduce_vocabulary(TOKENS, 20)
    runs = [(1e-2, 0, 0), (1e-3, 3, 0), (1e-2, 0, 1)]
    together = P.train(SHAPE, tokens, runs, SETTINGS)
    for i, run in enumerate(runs):
        alone = P.train(SHAPE, tokens, [run], SETTINGS)
        assert np.allclose(together.loss[:, i], alone.loss[:, 0], rtol=1e-4)
        assert np.allclose(together.gradient_norm[:, i], alone.gradient_norm[:, 0], rtol=1e-3)


def test_optimiser_is_adam_with_linear_warmup():
    tokens = P.reduce_vocabulary(TOKENS, 20)
    rate, warmup, seed = 1e-2, 4, 7
    ours = P.train(SHAPE, tokens, [(rate, warmup, seed)], SETTINGS).loss[:, 0]
    matrices = [m.clone().requires_grad_() for m in SHAPE.matrices(P.initial(SHAPE, [seed]))]
    adam = torch.optim.Adam(matrices, lr=rate, betas=P.BETAS, eps=P.EPS)
    warm = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: min(1.0, (step + 1) / warmup))
    rng = generator(Stream.PLACEMENT_BATCHES, seed)
    theirs = []
    for _ in range(SETTINGS.steps):
        windows = torch.from_numpy(P._batch(rng, tokens, SETTINGS.batch_size, SHAPE.context_length))[None]
        loss = P.losses(SHAPE, matrices, windows).sum()
        theirs.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
        warm.step()
    assert np.allclose(ours, theirs, rtol=1e-4)


def test_gradient_norm_is_that_of_the_layers_own_parameters():
    shape = SHAPE
    rows = P.initial(shape, [0])
    matrices = [m.clone().requires_grad_() for m in shape.matrices(rows)]
    tokens = P.reduce_vocabulary(TOKENS, 20)
    windows = torch.from_numpy(
        P._batch(generator(Stream.PLACEMENT_BATCHES, 0), tokens, 2, shape.context_length)
    )[None]
    P.losses(shape, matrices, windows).sum().backward()
    curve = P.train(shape, tokens, [(1e-3, 0, 0)], SETTINGS)
    for layer in range(shape.depth):
        own = matrices[2 + 8 * layer : 2 + 8 * (layer + 1)]
        norm = torch.stack([m.grad.norm() for m in own]).norm()
        assert curve.gradient_norm[0, 0, layer] == pytest.approx(norm.item(), rel=1e-4)


def test_placements_share_initialisation_and_batches():
    """So that their difference is the placement's: everything but the last norm is drawn alike."""
    pre, post = (SHAPE._replace(placement=name) for name in P.PLACEMENTS)
    a, b = pre.matrices(P.initial(pre, [5])), post.matrices(P.initial(post, [5]))
    drawn = [i for i, (name, _) in enumerate(post.parameters()) if name != "readout"]
    assert all(torch.equal(a[i], b[i]) for i in drawn)
    assert torch.equal(a[-1], b[-1])


def test_reduce_vocabulary():
    tokens = np.array([7, 7, 7, 3, 3, 9, 5])
    assert P.reduce_vocabulary(tokens, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_status():
    flat = np.full(100, 2.0)
    assert P.status(flat, flat, 20) == "stuck"
    assert P.status(flat - np.linspace(0, 1, 100), flat, 20) == "trained"
    assert P.status(flat + 2.0, flat, 20) == "diverged"  # above ln 20
    broken = flat - 1
    broken[50] = np.inf
    assert P.status(broken, flat, 20) == "diverged"
