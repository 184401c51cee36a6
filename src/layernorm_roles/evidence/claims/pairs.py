"""The test that an entry of the YAML files gives as data: variants of one experiment against each other, by seed.

An entry names a `quantity` of `quantities.QUANTITIES`, and a list of comparisons under `compare`. Each has

    over     two variants, the difference of the first and the second, for a ratio that of their logarithms; or
    alone    one variant
    asked    what is asked of the estimate, one of the keys of ASKED with a number or the name of one. The names are those
             of the thresholds of `rules` and of `REPORTED`. Without it nothing is asked
    role     effect, control or context; the first is an effect
    part     which part of the verdict it counts in, see `claim.Comparison.part`
    of       the experiment or model, where it is not the entry's
    quantity where it is not the entry's
    if_lacking  "leave out", or "cannot tell", where the run lacks the variant or the experiment; otherwise the claim
             cannot be tested then
    untrained  true if the same is compared before training: models that pass it then, and pass it after, are named

The first comparison is the claim's own. What the source reports for it stands under `reported`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from layernorm_roles.evidence.analysis.estimate import NOTHING
from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import claim, rules
from layernorm_roles.evidence.claims.claim import RATIO, UNTRAINED, Asked, Comparison, Outcome, Tables, Untestable
from layernorm_roles.evidence.claims.quantities import BEFORE_TRAINING, QUANTITIES, UNIGRAM, Measured
from layernorm_roles.evidence.legends import LEGENDS
from layernorm_roles.variants import NO_ATTENTION_VARIANT, PAPER_PROJECTION


@cache
def reported_numbers() -> dict[str, float]:
    """The effects that the paper reports, by the names that entries give them."""
    majority, models = reported()["majority"], reported()["language_model"]
    with_projection, without = (majority[v]["test_accuracy"][rules.ACCURACY_STEP] for v in PAPER_PROJECTION)
    train, valid = (
        round(models["projection"][column] - models["layernorm"][column], 3)  # as the plot was read
        for column in ("train_loss", "valid_loss")
    )
    return {
        "steps_ratio": majority["steps_ratio"],
        "accuracy_gap": 100 * (with_projection - without),
        "train_gap": train,
        "valid_gap": valid,
        "unselectable_keys": float(np.mean(models["table_1"]["projection"])),
    }


ASKED = {
    "half_of": claim.half_of,
    "more_than": claim.more_than,
    "more_than_half_of": lambda reported: claim.more_than(reported / 2),
    "no_more_than_half_of": lambda reported: claim.no_more_than(reported / 2),
    "no_more_than": claim.no_more_than,
    "positive": lambda _: claim.positive(),
}
"""What may be asked of an estimate, by name, as a function of a number; of ratios its logarithm."""


def number(name: float | str) -> float:
    """A number that is given as such or by its name; KeyError for a name that is none."""
    if not isinstance(name, str):
        return float(name)
    return float(vars(rules)[name] if name.isupper() else reported_numbers()[name])


@dataclass(frozen=True)
class Pair:
    """A comparison of an entry, checked."""

    names: tuple[str, ...]
    """Two variants, or one."""
    asked: Asked | None
    role: claim.Role
    part: Any
    of: str
    quantity: str
    if_lacking: str | None
    untrained: bool

    @property
    def words(self) -> str:
        """What is compared."""
        between = " over " if QUANTITIES[self.quantity].unit == RATIO else " minus "
        return between.join(self.names)

    def comparison(self, measured: Measured, before: bool = False) -> Comparison:
        """The comparison in what was measured, after training or before; Untestable if it lacks a variant or seeds."""
        names = [BEFORE_TRAINING * before + name for name in self.names]
        estimate, n = measured.between(*names) if len(names) == 2 else measured.alone(*names)
        unit, words, role = QUANTITIES[self.quantity].unit, self.words, self.role
        own = {"statistic": QUANTITIES[self.quantity].words}
        if before:
            words, role, own = f"{words}, before training", "context", own | {"part": None}
        elif self.part is not None:
            own |= {"part": self.part}
        return claim.compare(words, estimate, n, self.asked, role, unit, **own)


def pair(spec: Mapping[str, Any], entry: Mapping[str, Any], first: bool) -> Pair:
    """A comparison of an entry as it stands in YAML; ValueError, naming what is wrong, if it says what is not known."""
    known = {"over", "alone", "role", "part", "of", "quantity", "if_lacking", "untrained", *ASKED}
    if unknown := [key for key in spec if key not in known]:
        raise ValueError(f"unknown key {unknown[0]!r}; expected some of {', '.join(sorted(known))}")
    names = tuple(spec["over"] if "over" in spec else [spec["alone"]] if "alone" in spec else ())
    variants = {*LEGENDS, UNIGRAM, NO_ATTENTION_VARIANT}
    for name in names or [""]:
        if name.removeprefix(BEFORE_TRAINING) not in variants:
            raise ValueError(f"unknown variant {name!r}; expected over or alone with names of variants")
    quantity = spec.get("quantity", entry.get("quantity"))
    if quantity not in QUANTITIES:
        raise ValueError(f"unknown quantity {quantity!r}; expected one of {', '.join(QUANTITIES)}")
    asked = [key for key in spec if key in ASKED]
    try:
        numbers = [number(spec[key]) for key in asked]
    except KeyError as error:
        raise ValueError(f"unknown number {error}; expected a number, a threshold of rules or a reported one") from None
    if QUANTITIES[quantity].unit == RATIO:
        numbers = [np.log(each) for each in numbers]
    role = spec.get("role", "effect" if first else "context")
    if role not in ("effect", "control", "context") or spec.get("if_lacking") not in (None, "leave out", "cannot tell"):
        raise ValueError(f"unknown role {role!r} or if_lacking {spec.get('if_lacking')!r}")
    return Pair(
        names,
        ASKED[asked[0]](numbers[0]) if asked else None,
        role,
        spec.get("part"),
        spec.get("of", entry["of"]),
        quantity,
        spec.get("if_lacking"),
        spec.get("untrained", False),
    )


def test(pairs: Sequence[Pair], reported: float | None, tables: Tables) -> Outcome:
    """The outcome of the comparisons of an entry."""
    measured: dict[tuple[str, str], Measured] = {}
    rows, passes, before = [], [], []
    for each in pairs:
        try:
            here = (each.quantity, each.of)
            if here not in measured:
                needed = [
                    name.removeprefix(BEFORE_TRAINING)
                    for other in pairs
                    if (other.quantity, other.of) == here and (other.if_lacking is None or other is each)
                    for name in other.names
                ]
                measured[here] = QUANTITIES[each.quantity].measure(tables, each.of, list(dict.fromkeys(needed)))
            rows.append(each.comparison(measured[here]))
        except Untestable:
            if each.if_lacking is None:
                raise
            if each.if_lacking == "cannot tell":
                unit = QUANTITIES[each.quantity].unit
                rows.append(claim.compare(each.words, NOTHING, None, each.asked, each.role, unit))
            continue
        if each.untrained:
            try:
                before.append(each.comparison(measured[here], before=True))
                passes.append(before[-1].there and rows[-1].there)
            except Untestable:
                passes.append(False)
    notes = dict.fromkeys(found.note for found in measured.values() if found.note)
    return Outcome(
        (*rows, *before),
        " ".join(notes),
        reported,
        UNTRAINED if passes and all(passes) else None,
    )
