"""The numbers of readable tables and of figures, computed again from the Parquet tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import. A function takes the
tables of a reproduction by name and returns the rows of a CSV file in any order; the index tells the rows apart.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from plain import arrivals, at_best_rates, interval

SETTING = ["experiment", "d_model", "base_learning_rate"]
RUN = [*SETTING, "variant", "seed"]
POINT = ["base_learning_rate", "steps", "query_key_rate"]


def estimate(values) -> tuple[float, float, float]:
    """Mean and ends of Student's interval; of a single value no interval, of none nothing."""
    return pd.Series(values, dtype=float).mean(), *interval(values)[1:]


def named(prefix: str, values, *ends: str) -> dict[str, float]:
    return dict(zip((prefix, *(ends or (f"{prefix}_low", f"{prefix}_high"))), estimate(values), strict=True))


def by(frame: pd.DataFrame, keys: list[str], row: Callable[[pd.DataFrame], dict]) -> pd.DataFrame:
    """What `row` makes of the rows with equal `keys`, which are the index."""
    found = [dict(zip(keys, place, strict=True)) | row(part) for place, part in frame.groupby(keys)]
    return pd.DataFrame(found, columns=None if found else keys).set_index(keys)


def several(table: pd.DataFrame, group: str, *columns: str) -> pd.Series:
    """Whether the experiment or model of each row has several values in one of the columns."""
    return table.groupby(group)[[*columns]].transform("nunique").gt(1).any(axis=1)


# Majority


def ends(metrics: pd.DataFrame) -> pd.DataFrame:
    """The last row of every run; one that diverged, or ended before others, is as bad as can be."""
    last = metrics.sort_values("step").drop_duplicates(RUN, keep="last")
    lost = ~np.isfinite(last.test_loss) | (last.step < last.groupby("experiment").step.transform("max"))
    return last.assign(
        test_loss=last.test_loss.mask(lost, np.inf), test_accuracy=last.test_accuracy.mask(lost, 0)
    )


def rates(t):
    metrics = t["majority_metrics"]
    metrics = metrics[several(metrics, "experiment", "base_learning_rate")]
    last = ends(metrics).merge(arrivals(metrics, RUN, "test_loss", 0.5).steps, on=RUN)
    best = pd.concat(at_best_rates(own, "test_loss") for _, own in last.groupby(["experiment", "d_model"]))
    last["chosen"] = last.set_index(RUN).index.isin(best.set_index(RUN).index)

    def row(own):
        arrived = np.log(own.steps.fillna(own.step).clip(lower=1))
        found = {"runs": len(own), "reached": own.steps.count(), "test_loss": own.test_loss.mean()}
        found |= named("test_accuracy", own.test_accuracy, "accuracy_low", "accuracy_high")
        found |= {name: np.exp(value) for name, value in named("steps", arrived).items()}
        found |= {"steps_high": np.inf} if own.steps.isna().any() else {}
        return found | {"chosen": own.chosen.sum()}

    return by(last, [*SETTING, "variant"], row)


def widths(t):
    metrics = t["majority_metrics"]
    last = ends(metrics[several(metrics, "experiment", "d_model")])
    scale = last[last.variant == "scale"].set_index([*SETTING, "seed"]).test_accuracy.rename("of_scale")
    last = last.join(scale, on=[*SETTING, "seed"])

    def row(own):
        cost = 100 * (own.of_scale - own.test_accuracy).dropna()
        return {"pairs": len(cost), "test_accuracy": own.test_accuracy.mean()} | named("cost", cost)

    return by(last, [*SETTING, "variant"], row)


def size_and_projection(t):
    rows, four = [], ["layernorm", "scale", "layernorm_small", "scale_released"]
    steps = arrivals(t["majority_metrics"], RUN, "test_loss", 0.5).steps
    for setting, runs in t["majority_metrics"].groupby(SETTING):
        if not {*four} <= {*runs.variant}:
            continue
        accuracy = runs.set_index(["step", "seed", "variant"]).test_accuracy
        values = {("steps", np.nan): -np.log(steps.loc[setting])}
        last = runs.step.max()
        early = min({*runs.step} - {0}, key=lambda step: (abs(step - last / 5), step))
        values |= {("accuracy", step): 100 * accuracy[step] for step in {early, last}}
        for (quantity, step), value in values.items():
            large, large_bare, small, small_bare = value.unstack("variant")[four].dropna().to_numpy().T
            effects = {
                "size": (large - small + large_bare - small_bare) / 2,
                "projection": (large - large_bare + small - small_bare) / 2,
                "interaction": large - large_bare - small + small_bare,
            }
            for effect, seeds in effects.items():
                numbers = np.exp(estimate(seeds)) if quantity == "steps" else estimate(seeds)
                rows.append((*setting, quantity, step, effect, len(seeds), *numbers))
    keys = [*SETTING, "quantity", "step", "effect"]
    return pd.DataFrame(rows, columns=[*keys, "pairs", "mean", "low", "high"]).set_index(keys)


