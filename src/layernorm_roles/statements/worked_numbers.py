"""The worked numbers of the transformer notes, recomputed.

Every number that the notes compute is here once, as written, with its line in the notes and two recomputations:
`recomputed` carries full precision from the example's first inputs, in fractions until a root or an exponential;
`from_stated` starts from the numbers that the notes themselves state one step before.

The verdict on a number is the first of these that is true:

    right      the recomputed number rounds to it: they differ by at most half a unit of its last written digit
               (5 at the end may be rounded either way; integers must be exact)
    hedged     the notes offer it as an example of what might come out, in words; the sign ≈ is no hedge, because they
               write it before rounded numbers, right and wrong ones alike
    rounding   the recomputed number was cut off where it should have been rounded, or the number rounds from the
               rounded ones that are stated before it, none of which is wrong
    carried    it follows from the numbers that are stated before it, but one of them is wrong or hedged
    wrong      otherwise
"""

import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from layernorm_roles import store
from layernorm_roles.provenance import provenance
from layernorm_roles.schemas import LINEARITY

Number = Fraction | float | int
SLACK = 1e-9
"""For the roots and exponentials, which are floats."""


class Check(NamedTuple):
    """One number of the notes: the columns of the table `worked_numbers`, but for the verdict."""

    example: str
    line: int
    quantity: str
    stated: str
    recomputed: float
    from_stated: float | None
    tolerance: float
    hedged: bool

    def rounds_to(self, value: float | None) -> bool:
        """Whether `value` is a number that rounds to the stated one."""
        return value is not None and abs(value - float(self.stated)) <= self.tolerance + SLACK

    def cut_off(self, value: float | None) -> bool:
        """Whether the stated number, if it has decimals, is `value` with the further ones left out."""
        if value is None or not decimals(self.stated):
            return False
        unit = 10.0 ** -decimals(self.stated)
        return abs(math.trunc(value / unit) * unit - float(self.stated)) <= SLACK


def write(out: str | Path) -> None:
    """Write the table worked_numbers to the file `out`."""
    store.write(measure(), "worked_numbers", out, provenance({}, "cpu"))


def measure() -> pd.DataFrame:
    """Table `worked_numbers`: every checked number, in the order of the notes."""
    parts = (_shapes(), _cat(), _dice_and_terms(), _the_cat_sat(), _residuals(), _normalisations())
    checks = sorted(chain(*parts), key=lambda check: check.line)
    return pd.DataFrame(checks).assign(verdict=verdicts(checks))


def verdicts(checks: Sequence[Check]) -> list[str]:
    """The verdict on each number, as the head of this module defines them; `checks` are in the order of the notes."""
    found, doubtful = [], set()  # the examples in which a number so far is wrong or hedged
    for check in checks:
        follows = check.rounds_to(check.from_stated) or check.cut_off(check.from_stated)
        if check.rounds_to(check.recomputed):
            verdict = "right"
        elif check.hedged:
            verdict = "hedged"
        elif check.cut_off(check.recomputed) or (follows and check.example not in doubtful):
            verdict = "rounding"
        else:
            verdict = "carried" if follows else "wrong"
        if verdict in ("hedged", "wrong"):
            doubtful.add(check.example)
        found.append(verdict)
    return found


def decimals(number: str) -> int:
    """How many digits `number` has after its point."""
    return len(number.partition(".")[2])


def numbers(text: str) -> list[Fraction]:
    """The decimals of a text, exactly."""
    return [Fraction(number) for number in text.split()]


def dot(a: Sequence[Number], b: Sequence[Number]) -> Number:
    """The inner product; exact for fractions."""
    return sum(x * y for x, y in zip(a, b, strict=True))


def mean(x: Sequence[Number]) -> Number:
    """The arithmetic mean; exact for fractions."""
    return sum(x) / Fraction(len(x))


