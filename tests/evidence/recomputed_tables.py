"""The numbers of every readable table, computed again from the Parquet tables with other, plain code.

Nothing here comes from layernorm_roles.evidence: a mistake there must not be repeated by import. A function takes the
tables of a reproduction by name and returns the rows of a CSV file in any order; the index tells the rows apart.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from plain import best, interval

from layernorm_roles.gaussian_keys import expected_unselectable

PILOT = Path(__file__).parents[2] / "src/layernorm_roles/evidence/analysis/pilot_gpt_bytes.csv"
SETTING = ["experiment", "d_model", "base_learning_rate"]
RUN = [*SETTING, "variant", "seed"]
LOSSES = (1.0, 0.5, 0.35, 0.25)
REACHED = (0.5, 0.1, 0.01)
BESIDE = ("before_norm", "after_norm")


def estimate(values) -> tuple[float, float, float]:
    """Mean and ends of Student's interval; of a single value no interval, of none nothing."""
    return pd.Series(values, dtype=float).mean(), *interval(values)[1:]


def named(prefix: str, values, *ends: str) -> dict[str, float]:
    return dict(zip((prefix, *(ends or (f"{prefix}_low", f"{prefix}_high"))), estimate(values), strict=True))


def by(frame: pd.DataFrame, keys: list[str], row: Callable[[pd.DataFrame], dict]) -> pd.DataFrame:
    """What `row` makes of the rows with equal `keys`, which are the index."""
    groups = [(place, row(part)) for place, part in frame.groupby(keys)]
    found = [dict(zip(keys, place, strict=True)) | numbers for place, numbers in groups if numbers]
    return pd.DataFrame(found, columns=None if found else keys).set_index(keys)


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
    metrics, place = t["majority_metrics"], ["test_loss", *SETTING]
    runs = pd.concat({loss: arrivals(metrics, loss) for loss in LOSSES}, names=["test_loss"]).reset_index()

    def row(part):
        own = part.set_index("seed")
        like = runs[(runs[place] == part.iloc[0][place]).all(axis=1) & (runs.variant == "layernorm")]
        reference = like.set_index("seed")[["steps", "last_step"]]
        pairs = own.index.isin(reference.index).sum()
        columns = ("ratio_to_layernorm", "ratio_low", "ratio_high")
        ratios = zip(columns, ratio(own[["steps", "last_step"]], reference), strict=True)
        found = {"runs": len(own), "reached": own.steps.count(), "pairs": pairs, **dict(ratios)}
        return found | {"median_steps": np.median(own.steps.fillna(np.inf))}

    return by(runs, [*place, "variant"], row)


