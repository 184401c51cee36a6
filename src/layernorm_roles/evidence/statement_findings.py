"""Findings: for each statement of the other documents whether it is right, and the numbers that say so."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from layernorm_roles.evidence.statistics import t_interval

ESSAY, QUESTION, NOTES = "geometry essay", "question on W_O", "transformer notes"


class Estimate(NamedTuple):
    """A mean over seeds with its 95 % interval; formatted as "mean [low, high]"."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values) -> "Estimate":
        """Of one value a seed; without an interval if a value is not finite."""
        values = np.asarray(values, dtype=float)
        bounds = t_interval(values) if np.isfinite(values).all() else (np.nan, np.nan)
        return cls(float(values.mean()), *map(float, bounds))

    def map(self, function: Callable[[float], float]) -> "Estimate":
        return Estimate(*map(float, map(function, self)))

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}} [{self.low:{form}}, {self.high:{form}}]"


def power(x: str, y: str, table: pd.DataFrame) -> Estimate:
    """The exponent p of y ~ x^p: the slope on logarithmic scales, one for each seed."""
    slopes = [stats.linregress(np.log(part[x]), np.log(part[y])).slope for _, part in table.groupby("seed")]
    return Estimate.of(slopes)


class Finding(NamedTuple):
    """One statement of a document and what was found; a row of tables/statements."""

    experiment: str
    source: str
    statement: str
    verdict: str
    """right, in part, not right, or not seen: these runs cannot show it"""
    finding: str
    measured: float
    low: float
    high: float
    """95 % interval over seeds; where nothing is random, the range over the cases"""


NOTE = """Verdict: is the statement right, in part, or not right by what was measured; not seen: the runs are too
short to say. Low and high are the 95 % interval over seeds; where nothing is random, the range over the cases;
dashes where there is neither."""

FORMATS = {
    name: lambda value: f"{value:.4g}" for name in ("measured", "low", "high", "recomputed", "from_stated")
}


