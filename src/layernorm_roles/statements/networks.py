"""Small transformers with LayerNorm before each part of a layer, after each residual sum, or nowhere.

    pre     x = x + part(norm(x))        and one norm before the readout
    post    x = norm(x + part(x))
    none    x = x + part(x)              untrained networks alone

Here x is the residual stream, and part is attention or feed-forward. Without the residual connection x + is left out.
Measured are the training loss, how well a linear probe reads a token's position from the stream, and the gradient of
the first layer of untrained networks. Causal attention tells early positions from late ones even without positional
embeddings, so networks without residual connections, and untrained ones, are the probe's controls.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from layernorm_roles.optimiser import AdamW
from layernorm_roles.random_streams import Stream, generator, seed_torch
from layernorm_roles.script import Progress
from layernorm_roles.settings.statements import PROBED_UP_TO, Placement

BATCH = 4
"""Windows of the text in a training batch."""
WINDOWS = 128
"""Windows to which a linear probe of positions is fitted; as many others test it."""
RIDGE = 1e-6
"""Ridge of the probe, as a share of the mean diagonal of its second moments."""

Tokens = Integer[np.ndarray, " n"]
Run = tuple[float, int]
"""Learning rate and seed of a training run."""


class Unconnected(nn.TransformerEncoderLayer):
    """torch's layer without residual connections: the output of a part takes the place of its input."""

    def forward(self, x: Tensor, src_mask: Tensor, is_causal: bool) -> Tensor:
        attention = partial(self._sa_block, attn_mask=src_mask, key_padding_mask=None, is_causal=is_causal)
        for norm, part in ((self.norm1, attention), (self.norm2, self._ff_block)):
            x = part(norm(x)) if self.norm_first else norm(part(x))
        return x


class Network(nn.Module):
    """A causal language model with learnt positions; it maps windows of tokens to their mean next-token loss (nats).

    Networks of equal seed and depth begin with equal weights, wherever their norms stand.
    """

    def __init__(self, settings: Placement, placement: str, depth: int, residual: bool, seed: int):
        super().__init__()
        d, pre = settings.d_model, placement == "pre"
        layer = nn.TransformerEncoderLayer if residual else Unconnected
        options = {"dropout": 0.0, "batch_first": True, "norm_first": pre}
        self.token = nn.Embedding(settings.vocabulary, d)
        self.position = nn.Embedding(settings.context_length, d)
        self.layers = nn.ModuleList(layer(d, settings.heads, 4 * d, **options) for _ in range(depth))
        self.norm = nn.LayerNorm(d) if pre else nn.Identity()  # post-norm ends in a norm already
        self.readout = nn.Linear(d, settings.vocabulary, bias=False)
        self.mask = nn.Transformer.generate_square_subsequent_mask(settings.context_length)
        if placement == "none":
            for each in self.layers:
                each.norm1 = each.norm2 = nn.Identity()
        seed_torch(seed)
        for name, parameter in self.named_parameters():
            if name in ("token.weight", "position.weight"):
                nn.init.normal_(parameter, std=0.5**0.5)
            elif parameter.dim() > 1:
                nn.init.xavier_normal_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, windows: Int[Tensor, "batch window"]) -> Float[Tensor, ""]:
        x = self.token(windows[:, :-1]) + self.position.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=True)
        logits = self.readout(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def measure(
    settings: Placement, tokens: Tokens, placement: str, seeds: Sequence[int], untrained_seeds: Sequence[int]
) -> dict[str, pd.DataFrame]:
    """Tables placement, position_probe and untrained_gradients of one placement, "pre" or "post", on a text's tokens.

    Networks without any norm are measured along with "pre".
    """
    tokens = reduce_vocabulary(tokens, settings.vocabulary)
    windows = probe_windows(tokens, settings.context_length, seeds[0])
    runs, curves, probes = [*product(settings.learning_rates, seeds)], [], []
    for depth, residual in product(settings.depths, (True, False)):
        if not residual and depth > PROBED_UP_TO:
            continue
        networks = {run: Network(settings, placement, depth, residual, run[1]) for run in runs}
        probed = networks.values() if depth <= PROBED_UP_TO else ()
        before = [position_accuracy(each, windows) for each in probed]
        losses = train(networks, tokens, settings.steps, f"placement {placement} depth {depth}")
        after = [position_accuracy(each, windows) for each in probed]
        for number, (rate, seed) in enumerate(runs):
            run = {"placement": placement, "depth": depth, "learning_rate": rate, "seed": seed}
            if residual:
                steps = range(settings.steps)
                curves.append(pd.DataFrame({**run, "step": steps, "train_loss": losses[number]}))
            run |= {"residual": residual, "context_length": settings.context_length}
            for step, shares in ((0, before), (settings.steps, after)) if probed else ():
                place = {"step": step, "layer": range(1, depth + 1)}
                probes.append(pd.DataFrame({**run, **place, "position_accuracy": shares[number]}))
    return {
        "placement": pd.concat(curves, ignore_index=True),
        "position_probe": pd.concat(probes, ignore_index=True),
        "untrained_gradients": untrained_gradients(settings, tokens, placement, untrained_seeds),
    }


def train(
    networks: Mapping[Run, Network], tokens: Tokens, steps: int, title: str
) -> Float[np.ndarray, "runs steps"]:
    """Train networks of one shape with Adam; return each step's loss on its batch, before the update, in nats.

    The learning rate is constant, and gradients are not clipped. Runs of equal seed have equal batches. Infinity stands
    for NaN.
    """
    draws = {seed: generator(Stream.PLACEMENT_BATCHES, seed) for _, seed in networks}
    optimisers = [AdamW(network.parameters(), rate) for (rate, _), network in networks.items()]
    shape = next(iter(networks.values()))
    names = [name for name, _ in shape.named_parameters()]
    together = torch.vmap(partial(functional_call, shape))
    curve, progress = [], Progress(title, steps, "steps")
    for step in range(steps):
        drawn = {seed: batch(rng, tokens, len(shape.mask)) for seed, rng in draws.items()}
        windows = torch.stack([drawn[seed] for _, seed in networks])
        # In one call, a quarter faster than in a loop; the attention kernel must know vmap.
        columns = zip(*(network.parameters() for network in networks.values()), strict=True)
        with sdpa_kernel(SDPBackend.MATH):
            losses = together(dict(zip(names, map(torch.stack, columns), strict=True)), windows)
        losses.sum().backward()
        for network, optimiser in zip(networks.values(), optimisers, strict=True):
            optimiser.step()
            network.zero_grad()
        curve.append(losses.detach())
        progress(step + 1, f"mean loss {curve[-1].mean():.2f}")
    return torch.stack(curve, dim=1).nan_to_num(nan=torch.inf, posinf=torch.inf).numpy()


def untrained_gradients(
    settings: Placement, tokens: Tokens, placement: str, seeds: Sequence[int]
) -> pd.DataFrame:
    """Table untrained_gradients: the norm of the loss's gradient in the first layer, on a seed's first batch."""
    kinds = ("pre", "none") if placement == "pre" else (placement,)
    rows = []
    for kind, residual, depth, seed in product(kinds, (True, False), settings.untrained_depths, seeds):
        network = Network(settings, kind, depth, residual, seed)
        network(batch(generator(Stream.PLACEMENT_BATCHES, seed), tokens, settings.context_length)).backward()
        norm = nn.utils.get_total_norm([each.grad for each in network.layers[0].parameters()])
        norm = norm.nan_to_num(nan=torch.inf, posinf=torch.inf).item()  # null would mean missing
        rows.append((kind, residual, depth, seed, norm))
    return pd.DataFrame(rows, columns=["placement", "residual", "depth", "seed", "gradient_norm"])


@torch.no_grad()
def position_accuracy(
    network: Network, windows: Int[Tensor, "2 windows length"]
) -> Float[np.ndarray, " depth"]:
    """The share of tokens whose position a linear probe reads from the stream before each layer; NaN if it diverged.

    The probe is a ridge regression from the stream, and a constant, to the position's indicator, fitted to windows[0]
    and tested on windows[1].
    """
    streams: list[Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda _, inputs: streams.append(inputs[0].double()))
        for layer in network.layers
    ]
    network(windows.flatten(0, 1))
    for hook in hooks:
        hook.remove()
    return np.array([_named(*stream.chunk(2)) for stream in streams])


