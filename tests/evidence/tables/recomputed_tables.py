"""The numbers of every readable table, computed again from the Parquet tables with other, plain code.

Nothing here comes from layernorm_roles: a mistake there must not be repeated by import. A function takes the tables of
a reproduction by name and returns the rows of a CSV file in any order; the index tells the rows apart.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from plain import gaussian, interval

PILOT = Path(__file__).parents[3] / "src/layernorm_roles/evidence/analysis/pilot_gpt_bytes.csv"
SETTING = ["experiment", "d_model", "base_learning_rate"]
RUN = [*SETTING, "variant", "seed"]
LOSSES = (1.0, 0.5, 0.35, 0.25)
REACHED = (0.5, 0.1, 0.01)


def estimate(values) -> tuple[float, float, float]:
    """Mean and ends of Student's interval; of a single value no interval, of none nothing."""
    return pd.Series(values, dtype=float).mean(), *interval(values)[1:]


def named(prefix: str, values, ends=("_low", "_high")) -> dict[str, float]:
    return dict(zip((prefix, *(prefix + end for end in ends)), estimate(values), strict=True))


def table(rows: list[dict], *keys: str) -> pd.DataFrame:
    return pd.DataFrame(rows).set_index([*keys])


# Majority


def arrivals(metrics: pd.DataFrame, level: float) -> pd.DataFrame:
    """Columns steps (to the test loss `level`, on a straight line over log(1 + step)) and last_step; a row a run."""
    m = metrics.sort_values("step").reset_index(drop=True)
    before = m.groupby(RUN)[["step", "test_loss"]].shift()
    share = (before.test_loss - level) / (before.test_loss - m.test_loss)
    share = share.where(np.isfinite(before.test_loss), 1.0)
    m["steps"] = (1 + before.step.fillna(0)) ** (1 - share) * (1 + m.step) ** share - 1
    steps = m[m.test_loss <= level].drop_duplicates(RUN).set_index(RUN).steps
    return m.groupby(RUN).step.max().astype(float).to_frame("last_step").join(steps)


def ends(metrics: pd.DataFrame) -> pd.DataFrame:
    """The last row of every run; one that diverged, or ended before others, is as bad as can be."""
    last = metrics.sort_values("step").drop_duplicates(RUN, keep="last")
    lost = ~np.isfinite(last.test_loss) | (last.step < last.groupby("experiment").step.transform("max"))
    return last.assign(
        test_loss=np.where(lost, np.inf, last.test_loss), test_accuracy=np.where(lost, 0, last.test_accuracy)
    )


def ratio(own: pd.DataFrame, other: pd.DataFrame) -> tuple[float, float, float]:
    """Geometric mean of the ratio of steps over seeds of both, with its interval or, of censored runs, a bound."""
    both = own.join(other.add_suffix("_other"), how="inner")
    if both.empty:
        return np.nan, np.nan, np.nan
    never, never_other = both.steps.isna(), both.steps_other.isna()
    neither, above, below = never & never_other, (never & ~never_other).any(), (~never & never_other).any()
    if neither.all() or (above and below):
        return np.nan, 0.0, np.inf
    top = both.steps.clip(lower=1).where(~never, both.last_step)
    bottom = both.steps_other.clip(lower=1).where(~never_other, both.last_step_other)
    mean, low, high = estimate(np.log(top / bottom).where(~neither, 0))
    low = -np.inf if below or (neither.any() and low <= 0) else low
    high = np.inf if above or (neither.any() and high >= 0) else high
    return float(np.exp(mean)), float(np.exp(low)), float(np.exp(high))


