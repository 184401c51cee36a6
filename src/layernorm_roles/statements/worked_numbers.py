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
from collections.abc import Iterator, Sequence
from fractions import Fraction
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
        decimals = len(self.stated.partition(".")[2])
        if value is None or not decimals:
            return False
        unit = 10.0**-decimals
        return abs(math.trunc(value / unit) * unit - float(self.stated)) <= SLACK


def write(out: str | Path) -> None:
    """Write the table worked_numbers to the file `out`."""
    store.write(measure(), "worked_numbers", out, provenance({}, "cpu"))


def measure() -> pd.DataFrame:
    """Table `worked_numbers`: every checked number, in the order of the notes."""
    checks = [
        *_shapes(),
        *_cat(),
        *_dice_and_terms(),
        *_the_cat_sat(),
        *_residuals(),
        *_normalisations(),
        *_batchnorm(),
    ]
    checks.sort(key=lambda check: check.line)
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
        decimals = len(number.partition(".")[2])
        allowed = tolerance if tolerance is not None else 0.5 * 10.0**-decimals if decimals else 0.0
        name = f"{quantity} [{i}]" if len(written) > 1 else quantity
        yield Check(
            example,
            line,
            name,
            number,
            float(exact),
            None if follows is None else float(follows),
            allowed,
            hedged,
        )


def _shapes() -> Iterator[Check]:
    yield from checks("heads side by side", 350, "rows and columns of one head's output", "5 64", [5, 64])
    yield from checks(
        "heads side by side", 353, "rows and columns of the concatenation", "5 512", [5, 8 * 64]
    )


def _cat() -> Iterator[Check]:
    example = 'attention of "cat", 3 dimensions'
    listed = numbers("0.1 0.3 0.4 0.1 0.05 0.35 0.1")
    # Six weights with one decimal and one with two: what their rounding can do to the sum.
    yield from checks(
        "seven weights", 87, 'the weights of "cat" sum to 1', "1", [sum(listed)], tolerance=0.355
    )

    query = numbers("1 0 1")
    keys = [numbers(key) for key in ("1 0 0", "1 .5 0", "0 0 1", ".5 .5 0", ".5 0 .5", "0 .5 .5")]
    values = [numbers(value) for value in ("1 0 0", "0 1 .5", "0 0 1", ".5 .5 0", ".5 0 .5", "0 .5 .5")]
    scores = [dot(query, key) for key in keys]
    for i, score in enumerate("1.0 1.0 1.0 0.5 1.0 0.5".split()):
        word = ("The", "cat", "sat", "on", "the", "mat")[i]
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
        yield from checks(
            example, line + 1, f"weighted sum, {name}", total, [sum(exact)], [sum(numbers(terms))]
        )

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
        yield from checks(
            "size of a dot product", line, f"{d_k} products of 1 each", str(d_k), [d_k * 1], hedged=True
        )
    faces = range(1, 7)
    yield from checks("dice", 280, "expected sum of one die", "3.5", [mean(faces)])
    both = [a + b for a in faces for b in faces]
    yield from checks(
        "dice", 280, "expected, smallest and largest sum of two", "7 2 12", [mean(both), min(both), max(both)]
    )


def _the_cat_sat() -> Iterator[Check]:
    example = '"The cat sat", 4 dimensions'
    tokens = [numbers(row) for row in (".1 .2 .3 .4", ".5 .6 .7 .8", ".9 1.0 1.1 1.2")]
    matrix = [numbers(row) for row in (".1 .2 .3 .4", ".5 .6 .7 .8", ".9 1.0 1.1 1.2", "1.3 1.4 1.5 1.6")]
    projected = [[dot(token, column) for column in zip(*matrix, strict=True)] for token in tokens]
    written = ["0.3 0.7 1.1 1.5", "0.7 1.5 2.3 3.1", "1.1 2.3 3.5 4.7"]
    stated = [numbers(row) for row in written]
    for i, (row, exact) in enumerate(zip(written, projected, strict=True)):
        word = ("The", "cat", "sat")[i]
        yield from checks(example, 430 + i, f"query, key and value of {word}", row, exact)

    scores = [dot(projected[0], key) for key in projected]
    from_rows = [dot(stated[0], key) for key in stated]
    for i, score in enumerate("3.74 8.74 13.74".split()):
        yield from checks(
            example, 457 + 2 * i, "score of " + ("The", "cat", "sat")[i], score, [scores[i]], [from_rows[i]]
        )

    weights = "0.02 0.28 0.70"
    # "For example, the softmax of the scores [3.74, 8.74, 13.74] might be"
    exact, given = softmax(scores), softmax(numbers("3.74 8.74 13.74"))
    yield from checks(example, 466, "softmax weight", weights, exact, given, hedged=True)
    yield from checks(example, 466, "the weights sum to 1", "1.00", [sum(numbers(weights))])
    exact = [
        dot(softmax(scores), [float(value) for value in column]) for column in zip(*projected, strict=True)
    ]
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


