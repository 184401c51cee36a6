"""The part of the README that is made: what the kept reproduction found."""

from pathlib import Path

from layernorm_roles import files, store
from layernorm_roles.evidence.page import findings
from layernorm_roles.evidence.tables.verdicts import judged

BEGIN, END = "<!-- findings:begin -->", "<!-- findings:end -->"
"""The lines of README.md between which the findings of the kept reproduction stand."""


def update(readme: str | Path, claims: str | Path) -> None:
    """Put a reproduction's findings into the file `readme`; `claims` is the Parquet file of its table claims."""
    readme, content = Path(readme), findings.markdown(judged(store.read(claims, "claims")))
    files.replace_text(readme, replaced(readme.read_text(encoding="utf-8"), content))


def replaced(readme: str, content: str) -> str:
    """Return the README's text with `content` between the lines BEGIN and END; raise ValueError if it lacks them."""
    before, begins, rest = readme.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not (begins and ends):
        raise ValueError(f"README.md: expected the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{content}{END}{after}"
