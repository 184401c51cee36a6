"""The claims about scaling, random keys and language models, computed again by code that shares none with evidence."""

from functools import partial

import numpy as np
import pandas as pd
from plain import arrivals, at_best_rates

from layernorm_roles.gaussian_keys import expected_unselectable

# Losses


def final(t, model: str) -> pd.DataFrame:
    """Losses of the longest runs, at the rate that suits the other half of the seeds."""
    m = t["language_model_metrics"]
    m = m[m.model == model]
    m = m[(m.steps == m.steps.max()) & (m.step == m.steps)]
    m = at_best_rates(m, "valid_loss") if m.base_learning_rate.nunique() > 1 else m
    return m.set_index(["seed", "variant"]).valid_loss.unstack()


BASES = {"gpt_rates": "gpt", "bytes_rates": "gpt_bytes"}


def bare(t, model: str) -> float:
    own = final(t, model)
    return (own if "no_attention" in own else final(t, BASES.get(model, model))).no_attention.mean()


def gap(model, high="projection", low="layernorm"):
    return lambda t: final(t, model).reindex(columns=[low, high]).diff(axis=1)[high].mean()


PAPER_RATE = "gpt_paper_rate"


def size_and_scaling(t) -> tuple[float, float]:
    """What a small input and what leaving out the scaling add to the loss, of the seeds that ran with all four."""
    f = final(t, PAPER_RATE)[["layernorm", "layernorm_shrunk", "projection", "projection_grown"]].dropna()
    size = (f.layernorm_shrunk - f.layernorm).mean() + (f.projection - f.projection_grown).mean()
    scaling = (f.projection_grown - f.layernorm).mean() + (f.projection - f.layernorm_shrunk).mean()
    return size / 2, scaling / 2


def short_of_attention(t) -> float:
    """The loss without attention minus projection's, less a quarter of what attention is worth."""
    f = final(t, PAPER_RATE)
    return (0.75 * f.no_attention - f.projection + 0.25 * f.layernorm).mean()


def scores(t) -> pd.DataFrame:
    """What scores of 0 add to the loss at the end: a row a seed, a column a variant."""
    own = t["language_model_attention"].query("model == @PAPER_RATE and layer.isna()")
    return own[own.step == own.step.max()].pivot(index="seed", columns="variant", values="zero_scores_worth")


def beyond_half_in_scores(t) -> float:
    """What scores are worth less with small queries and keys, less half of that with a small LayerNorm."""
    f = scores(t)
    return (f.layernorm / 2 - f.shrunk_qk + f.layernorm_shrunk / 2).mean()


def half(t, model) -> float:
    """The loss of a run that has got half of what attention is worth to LayerNorm."""
    return (bare(t, model) + final(t, model).layernorm.mean()) / 2


def midway(t, model) -> float:
    """The loss half way between that of the tokens' frequencies and that without attention."""
    unigram = t["language_model_metrics"].query("model == @model").unigram_loss.iloc[0]
    return (unigram + bare(t, model)) / 2


def stable_rates(t, model, loss) -> pd.Series:
    """Logarithm of the largest rate at which each seed trains with LayerNorm over that without scaling; 0 for none."""
    m = t["language_model_metrics"].query("model == @model and step == steps")
    m = m[m.steps == m.steps.max()]
    rates = m.base_learning_rate * (m.valid_loss <= loss(t, model))
    largest = rates.groupby([m.seed, m.variant]).max().unstack().dropna(subset=["layernorm", "projection"])
    return np.log(largest.layernorm / largest.projection).fillna(0)


def learnt(t, model: str = "gpt_bytes") -> float:
    """The ratio of the steps to half of attention without scaling and with it; of runs that never do, the last."""
    m = t["language_model_metrics"].query("model == @model")
    runs = arrivals(m[m.steps == m.steps.max()], ["seed", "variant"], "valid_loss", half(t, model))
    steps = np.log(runs.steps.fillna(runs.last_step)).unstack()
    return float(np.exp((steps.projection - steps.layernorm).mean()))


# Keys


def of_keys(t, model, variant, site, texts="long", causal=False, checkpoint="final") -> pd.DataFrame:
    """The rows on the keys of trained models among all keys of their contexts, or among those before them."""
    k = t["key_selectability"].query("causal == @causal and checkpoint == @checkpoint")
    return k[(k.model == model) & (k.variant == variant) & (k.site == site) & (k.texts == texts)]


def percent(k: pd.DataFrame, *by: str) -> pd.Series:
    """Per cent of unselectable keys, mean over the rows with equal values of `by`."""
    return (100 * k.n_unselectable / k.n_keys).groupby([k[name] for name in by]).mean()


def by_layer(model, variant, site, **options):
    """Mean over seeds of the mean over layers of the mean over contexts and heads."""
    return lambda t: percent(of_keys(t, model, variant, site, **options), "seed", "layer").mean()


def hit(t, model, variant) -> pd.Series:
    """Per cent of sentences with an unselectable key, by seed."""
    k = of_keys(t, model, variant, "after_norm", "sentences")
    worst = k.groupby(["seed", "context"]).n_unselectable.max()
    return worst.gt(0).groupby("seed").mean() * 100


def head_widths(t, checkpoint="final") -> float:
    """By how many points more keys are unselectable than of Gaussian keys, mean over the models of other widths."""
    points = []
    for model in sorted({name for name in t["key_selectability"].model if "heads_" in name}):
        k = of_keys(t, model, "layernorm", "head", checkpoint=checkpoint)
        sizes = zip(k.n_keys, k.dimensions, strict=True)
        points.append(percent(k, "seed") - np.mean([100 * expected_unselectable(n, d) / n for n, d in sizes]))
    return pd.concat(points, axis=1, join="inner").mean(axis=1).mean()