class Normalisation(NamedTuple):
    """A vector normalised by hand: each step is (line, the numbers as written), None where the notes skip it.

    Mean and variance have three parts, the second being the sum before the division, "" where it is not written.
    """

    example: str
    x: str
    mean: tuple[int, str, str]
    deviations: tuple[int, str] | None
    squares: tuple[int, str] | None
    variance: tuple[int, str, str]
    std: tuple[int, str] | None
    output: tuple[int, str]

    def checks(self) -> Iterator[Check]:
        """Check every number that the notes write down on the way from `x` to `output`."""
        x = numbers(self.x)
        centre, stated_centre = mean(x), Fraction(self.mean[2])
        deviations, from_centre = [v - centre for v in x], [v - stated_centre for v in x]
        squares, from_deviations = [v * v for v in deviations], [v * v for v in from_centre]
        variance, stated_variance = mean(squares), float(self.variance[2])
        # The notes' last step before the variance: its squares where it writes them, else its deviations.
        from_squares = numbers(self.squares[1]) if self.squares else from_deviations
        std = math.sqrt(variance)
        stated_std = float(self.std[1]) if self.std else math.sqrt(stated_variance)

        if self.mean[1]:
            yield from checks(self.example, self.mean[0], "sum", self.mean[1], [sum(x)])
        yield from checks(self.example, self.mean[0], "mean", self.mean[2], [centre])
        if self.deviations:
            yield from checks(
                self.example, self.deviations[0], "deviation", self.deviations[1], deviations, from_centre
            )
        if self.squares:
            yield from checks(
                self.example, self.squares[0], "squared deviation", self.squares[1], squares, from_deviations
            )
        line, total, written = self.variance
        if total:
            yield from checks(
                self.example, line, "sum of squares", total, [sum(squares)], [sum(from_squares)]
            )
        yield from checks(self.example, line, "variance", written, [variance], [mean(from_squares)])
        if self.std:
            from_variance = [math.sqrt(stated_variance)]
            yield from checks(
                self.example, self.std[0], "standard deviation", self.std[1], [std], from_variance
            )
        line, output = self.output
        given = [float(v) / stated_std for v in from_centre]
        yield from checks(
            self.example, line, "normalised", output, [float(v) / std for v in deviations], given
        )


def _normalisations() -> Iterator[Check]:
    for normalisation in (
        Normalisation(
            "add and normalise, attention", "1.5 3.5 -1.5", (555, "3.5", "1.17"), (558, "0.33 2.33 -2.67"),
            (558, "0.11 5.43 7.13"), (558, "", "4.89"), (561, "2.21"), (563, "0.15 1.06 -1.19"),
        ),
        Normalisation(
            "add and normalise, feed-forward", "0.40 1.86 -2.19", (576, "0.07", "0.023"), None,
            None, (577, "", "2.15"), (578, "1.47"), (579, "0.26 1.25 -1.50"),
        ),
        Normalisation(
            "pre-norm", "1.0 2.0 -1.0", (607, "2.0", "0.67"), (609, "0.33 1.33 -1.67"),
            (609, "0.11 1.77 2.79"), (609, "4.67", "1.56"), (610, "1.25"), (614, "0.27 1.07 -1.33"),
        ),
        Normalisation(
            "mean 0 and deviation 1", "1.5 2.0 -0.5", (680, "3.0", "1.0"), (682, "0.5 1.0 -1.5"),
            (682, "0.25 1.0 2.25"), (682, "3.5", "1.17"), (684, "1.08"), (688, "0.46 0.93 -1.39"),
        ),
        Normalisation(
            "LayerNorm, token 1", "1.0 2.0 -1.0", (713, "2.0", "0.67"), (714, "0.33 1.33 -1.67"),
            (714, "0.11 1.77 2.79"), (714, "", "1.56"), (720, "1.25"), (721, "0.27 1.07 -1.33"),
        ),
        Normalisation(
            "LayerNorm, token 2", "3.0 1.0 0.5", (715, "4.5", "1.5"), (716, "1.5 -0.5 -1.0"),
            (716, "2.25 0.25 1.0"), (716, "3.5", "1.17"), (725, "1.08"), (726, "1.39 -0.46 -0.93"),
        ),
        Normalisation(
            "LayerNorm, token 3", "2.0 -1.0 1.5", (717, "2.5", "0.83"), (718, "1.17 -1.83 0.67"),
            (718, "1.37 3.35 0.45"), (718, "", "1.72"), (730, "1.31"), (731, "0.89 -1.39 0.51"),
        ),
    ):  # fmt: skip
        yield from normalisation.checks()

    # The notes check the rounded output: what two decimals can do to its mean and variance is no mistake.
    output = numbers("0.46 0.93 -1.39")
    slack = 0.005
    example = "mean 0 and deviation 1"
    yield from checks(example, 694, "mean of the output", "0", [mean(output)], tolerance=slack)
    spread = float(mean([2 * abs(v) for v in output])) * slack
    squares = [mean([v * v for v in output])]
    yield from checks(example, 695, "variance of the output", "1", squares, tolerance=spread)


def _batchnorm() -> Iterator[Check]:
    """BatchNorm of the three tokens that the notes give to LayerNorm before: each feature, over the tokens."""
    for normalisation in (
        Normalisation(
            "BatchNorm, feature 1", "1.0 3.0 2.0", (748, "6.0", "2.0"), None,
            (757, "1.0 1.0 0.0"), (757, "2.0", "0.67"), None, (764, "-1.22 1.22 0.0"),
        ),
        Normalisation(
            "BatchNorm, feature 2", "2.0 1.0 -1.0", (750, "2.0", "0.67"), None,
            None, (759, "", "1.56"), None, (765, "1.06 0.27 -1.33"),
        ),
        Normalisation(
            "BatchNorm, feature 3", "-1.0 0.5 1.5", (752, "1.0", "0.33"), None,
            None, (761, "", "1.11"), None, (766, "-1.26 0.16 1.10"),
        ),
    ):  # fmt: skip
        yield from normalisation.checks()
