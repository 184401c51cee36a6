"""The claims about scaling, random keys and language models, computed again from the tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import.
"""

import numpy as np
import pandas as pd
from plain import gaussian, interval
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


def final(tables, model: str, column: str = "valid_loss") -> pd.DataFrame:
    """One row a seed, one column a variant, at the last step."""
    m = tables["language_model_metrics"].query("model == @model")
    return m[m.step == m.step.max()].set_index(["seed", "variant"])[column].unstack()


def difference(tables, model: str, high: str, low: str, column: str = "valid_loss") -> pd.Series:
    losses = final(tables, model, column)
    if not {high, low} <= set(losses):
        return pd.Series(dtype=float)
    return (losses[high] - losses[low]).dropna()


def uses_attention(tables, model: str, variant: str) -> bool:
    """Is the variant clearly better than without attention, and than unigram where there is a unigram loss?"""
    worth = interval(difference(tables, model, "no_attention", variant))[1] > 0
    gain = (final(tables, model, "unigram_loss")[variant] - final(tables, model)[variant]).dropna()
    return bool(worth and (gain.empty or interval(gain)[1] > 0))


def gap(model):
    return lambda t: difference(t, model, "projection", "layernorm").mean()


def gap_verdict(model):
    def verdict(t):
        if not (uses_attention(t, model, "projection") or uses_attention(t, model, "layernorm")):
            return "not tested"
        found = [
            finding(difference(t, model, "projection", "layernorm", c), e) for c, e in PAPER_GAPS.items()
        ]
        isolated = finding(difference(t, model, "projection", "layernorm_shrunk"), PAPER_GAPS["valid_loss"])
        own = word(*found)
        if own in ("reversed", "not reproduced", "not tested") or isolated == "undecided":
            return own if own in ("reversed", "not reproduced") else "not tested"
        return "confounded" if isolated in ("absent", "reversed") else word(*found, isolated)

    return verdict


def worth(model):
    return lambda t: difference(t, model, "no_attention", "layernorm").mean()


def worth_verdict(model, least):
    def verdict(t):
        _, low, high = interval(difference(t, model, "no_attention", "layernorm"))
        gains = final(t, model, "unigram_loss")["layernorm"] - final(t, model)["layernorm"]
        gain = interval(gains.dropna())
        if high <= least or gain[2] < 0:
            return "does not hold"
        return "holds" if low > least and gain[1] > 0 else "not tested"

    return verdict


def of_parts(*findings: str) -> str:
    """What a question with these parts gets."""
    there, not_there = ({*findings} & {*kinds} for kinds in (("seen", "smaller"), ("absent", "reversed")))
    if set(findings) == {"reversed"}:
        return "reversed"
    if not there and "undecided" not in findings:
        return "does not hold"
    if there and not_there:
        return "partial"
    return "not tested" if "undecided" in findings else "holds" if set(findings) == {"seen"} else "partial"


def gap_keys_verdict(model):
    def verdict(t):
        if not (uses_attention(t, model, "projection") or uses_attention(t, model, "layernorm")):
            return "not tested"
        own = finding(difference(t, model, "projection", "layernorm"), 0.05)
        where = {"model": model, "variant": "projection", "texts": "long", "site": "after_norm"}
        isolated = finding(
            keys(t, checkpoint="final", **where).mean(axis=1), np.mean(PAPER_TABLES["table_1"])
        )
        if own in ("reversed", "absent", "undecided") or isolated == "undecided":
            return "not tested" if "undecided" == isolated and own in ("seen", "smaller") else word(own)
        return "confounded" if isolated in ("absent", "reversed") else word(own, isolated)

    return verdict


def widths_verdict(t):
    models = ("gpt", "gpt_bytes")
    if not all(any(uses_attention(t, m, v) for v in ("projection", "layernorm")) for m in models):
        return "not tested"
    return of_parts(*(finding(difference(t, m, "projection", "layernorm"), 0.05) for m in models))


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
        if control == "projection":
            return isolated_word(own, isolated)
        if own == "absent":
            return "does not hold"
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
    m, parts = t["language_model_metrics"].query("step == step.max()"), []
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


RECOMPUTED = {
    "random_keys": lambda t: matrices(t, small_corner(t))[0],
    "random_keys_layernorm": lambda t: matrices(t, "norm == 'layernorm'")[0],
    "attention_worth": worth("gpt"),
    "attention_worth_bytes": worth("gpt_bytes"),
    "table_1": by_layer("gpt", "projection", "after_norm"),
    "table_1_bytes": by_layer("gpt_bytes", "projection", "after_norm"),
    "table_2": by_layer("gpt", "layernorm", "before_norm"),
    "table_2_bytes": by_layer("gpt_bytes", "layernorm", "before_norm"),
    "loss_gap": gap("gpt"),
    "loss_gap_bytes": gap("gpt_bytes"),
    "loss_gap_keys": gap("gpt"),
    "loss_gap_keys_bytes": gap("gpt_bytes"),
    "loss_gap_widths": gap("gpt_bytes"),
    "project_keys_bytes": lambda t: difference(t, "gpt_bytes", "layernorm", "scale").mean(),
    "table_3": lambda t: hit(t, "gpt", "projection").mean(),
    "table_4": lambda t: hit(t, "bert", "none").mean(),
    "heads": by_layer("gpt", "layernorm", "head"),
    "heads_bytes": by_layer("gpt_bytes", "layernorm", "head"),
    "heads_qk_norm": by_layer("gpt", "layernorm_qk", "head"),
    "head_widths": head_widths,
}
"""For each claim the function that computes `measured` from the tables of a reproduction."""

VERDICTS = {
    "random_keys": random_keys_verdict,
    "random_keys_layernorm": random_keys_layernorm_verdict,
    "attention_worth": worth_verdict("gpt", 0.05),
    "attention_worth_bytes": worth_verdict("gpt_bytes", 0.3),
    "table_1": by_layer_verdict("table_1", "gpt", "projection", "after_norm"),
    "table_1_bytes": by_layer_verdict("table_1", "gpt_bytes", "projection", "after_norm"),
    "table_2": by_layer_verdict("table_2", "gpt", "layernorm", "before_norm"),
    "table_2_bytes": by_layer_verdict("table_2", "gpt_bytes", "layernorm", "before_norm"),
    "loss_gap": gap_verdict("gpt"),
    "loss_gap_bytes": gap_verdict("gpt_bytes"),
    "loss_gap_keys": gap_keys_verdict("gpt"),
    "loss_gap_keys_bytes": gap_keys_verdict("gpt_bytes"),
    "loss_gap_widths": widths_verdict,
    "project_keys_bytes": project_keys_verdict,
    "table_3": sentences_verdict("gpt", "projection"),
    "table_4": sentences_verdict("bert", "none"),
    "heads": heads_verdict("gpt", "layernorm", "projection"),
    "heads_bytes": heads_verdict("gpt_bytes", "layernorm", "projection"),
    "heads_qk_norm": heads_verdict("gpt", "layernorm_qk", "layernorm"),
    "head_widths": head_widths_verdict,
}
"""For each claim the function that reaches a verdict from the tables of a reproduction."""
