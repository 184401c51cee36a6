"""Measured quantities for claims of other documents about LayerNorm: an essay, a question, and lecture notes.

The essay has LayerNorm as h(g(f(x))), with f a projection, g a scaling, h gain and bias. The question on W_O asks when
one matrix can do the work of W_O and W_1. Lecture notes speak of LayerNorm before the parts of a layer or after them,
of BatchNorm, and of the division of attention scores by sqrt(d_k).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from layernorm_roles.evidence.analysis import statements
from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.comparison import Tables, Value, require
from layernorm_roles.evidence.claims.quantities import BEFORE_TRAINING, Measured, Quantity

# Geometry: nothing is random but the inputs, and the ends of the estimates are the range over the sizes of a vector


def geometry(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return how far LayerNorm and RMSNorm deviate from what an essay says about their geometry.

    Columns are for LayerNorm's difference from torch's, and for how far its outputs are from an ellipsoid and RMSNorm's
    from a sphere. Each is the largest deviation over inputs and sizes n of a vector, with its range over n.
    """
    table = tables["geometry"]
    same = table[(table.quantity == "difference_from_torch") & (table.eps_placement == "inside")]
    by_n = {"difference from torch's layer_norm, float64": same.groupby("n").value.max()}
    for norm, surface, full in (("layernorm", "ellipsoid", "(n - 1)"), ("rmsnorm", "sphere", "n")):
        # the axes of large vectors are not computed
        shape, projected = table[table.input_norm.isna() & (table.norm == norm)], norm == "layernorm"
        require(len(shape), f"The run has no ellipsoid of {norm}.")
        shape = shape.pivot(index="n", columns="quantity", values="value")
        parts = shape.filter(["axes_deviation", "axes_cosine", *["centre_deviation"] * projected])
        by_n[f"{norm}, deviation from the {surface}"] = parts.max(axis=1)
        by_n[f"{norm}, rank minus {full}"] = (shape["rank"] - shape.index + projected).abs()
    return Measured(known={name: Value.range_over(values) for name, values in by_n.items()})