# Random keys


def matrices(t, query: str) -> float:
    cells = t["random_keys"].query(query)
    return 100 * (cells.any_unselectable * cells.matrices).sum() / cells.matrices.sum()


def small_corner(t) -> str:
    bare = t["random_keys"].query("norm == 'none'")
    return f"norm == 'none' and n == {bare.n.max()} and d == {bare.d.min()}"


# Size as a learning rate


def arm(t, table, model, variant, rate) -> pd.DataFrame:
    rows = t[table]
    rows = rows[
        (rows.model == model) & (rows.variant == variant) & (rows.query_key_rate.round(3) == round(rate, 3))
    ]
    return rows[rows.step == rows.steps].drop_duplicates("seed").set_index("seed")


def given_back(t) -> float:
    """What uniform attention adds to a small LayerNorm's loss at the paper's rate, times 35 minus as it is."""
    own = partial(arm, t, "language_model_attention", "step_size_paper_small", "layernorm_shrunk")
    return (own(35.355339).zero_scores_worth - own(1.0).zero_scores_worth).mean()


def above_layernorm(t) -> float:
    small = arm(t, "language_model_metrics", "step_size_paper_small", "layernorm_shrunk", 35.355339)
    large = arm(t, "language_model_metrics", "step_size_paper_layernorm", "layernorm", 1.0)
    return (small.valid_loss - large.valid_loss).mean()


def third_of_the_rate(t) -> float:
    """Loss at a product of 0.316 minus that at 1, mean over four sizes and the five seeds that all have."""
    models = "step_size_bytes_"
    pairs = [
        (("law_1", "layernorm", 0.31622777), ("layernorm", "layernorm", 1.0)),
        (("law_316", "qk_316", 1.0), ("law_316", "qk_316", 3.1622777)),
        (("law_100", "qk_100", 3.1622777), ("law_100", "qk_100", 10.0)),
        (("law_028", "shrunk_qk", 11.18034), ("small", "shrunk_qk", 35.355339)),
    ]
    gaps = []
    for pair in pairs:
        slow, fast = (
            arm(t, "language_model_metrics", models + name, variant, rate).valid_loss
            for name, variant, rate in pair
        )
        gaps.append((slow - fast)[lambda gap: gap.index < 60_005])
    return pd.concat(gaps, axis=1).mean(axis=1).mean()


RECOMPUTED = {
    "rate_not_size": given_back,
    "restored": above_layernorm,
    "one_curve": third_of_the_rate,
    "attention_learnt": learnt,
    "random_keys": lambda t: matrices(t, small_corner(t)),
    "random_keys_layernorm": lambda t: matrices(t, "norm == 'layernorm'"),
    "attention_worth": gap("gpt", "no_attention"),
    "attention_worth_bytes": gap("gpt_bytes", "no_attention"),
    "table_1": by_layer("gpt", "projection", "after_norm"),
    "table_1_bytes": by_layer("gpt_bytes", "projection", "after_norm"),
    "table_1_paper_rate": by_layer(PAPER_RATE, "projection", "after_norm"),
    "table_2": by_layer("gpt", "layernorm", "before_norm"),
    "table_2_paper_rate": by_layer(PAPER_RATE, "layernorm", "before_norm"),
    "loss_gap": gap(PAPER_RATE),
    "loss_gap_short": gap("gpt"),
    "loss_gap_best_rate": gap("gpt_rates"),
    "loss_gap_best_rate_bytes": gap("bytes_rates"),
    "loss_gap_keys": gap(PAPER_RATE, low="layernorm_shrunk"),
    "attention_needs_size": lambda t: (scores(t).projection_grown - scores(t).projection).mean(),
    "size_or_scaling": lambda t: size_and_scaling(t)[0],
    "gap_is_attention": short_of_attention,
    "size_in_scores": beyond_half_in_scores,
    "stability": lambda t: float(np.exp(stable_rates(t, "gpt_rates", midway).mean())),
    "stability_bytes": lambda t: float(np.exp(stable_rates(t, "bytes_rates", half).mean())),
    "project_keys_bytes": gap("gpt_bytes", "layernorm", "scale"),
    "table_3": lambda t: hit(t, "gpt", "projection").mean(),
    "heads": by_layer("gpt", "layernorm", "head", causal=True),
    "heads_qk_norm": by_layer("gpt", "layernorm_qk", "head"),
    "head_widths": head_widths,
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""

CONTROLS = {
    "table_1": by_layer("gpt", "projection", "after_norm", checkpoint="initial"),
    "table_1_paper_rate": by_layer(PAPER_RATE, "projection", "after_norm", checkpoint="initial"),
    "table_2_paper_rate": by_layer(PAPER_RATE, "layernorm", "before_norm", checkpoint="initial"),
    "loss_gap": gap(PAPER_RATE, low="layernorm_shrunk"),
    "loss_gap_short": gap("gpt_rates"),
    "loss_gap_best_rate_bytes": gap("bytes_rates", "projection_scalar"),
    "size_or_scaling": lambda t: size_and_scaling(t)[1],
    "heads_qk_norm": by_layer("gpt", "layernorm", "head"),
    "loss_gap_keys": lambda t: np.nan,  # in another unit
    "head_widths": partial(head_widths, checkpoint="initial"),
}
"""Functions that compute `control_measured`, of claims that the kept reproduction does not all have."""
