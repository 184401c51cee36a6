"""What a workflow says when it has ended: where the results are, and how many verdicts of each word there are."""

from pathlib import Path


def verdicts(folder: str | Path) -> str:
    """The number of claims of the reproduction in `folder`, and of each word of their verdicts, as a phrase.

    It is read from the table claims. Raises ValueError if that is damaged.
    """
    from layernorm_roles import store  # it imports pandas, which no plan needs

    words = store.read(Path(folder) / "parquet/claims.parquet", "claims").verdict.value_counts()
    return f"{words.sum():,} claims: " + ", ".join(f"{number:,} {word}" for word, number in words.items())


def results(folder: str | Path) -> list[str]:
    """The lines that say what the report of the reproduction in `folder` says, and where it is; none without one."""
    report = Path(folder) / "report.html"
    return [f"{folder}: {verdicts(folder)}", f"The report: {report}"] if report.is_file() else []
