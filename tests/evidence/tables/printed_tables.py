"""What the Markdown file of each readable table has to show: the numbers of its CSV file, row by row.

`EXPECTED` has for each table a function of its CSV file and of the Parquet tables that returns its grids. A cell is a
text, or the number that it shows, or a mean with the two ends of its interval.
"""

import re
from decimal import Decimal
from itertools import chain
from math import floor, isfinite, isinf, isnan, log10
from typing import NamedTuple

import numpy as np
import pandas as pd
from recomputed_tables import quantiles, sentence_shares

from layernorm_roles.evidence.legends import LEGENDS

NUMBER = re.compile(r"[−+-]?(?:∞|[\d,]*\.?\d+(?:e[+-]?\d+)?(?:\u00a0×\u00a010[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?)")
NONE = ("–", "", "diverged")
"""Cells that show that there is no number, or none that is finite."""


class Rounded(NamedTuple):
    """A number of which only so many digits are shown, whatever its size."""

    value: float
    low: float
    high: float
    digits: int = 3


def read(text: str) -> tuple[float, float]:
    """A printed number, and half a unit of its last digit."""
    plain = text.replace("−", "-").replace(",", "").replace("∞", "inf")
    digits, times, power = plain.partition("\u00a0×\u00a010")
    number = Decimal(
        digits + ("e" + power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) if times else "")
    )
    return float(number), 0.5 * 10.0 ** number.as_tuple().exponent if number.is_finite() else 0.0


def prints(text: str, value: float, digits: int) -> bool:
    """Is `text` what is left of the value when it is rounded?"""
    shown, half = read(text)
    if text == "0" or not isfinite(value):
        return shown == value
    if digits and value:
        half = max(half, 0.5 * 10.0 ** (floor(log10(abs(value))) + 1 - digits))
    return abs(shown - value) <= half * (1 + 1e-9)


def shows(cell: str, expected) -> bool:
    """Does a cell of the Markdown say what is expected of it, to the digits that it prints?"""
    if isinstance(expected, str):
        return cell == expected
    if not isinstance(expected, Rounded):
        expected = Rounded(*(*np.atleast_1d(expected), np.nan, np.nan)[:3], digits=0)
    value, low, high, digits = expected
    if cell in NONE:
        return not isfinite(value) or (isinf(low) and isinf(high))
    mean, limits = NUMBER.search(cell)[0], NUMBER.findall(cell.partition("[")[2].partition("]")[0])
    if not prints(mean, value, digits):
        return False
    if cell[0] in "≥≤":
        return isinf(high if cell[0] == "≥" else low)
    if limits:
        return len(limits) == 2 and prints(limits[0], low, digits) and prints(limits[1], high, digits)
    # Without ends there are none, or they look like the mean.
    return all(isnan(end) or prints(mean, end, digits) for end in (low, high))


