"""What readers see of each readable table: below every heading the numbers of its CSV file.

A row of a grid shows one row of the CSV file or, in columns for layers, one for each layer. `CELLS` says what each
heading shows of it: a column, or a function of the row that returns a text, a number, or a mean and two ends.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from math import isfinite, isinf, isnan
from types import SimpleNamespace

import numpy as np
import pandas as pd
from recomputed_tables import quantiles, sentence_shares

from layernorm_roles.evidence.legends import LEGENDS

NUMBER = re.compile(r"[−+-]?(?:∞|[\d,]*\.?\d+(?:\u00a0×\u00a010[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?)")


def read(text: str) -> tuple[float, float]:
    """A printed number, and half a unit of its last digit."""
    digits, times, power = (
        text.replace("−", "-").replace(",", "").replace("∞", "inf").partition("\u00a0×\u00a010")
    )
    power = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    number = Decimal(digits + ("e" + power if times else ""))
    return float(number), 0.5 * 10.0 ** number.as_tuple().exponent if number.is_finite() else 0.0


def prints(text: str, value: float) -> bool:
    """Is `text` what is left of the value when it is rounded?"""
    shown, half = read(text)
    return shown == value if text == "0" or not isfinite(value) else abs(shown - value) <= half * (1 + 1e-9)


def shows(cell: str, expected) -> bool:
    """Does a cell say what is expected of it, to the digits that it prints?"""
    if isinstance(expected, str):
        return cell == expected
    value, low, high = (*np.atleast_1d(expected), np.nan, np.nan)[:3]
    if cell in ("–", "diverged"):
        return not isfinite(value) or (isinf(low) and isinf(high))
    mean, *limits = NUMBER.findall(cell) or ["nan"]
    if not prints(mean, value):
        return False
    if cell[0] in "≥≤":
        return not limits and isinf(high if cell[0] == "≥" else low)
    if limits:
        return len(limits) == 2 and prints(limits[0], low) and prints(limits[1], high)
    # Without ends there are none, or they look like the mean.
    return all(isnan(end) or prints(mean, end) for end in (low, high))


def spread(prefix: str, low: str = "", high: str = "", times: float = 1.0) -> Callable:
    names = (prefix, low or f"{prefix}_low", high or f"{prefix}_high")
    return lambda row: tuple(times * getattr(row, name, np.nan) for name in names)


def share(row) -> tuple[float, float, float]:
    return row.percent, max(row.low, 0.0), min(row.high, getattr(row, "most", 100.0))


def named(column: str, **texts: str) -> Callable:
    return lambda row: texts.get(getattr(row, column), getattr(row, column))


QUERIES = {"any": "any query", "norm": "any query behind the norm", "own": "the text's own queries"}
FRACTIONS = {0.5: "½", 0.1: "1/10", 0.01: "1/100"}
CELLS: dict[str, str | Callable] = {
    "d": lambda row: getattr(row, "d_model", None) or row.d,
    "norm": named("variant", **LEGENDS),
    "weights": named("checkpoint", initial="untrained", final="trained"),
    "learning rate": lambda row: getattr(row, "base_learning_rate", None) or row.learning_rate,
    "reached it": lambda row: f"{row.reached} of {row.runs}",
    "ratio to LayerNorm": lambda row: (row.ratio_to_layernorm, row.ratio_low or -np.inf, row.ratio_high),
    "best for": lambda row: f"{row.chosen} of {row.runs}" if row.chosen else "",
    "test accuracy (%)": spread("test_accuracy", "accuracy_low", "accuracy_high", 100.0),
    "steps to test loss 0.5": spread("steps"),
    "cost (points)": lambda row: "–" if row.variant == "scale" else spread("cost")(row),
    "validation loss": spread("valid_loss"),
    "training loss": "train_loss",
    "learnt to attend": "learnt",
    "unigram": "unigram_loss",
    "no attention": "no_attention_loss",
    "below unigram by": spread("gain_over_unigram"),
    "attention is worth": spread("worth_of_attention"),
    "LayerNorm": "valid_loss",
    "projection only": "projection_loss",
    "CPU seconds a run": "cpu_seconds",
    "token": lambda row: re.sub("\ufffd+", "□", row.token).replace(" ", "␣").replace("\n", "⏎"),
    "occurrences × layers × seeds": "occurrences",
    "unselectable, untrained (%)": "initial_percent",
    "unselectable, trained (%)": "final_percent",
    "less than ½ (%)": share,
    "median ceiling": lambda row: getattr(row, "median", None) or row.ceiling,
    "most received": "received",
    "queries": named("queries", **QUERIES),
    "Gaussian keys": "gaussian",
    ("table_2", "keys"): named("site", before_norm="before LayerNorm", after_norm="after LayerNorm"),
    ("ceilings", "keys"): named("normalised", **{"without norm": "without the norm"}),
}
"""By heading, or by table and heading; another heading is the name of a column, with a space for "_"."""


def single(csv: pd.DataFrame) -> pd.DataFrame:
    """The rows of experiments with one learning rate and one width."""
    several = csv.groupby("experiment")[["d_model", "base_learning_rate"]].transform("nunique").gt(1)
    return csv[~several.any(axis=1)]


def wide(csv: pd.DataFrame, by: list[str], column, cell: Callable) -> pd.DataFrame:
    """A row for the rows with equal values of `by`: the first, and `cell` of each below the heading `column` of it."""
    groups = (part for _, part in csv.groupby(by, sort=False, dropna=False))
    return pd.DataFrame(
        [part.iloc[0].to_dict() | {column(row): cell(row) for row in part.itertuples()} for part in groups]
    )


def of_layers(csv: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Shares by layer with the share of undecided keys, mean over the layers."""
    return csv.assign(undecided=csv.groupby([*by, "checkpoint"]).borderline_percent.transform("mean"))