def _named(fitted: Float[Tensor, "windows tokens d"], judged: Float[Tensor, "windows tokens d"]) -> float:
    x, y = (
        torch.cat([part, torch.ones_like(part[..., :1])], dim=-1).flatten(0, 1) for part in (fitted, judged)
    )
    if not (x.isfinite().all() and y.isfinite().all()):
        return np.nan  # it diverged
    places = torch.arange(fitted.shape[1]).repeat(len(fitted))
    moments = x.T @ x
    moments += RIDGE * moments.diagonal().mean() * torch.eye(len(moments), dtype=x.dtype)
    weights = torch.linalg.solve(moments, x.T @ functional.one_hot(places).to(x.dtype))
    return ((y @ weights).argmax(dim=1) == places).double().mean().item()


def probe_windows(tokens: Tokens, context_length: int, seed: int) -> Int[Tensor, "2 windows length"]:
    """Windows to fit the probe from the first half of `tokens`, and to test it from the second."""
    rng, half = generator(Stream.POSITION_PROBE, seed), len(tokens) // 2
    starts = rng.integers(half - context_length, size=(2, WINDOWS)) + np.array([[0], [half]])
    return _cut(tokens, starts, context_length)


def batch(rng: np.random.Generator, tokens: Tokens, context_length: int) -> Int[Tensor, "windows length"]:
    """A training batch: windows of `context_length` + 1 tokens at random places."""
    return _cut(tokens, rng.integers(len(tokens) - context_length, size=BATCH), context_length)


def _cut(tokens: Tokens, starts: Int[np.ndarray, "*any"], context_length: int) -> Int[Tensor, "*any length"]:
    return torch.from_numpy(tokens[starts[..., None] + np.arange(context_length + 1)])


def reduce_vocabulary(tokens: Tokens, size: int) -> Int[np.ndarray, " n"]:
    """Replace token ids by their ranks in frequency, from 0; all ranks above `size` - 1 become `size` - 1."""
    values, inverse, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(values))
    return np.minimum(rank, size - 1)[inverse]