def softmax(scores: Sequence[Number]) -> list[float]:
    """The weights exp(score) / sum of exp(scores), without a shift: the notes' scores are small."""
    weights = [math.exp(score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def checks(
    example: str,
    line: int,
    quantity: str,
    stated: str,
    recomputed: Sequence[Number],
    from_stated: Sequence[Number] | None = None,
    tolerance: float | None = None,
    hedged: bool = False,
) -> Iterator[Check]:
    """A check for each number of `stated`; several get their place in brackets. Tolerance: half the last digit."""
    written = stated.split()
    given = from_stated or [None] * len(written)
    for i, (number, exact, follows) in enumerate(zip(written, recomputed, given, strict=True), start=1):
        name = f"{quantity} [{i}]" if len(written) > 1 else quantity
        values = float(exact), None if follows is None else float(follows)
        places = decimals(number)
        allowed = tolerance if tolerance is not None else 0.5 * 10.0**-places if places else 0.0
        yield Check(example, line, name, number, *values, allowed, hedged)


def _shapes() -> Iterator[Check]:
    example = "heads side by side"
    yield from checks(example, 350, "rows and columns of one head's output", "5 64", [5, 64])
    yield from checks(example, 353, "rows and columns of the concatenation", "5 512", [5, 8 * 64])


def _cat() -> Iterator[Check]:
    example = 'attention of "cat", 3 dimensions'
    listed = sum(numbers("0.1 0.3 0.4 0.1 0.05 0.35 0.1"))
    # Six weights with one decimal and one with two: what their rounding can do to the sum.
    yield from checks("seven weights", 87, 'the weights of "cat" sum to 1', "1", [listed], tolerance=0.355)

    query = numbers("1 0 1")
    keys = [numbers(key) for key in ("1 0 0", "1 .5 0", "0 0 1", ".5 .5 0", ".5 0 .5", "0 .5 .5")]
    values = [numbers(value) for value in ("1 0 0", "0 1 .5", "0 0 1", ".5 .5 0", ".5 0 .5", "0 .5 .5")]
    scores = [dot(query, key) for key in keys]
    words, stated = "The cat sat on the mat".split(), "1.0 1.0 1.0 0.5 1.0 0.5".split()
    for i, (word, score) in enumerate(zip(words, stated, strict=True)):
        yield from checks(example, 151 + i, f"score of {word}", score, [scores[i]])

    weights = softmax(scores)
    stated = "0.217 0.217 0.217 0.132 0.217 0.132"
    yield from checks(example, 162, "softmax weight", stated, weights)
    yield from checks(example, 163, "the weights sum to 1", "1", [sum(numbers(stated))], tolerance=6 * 0.0005)

    lines = {
        181: ("0.217 0.000 0.000 0.066 0.108 0.000", "0.391"),
        186: ("0.000 0.217 0.000 0.066 0.000 0.066", "0.349"),
        192: ("0.000 0.108 0.217 0.000 0.108 0.066", "0.499"),
    }
    for dimension, (line, (terms, total)) in enumerate(lines.items()):
        column = [value[dimension] for value in values]
        exact = [weight * float(value) for weight, value in zip(weights, column, strict=True)]
        from_weights = [weight * value for weight, value in zip(numbers(stated), column, strict=True)]
        name = f"dimension {dimension + 1}"
        yield from checks(example, line, f"term of the weighted sum, {name}", terms, exact, from_weights)
        sums = [sum(exact)], [sum(numbers(terms))]
        yield from checks(example, line + 1, f"weighted sum, {name}", total, *sums)

    # In words: "Self-attention is a linear operation". Twice the tokens double queries, keys and values.
    once, twice = (
        [dot(softmax([n * n * score for score in scores]), column) for column in zip(*values, strict=True)]
        for n in (1, 2)
    )
    ratios = [2 * double / single for double, single in zip(twice, once, strict=True)]
    yield from checks(LINEARITY, 111, "output for twice the tokens, over the output", "2 2 2", ratios)


def _dice_and_terms() -> Iterator[Check]:
    for line, d_k in ((260, 64), (261, 1024)):
        # "the dot product might sum to something like 64"
        name = f"{d_k} products of 1 each"
        yield from checks("size of a dot product", line, name, str(d_k), [d_k * 1], hedged=True)
    faces = range(1, 7)
    yield from checks("dice", 280, "expected sum of one die", "3.5", [mean(faces)])
    both = [a + b for a in faces for b in faces]
    sums = [mean(both), min(both), max(both)]
    yield from checks("dice", 280, "expected, smallest and largest sum of two", "7 2 12", sums)


def _the_cat_sat() -> Iterator[Check]:
    example = '"The cat sat", 4 dimensions'
    tokens = [numbers(row) for row in (".1 .2 .3 .4", ".5 .6 .7 .8", ".9 1.0 1.1 1.2")]
    matrix = [numbers(row) for row in (".1 .2 .3 .4", ".5 .6 .7 .8", ".9 1.0 1.1 1.2", "1.3 1.4 1.5 1.6")]
    projected = [[dot(token, column) for column in zip(*matrix, strict=True)] for token in tokens]
    written = ["0.3 0.7 1.1 1.5", "0.7 1.5 2.3 3.1", "1.1 2.3 3.5 4.7"]
    stated = [numbers(row) for row in written]
    words = ("The", "cat", "sat")
    for i, (word, row, exact) in enumerate(zip(words, written, projected, strict=True)):
        yield from checks(example, 430 + i, f"query, key and value of {word}", row, exact)

    scores = [dot(projected[0], key) for key in projected]
    from_rows = [dot(stated[0], key) for key in stated]
    for i, (word, score) in enumerate(zip(words, "3.74 8.74 13.74".split(), strict=True)):
        yield from checks(example, 457 + 2 * i, f"score of {word}", score, [scores[i]], [from_rows[i]])

    weights = "0.02 0.28 0.70"
    # "For example, the softmax of the scores [3.74, 8.74, 13.74] might be"
    exact, given = softmax(scores), softmax(numbers("3.74 8.74 13.74"))
    yield from checks(example, 466, "softmax weight", weights, exact, given, hedged=True)
    yield from checks(example, 466, "the weights sum to 1", "1.00", [sum(numbers(weights))])
    exact = [dot(softmax(scores), [*map(float, column)]) for column in zip(*projected, strict=True)]
    given = [dot(numbers(weights), column) for column in zip(*stated, strict=True)]
    yield from checks(example, 472, "weighted sum of the values", "1.0 2.0 3.0 4.0", exact, given)

    rows, columns = len(tokens), len(projected[0])
    yield from checks(example, 478, "shape of queries, keys and values", "3 4", [rows, columns])
    yield from checks(example, 480, "shape of the attention weights", "3 3", [len(scores), len(scores)])
    yield from checks(example, 482, "shape of the output", "3 4", [rows, len(exact)])


def _residuals() -> Iterator[Check]:
    for example, line, x, y, total in (
        ("residual", 524, "1.5 2.0 -0.5", "0.8 1.2 -0.1", "2.3 3.2 -0.6"),
        ("add and normalise, attention", 551, "1.0 2.0 -1.0", "0.5 1.5 -0.5", "1.5 3.5 -1.5"),
        ("add and normalise, feed-forward", 574, "0.15 1.06 -1.19", "0.25 0.80 -1.0", "0.40 1.86 -2.19"),
        ("post-norm", 597, "1.0 2.0 -1.0", "0.5 1.5 -0.5", "1.5 3.5 -1.5"),
        ("pre-norm", 625, "1.0 2.0 -1.0", "0.5 1.0 -0.8", "1.5 3.0 -1.8"),
    ):
        sums = [a + b for a, b in zip(numbers(x), numbers(y), strict=True)]
        yield from checks(example, line, "residual sum", total, sums)


NORMALISED = {
    "add and normalise, attention": """1.5 3.5 -1.5; 555 sum: 3.5; 555 mean: 1.17; 558 deviation: 0.33 2.33 -2.67;
        558 squared deviation: 0.11 5.43 7.13; 558 variance: 4.89; 561 standard deviation: 2.21;
        563 normalised: 0.15 1.06 -1.19""",
    "add and normalise, feed-forward": """0.40 1.86 -2.19; 576 sum: 0.07; 576 mean: 0.023; 577 variance: 2.15;
        578 standard deviation: 1.47; 579 normalised: 0.26 1.25 -1.50""",
    "pre-norm": """1.0 2.0 -1.0; 607 sum: 2.0; 607 mean: 0.67; 609 deviation: 0.33 1.33 -1.67;
        609 squared deviation: 0.11 1.77 2.79; 609 sum of squares: 4.67; 609 variance: 1.56;
        610 standard deviation: 1.25; 614 normalised: 0.27 1.07 -1.33""",
    "mean 0 and deviation 1": """1.5 2.0 -0.5; 680 sum: 3.0; 680 mean: 1.0; 682 deviation: 0.5 1.0 -1.5;
        682 squared deviation: 0.25 1.0 2.25; 682 sum of squares: 3.5; 682 variance: 1.17;
        684 standard deviation: 1.08; 688 normalised: 0.46 0.93 -1.39""",
    "LayerNorm, token 1": """1.0 2.0 -1.0; 713 sum: 2.0; 713 mean: 0.67; 714 deviation: 0.33 1.33 -1.67;
        714 squared deviation: 0.11 1.77 2.79; 714 variance: 1.56; 720 standard deviation: 1.25;
        721 normalised: 0.27 1.07 -1.33""",
    "LayerNorm, token 2": """3.0 1.0 0.5; 715 sum: 4.5; 715 mean: 1.5; 716 deviation: 1.5 -0.5 -1.0;
        716 squared deviation: 2.25 0.25 1.0; 716 sum of squares: 3.5; 716 variance: 1.17;
        725 standard deviation: 1.08; 726 normalised: 1.39 -0.46 -0.93""",
    "LayerNorm, token 3": """2.0 -1.0 1.5; 717 sum: 2.5; 717 mean: 0.83; 718 deviation: 1.17 -1.83 0.67;
        718 squared deviation: 1.37 3.35 0.45; 718 variance: 1.72; 730 standard deviation: 1.31;
        731 normalised: 0.89 -1.39 0.51""",
    "BatchNorm, feature 1": """1.0 3.0 2.0; 748 sum: 6.0; 748 mean: 2.0; 757 squared deviation: 1.0 1.0 0.0;
        757 sum of squares: 2.0; 757 variance: 0.67; 764 normalised: -1.22 1.22 0.0""",
    "BatchNorm, feature 2": """2.0 1.0 -1.0; 750 sum: 2.0; 750 mean: 0.67; 759 variance: 1.56;
        765 normalised: 1.06 0.27 -1.33""",
    "BatchNorm, feature 3": """-1.0 0.5 1.5; 752 sum: 1.0; 752 mean: 0.33; 761 variance: 1.11;
        766 normalised: -1.26 0.16 1.10""",
}
"""Vectors that the notes normalise by hand, by example: the vector, then each number on the way with its line.

BatchNorm normalises each feature of the three tokens that LayerNorm normalises before, over the tokens.
"""


def _normalisation(example: str, steps: str) -> Iterator[Check]:
    """Check every number that the notes write down on the way from a vector to its normalised entries."""
    vector, *_ = steps.partition(";")
    found = re.findall("([0-9]+) ([a-z ]+): ([^;]+)", steps)
    lines = {quantity: int(line) for line, quantity, _ in found}
    written = {quantity: stated for _, quantity, stated in found}
    x = numbers(vector)
    centre, stated_centre = mean(x), Fraction(written["mean"])
    deviations, from_centre = [v - centre for v in x], [v - stated_centre for v in x]
    squares, from_deviations = [v * v for v in deviations], [v * v for v in from_centre]
    # The notes' last step before the variance: its squares where it writes them, else its deviations.
    squared = written.get("squared deviation")
    from_squares = numbers(squared) if squared else from_deviations
    variance, stated_variance = mean(squares), float(written["variance"])
    std, from_variance = math.sqrt(variance), math.sqrt(stated_variance)
    stated_std = float(written.get("standard deviation", from_variance))
    values = {
        "sum": ([sum(x)], None),
        "mean": ([centre], None),
        "deviation": (deviations, from_centre),
        "squared deviation": (squares, from_deviations),
        "sum of squares": ([sum(squares)], [sum(from_squares)]),
        "variance": ([variance], [mean(from_squares)]),
        "standard deviation": ([std], [from_variance]),
        "normalised": ([float(v) / std for v in deviations], [float(v) / stated_std for v in from_centre]),
    }
    for quantity, stated in written.items():
        yield from checks(example, lines[quantity], quantity, stated, *values[quantity])


def _normalisations() -> Iterator[Check]:
    for example, steps in NORMALISED.items():
        yield from _normalisation(example, steps)

    # The notes check the rounded output: what two decimals can do to its mean and variance is no mistake.
    example, slack, output = "mean 0 and deviation 1", 0.005, numbers("0.46 0.93 -1.39")
    yield from checks(example, 694, "mean of the output", "0", [mean(output)], tolerance=slack)
    spread = float(mean([2 * abs(v) for v in output])) * slack
    squares = [mean([v * v for v in output])]
    yield from checks(example, 695, "variance of the output", "1", squares, tolerance=spread)
