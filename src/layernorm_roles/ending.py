"""What a workflow prints when it has ended: where the results are, and how many claims have each verdict."""

from pathlib import Path


def verdicts(folder: str | Path) -> str:
    """How many claims the reproduction in `folder` has, and how many have each verdict, as a phrase.

    Raises ValueError if the table claims is damaged.
    """
    from layernorm_roles import store  # it imports pandas, which no plan needs

    words = store.read(Path(folder) / "parquet/claims.parquet", "claims").verdict.value_counts()
    return f"{words.sum():,} claims: " + ", ".join(f"{number:,} {word}" for word, number in words.items())


def results(folder: str | Path) -> list[str]:
    """The lines that name the verdicts and the report of the reproduction in `folder`; none if it has no report."""
    report = Path(folder) / "report.html"
    return [f"{folder}: {verdicts(folder)}", f"The report: {report}"] if report.is_file() else []