def findings(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A finding for each statement, from the tables alone."""
    found = [
        *geometry_findings(tables["geometry"]),
        *fusion_findings(tables["fusion"]),
        *placement_findings(tables["placement"], tables["placement_gradients"]),
        *batch_dependence_findings(tables["batch_dependence"]),
        *score_scale_findings(tables["score_scale"]),
        *worked_numbers_findings(tables["worked_numbers"]),
    ]
    return pd.DataFrame(found)


def geometry_findings(geometry: pd.DataFrame) -> Iterator[Finding]:
    ours = geometry[geometry.input_norm.notna() & (geometry.norm == "layernorm")]
    centred = ours[(ours.eps_placement == "inside") & (ours.offset == 0)]
    difference = centred[centred.quantity == "difference_from_torch"]
    worst = difference[np.isfinite(difference.value)].groupby("dtype").value.max()
    others = ", ".join(f"{worst[d]:.0e} in {d}" for d in ("float32", "bfloat16", "float16") if d in worst)
    by_n = difference[difference.dtype == "float64"].groupby("n").value.max()
    yield Finding(
        "geometry", ESSAY, "LayerNorm is the composition h(g(f(x)))",
        "right" if by_n.max() < 1e-10 else "not right",
        f"With eps inside the root, h(g(f(x))) differs from torch's layer_norm by at most {by_n.max():.1e} in "
        f"float64 "
        f"(n = {by_n.index.min()} to {by_n.index.max()}, inputs of norm {ours.input_norm.min():.0e} to "
        f"{ours.input_norm.max():.0e}); where results are finite by at most {others}: there torch works in float32 "
        "inside, and squares in float16 overflow from 256 on.",
        by_n.max(), by_n.min(), by_n.max(),
    )  # fmt: skip
    yield _shape_finding(geometry, "layernorm")
    yield _eps_finding(ours)
    yield _shape_finding(geometry, "rmsnorm")


def _shape_finding(geometry: pd.DataFrame, norm: str) -> Finding:
    shape = geometry[(geometry.norm == norm) & geometry.input_norm.isna()]
    shape = shape.pivot(index="n", columns="quantity", values="value")
    axes, centre, n = shape.axes_deviation, shape.centre_deviation, shape.index
    lost = norm == "layernorm"
    full = (shape["rank"] == n - lost).all()
    holds = full and max(axes.max(), shape.axes_cosine.max()) < 1e-9
    if lost:
        statement = "outputs lie on an (n - 2)-dimensional ellipsoid around b"
        lengths, rank = "the singular values of diag(a) restricted to U", "n - 1"
    else:
        statement = "RMSNorm's outputs lie on the full (n - 1)-sphere, stretched to semi-axes sqrt(n) a_i"
        lengths, rank = "the sizes of the gains", "n"
    return Finding(
        "geometry", ESSAY, statement, "right" if holds else "not right",
        f"The semi-axes are sqrt(n) times {lengths}, to {axes.max():.0e} relatively; the centre is as predicted to "
        f"{centre.max():.0e}; the rank of the outputs is {rank if full else 'not always ' + rank} for n up to "
        f"{n.max()}.",
        axes.max(), axes.min(), axes.max(),
    )  # fmt: skip


def _eps_finding(ours: pd.DataFrame) -> Finding:
    eps = ours.eps.max()
    table = ours[(ours.dtype == "float64") & (ours.offset == 0) & (ours.eps == eps)]
    table = table[table.quantity == "radius_mean"]
    radius = table.pivot(index=["n", "input_norm"], columns="eps_placement", values="value")
    gap = (radius.outside - radius.inside).abs()
    n, length = gap.idxmax()
    inside, outside = np.sqrt(eps / (0.99**-2 - 1)), 99 * eps
    return Finding(
        "geometry", ESSAY, "g scales to radius sqrt(n), except very close to the origin", "in part",
        f"It is f(x) that must not be small, not x, and how small depends on where eps stands: with eps = {eps:.0e} "
        f"the radius is within 1 % of sqrt(n) from a root mean square of f(x) of {inside:.1e} on with eps inside the "
        f"root (torch), of {outside:.1e} with eps outside (the essay); the two radii differ by up to {gap.max():.2f} "
        f"sqrt(n) (at {length / np.sqrt(n):.0e}).",
        gap.max(), gap.groupby("n").max().min(), gap.max(),
    )  # fmt: skip


def fusion_findings(fusion: pd.DataFrame) -> Iterator[Finding]:
    square = fusion[fusion.d == fusion.d_heads]
    random, trained = square[square.source == "random"], square[square.source != "random"]
    widest, narrowest = random.d.max(), random.d.min()
    wide = random[random.d == widest]

    def error(table: pd.DataFrame, arrangement: str, inputs: str = "heads") -> Estimate:
        part = table[(table.arrangement == arrangement) & (table.inputs == inputs)]
        return Estimate.of(part.groupby("seed").error.mean())

    def in_trained(arrangement: str) -> str:
        return "" if trained.empty else f"; {error(trained, arrangement):.1%} in the trained language models"

    exact = fusion[(fusion.arrangement == "plain") & (fusion.inputs == "heads")].error
    sizes = wide[wide.inputs == "heads"].iloc[0]
    yield Finding(
        "fusion", QUESTION, "with nothing between them, W_O and W_1 can be one matrix",
        "right" if exact.max() < 1e-20 else "not right",
        f"The best single map of the heads misses at most {exact.max():.0e} of the variance, which is "
        f"rounding. It has "
        f"{1 - sizes.parameters_single / sizes.parameters_pair:.0%} fewer entries than the pair (heads "
        f"together as wide as the "
        f"stream, feed-forward part {sizes.d_ff / sizes.d:g} times as wide).",
        exact.max(), exact.min(), exact.max(),
    )  # fmt: skip
    residual = error(wide, "residual")
    both = square[(square.arrangement == "residual") & (square.inputs == "stream_and_heads")]
    yield Finding(
        "fusion", QUESTION, "the residual connection is why W_O is needed",
        "right" if residual.low > 0.01 else "not right",
        f"With a residual and no LayerNorm the best map of the heads misses {residual:.1%} of the variance (random "
        f"weights, d = {widest}){in_trained('residual')}. A single map of stream and heads is exact again "
        f"({both.error.max():.0e}), but with {(both.parameters_single / both.parameters_pair).median():.2g} "
        f"times the pair's "
        "entries, and the next layer still needs the sum.",
        *residual,
    )  # fmt: skip
    yield Finding(
        "fusion", QUESTION, "without W_O the sum x + attention(x) would not be possible: the sizes differ", "in part",
        f"Only if heads x head size is not d. In the usual layout it is d, and W_O is square of rank "
        f"{wide.rank_w_o.min()} at d = {widest}: the sum is possible without it, and then each head would write to "
        "its own coordinates only.",
        float(wide.rank_w_o.min() / widest), np.nan, np.nan,
    )  # fmt: skip
    small, large = error(random[random.d == narrowest], "norm"), error(wide, "norm")
    yield Finding(
        "fusion", QUESTION, "the LayerNorm between them keeps W_O from being redundant", "in part",
        f"LayerNorm alone makes the best map miss {small:.1%} of the variance at d = {narrowest} and {large:.2%} at "
        f"d = {widest} (random weights){in_trained('norm')}: vectors of many random entries have nearly equal norms, "
        "and dividing by a constant is linear.",
        *large,
    )  # fmt: skip


def placement_findings(placement: pd.DataFrame, gradients: pd.DataFrame) -> Iterator[Finding]:
    if placement.placement.nunique() < 2:
        return
    deep = gradients.depth.max()
    bare = gradients[(gradients.warmup == gradients.warmup.min()) & (gradients.depth == deep)]
    bare = bare[bare.learning_rate == bare.learning_rate.min()]

    def across(name: str, step: int) -> Estimate:
        """The first layer's gradient over the last layer's, geometric mean over seeds."""
        part = bare[(bare.placement == name) & (bare.step == step)]
        ends = part.pivot(index="seed", columns="layer", values="gradient_norm")
        return Estimate.of(np.log(ends[1] / ends[deep])).map(np.exp)

    last = bare.step.max()
    start, post, pre = across("post", 0), across("post", last), across("pre", last)
    lost = sum(max(ratio.mean, 1 / ratio.mean) > 10 for ratio in (start, post))
    yield Finding(
        "placement", NOTES, "in deep post-norm networks the gradients vanish or explode; in pre-norm they do not",
        ("not right", "in part", "right")[lost],
        f"With {deep} layers the first layer's gradient is {start:.2f} times the last layer's in post-norm at "
        f"initialisation ({across('pre', 0):.2f} in pre-norm), and {post:.1e} times at step {last} ({pre:.1f} in "
        f"pre-norm; rate {bare.learning_rate.min():g}, no warm-up).",
        *post,
    )  # fmt: skip

    runs = _ends(placement)
    bare = runs[(runs.warmup == runs.warmup.min()) & (runs.depth == deep)]
    gaps = {
        rate: Estimate.of(wide.post - wide.pre)
        for rate, part in bare.groupby("learning_rate")
        if (wide := part.pivot(index="seed", columns="placement", values="loss")) is not None
    }
    worse, better = all(gap.low > 0 for gap in gaps.values()), all(gap.high < 0 for gap in gaps.values())
    told = " and ".join(f"{gap:+.2f} nats at rate {rate:g}" for rate, gap in gaps.items())
    states = runs[runs.depth == deep].groupby("placement").status.value_counts().unstack(fill_value=0)
    counts = ", ".join(
        f"{states.loc[name].get(state, 0)} of {states.loc[name].sum()} {name}-norm runs {state}"
        for name in ("pre", "post")
        for state in ("stuck", "diverged")
    )
    yield Finding(
        "placement", NOTES, "pre-norm trains more stably than post-norm in deep networks (24 layers)",
        "right" if worse else "not right" if better else "in part",
        f"At {deep} layers without warm-up post-norm's final training loss is above pre-norm's by {told} "
        f"({bare.seed.nunique()} seeds, {placement.step.max() + 1} steps). With and without warm-up {counts}.",
        *next(iter(gaps.values())),
    )  # fmt: skip

    if runs.warmup.nunique() > 1:
        wide = runs[runs.placement == "post"].pivot(
            index=["depth", "learning_rate", "seed"], columns="warmup", values="loss"
        )
        change = wide[runs.warmup.max()] - wide[runs.warmup.min()]
        cells = {cell: Estimate.of(part) for cell, part in change.groupby(["depth", "learning_rate"])}
        helped = [cell for cell, part in cells.items() if part.high < 0]
        (depth, rate), best = min(cells.items(), key=lambda item: item[1].mean)
        yield Finding(
            "placement", "Xiong et al. 2020", "post-norm needs warm-up",
            "in part" if helped else "not seen",
            f"{runs.warmup.max()} steps of warm-up lower post-norm's final loss beyond the spread of seeds in "
            f"{len(helped)} of "
            f"{len(cells)} settings of depth and rate; the largest change is {best:+.2f} nats ({depth} "
            f"layers, rate {rate:g}).",
            *best,
        )  # fmt: skip


def _ends(placement: pd.DataFrame) -> pd.DataFrame:
    """One row a run: `loss`, the mean over the last tenth of its steps, and `status`."""
    steps = placement.step.max() + 1
    end = placement[placement.step >= steps - max(1, steps // 10)]
    keys = ["placement", "depth", "learning_rate", "warmup", "seed", "status"]
    return end.groupby(keys, as_index=False).train_loss.mean().rename(columns={"train_loss": "loss"})


def batch_dependence_findings(table: pd.DataFrame) -> Iterator[Finding]:
    layer, batch = table[table.norm == "layernorm"].change, table[table.norm == "batchnorm"]
    others = batch[batch.effect == "others"]
    by_size = others.groupby("batch_size").change.mean()
    small, large = by_size.index[0], by_size.index[-1]
    exponent = power("batch_size", "change", others)
    yield Finding(
        "batch_dependence", NOTES, "LayerNorm does not depend on the batch; BatchNorm does, most in small batches",
        "right" if layer.max() == 0 else "not right",
        f"LayerNorm's output changes by exactly {layer.max():g} when other sequences, the mode or the padding "
        f"change. "
        f"BatchNorm's changes by {by_size[small]:.2f} of its size with {small} sequences and "
        f"{by_size[large]:.3f} with {large}: "
        f"as the batch size to the power {exponent:.2f}.",
        *exponent,
    )  # fmt: skip
    most = batch.padding.max()
    padded = batch[(batch.effect == "padding") & (batch.padding == most)]
    change = Estimate.of(padded.groupby("seed").change.mean())
    sizes = padded.groupby("batch_size").change.mean()
    yield Finding(
        "batch_dependence", NOTES, "sequences of different length spoil BatchNorm's statistics",
        "right" if change.low > 0.01 else "not right",
        f"With {most:.0%} of padding in the statistics, BatchNorm's output of a real token changes by "
        f"{change:.2f} of its "
        f"size, in large batches too ({sizes.iloc[-1]:.2f} with {sizes.index[-1]} sequences).",
        *change,
    )  # fmt: skip


def score_scale_findings(table: pd.DataFrame) -> Iterator[Finding]:
    normal, bare = table[table.source == "normal"], table[~table.divided]
    spread = power("d_k", "score_std", bare[bare.source == "normal"])
    after = Estimate.of(normal[normal.divided].groupby("seed").score_std.mean())
    yield Finding(
        "score_scale", NOTES, "the variance of a score grows as d_k; the division by sqrt(d_k) undoes it",
        "right" if abs(spread.mean - 0.5) < 0.02 and abs(after.mean - 1) < 0.05 else "not right",
        f"For standard normal queries and keys the standard deviation grows as d_k to the power {spread:.3f}, and is "
        f"{after:.3f} after the division.",
        *spread,
    )  # fmt: skip
    wide = normal[normal.d_k == normal.d_k.max()]
    kept = {divided: Estimate.of(part.entropy_share) for divided, part in wide.groupby("divided")}
    gradient = wide.groupby("divided").gradient.mean()
    yield Finding(
        "score_scale", NOTES, "without the division softmax saturates and gradients become poor",
        "right" if kept[False].high < kept[True].low else "not right",
        f"At d_k = {normal.d_k.max()} attention has {kept[False]:.1%} of the largest entropy without the "
        f"division and "
        f"{kept[True]:.1%} with it; the trace of the softmax's Jacobian is {gradient[False]:.2f} and "
        f"{gradient[True]:.2f}.",
        *kept[False],
    )  # fmt: skip
    ones = bare[bare.source == "normal_mean_1"]
    level, spread = power("d_k", "score_mean", ones), power("d_k", "score_std", ones)
    yield Finding(
        "score_scale", NOTES, "with components around 1 a score grows as d_k, therefore it is divided", "in part",
        f"Its mean grows as d_k to the power {level:.3f}, but softmax does not see what all keys share; the spread, "
        f"which it sees, grows to the power {spread:.3f}, and that is what the division is for.",
        *level,
    )  # fmt: skip
    for source, name in (("majority", "majority models"), ("language_model", "language models")):
        part = table[(table.source == source) & table.divided & (table.variant == "layernorm")]
        if part.empty:
            continue
        size = Estimate.of(part.groupby("seed").score_std.mean())
        yield Finding(
            "score_scale", NOTES, f"divided scores stay in a reasonable range ({name}, LayerNorm)",
            "right" if part.score_std.max() < 2 else "in part",
            f"After training the divided scores have a standard deviation of {size:.2f} (d_k = {part.d_k.iloc[0]}; "
            f"{part.score_std.min():.2f} to {part.score_std.max():.2f} over runs, layers and heads), where "
            f"random unit "
            "normals have 1: the division sets the start, training the rest.",
            *size,
        )  # fmt: skip


def worked_numbers_findings(table: pd.DataFrame) -> Iterator[Finding]:
    counts = table.verdict.value_counts()
    right, follows, wrong = (int(counts.get(verdict, 0)) for verdict in ("right", "follows", "not right"))
    clean = table.groupby("example").verdict.agg(lambda verdicts: (verdicts == "right").all())
    yield Finding(
        "worked_numbers", NOTES, "the worked numbers", "in part",
        f"Of {len(table)} computed numbers {right} are right as rounded there, {follows} follow from an "
        f"earlier rounding or "
        f"mistake, {wrong} are not right; {int(clean.sum())} of {len(clean)} examples are right throughout.",
        right / len(table), np.nan, np.nan,
    )  # fmt: skip
