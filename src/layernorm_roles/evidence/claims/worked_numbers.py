"""Whether the worked numbers of lecture notes are right."""

from layernorm_roles.evidence.analysis.statements import example_verdicts
from layernorm_roles.evidence.claims.rules import NOTHING, Finding, Outcome, Tables, statement

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


TESTS = {"worked_numbers": right_examples}
