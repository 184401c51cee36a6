"""The claims about scaling, random keys and language models, computed again from the tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

import numpy as np
import pandas as pd
from plain import best, gaussian
from scipy.special import betaincinv

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
    """The mean loss without attention."""
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


def arrival(run: pd.DataFrame, loss: float) -> float:
    """The step at which a run first has a loss, on a straight line over log(1 + step); infinite if never."""
    run = run.sort_values("step").reset_index(drop=True)
    low = run.index[run.valid_loss <= loss]
    if not len(low):
        return np.inf
    before, after = run.loc[low[0] - 1], run.loc[low[0]]
    share = (before.valid_loss - loss) / (before.valid_loss - after.valid_loss)
    return (1 + before.step) ** (1 - share) * (1 + after.step) ** share - 1


def soonest(t, model: str = "bytes_rates") -> tuple[list[np.ndarray], bool]:
    """Logarithms of the steps to half of attention without scaling and with it; and whether a rate ends the grid."""
    m, found, ends = t["language_model_metrics"].query("model == @model"), [], False
    for variant in SCALING:
        runs = m[m.variant == variant].groupby(["seed", "base_learning_rate"])
        steps = pd.Series({key: arrival(run, half(t, model)) for key, run in runs}).unstack()
        rates = [best(steps.iloc[(i + 1) % 2 :: 2]) for i in range(len(steps))]
        ends |= bool({*rates} & {steps.columns[0], steps.columns[-1]})
        found.append(np.log([steps.iloc[i][rate] for i, rate in enumerate(rates)]))
    return found, ends


def learnt(t) -> float:
    (without, with_scaling), _ = soonest(t)
    return float(np.exp(np.median([x - y for x in without for y in with_scaling])))


# Keys


def keys(tables, column="n_unselectable", **where) -> pd.DataFrame:
    """Per cent of keys, one row a seed and one column a layer: mean over contexts and heads."""
    k = tables["key_selectability"].query("not causal")
    for name, value in where.items():
        k = k[k[name] == value]
    percent = pd.Series(100 * k[column] / k.n_keys, index=k.index)
    return percent.groupby([k.seed, k.layer]).mean().unstack()


def by_layer(model, variant, site, checkpoint="final"):
    where = {"texts": "long", "checkpoint": checkpoint}
    return lambda t: keys(t, model=model, variant=variant, site=site, **where).mean(axis=1).mean()


def hit(t, model, variant) -> pd.Series:
    """Per cent of sentences with an unselectable key, by seed."""
    k = t["key_selectability"].query(
        "not causal and model == @model and variant == @variant and texts == 'sentences'"
        " and checkpoint == 'final' and site == 'after_norm'"
    )
    worst = k.pivot_table(index=["seed", "context"], values="n_unselectable", aggfunc="max").n_unselectable
    return worst.gt(0).groupby("seed").mean() * 100


LADDER = ("bytes_heads_8", "bytes_heads_16", "bytes_heads_32")


def beyond_gaussian(t) -> dict[str, pd.DataFrame]:
    """For each model of the ladder: per cent, with undecided keys, and Gaussian per cent, a row a seed."""
    found, rows = (
        {},
        t["key_selectability"].query("texts == 'long' and site == 'head' and variant == 'layernorm'"),
    )
    rows = rows[(rows.checkpoint == "final") & ~rows.causal]
    for model in LADDER:
        r = rows[rows.model == model]
        law = np.mean([gaussian(n, d) for n, d in zip(r.n_keys, r.dimensions, strict=True)])
        shares = {
            "certified": 100 * r.n_unselectable / r.n_keys,
            "open": 100 * r.n_borderline / r.n_keys,
        }
        found[model] = pd.DataFrame(shares).groupby(r.seed).mean().assign(law=law)
    return found


def head_widths(t) -> float:
    points = [f.certified - f.law for f in beyond_gaussian(t).values()]
    return pd.concat(points, axis=1, join="inner").mean(axis=1).mean()


# Random keys


def matrices(t, query: str, undecided: bool = False) -> tuple[float, float, float]:
    """Per cent of matrices with an unselectable key; Clopper and Pearson's interval from the beta distribution."""
    cells = t["random_keys"].query(query)
    n = cells.matrices.sum()
    x = (cells.any_unselectable * cells.matrices).round().sum() + undecided * cells.n_borderline.sum()
    low = betaincinv(x, n - x + 1, 0.025) if x else 0.0
    high = betaincinv(x + 1, n - x, 0.975) if x < n else 1.0
    return 100 * x / n, 100 * low, 100 * high


def small_corner(t) -> str:
    bare = t["random_keys"].query("norm == 'none'")
    return f"norm == 'none' and n == {bare.n.max()} and d == {bare.d.min()}"


MODELS = {"": ("gpt", "gpt_rates", "gpt_lengths"), "_bytes": ("gpt_bytes", "bytes_rates", "bytes_lengths")}


RECOMPUTED = {
    "attention_learnt": learnt,
    "random_keys": lambda t: matrices(t, small_corner(t))[0],
    "random_keys_layernorm": lambda t: matrices(t, "norm == 'layernorm'")[0],
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
