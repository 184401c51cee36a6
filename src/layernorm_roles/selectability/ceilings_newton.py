"""The search for the queries that give keys the most attention: Newton's method for many keys at once.

For key z_i among keys z_j with biases b_j, the function f_i(u) = log sum_j exp(u.(z_j - z_i) + b_j - b_i) is minimised,
minus the logarithm of the attention that u gives key i: over all u, or over the unit ball. Under the attention p of u
its gradient is E_p[z] - z_i and its curvature the covariance of z. The second moments under all attentions are one
matrix product, p times the products of the keys' coordinates; what remains for every key alone is compiled, in
`ceilings_steps`.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from layernorm_roles.compiling import compilation_notice
from layernorm_roles.selectability.ceilings_steps import minimise_models
from layernorm_roles.slices import slices

LARGEST_SCORE = 1e4
"""Upper bounds over all queries are proved for queries whose scores have terms with magnitudes that add up to at most
this."""

_GAP = 1e-9  # distance between the bounds of log c, before allowances for rounding, at which a search ends
_ITERATIONS = 100  # most keys take 5 to 15
_HALVINGS = 40  # of a step that does not lower f
_LEAD = 0.5  # score by which a key leads all others when its search ends
_SHARE_LEFT = 1e-7  # attention that the lengthened query of a key that leads leaves to the other keys
_NOISE = 1e-12  # of its score, added up over coordinates: a smaller lead may be rounding
_CLOSE = 1e-5  # squared length of a step, in the metric of the curvature, below which a proof is tried
SCORES = 2**16
"""Number of float64 scores held in memory at once, few enough to stay in a core's cache."""
_PRODUCTS = 2**23  # products of coordinates held at once


@dataclass(frozen=True)
class CeilingProblem:
    """What `minimise` solves: n keys of r coordinates, a bias added to each key's score, and the limit for queries."""

    keys: Float[np.ndarray, "n r"]
    bias: Float[np.ndarray, " n"]
    bounded: bool
    """Whether the queries u among which is searched have length 1 at most; else they are not limited."""


@dataclass
class _Searches:
    """The state of the unfinished searches for the best queries of b keys; row k is about key `own[k]`."""

    own: Int[np.ndarray, " b"]
    u: Float[np.ndarray, "b r"]
    shift: Float[np.ndarray, " b"]
    """Multiplier of the constraint |u| <= 1."""
    scores: Float[np.ndarray, "b n"]
    """u.(z_j - z_i) + b_j - b_i for all keys j, where i is the row's key; exactly 0 for j = i."""
    attention: Float[np.ndarray, "b n"]
    f: Float[np.ndarray, " b"]
    mean: Float[np.ndarray, "b r"]
    """The keys' mean under the attention."""
    step: Float[np.ndarray, "b r"]
    change: Float[np.ndarray, "b n"]
    """What the step adds to the scores."""

    def where(self, chosen: Bool[np.ndarray, " b"]) -> "_Searches":
        """The searches for which `chosen` is true; these searches themselves if it is true for all."""
        if chosen.all():
            return self
        return replace(self, **{name: value[chosen] for name, value in vars(self).items()})

    def __len__(self) -> int:
        return len(self.own)