def several(metrics: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows of the experiments with several values in `column`."""
    return metrics[metrics.groupby("experiment")[column].transform("nunique") > 1]


def rates(t):
    metrics = several(t["majority_metrics"], "base_learning_rate")
    steps, last = arrivals(metrics, 0.5), ends(metrics)

    def row(own):
        place = own.iloc[0][[*SETTING, "variant"]]
        names = ["experiment", "d_model", "variant"]
        same = last[(last[names] == place[names]).all(axis=1)]
        losses = same.pivot(index="seed", columns="base_learning_rate", values="test_loss")
        # A seed is judged at the rate that is best for the other half of the seeds.
        chosen = [best(losses.iloc[(i + 1) % 2 :: 2]) for i in range(len(losses)) if len(losses) > 1]
        arrived = steps.loc[tuple(place)]
        found = {"runs": len(own), "reached": arrived.steps.count(), "test_loss": own.test_loss.mean()}
        found["chosen"] = chosen.count(place.base_learning_rate)
        found |= named("test_accuracy", own.test_accuracy, "accuracy_low", "accuracy_high")
        log = named("steps", np.log(arrived.steps.fillna(arrived.last_step).clip(lower=1)))
        found |= {name: np.exp(value) for name, value in log.items()}
        return found | ({"steps_high": np.inf} if arrived.steps.isna().any() else {})

    return by(last, [*SETTING, "variant"], row)


def widths(t):
    last = ends(several(t["majority_metrics"], "d_model"))
    reference = last[last.variant == "scale"].set_index([*SETTING, "seed"]).test_accuracy

    def row(own):
        cost = (100 * (reference - own.set_index([*SETTING, "seed"]).test_accuracy)).dropna()
        return {"pairs": len(cost), "test_accuracy": own.test_accuracy.mean()} | named("cost", cost)

    return by(last, [*SETTING, "variant"], row)


def size_and_projection(t):
    rows, four = [], ["layernorm", "scale", "layernorm_small", "scale_released"]
    steps = arrivals(t["majority_metrics"], 0.5).steps
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
                mean, low, high = np.exp(estimate(seeds)) if quantity == "steps" else estimate(seeds)
                found = {"quantity": quantity, "step": step, "effect": effect, "pairs": len(seeds)}
                found |= {"mean": mean, "low": low, "high": high}
                rows.append(dict(zip(SETTING, setting, strict=True)) | found)
    return pd.DataFrame(rows).set_index([*SETTING, "quantity", "step", "effect"])


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
    tokens = t["sentence_tokens"]
    return tokens[(tokens.model == "gpt") & (tokens.variant == "projection")]


def table_3(t):
    def row(part):
        hits = 100 * (part.verdict == "unselectable").groupby(part.checkpoint).mean()
        shares = {f"{name}_percent": hits[name] for name in ("initial", "final")}
        return shares | {"occurrences": (part.checkpoint == "final").sum()}

    return by(without_scaling(t), ["token"], row)


def sentences(t) -> list[list[tuple[str, bool]]]:
    """The eight sentences with most unselectable tokens: first seed, trained, first layer; tokens with their marks."""
    tokens = without_scaling(t)
    tokens = tokens[(tokens.seed == tokens.seed.min()) & (tokens.layer == 1) & (tokens.checkpoint == "final")]
    tokens = tokens.assign(marked=tokens.verdict == "unselectable").sort_values("position")
    numbers = tokens.groupby("context").marked.sum()
    chosen = sorted(numbers.index, key=lambda context: (-numbers[context], context))[:8]
    parts = (tokens[tokens.context == context] for context in chosen if numbers[context])
    return [[*zip(part.token, part.marked, strict=True)] for part in parts]


def with_own(given: pd.DataFrame) -> pd.DataFrame:
    """The ceilings, with what the context's own queries give as those of a third set."""
    own = given[(given.queries == "any") & (given.normalised == "as used")]
    return pd.concat([given, own.assign(queries="own", lower=own.received_max, upper=own.received_max)])


def at_thresholds(frame: pd.DataFrame, keys: list[str], row: Callable[[pd.DataFrame, float], dict]):
    found = {level: by(frame, keys, lambda part, level=level: row(part, level)) for level in REACHED}
    return pd.concat(found, names=["threshold"])


def baselines(t):
    def row(part):
        m = t["language_model_metrics"]
        m = m[(m.model == part.model.iloc[0]) & (m.step == m.step[m.model == part.model.iloc[0]].max())]
        bare = m[m.variant == "no_attention"].set_index("seed").valid_loss
        own = part[part.step == part.step.max()].set_index("seed")
        worth = (bare - own.valid_loss).dropna() if part.variant.iloc[0] != "no_attention" else []
        found = {"seeds": own.valid_loss.count(), "step": m.step.max(), "no_attention_loss": bare.mean()}
        found |= {"unigram_loss": own.unigram_loss.mean()} | named("valid_loss", own.valid_loss.dropna())
        gain = named("gain_over_unigram", (own.unigram_loss - own.valid_loss).dropna())
        return found | gain | named("worth_of_attention", worth)

    losses = t["language_model_metrics"]
    several = losses.groupby("model")[["base_learning_rate", "steps"]].transform("nunique").gt(1).any(axis=1)
    return by(losses[~several], ["model", "variant"], row)  # several rates have no one row


def losses_by_rate(t):
    m = t["language_model_metrics"]
    run = ["model", "steps", "variant", "base_learning_rate", "seed"]
    last = m.sort_values("step").drop_duplicates(run, keep="last")
    last["valid_loss"] = last.valid_loss.where(last.step == last.steps, np.inf)

    def own_rate(model, variant):
        """The mean loss of the longest runs, each at the rate that is best for every other seed."""
        own = last[(last.model == model) & (last.variant == variant)]
        own = own[own.steps == own.steps.max()]
        wide = own.pivot(index="seed", columns="base_learning_rate", values="valid_loss")
        if len(wide) == 1:
            return wide.iloc[0, 0]
        chosen = [best(wide.iloc[(i + 1) % 2 :: 2]) for i in range(len(wide))]
        return np.mean([wide.iloc[i][rate] for i, rate in enumerate(chosen)])

    def row(part):
        model, one = part.model.iloc[0], "gpt_bytes" if part.model.iloc[0].startswith("bytes") else "gpt"
        has = set(last.variant[last.model == model])
        of = [one, one] if "layernorm" not in has else [model, model if "no_attention" in has else one]
        half = np.mean([own_rate(*of) for of in zip(of, ("layernorm", "no_attention"), strict=True)])
        sound = part[np.isfinite(part.valid_loss)]
        found = {"runs": len(part), "diverged": len(part) - len(sound)}
        found["learnt"] = (part.valid_loss <= half).sum()
        return found | {"train_loss": sound.train_loss.mean()} | named("valid_loss", sound.valid_loss)

    several = last.groupby("model")[["base_learning_rate", "steps"]].transform("nunique").gt(1).any(axis=1)
    return by(last[several], run[:4], row)


def pilot(_):
    def row(part):
        names = ["layernorm", "projection", "no_attention", "unigram"]
        loss = part.groupby("variant").valid_loss.mean().reindex(names)
        own = part[part.variant == "layernorm"]
        found = {f"{name}_loss": loss[name] for name in names[1:]}
        found |= {"valid_loss": loss.layernorm, "worth_of_attention": loss.no_attention - loss.layernorm}
        return found | {"seeds": own.seed.nunique(), "cpu_seconds": own.cpu_seconds.mean()}

    setting = ["d_model", "heads", "layers", "context_length", "batch_size", "learning_rate", "steps"]
    return by(pd.read_csv(PILOT), setting, row)


# Pretrained models

SETS = ["model", "queries", "normalised", "layer"]


def ceilings(t):
    def row(part, level):
        below, open_ = part.upper < level, (part.lower < level) & (part.upper >= level)
        found = {"contexts": part.context.nunique(), "heads": part["head"].nunique()}
        found["undecided_percent"] = 100 * open_.mean()
        return found | named("percent", 100 * below.groupby(part.context).mean(), "low", "high")

    return at_thresholds(with_own(t["attention_pairs"]), SETS, row)


def ceilings_by_token(t):
    given = t["attention_pairs"]
    given = given[(given.queries == "norm") & (given.normalised == "as used")]
    hits = 100.0 * (given.upper < 0.5)
    given = given.assign(hit=hits, of_layer=hits.groupby([given.model, given.layer]).transform("mean"))
    worst = given[given.of_layer == given.groupby("model").of_layer.transform("max")]

    def row(part):
        found = {"contexts": part.context.nunique(), "ceiling": part.upper.median()}
        found["received"] = part.received_max.max()
        found["occurrences"] = len({*zip(part.context, part.position, strict=True)})
        return found | named("percent", part.groupby("context").hit.mean(), "low", "high")

    return by(worst, ["model", "layer", "token"], row)


def cut_heads(t):
    def row(part):
        n = round(part.n_keys.mean())
        by_context = (100 * part.n_unselectable / part.n_keys).groupby(part.context).mean()
        found = {"n_keys": n, "contexts": len(by_context)}
        found["gaussian_percent"] = 100 * expected_unselectable(n, int(part.dimensions.iloc[0])) / n
        found["undecided_percent"] = 100 * part.n_borderline.sum() / part.n_keys.sum()
        return found | named("percent", by_context, "low", "high")

    keys = t["pretrained_keys"]
    keys = keys[keys.site.isin(["head", "head_cut"]) & ~keys.causal]
    return by(keys, ["model", "layer", "dimensions"], row)


RECOMPUTED = {
    "convergence": convergence,
    "rates": rates,
    "widths": widths,
    "size_and_projection": size_and_projection,
    "table_1": lambda t: shares(keys_at(t, "after_norm", "after_norm_exact", texts="long", causal=False)),
    "table_2": lambda t: shares(keys_at(t, *BESIDE, texts="long", causal=False, variant="layernorm")),
    "table_3": table_3,
    "table_4": lambda t: shares(keys_at(t, "after_norm", model="bert", causal=False)),
    "heads": lambda t: shares(keys_at(t, "head", "head_exact", texts="long"), "causal"),
    "baselines": baselines,
    "losses_by_rate": losses_by_rate,
    "pilot": pilot,
    "gaussian_law": lambda t: t["gaussian_law"].set_index(["d", "share", "causal"]),
    "ceilings": ceilings,
    "ceilings_by_token": ceilings_by_token,
    "cut_heads": cut_heads,
}
"""For each readable table but claims the function that computes the rows of its CSV file from Parquet tables."""
