"""Numbers and texts as a reader writes them: digits, minus signs, powers of ten, units."""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

MISSING = "–"
"""What a cell of a table shows if it has no value."""


def number(value: float) -> str:
    """Return a number as text with three significant digits; empty for NaN.

    Below 0.001, and from a million on, it has two digits and a power of ten.

    >>> number(1234.5), number(-0.0456), number(3.2e-16), number(float("inf")), number(1.0)
    ('1,230', '−0.0456', '3.2\\xa0×\\xa010⁻¹⁶', '∞', '1.00')
    """
    if pd.isna(value):
        return ""
    sign, size = "−" if value < 0 else "", abs(value)
    if np.isinf(size):
        return sign + "∞"
    if size == 0:
        return "0"
    if 1e-3 <= size < 1e6:
        return sign + (f"{float(f'{size:.3g}'):,.0f}" if size >= 99.95 else f"{size:#.3g}")
    return sign + _power_of_ten(*f"{size:.1e}".split("e"))


def percent(value: float | int) -> str:
    """Return a percentage as text with one decimal, or a dash for NaN.

    A number below 0.05 keeps one significant digit, so that only zero is written as 0.

    >>> percent(12.34), percent(0.05), percent(0.004), percent(0.00002), percent(0), percent(float("nan"))
    ('12.3', '0.1', '0.004', '2\\xa0×\\xa010⁻⁵', '0', '–')
    """
    if pd.isna(value):
        return MISSING
    return "0" if value == 0 else f"{value:.1f}" if value >= 0.05 else typeset(f"{value:.1g}")


def estimate(mean: float, low: float, high: float, write: str | Callable[[float], str]) -> str:
    """Return the text "mean [low, high]" for a mean and the ends of its interval.

    `write` is a format such as ".1f", or a function that turns a number into text. If low is NaN, the mean stands
    alone. With one infinite end the text is "≥ mean" or "≤ mean"; with two, or if the mean is NaN, it is a dash.

    >>> estimate(-1.26, -2.0, 3.0, ".1f"), estimate(2.0, 1.0, np.inf, ".0f"), estimate(2.0, np.nan, np.nan, ".0f")
    ('−1.3 [−2.0, 3.0]', '≥ 2', '2')
    """
    if pd.isna(mean) or (np.isinf(low) and np.isinf(high)):
        return MISSING
    if isinstance(write, str):
        form, write = write, lambda number: f"{number:{form}}".replace("-", "−")
    if np.isinf(low) or np.isinf(high):
        return f"{'≥' if np.isinf(high) else '≤'} {write(mean)}"
    return write(mean) if pd.isna(low) else f"{write(mean)} [{write(low)}, {write(high)}]"


def interval(low: float, high: float) -> str:
    """Return an interval as text in brackets, such as "[1.00, 3.00]"; empty if one of its ends is NaN."""
    return measured(np.nan, low, high)


def with_unit(value: float, unit: str) -> str:
    """Return a number as text, directly followed by its unit, such as "×" or " %"; empty for NaN."""
    return number(value) + typeset(unit) if pd.notna(value) else ""


def measured(mean: float, low: float, high: float, unit: str = "") -> str:
    """Return a number as text with its unit, and its interval in brackets; whichever is NaN is left out.

    All have the decimals of half the interval's length, which keeps two digits if they are below 36, else one (the
    Particle Data Group's rule).

    >>> measured(2.6051, 2.3035, 2.946, "×"), measured(-0.00333, -0.00695, 0.000291), measured(2.0, np.nan, np.nan)
    ('2.61× [2.30, 2.95]', '−0.003 [−0.007, 0.000]', '2.00')
    """
    if pd.isna(low) or pd.isna(high):
        return with_unit(mean, unit)
    write, half = number, (high - low) / 2
    if np.isfinite(half) and 1e-4 <= half < 1e6:
        power = int(np.floor(np.log10(half)))
        decimals = max(0, (1 if half < 3.55 * 10.0**power else 0) - power)
        write = lambda value: "0" if value == 0 else f"{value:,.{decimals}f}".replace("-", "−")  # noqa: E731
    ends = f"[{', '.join(_unsigned_zero(write(end)) for end in (low, high))}]"
    return ends if pd.isna(mean) else f"{_unsigned_zero(write(mean))}{typeset(unit)} {ends}"


def _unsigned_zero(text: str) -> str:
    return text if re.search("[1-9∞]", text) else text.removeprefix("−")


def typeset(text: str | float | None) -> str:
    """Return `text` with typographic minus signs, apostrophes and powers of ten; empty for NaN or None.

    The spaces around minus signs and before per cent signs become no-break spaces.

    >>> typeset("LayerNorm's share is -2.5 % [-3e-05, n - 1]")
    'LayerNorm’s share is −2.5\\xa0% [−3\\xa0×\\xa010⁻⁵, n\\xa0−\\xa01]'
    """
    if pd.isna(text):
        return ""
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]\d+)", lambda match: _power_of_ten(*match.groups()), text)
    text = text.replace("'", "’").replace(" %", "\u00a0%").replace(" - ", "\u00a0−\u00a0")
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def _power_of_ten(digits: str, power: str) -> str:
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{digits}\u00a0×\u00a010{raised}"
