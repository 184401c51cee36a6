"""The part of the README that is made: what the kept reproduction found, in its headlines and their sentences."""

from pathlib import Path

from layernorm_roles import files, store
from layernorm_roles.evidence.page import findings
from layernorm_roles.evidence.tables.verdicts import judged

BEGIN, END = "<!-- findings:begin -->", "<!-- findings:end -->"
"""The lines between which the findings stand."""


def update(readme: str | Path, claims: str | Path) -> None:
    """Put the findings of the Parquet file `claims` into the file `readme`."""
    readme = Path(readme)
    files.replace_text(readme, replaced(readme.read_text(encoding="utf-8"), findings_of(claims)))


def findings_of(claims: str | Path) -> str:
    """The findings of the Parquet file `claims` as a Markdown list."""
    return findings.markdown({each.claim.name: each for each in judged(store.read(claims, "claims"))})


def replaced(readme: str, content: str) -> str:
    """The README's text with `content` between the two markers; ValueError if it lacks them."""
    before, begins, rest = readme.partition(BEGIN)
    _, ends, after = rest.partition(END)
    if not (begins and ends):
        raise ValueError(f"README.md: expected the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{content}{END}{after}"
