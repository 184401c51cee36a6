"""Whether the worked numbers of lecture notes are right."""

from layernorm_roles.evidence.claims import rules
from layernorm_roles.evidence.claims.rules import NOTHING, Outcome, Tables, statement, true


def right_numbers(tables: Tables) -> Outcome:
    """Whether all worked numbers are right as rounded there, or at least MOSTLY."""
    table = tables["worked_numbers"]
    counts = table.verdict.value_counts()
    right, follows, wrong = (int(counts.get(name, 0)) for name in ("right", "follows", "not right"))
    throughout = (table.verdict == "right").groupby(table.example).all()
    share = 100 * right / len(table)
    reason = (
        f"Of {len(table)} computed numbers {right} are right as rounded there, {follows} follow from an "
        f"earlier rounding or mistake, {wrong} are not right; {int(throughout.sum())} of {len(throughout)} examples "
        "are right throughout. Nothing is random."
    )
    parts = [true(right == len(table)), true(share > rules.MOSTLY)]
    measured, control = (NOTHING._replace(mean=100 * n / len(table)) for n in (right, right + follows))
    return statement(parts, measured, 1, reason, control)


TESTS = {"worked_numbers": right_numbers}
