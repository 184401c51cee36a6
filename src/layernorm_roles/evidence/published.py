"""The kept run in results/published/: how it gets there, and the README's table of verdicts, taken from it."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from layernorm_roles.evidence import report
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.report import measured, typeset

BEGIN, END = "<!-- verdicts:begin -->", "<!-- verdicts:end -->"


def publish(run: Path, kept: Path, files: Iterable[str], captions: Mapping[str, str]) -> None:
    """Replace the folder `kept` by the run's `files` (paths in the run's folder) and its report.

    ValueError names the files that the run lacks; nothing is touched then. Nothing of an earlier kept run stays.
    """
    files = list(files)
    missing = [file for file in files if not (run / file).is_file()]
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise ValueError(
            f"{run} is not a finished run, it lacks {', '.join(missing[:5])}{more}; run snakemake --cores all first"
        )
    partial = kept.with_name(f".{kept.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for file in files:
        (partial / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run / file, partial / file)
    report.write(partial, partial / "report.html", captions, name=kept.name)
    if kept.exists():
        shutil.rmtree(kept)
    partial.rename(kept)


def verdicts(claims: pd.DataFrame) -> str:
    """Table `claims` as Markdown: what is claimed, reported and measured, and the verdict."""
    rows = claims.set_index("claim")
    lines = ["| Claim | Reported | Measured, 95 % interval | Verdict |", "| --- | --- | --- | --- |"]
    for claim in CLAIMS:
        if claim.name not in rows.index:
            continue
        row = rows.loc[claim.name]
        again = claim.name.endswith("_uniform")
        statement = "… again, on uniformly drawn partitions" if again else row.statement
        reported = "–" if again or pd.isna(row.paper_value) else row.paper_value
        found = " ".join(measured(row, claim.unit)).strip() or "–"
        verdict = row.verdict if row.verdict == "not tested" else f"**{row.verdict}**"
        cells = [typeset(text).replace("|", "\\|") for text in (statement, reported, found)]
        lines.append(f"| {' | '.join([*cells, verdict])} |")
    return "\n".join(lines) + "\n"


def with_verdicts(readme: str, claims: pd.DataFrame) -> str:
    """The README's text with the table of verdicts between its two markers; ValueError if it lacks them."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(
            f"README.md: expected the lines {BEGIN} and {END}, with the table of verdicts between them"
        )
    return f"{before}{BEGIN}\n{verdicts(claims)}{END}{after}"


def captions(folder: Path) -> dict[str, str]:
    """The captions of all figures, by name, from the .rst files that `snakemake --report` uses too."""
    return {path.stem: " ".join(path.read_text().split()) for path in sorted(folder.glob("*.rst"))}