def radius(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return how far the length of LayerNorm's outputs is from sqrt(n), relative to sqrt(n), for vectors of size n.

    Columns for eps inside and outside the root are over inputs with a root mean square of at least 0.001 (CLOSE), and
    the column for the difference between both is over all inputs. Each is the largest deviation and its range over n.
    """
    rows = tables["geometry"].query("quantity == 'radius_mean'")
    rows = rows[rows.eps == rows.eps.max()]
    radii = rows.pivot(index=["n", "input_norm"], columns="eps_placement", values="value")
    n, length = (radii.index.get_level_values(name) for name in ("n", "input_norm"))
    away = radii[length / np.sqrt(n) >= rules.CLOSE]
    off = {f"eps {place}, away from the origin": away[place] - 1 for place in ("inside", "outside")}
    off["between eps inside and outside"] = radii.outside - radii.inside
    return Measured(
        known={name: Value.range_over(each.abs().groupby("n").max()) for name, each in off.items()}
    )


def missed(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return, by seed, the percentage of held-out variance that the best linear map of all heads' outputs misses.

    The map predicts the input of the feed-forward nonlinearity. Columns are for what stands between W_O and W_1
    (nothing, residual, norm or both), in the widest random blocks, those of each width d, and trained models.
    """
    parts = {}
    for name, rows in tables["fusion"].groupby("arrangement"):
        random = rows[rows.source == "random"]
        parts[name] = random[random.d == random.d.max()]
        parts[f"{name}, trained language models"] = rows[rows.source != "random"]
        parts |= {f"{name}, d = {d}": part for d, part in random.groupby("d")}
    means = {name: part.groupby("seed").error.mean() for name, part in parts.items() if len(part)}
    return Measured(100 * pd.DataFrame(means))


# Pre-norm and post-norm

PLACES = {"pre": "pre-norm", "post": "post-norm", "none": "no LayerNorm"}
"""What the report calls the placements of LayerNorm in a network, by their values in the tables."""


def final_loss_gap(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return post-norm's final loss minus pre-norm's (nats per token) in the deepest and in the shallowest networks.

    There is a row for each seed. For either depth, columns are for each learning rate and for the mean over rates. The
    difference is 0 if both networks diverge.
    """
    losses = statements.final_losses(tables["placement"])
    ends = losses[losses.depth.isin([losses.depth.max(), losses.depth.min()])]
    wide = ends.pivot(index=["depth", "learning_rate", "seed"], columns="placement", values="loss").dropna()
    gaps = (wide.post - wide.pre).where(np.isfinite(wide).any(axis=1), 0.0).rename("gap").reset_index()
    frames = []
    for name, depth in (("deepest", gaps.depth.max()), ("shallowest", gaps.depth.min())):
        own = gaps[gaps.depth == depth].pivot(index="seed", columns="learning_rate", values="gap")
        frames.append(own.mean(axis=1).rename(f"{name}, mean over rates"))
        frames.append(own.rename(columns=lambda rate, name=name: f"{name}, rate {rate:g}"))
    number = int(np.isinf(ends.loss).sum())
    note = f"{number} of these runs diverged and count as infinitely bad." if number else ""
    return Measured(pd.concat(frames, axis=1), note=note)


def first_gradient_change(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return by how many powers of ten the first layer's gradient grows from the shallowest to the deepest networks.

    The networks are untrained; rows are seeds, columns kinds of network. Values are negative where gradients vanish
    with depth, and infinite beyond the range of float32. Raises Untestable if all networks have one depth.
    """
    table = tables["untrained_gradients"]
    require(table.depth.nunique() > 1, "The run has untrained networks of a single depth.")
    norms = table.pivot(index="seed", columns=["depth", "residual", "placement"], values="gradient_norm")
    with np.errstate(divide="ignore"):
        decades = np.log10(norms[table.depth.max()] / norms[table.depth.min()])
    words = {True: "with residual connections", False: "without residual connections"}
    order = [(residual, name) for residual in words for name in PLACES if (residual, name) in decades]
    names = [f"{words[residual]}, {PLACES[name]}" for residual, name in order]
    return Measured(decades[order].set_axis(names, axis=1))


def positions(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return by how many percentage points residual connections raise the share of positions that a probe names.

    There is a row for each seed. The linear probe reads the last residual stream of pre-norm networks, in columns for
    trained and for untrained ones. Further columns also subtract the accuracy of guessing.
    """
    shares = statements.position_accuracies(tables["position_probe"]).query("placement == 'pre'")
    last = shares[shares.layer == shares.layer.max()]
    wide = last.pivot(index="seed", columns=["trained", "residual"], values="percent")
    wide = wide.reindex(columns=pd.MultiIndex.from_product([(False, True), (False, True)]))
    guessed, values = 100 / tables["position_probe"].context_length.max(), {}
    for beginning, trained in (("", True), (BEFORE_TRAINING, False)):
        gap = wide[trained, True] - wide[trained, False]
        values[f"{beginning}with residual connections minus without"] = gap
        values[f"{beginning}with them minus without and minus guessing"] = gap - guessed
    return Measured(pd.DataFrame(values))


# The batch, and attention scores


def change_with_the_batch(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return, by seed, how much the outputs of BatchNorm and LayerNorm change with the rest of the batch.

    Changes are root mean squares; outputs are about 1. Columns: the exponent p with which BatchNorm's change goes as
    (batch size)^p, LayerNorm's largest change, and BatchNorm's change for each batch size and share of padding.
    """
    table = tables["batch_dependence"]
    layernorm, batchnorm = (table[table.norm == norm] for norm in ("layernorm", "batchnorm"))
    others, padded = (batchnorm[batchnorm.effect == effect] for effect in ("others", "padding"))
    both = len(layernorm) and others.batch_size.nunique() > 1
    require(both, "The run lacks a norm, or has a single batch size.")
    by_size = others.pivot_table(index="seed", columns="batch_size", values="change")
    by_padding = padded.pivot_table(index="seed", columns="padding", values="change")
    columns = [
        statements.exponents(others, "batch_size", "change").rename("batchnorm's exponent"),
        layernorm.groupby("seed").change.max().rename("layernorm, largest change"),
        by_size.rename(columns="batchnorm, {} sequences".format),
        by_padding.rename(columns="batchnorm, {:.0%} of padding".format),
    ]
    return Measured(pd.concat(columns, axis=1))


def softmax(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return, for each seed, the entropy of attention and the trace of the softmax's Jacobian at the largest d_k.

    Both have a column for scores divided by sqrt(d_k) and one for scores without the division. The entropy is in per
    cent of the entropy of equal weights.
    """
    normal = tables["score_scale"].query("source == 'normal'")
    widest = normal[normal.d_k == normal.d_k.max()].assign(entropy=100 * normal.entropy_share)
    wide = widest.pivot(index="seed", columns="divided", values=["entropy", "gradient"])
    names = [f"{what} {'divided' if divided else 'without division'}" for what, divided in wide]
    return Measured(wide.set_axis(names, axis=1))


def score_exponents(tables: Tables, _: str | None, columns: Sequence[str]) -> Measured:
    """Return, by seed, the exponents p with which mean and standard deviation of attention scores grow as d_k^p.

    Scores are not divided; queries and keys are random, with components of mean 1. Raises Untestable for a single d_k.
    """
    ones = tables["score_scale"].query("source == 'normal_mean_1' and not divided")
    require(ones.d_k.nunique() > 1, "The run has a single d_k.")
    both = {"mean": "score_mean", "standard deviation": "score_std"}
    slopes = {name: statements.exponents(ones, "d_k", column) for name, column in both.items()}
    return Measured(pd.DataFrame(slopes))


_LOSS = "final training loss, post-norm minus pre-norm, no warm-up"
_GRADIENT = "decades by which the first layer's gradient changes with depth"
_ENTROPY = "entropy of attention, per cent of the largest"
_LARGEST = "largest difference, float64"
_CHANGE = "change of the output with the batch, or its exponent"
_MISSED, _RADIUS = "variance that a single map misses", "difference from the radius √n"
QUANTITIES = {
    "geometry": Quantity(geometry, "", _LARGEST, ("difference from torch*", "layernorm, *")),
    "sphere": Quantity(geometry, " off", _LARGEST, ("rmsnorm, *",)),
    "radius": Quantity(radius, " √n", _RADIUS, ("between *", "eps *"), ("CLOSE",)),
    "missed_by_a_single_map": Quantity(missed, " %", _MISSED, ("plain", "residual*", "norm*")),
    "final_loss_gap": Quantity(final_loss_gap, " nats", _LOSS, ("deepest, *", "shallowest, *")),
    "first_gradient_change": Quantity(first_gradient_change, " decades", _GRADIENT, ("with*",)),
    "positions_named": Quantity(positions, " points", "accuracy of a probe for the position", ("with *",)),
    "change_with_the_batch": Quantity(change_with_the_batch, "", _CHANGE, ("batchnorm*", "layernorm, *")),
    "softmax_at_the_largest_d_k": Quantity(softmax, " %", _ENTROPY, ("entropy *",)),
    "softmax_gradient": Quantity(softmax, "", "trace of the softmax's Jacobian", ("gradient *",)),
    "score_exponents": Quantity(score_exponents, "", "exponent of d_k", ("mean", "standard deviation")),
}
"""Quantities that claims of other documents can compare, by the names that YAML entries use."""