# Keys, tokens and losses of language models


def shares(keys: pd.DataFrame, *further: str) -> pd.DataFrame:
    """Per cent of keys, with the half-widths over seeds and over contexts added in quadrature."""

    def row(part):
        cell = (100 * part.n_unselectable / part.n_keys).groupby([part.seed, part.context]).mean().unstack()
        # Of a single seed or context there is no half-width.
        halves = [interval(means)[2] - means.mean() for means in (cell.mean(axis=1), cell.mean(axis=0))]
        mean, half = cell.to_numpy().mean(), np.hypot(*np.nan_to_num(halves))
        found = {"percent": mean, "low": mean - half, "high": mean + half, "seeds": len(cell)}
        borderline = 100 * part.n_borderline.sum() / part.n_keys.sum()
        return found | {"contexts": len(cell.columns), "borderline_percent": borderline}

    return by(keys, ["model", "variant", "site", "checkpoint", "layer", *further], row)


def keys_at(t, *sites: str, **where) -> pd.DataFrame:
    k = t["key_selectability"]
    return k[k.site.isin(sites) & (k[[*where]] == pd.Series(where)).all(axis=1)]


def without_scaling(t) -> pd.DataFrame:
    tokens = t["sentence_tokens"].query("model == 'gpt' and variant == 'projection'")
    return tokens.assign(marked=tokens.verdict == "unselectable")


def table_3(t):
    hits = without_scaling(t).pivot_table("marked", "token", "checkpoint", ["mean", "size"])
    found = {f"{name}_percent": 100 * hits["mean", name] for name in ("initial", "final")}
    return pd.DataFrame(found | {"occurrences": hits["size", "final"]})


def sentences(t) -> list[list[tuple[str, bool]]]:
    """The eight sentences with most unselectable tokens: first seed, trained, first layer; tokens with their marks."""
    tokens = without_scaling(t).query("layer == 1 and checkpoint == 'final'").sort_values("position")
    tokens = tokens[tokens.seed == tokens.seed.min()]
    numbers = tokens.groupby("context").marked.sum()
    chosen = sorted(numbers.index, key=lambda context: (-numbers[context], context))[:8]
    parts = (tokens[tokens.context == context] for context in chosen if numbers[context])
    return [[*zip(part.token, part.marked, strict=True)] for part in parts]


# Pretrained models


def ceilings(t):
    pairs = t["attention_pairs"]
    own = pairs.query("queries == 'any' and normalised == 'as used'")  # likewise what the text's queries give
    pairs = pd.concat([pairs, own.assign(queries="own", lower=own.received_max, upper=own.received_max)])

    def row(part):
        level = part.threshold.iloc[0]
        below, open_ = part.upper < level, (part.lower < level) & (part.upper >= level)
        found = {"contexts": part.context.nunique(), "heads": part["head"].nunique()}
        found["undecided_percent"] = 100 * open_.mean()
        return found | named("percent", 100 * below.groupby(part.context).mean(), "low", "high")

    pairs = pairs.merge(pd.DataFrame({"threshold": (0.5, 0.1, 0.01)}), "cross")
    return by(pairs, ["threshold", "model", "queries", "normalised", "layer"], row)


RECOMPUTED = {
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
    "ceilings": ceilings,
}
"""Functions that compute the rows of Tables 1 to 4, and the numbers behind figures, from Parquet tables."""


def agree(csv: pd.DataFrame, recomputed: pd.DataFrame) -> None:
    """The rows and columns are the recomputed ones, whatever their order."""
    keys = [*recomputed.index.names]
    frames = (
        frame.fillna({"step": -1.0}).set_index(keys).sort_index() for frame in (csv, recomputed.reset_index())
    )
    same = {"check_like": True, "check_dtype": False, "check_index_type": False}
    pd.testing.assert_frame_equal(*frames, **same, rtol=1e-8, atol=1e-12)
