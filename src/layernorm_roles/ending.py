"""What a workflow says when it ends: how many verdicts of each word there are, or which jobs failed."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def verdicts(folder: str | Path) -> str:
    """The number of claims of the reproduction in `folder`, and of each word of their verdicts, as a phrase.

    It is read from the table claims. Raises ValueError if that is damaged.
    """
    from layernorm_roles import store  # it imports pandas, which no plan needs

    words = store.read(Path(folder) / "parquet/claims.parquet", "claims").verdict.value_counts()
    return f"{words.sum():,} claims: " + ", ".join(f"{number:,} {word}" for word, number in words.items())


def results(asked: Iterable[str], folders: Iterable[str]) -> list[str]:
    """The lines that say where the files `asked` for are, and of a report also how many verdicts of each word it has.

    The report of a reproduction lies in its folder, one of `folders`.
    """
    asked = {*asked}
    lines = [f"{folder}: {verdicts(folder)}" for folder in folders if f"{folder}/report.html" in asked]
    if pages := sorted(file for file in asked if file.endswith(".html")):
        return [*lines, *(f"The report: {page}" for page in pages)]
    return [f"Made: {folder}/" for folder in sorted({str(Path(file).parent) for file in asked})]


def failure(logs: Sequence[str]) -> list[str]:
    """The lines that name failed jobs by their `logs`; without any, the run was stopped from outside."""
    again = "What is finished is kept; the same command goes on from there."
    if not logs:
        return [f"The run was stopped. {again}"]
    jobs = "1 job failed; its log says" if len(logs) == 1 else f"{len(logs):,} jobs failed; their logs say"
    return [f"{jobs} why:", *(f"    {log}" for log in sorted(logs)), again]


def reasons(logs: Sequence[str], message: str = "") -> list[str]:
    """The lines that say why a job of a cluster failed, once each: its own error, what SLURM did to it or refused.

    They are looked for in `logs`, of which one that is missing or not readable has none, and in the `message` of the
    plugin that submits jobs.
    """
    found = {f"error: {refused}": None for refused in re.findall(r"sbatch: error: [^'\n]*", message)}
    for log in logs:
        try:
            text = Path(log).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found |= dict.fromkeys(re.findall(r"^(?:error: |slurmstepd.*error: \*{3} JOB ).*", text, re.M))
    return [*found]
