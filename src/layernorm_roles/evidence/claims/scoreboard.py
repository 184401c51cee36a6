"""The scoreboard: for each figure and table of the paper what it reports, what was measured here, and the outcome."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from layernorm_roles.evidence.analysis.paper import reported
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import HIGH_DIMENSION, Verdict
from layernorm_roles.evidence.legends import label

RESERVED = "reproduced with a reservation"
OTHER_TASK = "another task here"

MARKS = {
    "reproduced": "✓",
    RESERVED: "(✓)",
    "confounded": "◑",
    "partial": "◐",
    "not reproduced": "✕",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_RUN: "–",
    OTHER_TASK: "–",
}
"""Every outcome of an exhibit of the paper, and its mark."""

OUTCOMES = {Verdict.HOLDS: "reproduced", Verdict.DOES_NOT_HOLD: "not reproduced"}
"""What verdicts on the claim of an exhibit are called in the scoreboard; the others keep their words."""


class Exhibit(NamedTuple):
    """A figure or table of the paper, and the claim that says what it shows."""

    title: str
    shows: str
    """The quantity that is compared with the paper's."""
    claim: str | None
    exhibits: tuple[str, ...]
    """Names in shown.yaml of the figures or tables that stand for it here."""
    control: str = ""
    """What the control is, in a few words."""
    confounded_by: str = ""
    notes: Mapping[tuple[str, bool], str] = {}
    """What readers are told if a comparison whose text begins so was met, or not met."""
    layers: str = ""
    """The column of paper.yaml, in the table called as the claim, with the per cents of single layers."""
    second: tuple[str, str] | None = None
    """What the claim's second number is about, and what the paper reports of it."""


EXHIBITS = [
    Exhibit(
        "Figures 1a, 1b",
        "how much nearer queries come to the normal of the keys’ plane than random directions",
        "plane",
        ("figure_1a", "figure_1b"),
        "against scaling only",
    ),
    Exhibit(
        "Figure 1c",
        "matrices of Gaussian keys with an unselectable key: most keys in fewest dimensions",
        "random_keys",
        ("figure_1c",),
        second=(f"from {HIGH_DIMENSION} dimensions on", "0"),
    ),
    Exhibit(
        "Figure 1d",
        "matrices of Gaussian keys with an unselectable key after LayerNorm",
        "random_keys_layernorm",
        ("figure_1c",),
        "after the projection alone",
        notes={(label("scale"), True): "scaling alone does it"},
    ),
    Exhibit(
        "Figure 2a",
        "steps to equal test loss, without projection over with it",
        "faster",
        ("figure_2a",),
        "without projection, at LayerNorm’s size",
        "the released variant also divides by d",
    ),
    Exhibit(
        "Figure 2b",
        "angle of queries to the ones vector, without projection minus with it",
        "parallel",
        ("figure_2b",),
        "without projection, at LayerNorm’s size",
        notes={
            (f"{label('scale_released')} minus {label('layernorm_small')}", False): (
                "with a LayerNorm of the released variant’s size queries do not turn either"
            )
        },
    ),
    Exhibit(
        "Figure 3",
        "test accuracy with projection minus without it",
        "accurate",
        ("figure_3",),
        "without projection, at LayerNorm’s size",
        "the released variant also divides by d",
    ),
    Exhibit(
        "Figure 4",
        "validation loss without scaling minus with it",
        "loss_gap",
        ("figure_4_paper_rate", "figure_4b"),
        "without scaling, against an equally small LayerNorm",
        "the size of attention’s input",
        {(f"{label('projection')} minus {label('layernorm_shrunk')}", False): "no gap at equal size"},
    ),
    Exhibit(
        "Table 1",
        "unselectable keys at the attention input without scaling",
        "table_1",
        ("table_1",),
        "before training",
        layers="projection",
    ),
    Exhibit(
        "Table 2",
        "keys that would be unselectable before LayerNorm",
        "table_2",
        ("table_2",),
        "before training",
        layers="before_norm",
    ),
    Exhibit(
        "Table 3",
        "sentences with an unselectable key without scaling",
        "table_3",
        ("table_3",),
        "before training",
    ),
    Exhibit(
        "Table 4",
        "keys of a small BERT without any LayerNorm; the paper’s classifies sentences, this one predicts masked tokens",
        None,
        ("table_4",),
    ),
]
"""The eleven exhibits of the paper's experiments, in the paper's order."""