def minimise(problem: CeilingProblem) -> tuple[Float[np.ndarray, "n r"], Float[np.ndarray, "n r"]]:
    """For each key a query u that gives it about the most attention possible, and Newton's step from u.

    Both arrays have a row for each key. A search ends where the bounds of `ceilings_bounds` meet, where over all u the
    key leads every other, or after 100 steps. A u that puts the key first is lengthened until the other keys get next
    to nothing; its step is 0. All steps are 0 if queries are bounded.
    """
    n, r = problem.keys.shape
    points, steps = np.zeros((n, r)), np.zeros((n, r))
    second_moments = _SecondMoments(problem.keys)
    at_once = max(8, min(SCORES // n, _PRODUCTS // (r * (r + 1) // 2)))
    with compilation_notice("the search for ceilings", 10):
        for block in slices(n, at_once):
            _minimise_block(problem, second_moments, np.arange(n)[block], points, steps)
    return points, steps


def _minimise_block(problem, second_moments, rows, points, steps) -> None:
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
    """The softmax of every row of `scores`, and the logarithm of the sum of each row's exponentials."""
    top = scores.max(axis=1, keepdims=True)
    share = np.exp(scores - top)
    total = share.sum(axis=1, keepdims=True)
    share /= total
    return share, (top + np.log(total))[:, 0]


def _ball_gap_closed(problem: CeilingProblem, at: _Searches) -> Bool[np.ndarray, " b"]:
    """Whether the bounds over the unit ball meet: by convexity f >= f(u) - g.u - |g| there, for the gradient g at u."""
    gradient = at.mean - problem.keys[at.own]
    return (gradient * at.u).sum(axis=1) + np.sqrt((gradient**2).sum(axis=1)) < _GAP


def _separated(problem: CeilingProblem, at: _Searches) -> Bool[np.ndarray, " b"]:
    """Whether u puts the key first by a clear lead, whatever the biases."""
    own = np.arange(len(at)), at.own
    at.scores[own] = -np.inf
    runner_up = at.scores.max(axis=1)
    at.scores[own] = 0
    return runner_up - problem.bias.min() + problem.bias[at.own] < -_LEAD


def _lengthen(problem: CeilingProblem, at: _Searches) -> None:
    """Lengthen every u that puts its key first, so that the exponentials of the others add up to next to nothing."""
    scores = at.scores - (problem.bias - problem.bias[at.own, None])
    scores[np.arange(len(at)), at.own] = -np.inf
    lead = -scores.max(axis=1)
    leads = lead > _NOISE * (abs(at.u) @ abs(problem.keys).max(axis=0))
    enough = np.log(np.exp(problem.bias).sum() / _SHARE_LEFT)
    at.u[leads] *= np.maximum(enough / lead[leads], 1)[:, None]
    at.step[leads] = 0


def _newton_step(problem: CeilingProblem, second_moments: "_SecondMoments", at: _Searches) -> None:
    """Set the step to the minimum of the quadratic model, and the change of the scores that it makes."""
    target, gradient = at.u.T.copy(), (at.mean - problem.keys[at.own]).T.copy()
    moments = second_moments(at.attention)
    minimise_models(moments, at.mean.T.copy(), gradient, target, at.shift, problem.bounded)
    at.step = target.T - at.u
    at.change = at.step @ problem.keys.T
    at.change -= at.change[np.arange(len(at)), at.own][:, None]


def _proved(problem: CeilingProblem, at: _Searches) -> Bool[np.ndarray, " b"]:
    """Whether the weights that Newton's step makes prove f to within `_GAP`; see `ceilings_bounds`."""
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
    """Go along every step, halved until f falls by a share of what its slope promises."""
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
    """E[z_a z_c] for all a >= c, under given attention to keys z of coordinates z_a, by one matrix product."""

    def __init__(self, keys: Float[np.ndarray, "n r"]):
        self.keys = keys
        self.a, self.c = np.tril_indices(keys.shape[1])
        width = max(1, _PRODUCTS // len(keys))
        self.parts = [slice(k, k + width) for k in range(0, len(self.a), width)]
        # Products that do not fit at once are made again for every call.
        self.all_products = self._products(self.parts[0]) if len(self.parts) == 1 else None

    def _products(self, part: slice) -> Float[np.ndarray, "n pairs"]:
        return self.keys[:, self.a[part]] * self.keys[:, self.c[part]]

    def __call__(self, attention: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "pairs b"]:
        if self.all_products is not None:
            return self.all_products.T @ attention.T
        return np.concatenate([self._products(part).T @ attention.T for part in self.parts])
