"""The search for the queries that give keys the most attention: Newton's method for many keys at once.

For key z_i among keys z_j with biases b_j, minus the logarithm of the attention that u gives key i is minimised,
f_i(u) = log sum_j exp(u.(z_j - z_i) + b_j - b_i), over all u or over the unit ball. Under the attention p of u its
gradient is E_p[z] - z_i and its curvature the covariance of z. Second moments are one matrix product for many keys.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.selectability.ceilings_steps import minimise_models
from layernorm_roles.selectability.leads import LARGE
from layernorm_roles.selectability.threads import on_all_cores
from layernorm_roles.slices import slices

LARGEST_SCORE = 1e4
"""Upper bounds over all queries hold for queries q with sum_a |q_a| max_j |z_ja| up to this, for whitened keys z_j."""

_GAP = 1e-9  # distance between the bounds of log c, before allowances for rounding, at which a search ends
_ITERATIONS = 100  # most keys take 5 to 15
_HALVINGS = 40  # of a step that does not lower f
_LEAD = 0.5  # score by which a key leads all others when its search ends
_SHARE_LEFT = 1e-7  # attention that the lengthened query of a key that leads leaves to the other keys
_NOISE = 1e-12  # of its score, added up over coordinates: a smaller lead may be rounding
_CLOSE = 1e-5  # squared length of a step, in the metric of the curvature, below which a proof is tried
SCORES = 2**16
"""Number of float64 scores that are held in memory at once, few enough to stay in a core's cache."""
_PRODUCTS = (
    2**22
)  # products of coordinates kept for all searches: more would come from memory for each of them


@dataclass(frozen=True)
class CeilingProblem:
    """The input of `minimise`: n keys of size r, a bias for each score, and whether queries are bounded."""

    keys: Float[np.ndarray, "n r"]
    bias: Float[np.ndarray, " n"]
    bounded: bool
    """Whether only queries of length 1 or less are searched, or all."""


@dataclass
class _Searches:
    """State of the unfinished searches for the best queries u of b keys; row k is about key i = own[k]."""

    own: Int[np.ndarray, " b"]
    u: Float[np.ndarray, "b r"]
    shift: Float[np.ndarray, " b"]
    """Lagrange multiplier of the constraint |u| <= 1 on each query u."""
    scores: Float[np.ndarray, "b n"]
    """Score u.z_j + b_j of each key z_j with bias b_j, minus that of the key of the search, which gets exactly 0."""
    attention: Float[np.ndarray, "b n"]
    f: Float[np.ndarray, " b"]
    mean: Float[np.ndarray, "b r"]
    """Mean of the keys z_j, weighted by `attention`."""
    step: Float[np.ndarray, "b r"]
    change: Float[np.ndarray, "b n"]
    """What `step`, taken in full, adds to `scores`."""

    def where(self, chosen: Bool[np.ndarray, " b"]) -> "_Searches":
        """The state of those searches for which `chosen` is True."""
        if chosen.all():
            return self
        return replace(self, **{name: value[chosen] for name, value in vars(self).items()})

    def __len__(self) -> int:
        return len(self.own)


def minimise(
    problem: CeilingProblem, rows: Int[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "n r"], Float[np.ndarray, "n r"]]:
    """For each of k keys `rows`, find a query u that gives it nearly the most attention, and Newton's step from u.

    Both arrays have a row for each key; those of the other keys are 0. A search ends if the lower and upper bounds of
    `ceilings_bounds` meet, or after 100 steps; with unbounded queries, also when the key has a clear lead. A query that
    puts its key first is then lengthened, and its step is 0. All steps are 0 if queries are bounded.
    """
    n, r = problem.keys.shape
    points, steps = np.zeros((n, r)), np.zeros((n, r))
    if not len(rows):
        return points, steps
    second_moments = _SecondMoments(problem.keys)
    with compilation_notice("the search for ceilings", 10):
        search = partial(_minimise_block, problem, second_moments, points, steps)
        in_blocks(n, search, blocks_of(rows, n, least=8))
    return points, steps