def convergence(t):
    rows = []
    for loss in LOSSES:
        runs = arrivals(t["majority_metrics"], loss).reset_index()
        for setting, part in runs.groupby(SETTING):
            variants = {name: runs.set_index("seed") for name, runs in part.groupby("variant")}
            reference = variants.get("layernorm", part.iloc[:0].set_index("seed"))
            for variant, own in variants.items():
                found = {
                    "runs": len(own),
                    "reached": own.steps.count(),
                    "median_steps": np.median(own.steps.fillna(np.inf)),
                    "pairs": own.index.isin(reference.index).sum(),
                }
                columns = ("ratio_to_layernorm", "ratio_low", "ratio_high")
                found |= zip(columns, ratio(own[["steps", "last_step"]], reference), strict=True)
                rows.append(
                    dict(zip(SETTING, setting, strict=True)) | found | {"variant": variant, "test_loss": loss}
                )
    return table(rows, *SETTING, "variant", "test_loss")


def convergence_runs(t):
    found = {loss: arrivals(t["majority_metrics"], loss) for loss in LOSSES}
    return pd.concat(found, names=["test_loss"])


def several(metrics: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows of the experiments with several values in `column`."""
    return metrics[metrics.groupby("experiment")[column].transform("nunique") > 1]


def rates(t):
    metrics = several(t["majority_metrics"], "base_learning_rate")
    steps, rows = arrivals(metrics, 0.5), []
    for (experiment, d, variant), runs in ends(metrics).groupby(["experiment", "d_model", "variant"]):
        losses = runs.pivot(index="seed", columns="base_learning_rate", values="test_loss")
        # A seed is judged at the rate that is best for the others.
        best = [losses.drop(seed).mean().idxmin() for seed in losses.index if len(losses) > 1]
        for rate, own in runs.groupby("base_learning_rate"):
            arrived = steps.loc[experiment, d, rate, variant]
            found = {"runs": len(own), "chosen": best.count(rate), "test_loss": own.test_loss.mean()}
            found |= {"test_accuracy": own.test_accuracy.mean(), "reached": arrived.steps.count()}
            found["accuracy_low"], found["accuracy_high"] = interval(own.test_accuracy)[1:]
            log = named("steps", np.log(arrived.steps.fillna(arrived.last_step).clip(lower=1)))
            found |= {name: np.exp(value) for name, value in log.items()}
            if arrived.steps.isna().any():
                found["steps_high"] = np.inf
            place = {"experiment": experiment, "d_model": d, "base_learning_rate": rate, "variant": variant}
            rows.append(place | found)
    return table(rows, *SETTING, "variant")


def widths(t):
    rows = []
    for setting, runs in ends(several(t["majority_metrics"], "d_model")).groupby(SETTING):
        accuracy = runs.pivot(index="seed", columns="variant", values="test_accuracy")
        for variant in accuracy if "scale" in accuracy else ():
            cost = 100 * (accuracy["scale"] - accuracy[variant]).dropna()
            found = {"pairs": len(cost), "test_accuracy": accuracy[variant].mean()} | named("cost", cost)
            rows.append(dict(zip(SETTING, setting, strict=True)) | {"variant": variant} | found)
    return table(rows, *SETTING, "variant")


def size_and_projection(t):
    rows, four = [], ["layernorm", "scale", "layernorm_small", "scale_released"]
    steps = arrivals(t["majority_metrics"], 0.5).steps
    for setting, runs in t["majority_metrics"].groupby(SETTING):
        if not {*four} <= {*runs.variant}:
            continue
        accuracy = runs.set_index(["step", "seed", "variant"]).test_accuracy
        values = {("steps", np.nan): -np.log(steps.loc[setting])}
        values |= {("accuracy", s): 100 * accuracy[s] for s in {2000, runs.step.max()} & {*runs.step}}
        for (quantity, step), value in values.items():
            large, large_bare, small, small_bare = value.unstack("variant")[four].dropna().to_numpy().T
            effects = {
                "size": (large - small + large_bare - small_bare) / 2,
                "projection": (large - large_bare + small - small_bare) / 2,
                "interaction": large - large_bare - small + small_bare,
            }
            for effect, seeds in effects.items():
                mean, low, high = np.exp(estimate(seeds)) if quantity == "steps" else estimate(seeds)
                found = {"quantity": quantity, "step": step, "effect": effect, "pairs": len(seeds)}
                found |= {"mean": mean, "low": low, "high": high}
                rows.append(dict(zip(SETTING, setting, strict=True)) | found)
    return table(rows, *SETTING, "quantity", "step", "effect")


# Keys, tokens and losses of language models

PLACE = ["model", "variant", "site", "checkpoint", "layer"]


def shares(keys: pd.DataFrame, *further: str) -> pd.DataFrame:
    """Per cent of keys, with the half-widths over seeds and over contexts added in quadrature."""
    by, rows = [*PLACE, *further], []
    cells = (
        (100 * keys.n_unselectable / keys.n_keys).groupby([keys[c] for c in (*by, "seed", "context")]).mean()
    )
    sums = keys.groupby(by)[["n_borderline", "n_keys"]].sum()
    for place, values in cells.groupby(by):
        cell = values.droplevel(by).unstack()
        # Of a single seed or context there is no half-width.
        halves = [interval(means)[2] - means.mean() for means in (cell.mean(axis=1), cell.mean(axis=0))]
        mean, half = cell.to_numpy().mean(), np.hypot(*np.nan_to_num(halves))
        found = {"percent": mean, "low": mean - half, "high": mean + half}
        found |= {"seeds": cell.shape[0], "contexts": cell.shape[1]}
        open_ = sums.loc[place]
        found["borderline_percent"] = 100 * open_.n_borderline / open_.n_keys
        rows.append(dict(zip(by, place, strict=True)) | found)
    return table(rows, *by)


def keys_at(t, *sites: str, **where) -> pd.DataFrame:
    k = t["key_selectability"]
    k = k[k.site.isin(sites)]
    for name, value in where.items():
        k = k[k[name] == value]
    return k


def without_scaling(t) -> pd.DataFrame:
    tokens = t["sentence_tokens"]
    return tokens[(tokens.model == "gpt") & (tokens.variant == "projection")]


def table_3(t):
    tokens = without_scaling(t)
    hits = (tokens.verdict == "unselectable").groupby([tokens.checkpoint, tokens.token])
    found = {name: hits.mean()[name] * 100 for name in ("initial", "final")}
    return pd.DataFrame(
        {
            "occurrences": hits.size()["final"],
            "initial_percent": found["initial"],
            "final_percent": found["final"],
        }
    )


def sentences(t) -> list[list[tuple[str, bool]]]:
    """The eight sentences with most unselectable tokens: first seed, trained, first layer; tokens with their marks."""
    tokens = without_scaling(t)
    tokens = tokens[(tokens.seed == tokens.seed.min()) & (tokens.layer == 1) & (tokens.checkpoint == "final")]
    tokens = tokens.assign(marked=tokens.verdict == "unselectable").sort_values("position")
    numbers = tokens.groupby("context").marked.sum()
    chosen = sorted(numbers.index, key=lambda context: (-numbers[context], context))[:8]
    parts = (tokens[tokens.context == context] for context in chosen if numbers[context])
    return [[*zip(part.token, part.marked, strict=True)] for part in parts]


def head_ceilings(t):
    given = t["language_model_ceilings"]
    own = given[given.queries == "any"]
    own = own.assign(queries="own", lower=own.received_max, upper=own.received_max)
    rows, place = [], ["model", "dimensions", "variant", "checkpoint", "queries"]
    for group, part in pd.concat([given, own]).groupby(place):
        names = dict(zip(["model", "d_head", *place[2:]], group, strict=True))
        lesser = part.upper[part.upper < 0.5]
        numbers = {"seeds": part.seed.nunique(), "n_keys": round(part.n_keys.mean())}
        numbers["median"] = np.mean([np.median(uppers) for _, uppers in part.upper.groupby(part.seed)])
        for threshold in REACHED:
            reached = part.upper >= threshold
            open_ = reached & (part.lower < threshold)
            found = {"threshold": threshold, "undecided_percent": 100 * open_.mean()}
            found |= zip(
                ("percent", "low", "high"), estimate(100 * reached.groupby(part.seed).mean()), strict=True
            )
            found["rest_percent"] = 100 * (lesser >= threshold).mean()
            rows.append(names | numbers | found)
    return table(rows, "model", "d_head", "variant", "checkpoint", "queries", "threshold")


def baselines(t):
    rows = []
    for model, m in t["language_model_metrics"].groupby("model"):
        last = m[m.step == m.step.max()].set_index(["seed", "variant"])
        loss, unigram = last.valid_loss.unstack(), last.unigram_loss.unstack()
        bare = loss["no_attention"] if "no_attention" in loss else pd.Series(np.nan, loss.index)
        for variant in loss:
            worth = (bare - loss[variant]).dropna() if variant != "no_attention" else []
            found = {"model": model, "variant": variant, "seeds": loss[variant].count(), "step": m.step.max()}
            found |= {"no_attention_loss": bare.mean(), "unigram_loss": unigram[variant].mean()}
            found |= named("valid_loss", loss[variant].dropna())
            found |= named("gain_over_unigram", (unigram[variant] - loss[variant]).dropna())
            rows.append(found | named("worth_of_attention", worth))
    return table(rows, "model", "variant")


def pilot(_):
    runs, rows = pd.read_csv(PILOT), []
    setting = ["d_model", "heads", "layers", "context_length", "batch_size", "learning_rate", "steps"]
    for place, part in runs.groupby(setting):
        of = {
            name: part[part.variant == name]
            for name in ("layernorm", "projection", "no_attention", "unigram")
        }
        losses = {name: runs.valid_loss.mean() for name, runs in of.items()}
        found = {
            "seeds": of["layernorm"].seed.nunique(),
            "valid_loss": losses["layernorm"],
            "projection_loss": losses["projection"],
            "no_attention_loss": losses["no_attention"],
            "unigram_loss": losses["unigram"],
            "worth_of_attention": losses["no_attention"] - losses["layernorm"],
            "cpu_seconds": of["layernorm"].cpu_seconds.mean(),
        }
        rows.append(dict(zip(setting, place, strict=True)) | found)
    return table(rows, *setting)


# Pretrained models


def of_all_sets(t) -> pd.DataFrame:
    """The ceilings, with what the context's own queries give as those of a third set."""
    given = t["attention_ceilings"]
    own = given[(given.queries == "any") & (given.normalised == "as used")]
    return pd.concat([given, own.assign(queries="own", lower=own.received_max, upper=own.received_max)])


SETS = ["model", "queries", "normalised", "layer"]


def ceilings(t):
    rows = []
    for place, part in of_all_sets(t).groupby(SETS):
        for threshold in REACHED:
            by_context = 100 * (part.upper < threshold).groupby(part.context).mean()
            open_ = (part.lower < threshold) & (part.upper >= threshold)
            found = {"threshold": threshold, "contexts": len(by_context), "heads": part["head"].nunique()}
            found |= zip(("percent", "low", "high"), estimate(by_context), strict=True)
            rows.append(
                dict(zip(SETS, place, strict=True)) | found | {"undecided_percent": 100 * open_.mean()}
            )
    return table(rows, *SETS, "threshold")


def quantiles(t) -> pd.DataFrame:
    """Quantiles of the upper bounds, mean over contexts with its interval; not in a CSV file."""
    rows = []
    for place, part in of_all_sets(t).groupby(SETS):
        for quantile in (0.01, 0.5, 0.99):
            values = [np.quantile(uppers, quantile) for _, uppers in part.upper.groupby(part.context)]
            found = zip(("ceiling", "low", "high"), estimate(values), strict=True)
            rows.append(dict(zip(SETS, place, strict=True)) | {"quantile": quantile} | dict(found))
    return table(rows, *SETS, "quantile")


def ceilings_by_token(t):
    given, parts = t["attention_ceilings"], []
    given = given[(given.queries == "norm") & (given.normalised == "as used")]
    for model, part in given.assign(hit=100.0 * (given.upper < 0.5)).groupby("model"):
        layer = part.groupby("layer").hit.mean().idxmax()
        tokens = part[part.layer == layer].groupby("token")
        by_context = tokens.obj.groupby(["token", "context"]).hit.mean()
        limits = {token: interval(hits)[1:] for token, hits in by_context.groupby("token")}
        found = {
            "occurrences": tokens.obj.groupby(["token", "context"]).position.nunique().groupby("token").sum(),
            "contexts": by_context.groupby("token").size(),
            "percent": by_context.groupby("token").mean(),
            "ceiling": tokens.upper.median(),
            "received": tokens.received_max.max(),
        }
        limits = pd.DataFrame.from_dict(limits, orient="index", columns=["low", "high"])
        parts.append(
            pd.DataFrame(found)
            .join(limits)
            .rename_axis("token")
            .reset_index()
            .assign(model=model, layer=layer)
        )
    return pd.concat(parts).set_index(["model", "layer", "token"])


def cut_heads(t):
    keys, rows = t["pretrained_keys"], []
    keys = keys[keys.site.isin(["head", "head_cut"]) & ~keys.causal]
    for place, part in keys.groupby(["model", "layer", "dimensions"]):
        by_context = (100 * part.n_unselectable / part.n_keys).groupby(part.context).mean()
        n = round(part.n_keys.mean())
        found = {"n_keys": n, "contexts": len(by_context), "gaussian_percent": gaussian(n, place[2])}
        found |= zip(("percent", "low", "high"), estimate(by_context), strict=True)
        found["undecided_percent"] = 100 * part.n_borderline.sum() / part.n_keys.sum()
        rows.append(dict(zip(["model", "layer", "dimensions"], place, strict=True)) | found)
    return table(rows, "model", "layer", "dimensions")


# Numbers that are copied, and worked numbers


def worked_numbers(t):
    numbers = t["worked_numbers"].drop(columns="tolerance").reset_index(drop=True)
    worst = {"right": 0, "carried": 0, "rounding": 1, "hedged": 2, "wrong": 3}
    ranks = numbers.verdict.map(worst).groupby(numbers.example).transform("max")
    numbers["example_verdict"] = ranks.map({0: "right", 1: "rounding", 2: "hedged", 3: "wrong"})
    return numbers.rename_axis("row")


RECOMPUTED = {
    "convergence": convergence,
    "convergence_runs": convergence_runs,
    "rates": rates,
    "widths": widths,
    "size_and_projection": size_and_projection,
    "table_1": lambda t: shares(keys_at(t, "after_norm", "after_norm_exact", texts="long", causal=False)),
    "table_2": lambda t: shares(
        keys_at(t, "before_norm", "after_norm", texts="long", causal=False, variant="layernorm")
    ),
    "table_3": table_3,
    "table_4": lambda t: shares(keys_at(t, "after_norm", model="bert", causal=False)),
    "heads": lambda t: shares(keys_at(t, "head", "head_exact", texts="long"), "causal"),
    "head_ceilings": head_ceilings,
    "baselines": baselines,
    "pilot": pilot,
    "gaussian_law": lambda t: t["gaussian_law"].set_index(["d", "share", "causal"]),
    "ceilings": ceilings,
    "ceilings_by_token": ceilings_by_token,
    "cut_heads": cut_heads,
    "claims": lambda t: t["claims"].drop(columns="setting").set_index("claim"),
    "worked_numbers": worked_numbers,
}
"""For each readable table the function that computes the rows of its CSV file from the tables of a reproduction."""


def sentence_shares(t) -> pd.DataFrame:
    """The last grid of Table 3: shares of all tokens of the sentences, for each model without scaling."""
    return shares(keys_at(t, "after_norm", texts="sentences", variant="projection", causal=False))
