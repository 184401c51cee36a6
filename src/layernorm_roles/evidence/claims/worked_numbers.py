"""Whether the worked numbers of lecture notes are right, and what they say of attention beside them."""

from layernorm_roles.evidence.analysis.statements import example_verdicts
from layernorm_roles.evidence.claims.rules import (
    NOTHING,
    Finding,
    Outcome,
    Tables,
    Untestable,
    statement,
    true,
)
from layernorm_roles.schemas import LINEARITY

FINDINGS = {
    "right": Finding.SEEN,
    "rounding": Finding.SMALLER,
    "hedged": Finding.SMALLER,
    "wrong": Finding.ABSENT,
}
"""What the verdict on an example says about the statement that its numbers are right."""


def right_examples(tables: Tables) -> Outcome:
    """Whether the worked examples are right: a part for each of them."""
    table = tables["worked_numbers"]
    table = table[table.example != LINEARITY]
    examples = example_verdicts(table)
    right, rounding, hedged, wrong = (int((examples == name).sum()) for name in FINDINGS)
    numbers = table.verdict.value_counts()
    counted = ", ".join(
        f"{numbers.get(name, 0)} {words}"
        for name, words in {
            "right": "are right",
            "rounding": "are off by rounding",
            "hedged": "are off but hedged",
            "carried": "follow from a number that is wrong or hedged",
            "wrong": "are wrong",
        }.items()
    )
    reason = (
        f"Of {len(examples)} examples {right} are right throughout, {rounding} but for rounding, {hedged} but for "
        f"hedged numbers, and {wrong} have a wrong number. Of their {len(table)} computed numbers {counted}. Nothing "
        "is random."
    )
    measured, control = (
        NOTHING._replace(mean=100 * number / len(examples)) for number in (right, len(examples) - wrong)
    )
    parts = [FINDINGS[verdict] for verdict in examples]
    return statement(parts, measured, 1, reason, control, reported=100.0)


def linear(tables: Tables) -> Outcome:
    """Whether attention gives twice the output for twice the tokens, as a linear operation does."""
    table = tables["worked_numbers"]
    ratios = table[table.example == LINEARITY]
    if ratios.empty:
        raise Untestable("The run has no output of attention for twice the tokens.")
    listed = ", ".join(f"{ratio:.3f}" for ratio in ratios.recomputed)
    reason = (
        f"In the notes' own example, twice the tokens have {listed} times the output, by coordinate; a linear "
        "operation gives twice. The weights change with the tokens: only for given weights is the output linear in "
        "the values. Nothing is random."
    )
    first = NOTHING._replace(mean=ratios.recomputed.iloc[0])
    return statement([true((ratios.verdict == "right").all())], first, 1, reason)


TESTS = {"worked_numbers": right_examples, "attention_linear": linear}