def table_3(csv, t):
    tokens = t["sentence_tokens"].query("model == 'gpt' and variant == 'projection'")
    often = csv[csv.occurrences >= 10 * tokens.layer.nunique() * tokens.seed.nunique()].head(20)
    return [often, of_layers(sentence_shares(t).reset_index(), "model")]


def ceilings(csv, t):
    tails = quantiles(t).reset_index()
    tails = tails[(tails.queries != "any") | (tails.model == "gpt2")].rename(columns={"ceiling": "percent"})
    shown = {0.01: "1 %", 0.5: "50 %", 0.99: "99 %"}
    rows = [
        csv.assign(less_than=csv.threshold.map(FRACTIONS)),
        tails.assign(pairs=tails["quantile"].map(shown), most=1.0),
    ]
    return [part[part.model == model] for model in csv.model.unique() for part in rows]


def tokens(csv, _):
    for _, part in csv.groupby("model", sort=False):
        often = part[part.contexts >= min(3, part.contexts.max())]
        yield from (ends for ends in (often.iloc[:10], often.iloc[10:].tail(10)) if len(ends))


def cut_heads(csv, _):
    rows = csv.groupby(["model", "dimensions"])
    return csv.assign(
        undecided=rows.undecided_percent.transform("mean"), gaussian=rows.gaussian_percent.transform("mean")
    )


def gaussian_law(csv, _):
    shown = csv[csv.d.isin([2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128])]

    def heading(row):
        return f"{100 * row.share:g} %" + ", causal" * row.causal

    return wide(shown, ["d"], heading, lambda row: row.n)


def size_and_projection(csv, _):
    rows = wide(csv, [*csv.columns[:5]], lambda row: row.effect, lambda row: (row.mean, row.low, row.high))
    steps = "steps to test loss 0.5 (×)"
    of = [steps if pd.isna(step) else f"test accuracy at step {step:,.0f} (points)" for step in rows.step]
    return rows.assign(of=of, seeds=rows.pairs)


SHOWN = {
    "convergence": lambda csv, _: single(csv),
    "size_and_projection": size_and_projection,
    "table_1": lambda csv, _: of_layers(csv, "model", "variant", "site"),
    "table_2": lambda csv, _: of_layers(csv, "model", "site"),
    "table_3": table_3,
    "table_4": lambda csv, _: of_layers(csv, "variant"),
    "heads": lambda csv, _: of_layers(csv, "model", "variant", "site", "causal"),
    "gaussian_law": gaussian_law,
    "ceilings": ceilings,
    "ceilings_by_token": tokens,
    "cut_heads": cut_heads,
}
"""What the grids of a table show together, or a list of what each shows, if that is not all rows of the CSV file."""


def faults(grids, name: str, csv: pd.DataFrame, tables) -> list[str]:
    """The rows of a readable table's grids that show no row of the CSV file, and rows that are not shown just once.

    The paper's rows are left out.
    """
    shown = SHOWN.get(name, lambda csv, _: csv)(csv, tables)
    pools = [(grids, shown)]
    if not isinstance(shown, pd.DataFrame):
        pools = [([grid], part) for grid, part in zip(grids, shown, strict=True)]
    found = []
    for some, frame in pools:
        waiting = [SimpleNamespace(**row) for row in frame.to_dict("records")]
        for grid in some:
            for line in (line for line in grid.to_numpy().tolist() if line[1] != "paper, trained"):
                cells = dict(zip(grid.columns, line, strict=True))
                layers = [name for name in cells if name.startswith("layer ") and cells[name] != "–"]
                for layer in layers or [None]:
                    left_out = {heading for heading in cells if heading.startswith("layer ")} - {layer}
                    here = {heading: cell for heading, cell in cells.items() if heading not in left_out}
                    fits = [row for row in waiting if all(_shown(row, name, *of) for of in here.items())]
                    found += [f"{layer or ''} {line} shows {len(fits)} rows"] if len(fits) != 1 else []
                    waiting = [row for row in waiting if row not in fits]
        found += [f"not shown: {row}" for row in waiting]
    return found


def _shown(row: SimpleNamespace, table: str, heading: str, cell: str) -> bool:
    """Does the cell of a table below a heading show the row?"""
    if heading.startswith("layer "):
        return heading == f"layer {row.layer}" and shows(cell, share(row))
    of = CELLS.get((table, heading)) or CELLS.get(heading)
    if callable(of):
        return shows(cell, of(row))
    return shows(cell, getattr(row, of or (heading if hasattr(row, heading) else heading.replace(" ", "_"))))
