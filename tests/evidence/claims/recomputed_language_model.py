"""The claims about scaling, random keys and language models, computed again from the tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

import numpy as np
import pandas as pd
from plain import best, gaussian, interval
from scipy import stats
from scipy.special import betaincinv

PAPER_TABLES = {"table_1": [51.0, 32.2, 34.7, 36.8], "table_2": [44.8, 28.5, 22.3, 26.1]}
PAPER_GAPS = {"train_loss": 0.04, "valid_loss": 0.05}


def word(*findings: str) -> str:
    """What a claim of the paper gets whose isolating comparison is its own."""
    for finding, verdict in (
        ("absent", "not reproduced"),
        ("undecided", "not tested"),
        ("smaller", "partial"),
    ):
        if set(findings) == {"reversed"}:
            return "reversed"
        if finding in findings or (finding == "absent" and "reversed" in findings):
            return verdict
    return "reproduced"


def finding(values, e: float) -> str:
    """An effect of which the paper reports e."""
    mean, low, high = interval(values)
    if low > 0:
        return "seen" if mean >= e / 2 else "smaller"
    return "reversed" if high < 0 else "absent" if high < e / 2 else "undecided"


# Losses


OURS = {
    "reproduced": "holds",
    "not reproduced": "does not hold",
    "reversed": "does not hold",
    "confounded": "partial",
}
"""What the verdicts on claims of the paper are called elsewhere."""


SEEN: dict = {}
"""What `runs` found, with the tables that it was found in: they are asked for often."""


def runs(t, model: str, steps: int | None = None) -> pd.DataFrame:
    """The last rows of the longest runs, of each seed at the rate that suits the other half of its seeds best.

    Column `outer`: whether that rate is the first or last of at least three.
    """
    if (id(t), model, steps) not in SEEN:
        SEEN[id(t), model, steps] = t, _runs(t, model, steps)
    return SEEN[id(t), model, steps][1]


def _runs(t, model: str, steps: int | None) -> pd.DataFrame:
    m = t["language_model_metrics"].query("model == @model")
    m = m[(m.steps == (m.steps.max() if steps is None else steps)) & (m.step == m.steps)]
    chosen = [m.iloc[:0].assign(outer=False)]
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
                outer = len(rates) > 2 and rate in (rates[0], rates[-1])
                chosen.append(run[run.base_learning_rate == rate].assign(outer=outer))
    return pd.concat(chosen)


def outer(t, model: str, *variants: str, steps: int | None = None) -> bool:
    r = runs(t, model, steps)
    return bool(r[r.variant.isin(variants)].outer.any()) or not {*variants} <= {*r.variant}


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


def uses_attention(tables, model: str, variant: str) -> bool:
    """Is the variant clearly better than without attention, and than unigram where there is a unigram loss?"""
    if variant not in final(tables, model):
        return False
    worth = interval(value(tables, model, variant))[1] > 0
    gain = (final(tables, model, "unigram_loss")[variant] - final(tables, model)[variant]).dropna()
    return bool(worth and (gain.empty or interval(gain)[1] > 0))


SCALING = ("projection", "layernorm")


def any_uses(t, model: str) -> bool:
    return any(uses_attention(t, model, variant) for variant in SCALING)


def gap(model):
    return lambda t: difference(t, model, *SCALING).mean()


def in_two(own: str, isolated: str) -> str:
    """What a claim of the paper gets that has a control."""
    if own in ("reversed", "absent"):
        return {"absent": "not reproduced"}.get(own, own)
    if "undecided" in (own, isolated):
        return "not tested"
    if isolated in ("absent", "reversed"):
        return "confounded"
    return "reproduced" if own == isolated == "seen" else "partial"


def gap_of_both(t, model: str) -> str:
    found = {finding(difference(t, model, *SCALING, c), e) for c, e in PAPER_GAPS.items()}
    order = ("absent", "reversed", "undecided", "smaller", "seen")
    worst = next(kind for kind in order if kind in found)
    return "absent" if worst == "reversed" and len(found) > 1 else worst


def gap_verdict(model, rates):
    def verdict(t):
        if not any_uses(t, model):
            return "not tested"
        isolated = "undecided"
        if not outer(t, rates, *SCALING):
            isolated = finding(difference(t, rates, *SCALING), PAPER_GAPS["valid_loss"])
        return in_two(gap_of_both(t, model), isolated)

    return verdict


def best_verdict(t, model):
    if outer(t, model, *SCALING) or not any_uses(t, model):
        return "not tested"
    isolated = "seen"
    if not outer(t, model, "projection_scalar", "layernorm"):
        isolated = finding(difference(t, model, "projection_scalar", "layernorm"), PAPER_GAPS["valid_loss"])
    return in_two(gap_of_both(t, model), isolated)


def closing(t, model) -> pd.Series:
    lengths = t["language_model_metrics"].query("model == @model").steps
    ends = [difference(t, model, *SCALING, steps=steps) for steps in (lengths.min(), lengths.max())]
    return (ends[0] - ends[1]).dropna()


def lengths_verdict(model):
    def verdict(t):
        steps = t["language_model_metrics"].query("model == @model").steps.unique()
        if any(outer(t, model, *SCALING, steps=s) for s in steps) or not any_uses(t, model):
            return "not tested"
        return of_parts(finding(closing(t, model), PAPER_GAPS["valid_loss"]))

    return verdict


def half(t, model) -> float:
    """The loss of a run that has got half of what attention is worth to LayerNorm."""
    return (bare(t, model) + final(t, model).layernorm.mean()) / 2


def stable_rates(t, model) -> pd.Series:
    """Logarithm of the largest rate at which each seed trains with LayerNorm over that without scaling."""
    m = t["language_model_metrics"].query("model == @model and step == steps")
    trained = m[m.valid_loss <= half(t, model)]
    largest = trained.groupby(["seed", "variant"]).base_learning_rate.max().unstack()
    return np.log(largest.layernorm / largest.projection).dropna()


def stability_verdict(model):
    def verdict(t):
        m = t["language_model_metrics"].query("model == @model and step == steps and variant in @SCALING")
        if (m[m.valid_loss <= half(t, model)].base_learning_rate == m.base_learning_rate.max()).any():
            return "not tested"
        return of_parts(direction(stable_rates(t, model))) if any_uses(t, model) else "not tested"

    return verdict


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


def learnt_verdict(t) -> str:
    (without, with_scaling), ends = soonest(t)
    if ends or not any_uses(t, "bytes_rates"):
        return "not tested"
    sides = [
        stats.mannwhitneyu(without, with_scaling, alternative=side, method="exact").pvalue <= 0.025
        for side in ("greater", "less")
    ]
    return of_parts("seen" if sides[0] else "reversed" if sides[1] else "undecided")


def direction(values) -> str:
    _, low, high = interval(values)
    return "seen" if low > 0 else "reversed" if high < 0 else "undecided"


def worth_verdict(model, least):
    def verdict(t):
        if outer(t, model, "layernorm"):
            return "not tested"
        _, low, high = interval(value(t, model))
        gains = final(t, model, "unigram_loss")["layernorm"] - final(t, model)["layernorm"]
        gain = interval(gains.dropna())
        if high <= least or gain[2] < 0:
            return "does not hold"
        return "holds" if low > least and gain[1] > 0 else "not tested"

    return verdict


def of_parts(*findings: str) -> str:
    """What a question with these parts gets."""
    there, not_there = ({*findings} & {*kinds} for kinds in (("seen", "smaller"), ("absent", "reversed")))
    if not there and "undecided" not in findings:
        return "does not hold"
    if there and not_there:
        return "partial"
    return "not tested" if "undecided" in findings else "holds" if set(findings) == {"seen"} else "partial"


def gap_keys_verdict(model, rates):
    def verdict(t):
        if not uses_attention(t, model, "projection") or not any_uses(t, rates) or outer(t, rates, *SCALING):
            return "not tested"
        where = {"model": model, "variant": "projection", "texts": "long", "site": "after_norm"}
        shares = keys(t, checkpoint="final", **where).mean(axis=1)
        isolated = finding(shares, np.mean(PAPER_TABLES["table_1"]))
        return in_two(finding(difference(t, rates, *SCALING), 0.05), isolated)

    return verdict


def project_keys_verdict(t):
    if not any(uses_attention(t, "gpt_bytes", v) for v in ("layernorm", "scale", "projected_qk")):
        return "not tested"
    return of_parts(
        *(finding(difference(t, "gpt_bytes", "layernorm", v), 0.05) for v in ("scale", "projected_qk"))
    )


# Keys


def keys(tables, column="n_unselectable", **where) -> pd.DataFrame:
    """Per cent of keys, one row a seed and one column a layer: mean over contexts and heads."""
    k = tables["key_selectability"].query("not causal")
    for name, value in where.items():
        k = k[k[name] == value]
    percent = pd.Series(100 * k[column] / k.n_keys, index=k.index)
    return percent.groupby([k.seed, k.layer]).mean().unstack()


def at_most_one(tables, **where) -> str:
    """Is each layer at most at 1 %, undecided keys counted?"""
    found, open_ = keys(tables, **where), keys(tables, "n_borderline", **where)
    layers = []
    for layer in found:
        _, low, _ = interval(found[layer])
        _, _, high = interval(found[layer] + open_[layer])
        layers.append("absent" if low > 1 else "seen" if high <= 1 else "undecided")
    return "absent" if "absent" in layers else "undecided" if "undecided" in layers else "seen"


def more_than_one(values) -> str:
    _, low, high = interval(values)
    return "seen" if low > 1 else "absent" if high <= 1 else "undecided"


def by_layer(model, variant, site, checkpoint="final"):
    where = {"texts": "long", "checkpoint": checkpoint}
    return lambda t: keys(t, model=model, variant=variant, site=site, **where).mean(axis=1).mean()


def by_layer_verdict(table, model, variant, site):
    def verdict(t):
        if not all(uses_attention(t, model, v) for v in (variant, "layernorm")):
            return "not tested"
        where = {"model": model, "texts": "long", "checkpoint": "final"}
        many = keys(t, variant=variant, site=site, **where)
        layers = [finding(many[i], e) for i, e in enumerate(PAPER_TABLES[table], 1) if i in many]
        return word(*layers, at_most_one(t, variant="layernorm", site="after_norm", **where))

    return verdict


def isolated_word(own: str, isolated: str) -> str:
    """What a claim of the paper without a number gets."""
    if own == "absent":
        return "not reproduced"
    if "undecided" in (own, isolated):
        return "not tested"
    return "reproduced" if isolated == "seen" else "confounded"


def hit(t, model, variant) -> pd.Series:
    """Per cent of sentences with an unselectable key, by seed."""
    k = t["key_selectability"].query(
        "not causal and model == @model and variant == @variant and texts == 'sentences'"
        " and checkpoint == 'final' and site == 'after_norm'"
    )
    worst = k.pivot_table(index=["seed", "context"], values="n_unselectable", aggfunc="max").n_unselectable
    return worst.gt(0).groupby("seed").mean() * 100


def sentences_verdict(model, variant):
    def verdict(t):
        if not all(uses_attention(t, model, v) for v in (variant, "layernorm")):
            return "not tested"
        where = {"model": model, "texts": "sentences", "checkpoint": "final", "site": "after_norm"}
        return isolated_word(
            more_than_one(hit(t, model, variant)), at_most_one(t, variant="layernorm", **where)
        )

    return verdict


def heads_verdict(model, variant, control):
    def verdict(t):
        if not all(uses_attention(t, model, v) for v in (variant, control)):
            return "not tested"
        where = {"model": model, "texts": "long", "checkpoint": "final", "site": "head"}
        own = at_most_one(t, variant=variant, **where)
        isolated = more_than_one(keys(t, variant=control, **where).mean(axis=1))
        if own == "absent":
            where["site"] = "head_exact"
            exact = keys(t, variant=variant, **where)
            by_eps = len(exact.columns) and all(interval(exact[i])[2] <= 1 for i in exact)
            return "partial" if by_eps else "does not hold"
        return (
            "not tested" if "undecided" in (own, isolated) else "holds" if isolated == "seen" else "partial"
        )

    return verdict


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


def head_widths_verdict(t) -> str:
    m, parts = t["language_model_metrics"].query("step == steps"), []
    bare = m.query("model == 'gpt_bytes' and variant == 'no_attention'").set_index("seed").valid_loss
    for model, f in beyond_gaussian(t).items():
        own = m[(m.model == model) & (m.variant == "layernorm")].set_index("seed")
        if not all(
            interval(d.dropna())[1] > 0 for d in (bare - own.valid_loss, own.unigram_loss - own.valid_loss)
        ):
            return "not tested"
        law, most = f.law.iloc[0], max(1, 2 * f.law.iloc[0])
        _, low, high = interval(f.certified)
        _, _, worst = interval(f.certified + f.open)
        enough = "seen" if law <= 1 or low > law / 2 else "absent" if high <= law / 2 else "undecided"
        few = "absent" if low > most else "seen" if worst <= most else "undecided"
        parts.append(next((w for w in ("absent", "undecided") if w in (enough, few)), "seen"))
    return of_parts(*parts)


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


def none_found(t, query: str) -> str:
    if matrices(t, query)[1] > 1:
        return "absent"
    return "seen" if matrices(t, query, undecided=True)[2] <= 1 else "undecided"


def random_keys_verdict(t):
    _, low, high = matrices(t, small_corner(t))
    many = "seen" if low > 95 else "absent" if high <= 95 else "undecided"
    return word(many, none_found(t, "norm == 'none' and d >= 13"))


def random_keys_layernorm_verdict(t):
    isolated = [more_than_one_matrix(t, norm) for norm in ("none", "projection")]
    isolated.append(none_found(t, "norm == 'scale'"))
    together = next((kind for kind in ("absent", "undecided") if kind in isolated), "seen")
    return isolated_word(none_found(t, "norm == 'layernorm'"), together)


def more_than_one_matrix(t, norm) -> str:
    _, low, high = matrices(t, f"norm == '{norm}'")
    return "seen" if low > 1 else "absent" if high <= 1 else "undecided"


MODELS = {"": ("gpt", "gpt_rates", "gpt_lengths"), "_bytes": ("gpt_bytes", "bytes_rates", "bytes_lengths")}
LEAST = {"": 0.05, "_bytes": 0.3}

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

VERDICTS = {
    "attention_learnt": learnt_verdict,
    "random_keys": random_keys_verdict,
    "random_keys_layernorm": random_keys_layernorm_verdict,
    "table_1": by_layer_verdict("table_1", "gpt", "projection", "after_norm"),
    "table_1_bytes": by_layer_verdict("table_1", "gpt_bytes", "projection", "after_norm"),
    "table_2": by_layer_verdict("table_2", "gpt", "layernorm", "before_norm"),
    "project_keys_bytes": project_keys_verdict,
    "table_3": sentences_verdict("gpt", "projection"),
    "table_4": sentences_verdict("bert", "none"),
    "heads": heads_verdict("gpt", "layernorm", "projection"),
    "heads_qk_norm": heads_verdict("gpt", "layernorm_qk", "layernorm"),
    "head_widths": head_widths_verdict,
}


def in_our_words(verdict):
    return lambda t: OURS.get(verdict(t), verdict(t))


for end, (one, several, longer) in MODELS.items():
    VERDICTS |= {
        f"attention_worth{end}": worth_verdict(one, LEAST[end]),
        f"attention_worth{end}_lengths": worth_verdict(longer, LEAST[end]),
        f"loss_gap{end}": gap_verdict(one, several),
        f"loss_gap_best_rate{end}": in_our_words(lambda t, model=several: best_verdict(t, model)),
        f"loss_gap_keys{end}": gap_keys_verdict(one, several),
        f"loss_gap_lengths{end}": lengths_verdict(longer),
        f"stability{end}": stability_verdict(several),
    }
for name in ("loss_gap_bytes", "loss_gap_keys_bytes", "table_1_bytes"):
    VERDICTS[name] = in_our_words(VERDICTS[name])
"""For each claim the function that reaches a verdict from the tables of a reproduction."""