def blocks_of(rows: Int[np.ndarray, " k"], n: int, least: int = 1) -> list[Int[np.ndarray, " b"]]:
    """The rows in blocks whose scores with n keys fit a core's cache, of at least so many rows."""
    return [rows[part] for part in slices(len(rows), max(least, SCORES // n))]


def in_blocks(n: int, call: Callable, blocks: list) -> None:
    """Call `call` with each block of a problem of n keys; from 2,048 keys on all cores."""
    for _ in (on_all_cores if n >= LARGE else map)(call, blocks):
        pass


def _minimise_block(problem, second_moments, points, steps, rows) -> None:
    at = _start(problem, rows)

    def retire(ended):
        nonlocal at
        if not ended.any():
            return
        over = at.where(ended)
        if not problem.bounded:
            _lengthen(problem, over)
            steps[over.own] = over.step
        points[over.own] = over.u
        at = at.where(~ended)

    ended_early = _ball_gap_closed if problem.bounded else _separated
    for _ in range(_ITERATIONS):
        at.mean = at.attention @ problem.keys
        retire(ended_early(problem, at))
        if len(at):
            _newton_step(problem, second_moments, at)
            if not problem.bounded:
                retire(_proved(problem, at))
        if not len(at):
            return
        _line_search(problem, at)
    retire(np.ones(len(at), bool))


def _start(problem: CeilingProblem, rows: Int[np.ndarray, " b"]) -> _Searches:
    scores = problem.bias - problem.bias[rows, None]
    attention, f = softmax(scores)
    b, (_, r) = len(rows), problem.keys.shape
    return _Searches(
        rows, np.zeros((b, r)), np.zeros(b), scores, attention, f, np.zeros((b, r)), np.zeros((b, r)), scores
    )


def softmax(scores: Float[np.ndarray, "b n"]) -> tuple[Float[np.ndarray, "b n"], Float[np.ndarray, " b"]]:
    """The softmax of every row of `scores`, and the logarithm of the sum of the exponentials of every row."""
    top = scores.max(axis=1, keepdims=True)
    share = np.exp(scores - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    return share, (top + np.log(total))[:, 0]


def _ball_gap_closed(problem: CeilingProblem, at: _Searches) -> Bool[np.ndarray, " b"]:
    """Whether f = -log(attention) is within 1e-9 of its bound on the unit ball, f - g.u - |g|, g the gradient at u."""
    gradient = at.mean - problem.keys[at.own]
    return (gradient * at.u).sum(axis=1) + np.sqrt((gradient**2).sum(axis=1)) < _GAP


def _separated(problem: CeilingProblem, at: _Searches) -> Bool[np.ndarray, " b"]:
    """Whether each query's score for its key, without the bias, leads those of all other keys by more than 0.5."""
    own = np.arange(len(at)), at.own
    at.scores[own] = -np.inf
    runner_up = at.scores.max(axis=1)
    at.scores[own] = 0
    return runner_up - problem.bias.min() + problem.bias[at.own] < -_LEAD


def clear_lead(bias: Float[np.ndarray, " n"]) -> float:
    """The lead, without biases, with which a key leaves a share of about 1e-7 to all others."""
    return float(np.log(np.exp(bias).sum() / _SHARE_LEFT))


def _lengthen(problem: CeilingProblem, at: _Searches) -> None:
    """Lengthen each query that puts its key first to a `clear_lead`, and set its step to 0."""
    scores = at.scores - (problem.bias - problem.bias[at.own, None])
    scores[np.arange(len(at)), at.own] = -np.inf
    lead = -scores.max(axis=1)
    leads = lead > _NOISE * (abs(at.u) @ abs(problem.keys).max(axis=0))
    at.u[leads] *= np.maximum(clear_lead(problem.bias) / lead[leads], 1)[:, None]
    at.step[leads] = 0


def _newton_step(problem: CeilingProblem, second_moments: "_SecondMoments", at: _Searches) -> None:
    """Set `step` to end at the minimum of a quadratic model of -log(attention), and `change` of the scores to match."""
    target, gradient = at.u.T.copy(), (at.mean - problem.keys[at.own]).T.copy()
    moments = second_moments(at.attention)
    minimise_models(moments, at.mean.T.copy(), gradient, target, at.shift, problem.bounded)
    at.step = target.T - at.u
    at.change = at.step @ problem.keys.T
    at.change -= at.change[np.arange(len(at)), at.own][:, None]


def _proved(problem: CeilingProblem, at: _Searches) -> Bool[np.ndarray, " b"]:
    """Whether Newton's step yields weights on keys that prove -log(attention) to be within 1e-9 of its minimum."""
    proved = np.zeros(len(at), bool)
    squared = -((at.mean - problem.keys[at.own]) * at.step).sum(axis=1)
    near = np.flatnonzero(squared < _CLOSE)
    if len(near):
        change, attention = at.change[near], at.attention[near]
        factor = np.maximum(1 + change - (attention * change).sum(axis=1, keepdims=True), 0)
        weights = attention * factor
        residual = abs(weights @ problem.keys - problem.keys[at.own[near]]).max(axis=1)
        divergence = (weights * np.log(np.where(factor > 0, factor, 1))).sum(axis=1)
        proved[near] = divergence + LARGEST_SCORE * residual < _GAP
    return proved


def _line_search(problem: CeilingProblem, at: _Searches) -> None:
    """Move each query along its step, halved until -log(attention) falls by 1e-4 of what the slope promises."""
    slope = ((at.mean - problem.keys[at.own]) * at.step).sum(axis=1)
    length, noise = np.ones(len(at)), 1e-13 * (1 + abs(at.f))
    before, todo = at.f, np.arange(len(at))
    at.scores = at.scores + at.change
    at.attention, at.f = softmax(at.scores)
    for _ in range(_HALVINGS):
        todo = todo[at.f[todo] > (before + 1e-4 * length * slope + noise)[todo]]
        if not len(todo):
            break
        length[todo] /= 2
        at.scores[todo] -= length[todo, None] * at.change[todo]
        at.attention[todo], at.f[todo] = softmax(at.scores[todo])
    at.u = at.u + length[:, None] * at.step


class _SecondMoments:
    """E[z_a z_c] of keys z weighted by attention, for all pairs a >= c of coordinates."""

    def __init__(self, keys: Float[np.ndarray, "n r"]):
        self.keys = keys
        self.a, self.c = np.tril_indices(keys.shape[1])
        # One matrix product for all searches, as long as the products of coordinates can be kept.
        self.products = keys[:, self.a] * keys[:, self.c] if len(keys) * len(self.a) <= _PRODUCTS else None

    def __call__(self, attention: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "pairs b"]:
        if self.products is not None:
            return self.products.T @ attention.T
        moments = (((self.keys.T * weights) @ self.keys)[self.a, self.c] for weights in attention)
        return np.stack(list(moments), axis=1)
