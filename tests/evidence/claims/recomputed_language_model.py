"""The claims about scaling, random keys and language models, computed again from the tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

import numpy as np
import pandas as pd
from plain import arrival, best

from layernorm_roles.gaussian_keys import expected_unselectable

# Losses


SEEN: dict = {}
"""What `runs` found, with the tables that it was found in: they are asked for often."""


def runs(t, model: str, steps: int | None = None) -> pd.DataFrame:
    """The last rows of the longest runs, of each seed at the rate that suits the other half of its seeds best."""
    if (id(t), model, steps) not in SEEN:
        SEEN[id(t), model, steps] = t, _runs(t, model, steps)
    return SEEN[id(t), model, steps][1]


FURTHER = {"gpt_lengths": ("gpt_rates", "gpt"), "bytes_lengths": ("bytes_rates", "gpt_bytes")}


def rows(t, model: str) -> pd.DataFrame:
    """The rows of a model; of one of several lengths also those of a further length, and of no attention after it."""
    m = t["language_model_metrics"]
    own = m[m.model == model]
    if model not in FURTHER or own.empty:
        return own
    rates, one = FURTHER[model]
    more = m[(m.model == rates) & ~m.steps.isin(set(own.steps))]
    if "no_attention" in set(more.variant):
        return pd.concat([own, more])
    bare = m[(m.model == one) & (m.variant == "no_attention") & m.steps.isin(set(more.steps))]
    return pd.concat([own, more, bare])


def _runs(t, model: str, steps: int | None) -> pd.DataFrame:
    m = rows(t, model)
    m = m[(m.steps == (m.steps.max() if steps is None else steps)) & (m.step == m.steps)]
    chosen = [m.iloc[:0]]
    for _, v in m.groupby("variant"):
        rates, seeds = sorted(set(v.base_learning_rate)), sorted(set(v.seed))
        for seed, run in v.groupby("seed"):
            half = v[[(seeds.index(s) - seeds.index(seed)) % 2 == 1 for s in v.seed]]
            rate = (
                half.groupby("base_learning_rate").valid_loss.mean().idxmin()
                if len(rates) > 1 and len(half)
                else rates[0]
            )
            if len(rates) == 1 or len(half):
                chosen.append(run[run.base_learning_rate == rate])
    return pd.concat(chosen)


def final(tables, model: str, column: str = "valid_loss", steps: int | None = None) -> pd.DataFrame:
    """One row a seed, one column a variant, at the last step."""
    return runs(tables, model, steps).set_index(["seed", "variant"])[column].unstack()


BASES = {"gpt_rates": "gpt", "gpt_lengths": "gpt", "bytes_rates": "gpt_bytes", "bytes_lengths": "gpt_bytes"}


def difference(t, model: str, high: str, low: str, column: str = "valid_loss", steps=None) -> pd.Series:
    losses = final(t, model, column, steps)
    if not {high, low} <= set(losses):
        return pd.Series(dtype=float)
    return (losses[high] - losses[low]).dropna()


def value(t, model: str, variant: str = "layernorm") -> pd.Series:
    """What attention is worth, by seed; models with lists are held against a mean."""
    if model not in BASES:
        return difference(t, model, "no_attention", variant)
    return bare(t, model) - final(t, model)[variant].dropna()


def bare(t, model: str) -> float:
    own = final(t, model)
    return (own if "no_attention" in own else final(t, BASES.get(model, model))).no_attention.mean()


SCALING = ("projection", "layernorm")


def gap(model):
    return lambda t: difference(t, model, *SCALING).mean()


def closing(t, model) -> pd.Series:
    """From the first length after which attention is worth half of what it is in the longest training."""
    m, gaps, worth = rows(t, model), [], []
    for steps in sorted(set(m.steps[m.variant == "layernorm"])):
        losses = final(t, model, steps=steps)
        without = losses.no_attention.mean() if "no_attention" in losses else bare(t, model)
        worth.append(without - losses.layernorm.mean())
        gaps.append(difference(t, model, *SCALING, steps=steps))
    learnt = [gap for gap, w in zip(gaps, worth, strict=True) if w >= worth[-1] / 2]
    return (learnt[0] - learnt[-1]).dropna()


def half(t, model) -> float:
    """The loss of a run that has got half of what attention is worth to LayerNorm."""
    return (bare(t, model) + final(t, model).layernorm.mean()) / 2


def stable_rates(t, model) -> pd.Series:
    """Logarithm of the largest rate at which each seed trains with LayerNorm over that without scaling; 0 for none."""
    m = t["language_model_metrics"].query("model == @model and step == steps")
    rates = m.base_learning_rate * (m.valid_loss <= half(t, model))
    largest = rates.groupby([m.seed, m.variant]).max().unstack()
    return np.log(largest.layernorm / largest.projection).dropna()


def learnt(t, model: str = "bytes_rates") -> float:
    """The ratio of the steps to half of attention without scaling and with it, each seed at its soonest rate."""
    m, found = t["language_model_metrics"].query("model == @model"), []
    for variant in SCALING:
        runs = m[m.variant == variant].groupby(["seed", "base_learning_rate"])
        steps = pd.Series({key: arrival(run, "valid_loss", half(t, model)) for key, run in runs}).unstack()
        rates = [best(steps.iloc[(i + 1) % 2 :: 2]) for i in range(len(steps))]
        found.append(np.log([steps.iloc[i][rate] for i, rate in enumerate(rates)]))
    return float(np.exp(np.median(np.subtract.outer(*found))))


# Keys


def trained_keys(t, model: str, variant: str, site: str, texts: str = "long") -> pd.DataFrame:
    """The rows on the keys of trained models among all keys of their contexts."""
    k = t["key_selectability"].query("not causal and checkpoint == 'final'")
    return k[(k.model == model) & (k.variant == variant) & (k.site == site) & (k.texts == texts)]


def percent(k: pd.DataFrame, *by: str) -> pd.Series:
    """Per cent of unselectable keys, mean over the rows with equal values of `by`."""
    return (100 * k.n_unselectable / k.n_keys).groupby([k[name] for name in by]).mean()


def by_layer(model, variant, site):
    """Mean over seeds of the mean over layers of the mean over contexts and heads."""
    return lambda t: (
        percent(trained_keys(t, model, variant, site), "seed", "layer").unstack().mean(axis=1).mean()
    )


def hit(t, model, variant) -> pd.Series:
    """Per cent of sentences with an unselectable key, by seed."""
    k = trained_keys(t, model, variant, "after_norm", "sentences")
    worst = k.pivot_table(index=["seed", "context"], values="n_unselectable", aggfunc="max").n_unselectable
    return worst.gt(0).groupby("seed").mean() * 100


def head_widths(t) -> float:
    """By how many points more keys are unselectable than of Gaussian keys, mean over the models of other widths."""
    points = []
    for model in sorted({name for name in t["key_selectability"].model if "heads_" in name}):
        k = trained_keys(t, model, "layernorm", "head")
        law = np.mean(
            [100 * expected_unselectable(n, d) / n for n, d in zip(k.n_keys, k.dimensions, strict=True)]
        )
        points.append(percent(k, "seed") - law)
    return pd.concat(points, axis=1, join="inner").mean(axis=1).mean()


# Random keys


def matrices(t, query: str) -> float:
    cells = t["random_keys"].query(query)
    return 100 * (cells.any_unselectable * cells.matrices).sum() / cells.matrices.sum()


def small_corner(t) -> str:
    bare = t["random_keys"].query("norm == 'none'")
    return f"norm == 'none' and n == {bare.n.max()} and d == {bare.d.min()}"


MODELS = {"": ("gpt", "gpt_rates", "gpt_lengths"), "_bytes": ("gpt_bytes", "bytes_rates", "bytes_lengths")}


RECOMPUTED = {
    "attention_learnt": learnt,
    "random_keys": lambda t: matrices(t, small_corner(t)),
    "random_keys_layernorm": lambda t: matrices(t, "norm == 'layernorm'"),
    "table_1": by_layer("gpt", "projection", "after_norm"),
    "table_1_bytes": by_layer("gpt_bytes", "projection", "after_norm"),
    "table_2": by_layer("gpt", "layernorm", "before_norm"),
    "project_keys_bytes": lambda t: difference(t, "gpt_bytes", "layernorm", "scale").mean(),
    "table_3": lambda t: hit(t, "gpt", "projection").mean(),
    "table_4": lambda t: hit(t, "bert", "none").mean(),
    "heads": by_layer("gpt", "layernorm", "head"),
    "heads_qk_norm": by_layer("gpt", "layernorm_qk", "head"),
    "head_widths": head_widths,
}
for end, (one, several, longer) in MODELS.items():
    RECOMPUTED |= {
        f"attention_worth{end}": lambda t, model=one: value(t, model).mean(),
        f"attention_worth{end}_lengths": lambda t, model=longer: value(t, model).mean(),
        f"loss_gap{end}": gap(one),
        f"loss_gap_best_rate{end}": gap(several),
        f"loss_gap_keys{end}": gap(several),
        f"loss_gap_lengths{end}": lambda t, model=longer: closing(t, model).mean(),
        f"stability{end}": lambda t, model=several: float(np.exp(stable_rates(t, model).mean())),
    }
"""For each claim the function that computes `measured` from the tables of a reproduction."""