def grids(markdown: str) -> list[list[list[str]]]:
    """The rows of the grids, without their headings, cell by cell."""
    blocks = [
        block.strip().splitlines()[2:] for block in markdown.split("\n\n") if block.lstrip().startswith("| ")
    ]
    return [
        [
            [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in rows
        ]
        for rows in blocks
    ]


def bullets(markdown: str) -> list[list[tuple[str, bool]]]:
    """The characters of the items of a list, without spaces, and whether each is marked."""
    items = []
    for line in markdown.splitlines():
        if line.startswith("- "):
            marked, characters = False, []
            for escaped, mark, plain in re.findall(r"\\(.)|(\*\*|</?b>)|(.)", line[2:]):
                marked ^= bool(mark)
                characters += [
                    (character, marked) for character in escaped or plain if not character.isspace()
                ]
            items.append(characters)
    return items


def characters(tokens: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """The characters of a sentence as `bullets` finds them: parts of one that is split among tokens are one sign."""
    found: list[tuple[str, bool]] = []
    split = False
    for token, marked in tokens:
        for character in token:
            if character == "\ufffd" and split:
                found[-1] = ("□", found[-1][1] or marked)
            elif not character.isspace():
                found.append(("□" if character == "\ufffd" else character, marked))
            split = character == "\ufffd"
    return found


# Majority


def single(csv: pd.DataFrame) -> pd.DataFrame:
    """The rows of experiments with one learning rate and one width."""
    several = (
        csv.groupby("experiment")[["d_model", "base_learning_rate"]].transform("nunique").gt(1).any(axis=1)
    )
    return csv[~several]


def convergence(csv, _):
    rows = []
    for row in single(csv).itertuples():
        bound = (row.ratio_to_layernorm, row.ratio_low or -np.inf, row.ratio_high)
        place = [row.experiment, row.d_model, row.base_learning_rate, LEGENDS[row.variant], row.test_loss]
        rows.append([*place, f"{row.reached} of {row.runs}", row.median_steps, bound, row.pairs])
    return [rows]


def rates(csv, _):
    rows = []
    for row in csv.itertuples():
        chosen = f"{row.chosen} of {row.runs}" if row.chosen else ""
        accuracy = 100 * np.array([row.test_accuracy, row.accuracy_low, row.accuracy_high])
        accuracy = accuracy if row.runs > 2 else accuracy[0]
        place = [row.experiment, row.d_model, LEGENDS[row.variant], row.base_learning_rate, chosen]
        rows.append([*place, accuracy, row.test_loss, (row.steps, row.steps_low, row.steps_high)])
    return [rows]


def widths(csv, _):
    rows = []
    for row in csv.itertuples():
        cost = "–" if row.variant == "scale" else (row.cost, row.cost_low, row.cost_high)
        place = [row.experiment, row.d_model, row.base_learning_rate, LEGENDS[row.variant]]
        rows.append([*place, 100 * row.test_accuracy, cost, row.pairs])
    return [rows]


def size_and_projection(csv, _):
    rows = []
    for first in range(0, len(csv), 3):
        three = csv.iloc[first : first + 3].set_index("effect").loc[["size", "projection", "interaction"]]
        one = three.iloc[0]
        of = "steps to test loss 0.5 (×)"
        if one.quantity == "accuracy":
            of = f"test accuracy at step {one.step:,.0f} (points)"
        effects = three[["mean", "low", "high"]].to_numpy()
        rows.append([one.experiment, one.base_learning_rate, of, *effects, one.pairs])
    return [rows]


# Language models


def share(row) -> tuple[float, float, float]:
    return row.percent, max(row.low, 0.0), min(row.high, 100.0)


def by_layer(csv: pd.DataFrame, column: str, names) -> list[list]:
    """A row for each value of `column` before training and after it, with a cell for each layer."""
    rows = []
    for (value, checkpoint), part in csv.groupby([column, "checkpoint"], sort=False):
        weights = {"initial": "untrained", "final": "trained"}[checkpoint]
        cells = [share(row) for row in part.sort_values("layer").itertuples()]
        rows.append(
            [names.get(value, value), weights, part.seeds.iloc[0], *cells, part.borderline_percent.mean()]
        )
    order = [*dict.fromkeys(row[0] for row in rows)]
    return sorted(rows, key=lambda row: (order.index(row[0]), row[1] == "trained"))


def table_1(csv, _):
    parts = [
        csv[(csv.model == model) & (csv.site == site)]
        for model in csv.model.unique()
        for site in ("after_norm", "after_norm_exact")
    ]
    return [by_layer(part, "variant", LEGENDS) for part in parts if len(part)]


def table_2(csv, _):
    names = {"before_norm": "before LayerNorm", "after_norm": "after LayerNorm"}
    return [by_layer(part, "site", names) for _, part in csv.groupby("model", sort=False)]


def table_3(csv, t):
    tokens = t["sentence_tokens"].query("model == 'gpt' and variant == 'projection'")
    often = csv[csv.occurrences >= 10 * tokens.layer.nunique() * tokens.seed.nunique()]
    signs = {" ": "␣", "\n": "⏎", "\t": "⇥"}
    rows = [
        [
            re.sub("\ufffd+", "□", row.token).translate(str.maketrans(signs)),
            row.occurrences,
            row.initial_percent,
            row.final_percent,
        ]
        for row in often.head(20).itertuples()
    ]
    models = t["key_selectability"].model.unique()
    all_tokens = sentence_shares(t).reset_index().sort_values("model", key=lambda c: c.map([*models].index))
    return [rows, by_layer(all_tokens, "model", {})]


def heads(csv, _):
    parts = [
        csv[(csv.model == model) & (csv.causal == causal) & (csv.site == site)]
        for model in csv.model.unique()
        for causal in (False, True)
        for site in ("head", "head_exact")
    ]
    return [by_layer(part, "variant", LEGENDS) for part in parts if len(part)]


QUERIES = {"any": "any query", "norm": "any query behind the norm", "own": "the text's own queries"}


def head_ceilings(csv, _):
    rows = []
    for (model, variant, weights, queries), part in csv.groupby(
        ["model", "variant", "checkpoint", "queries"], sort=False
    ):
        half, tenth, hundredth = part.sort_values("threshold", ascending=False).itertuples()
        place = [
            f"{model}, d_head = {half.d_head}, n = {half.n_keys:,}",
            LEGENDS[variant],
            {"initial": "untrained", "final": "trained"}[weights],
            half.seeds,
            QUERIES[queries],
        ]
        rest = (tenth.rest_percent, hundredth.rest_percent)
        rows.append([*place, share(half), share(tenth), share(hundredth), *rest, half.median])
    return [rows]


def baselines(csv, _):
    rows = []
    for row in csv.itertuples():
        loss = (row.valid_loss, row.valid_loss_low, row.valid_loss_high)
        gain = (row.gain_over_unigram, row.gain_over_unigram_low, row.gain_over_unigram_high)
        worth = (row.worth_of_attention, row.worth_of_attention_low, row.worth_of_attention_high)
        place = [row.model, LEGENDS[row.variant], row.seeds, loss]
        rows.append([*place, row.unigram_loss, row.no_attention_loss, gain, worth])
    return [rows]


# Random keys and pretrained models


def gaussian_law(csv, _):
    wide = csv.pivot(index="d", columns=["causal", "share"], values="n").sort_index(axis=1)
    shown = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128)
    return [[[d, *wide.loc[d]] for d in shown if d in wide.index]]


def ceilings(csv, t):
    found = []
    for model, of_model in csv.groupby("model", sort=False):
        tails = quantiles(t).reset_index()
        tails = tails[(tails.model == model) & (tails.queries != "any")].rename(
            columns={"ceiling": "percent"}
        )
        for part, column, names, most in (
            (of_model, "threshold", {0.5: "½", 0.1: "1/10", 0.01: "1/100"}, 100),
            (tails, "quantile", {0.01: "1 %", 0.5: "50 %", 0.99: "99 %"}, 1),
        ):
            rows = []
            for value, name in names.items():
                for queries, words in QUERIES.items():
                    for keys in ("as used", "without norm"):
                        place = (
                            (part[column] == value) & (part.queries == queries) & (part.normalised == keys)
                        )
                        layers = part[place].sort_values("layer").itertuples()
                        cells = [
                            (row.percent, np.maximum(row.low, 0), np.minimum(row.high, most))
                            for row in layers
                        ]
                        if cells:
                            rows.append([name, words, keys.replace("without", "without the"), *cells])
            found.append(rows)
    return found


def ceilings_by_token(csv, _):
    found = []
    for _, part in csv.groupby("model", sort=False):
        often = part[part.contexts >= min(3, part.contexts.max())]
        for ends in (often.iloc[:10], often.iloc[10:].tail(10)):
            found.append(
                [
                    [row.token, row.occurrences, row.contexts, share(row), row.ceiling, row.received]
                    for row in ends.itertuples()
                ]
            )
    return [rows for rows in found if rows]


def cut_heads(csv, _):
    found = []
    for _, of_model in csv.groupby("model", sort=False):
        rows = []
        for d, part in of_model.groupby("dimensions"):
            cells = [share(row) for row in part.sort_values("layer").itertuples()]
            rows.append([d, *cells, part.undecided_percent.mean(), part.gaussian_percent.mean()])
        found.append(rows)
    return found


# Claims, worked numbers, the pilot and durations


def worked_numbers(csv, _):
    examples = []
    for name, part in csv.groupby("example"):
        numbers = [
            (part.verdict == verdict).sum() for verdict in ("right", "rounding", "hedged", "carried", "wrong")
        ]
        examples.append([name, part.line.min(), *numbers, part.example_verdict.iloc[0]])
    names = ["example", "line", "quantity", "stated", "recomputed", "from_stated", "verdict"]
    return [sorted(examples, key=lambda row: row[1]), csv[names].to_numpy().tolist()]


def pilot(csv, _):
    return [csv.to_numpy().tolist()]


def minutes(text: str) -> tuple[float, float]:
    """A printed time in minutes, and half a unit of its last digit."""
    if text.endswith(" s"):
        return tuple(number / 60 for number in read(text.removesuffix(" s")))
    hours, _, rest = text.rpartition(" h ")
    return 60 * float(hours or 0) + float(rest.removesuffix(" min")), 0.5


EXPECTED = {
    "convergence": convergence,
    "rates": rates,
    "widths": widths,
    "size_and_projection": size_and_projection,
    "table_1": table_1,
    "table_2": table_2,
    "table_3": table_3,
    "table_4": lambda csv, _: [by_layer(csv, "variant", LEGENDS)],
    "heads": heads,
    "head_ceilings": head_ceilings,
    "baselines": baselines,
    "pilot": pilot,
    "gaussian_law": gaussian_law,
    "ceilings": ceilings,
    "ceilings_by_token": ceilings_by_token,
    "cut_heads": cut_heads,
    "worked_numbers": worked_numbers,
}
"""For each table a function of its CSV file and of the Parquet tables: the rows of the grids of its Markdown file."""


def wrong_cells(markdown: str, name: str, csv: pd.DataFrame, tables) -> list[str]:
    """The cells of a Markdown table that do not say what the CSV file says; rows of the paper are left out."""
    shown = [[row for row in rows if row[1] != "paper, trained"] for rows in grids(markdown)]
    expected = EXPECTED[name](csv, tables)
    if [[*map(len, rows)] for rows in shown] != [[*map(len, rows)] for rows in expected]:
        return [f"grids of {[*map(len, shown)]} rows, expected {[*map(len, expected)]}"]
    cells, values = (chain.from_iterable(chain.from_iterable(side)) for side in (shown, expected))
    return [
        f"{cell!r} for {value}" for cell, value in zip(cells, values, strict=True) if not shows(cell, value)
    ]
