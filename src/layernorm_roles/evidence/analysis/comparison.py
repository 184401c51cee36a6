"""Two reproductions side by side: their claims, what differs in their settings, and the runs that both have.

One reproduction is *here*, the other one, which it is compared with, is *there*.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

MEANINGS = {
    "apart": (
        "The two 95 % intervals have no number in common. Where nothing differs but independent seeds, and both "
        "intervals are equally wide, that happens to 1 claim in 180; with seeds that both reproductions have, less "
        "often."
    ),
    "unequal": (
        "The numbers differ, and at least one of them has no interval: it comes from a single run, or nothing in it "
        "is random."
    ),
    "measured otherwise": "The two reproductions measure different quantities for this claim.",
    "on one side": "Only one of the reproductions has measured this claim.",
    "overlap": (
        "The two 95 % intervals have numbers in common. The runs do not show a difference; that is no proof that "
        "there is none."
    ),
    "identical": "The number and both ends of its interval are equal in every digit.",
    "not measured": "Neither reproduction has measured this claim.",
}
"""How the measured numbers of a claim compare, and what each word means, in the order in which a reader wants them."""

VERDICTS = ("changed", "only here", "only there", "same")
"""How the verdicts on a claim compare, in the order in which a reader wants to see them."""

_OF_EACH = ["statistic", "measured", "ci_low", "ci_high", "n_seeds", "verdict"]
"""Columns of table claims that are set side by side."""


def compare(here: pd.DataFrame, there: pd.DataFrame) -> pd.DataFrame:
    """Table `comparison`: a row for each claim of one of two tables `claims`, in the order of `here`, then of `there`.

    The numbers are compared by their intervals alone, since the two reproductions may share seeds, and then no test
    of independent samples is right.
    """
    names = list(dict.fromkeys([*here.claim, *there.claim]))
    ours, theirs = (table.set_index("claim").reindex(names) for table in (here, there))
    frame = pd.DataFrame({"claim": names, "statement": ours.statement.fillna(theirs.statement).to_numpy()})
    for side, prefix in ((ours, ""), (theirs, "against_")):
        for column in _OF_EACH:
            frame[f"{prefix}{column}"] = side[column].to_numpy()
        frame[f"{prefix}n_seeds"] = frame[f"{prefix}n_seeds"].astype("Int64")
    pairs = list(zip(ours.itertuples(), theirs.itertuples(), strict=True))
    frame["numbers"] = [_numbers(one, other) for one, other in pairs]
    frame["verdicts"] = [_verdicts(one.verdict, other.verdict) for one, other in pairs]
    return frame


def _numbers(here: Any, there: Any) -> str:
    measured = pd.notna(here.measured), pd.notna(there.measured)
    if not all(measured):
        return "on one side" if any(measured) else "not measured"
    if here.statistic != there.statistic:
        return "measured otherwise"
    pairs = [(getattr(here, name), getattr(there, name)) for name in ("measured", "ci_low", "ci_high")]
    if all(ours == theirs or pd.isna([ours, theirs]).all() for ours, theirs in pairs):
        return "identical"
    if min(here.n_seeds, there.n_seeds) < 2 or pd.isna(pairs).any():
        return "unequal"
    overlap = max(here.ci_low, there.ci_low) <= min(here.ci_high, there.ci_high)
    return "overlap" if overlap else "apart"


def _verdicts(here: Any, there: Any) -> str:
    if pd.isna(there):
        return "only here"
    if pd.isna(here):
        return "only there"
    return "same" if here == there else "changed"


def differences(
    here: Mapping[str, Any], there: Mapping[str, Any], way: str = ""
) -> list[tuple[str, str, str]]:
    """The settings that differ: the names on the way to each, joined by dots, and both values; "" where it is not set.

    The reproductions' names are left out. A part that only one of them has is one entry, whatever it holds.
    """
    found = []
    for key in dict.fromkeys([*here, *there]):
        name, sides = f"{way}{key}", [side[key] for side in (here, there) if key in side]
        if len(sides) == 2 and all(isinstance(value, Mapping) for value in sides):
            found += differences(*sides, f"{name}.")
        elif name != "name" and (len(sides) == 1 or sides[0] != sides[1]):
            found.append((name, *(_written(side[key]) if key in side else "" for side in (here, there))))
    return found


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"set, {len(value)} {'key' if len(value) == 1 else 'keys'}"
    return json.dumps(value, ensure_ascii=False)


class Shared(NamedTuple):
    """An experiment or a language model that two reproductions have: its name and its rows of either side."""

    name: str
    here: pd.DataFrame
    there: pd.DataFrame


def shared(here: pd.DataFrame, there: pd.DataFrame, group: str) -> tuple[list[Shared], list[str]]:
    """What both tables have under one name of the column `group`, and the names of what cannot be set side by side.

    `here` and `there` are tables majority_metrics, with `group` experiment, or language_model_metrics, with `group`
    model. Not side by side is what only one of them has, and what has several widths, learning rates or lengths.
    """
    names = list(dict.fromkeys([*here[group], *there[group]]))
    found = [Shared(name, here[here[group] == name], there[there[group] == name]) for name in names]
    drawn = [each for each in found if _one_setting(each.here) and _one_setting(each.there)]
    return drawn, [each.name for each in found if each.name not in {one.name for one in drawn}]


def _one_setting(runs: pd.DataFrame) -> bool:
    settings = [name for name in ("d_model", "base_learning_rate", "steps") if name in runs]
    return len(runs) > 0 and all(runs[name].nunique() == 1 for name in settings)