def scoreboard(claims: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each exhibit of the paper, from the tables claims and comparisons.

    Columns: exhibit, shows, claim, exhibits (names in shown.yaml, comma-separated), outcome (a key of MARKS), why (what
    qualifies it), size_beside_paper, control (what it is), and of the table claims reported, paper_value, measured,
    control_measured, the ends of both and n_seeds; unit. detail and reported_detail are further numbers, as text.
    """
    return pd.DataFrame([_row(exhibit, claims, comparisons) for exhibit in EXHIBITS])


def _row(exhibit: Exhibit, claims: pd.DataFrame, comparisons: pd.DataFrame) -> dict[str, Any]:
    own = comparisons[comparisons.claim == exhibit.claim].sort_values("number")
    rows = claims[claims.claim == exhibit.claim]
    row = rows.iloc[0] if len(rows) else pd.Series({"verdict": Verdict.NOT_RUN}, dtype=object)
    numbers = ("measured", "ci_low", "ci_high", "control_measured", "control_low", "control_high")
    numbers = {name: row.get(name, float("nan")) for name in ("reported", *numbers)}
    names = {"exhibit": exhibit.title, "shows": exhibit.shows, "claim": exhibit.claim or ""}
    names |= {"exhibits": ", ".join(exhibit.exhibits)}
    if exhibit.claim is None:
        return names | {"outcome": OTHER_TASK} | numbers
    claim = next(claim for claim in CLAIMS if claim.name == exhibit.claim)
    outcome, why = OUTCOMES.get(row.verdict, row.verdict), _why(exhibit, row, own)
    if outcome == "reproduced" and why:
        outcome = RESERVED
    size = str(row.get("setting") or "").removeprefix(claim.setting).strip()
    said = {
        "outcome": outcome,
        "why": why,
        "size_beside_paper": size,
        "control": exhibit.control,
        "unit": claim.unit,
    }
    said |= {"paper_value": row.get("paper_value"), "n_seeds": row.get("n_seeds", 0)}
    return names | said | numbers | _details(exhibit, own)


def _why(exhibit: Exhibit, row: pd.Series, own: pd.DataFrame) -> str:
    """Return what qualifies the verdict: the confounding cause, what passes the test too, and notes that apply."""
    why = [exhibit.confounded_by] if row.verdict == Verdict.CONFOUNDED else []
    if row.verdict == Verdict.HOLDS and pd.notna(row.also_passed_by):
        why.append(f"{row.also_passed_by} pass too")
    if row.verdict in (Verdict.HOLDS, Verdict.PARTIAL, Verdict.INCONCLUSIVE):
        for (begins, met), words in exhibit.notes.items():
            why += [words] if (own.comparison.str.startswith(begins) & (own.met == met)).any() else []
    return "; ".join(filter(None, why))


def _details(exhibit: Exhibit, own: pd.DataFrame) -> dict[str, str]:
    """Return further numbers of the exhibit, as text: of single layers, or the claim's second number."""
    effects = own[own.role == "effect"]
    if exhibit.layers:
        there = effects.comparison.str.contains(r", layer \d+$") & effects.asked.str.startswith("at least")
        paper = reported()["language_model"][exhibit.claim][exhibit.layers]
        texts = {"detail": effects.estimate[there], "reported_detail": paper}
        texts = {name: ", ".join(f"{value:.0f}" for value in values) for name, values in texts.items()}
        return {name: f"by layer {text} %" if text else "" for name, text in texts.items()}
    if exhibit.second and len(effects) > 1:
        where, paper = exhibit.second
        return {"detail": f"{effects.estimate.iloc[1]:.2g} % {where}", "reported_detail": f"{paper} {where}"}
    return {"detail": "", "reported_detail": ""}
