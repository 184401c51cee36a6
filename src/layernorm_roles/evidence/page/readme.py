"""The two parts of the README that are made: the verdicts of the kept reproduction, and the tree of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from layernorm_roles import store
from layernorm_roles.evidence.claims import CLAIMS
from layernorm_roles.evidence.claims.rules import Claim
from layernorm_roles.evidence.tables.output import markdown
from layernorm_roles.evidence.tables.structure import MISSING, Column, grid
from layernorm_roles.evidence.tables.typography import interval, typeset, with_unit

VERDICTS, LAYOUT = "verdicts", "layout"
"""Names of the made parts; each stands between the lines <!-- NAME:begin --> and <!-- NAME:end -->."""


def update(readme: str | Path, claims: str | Path, package: str | Path) -> None:
    """Make the parts of the file `readme` anew, from the Parquet file `claims` and the Python package in `package`."""
    readme = Path(readme)
    text = replaced(readme.read_text(encoding="utf-8"), VERDICTS, verdicts(store.read(claims, "claims")))
    text = replaced(text, LAYOUT, layout(package))
    partial = readme.with_name(f".{readme.name}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(readme)


def replaced(readme: str, part: str, content: str) -> str:
    """The README's text with `content` between the two markers of a part; ValueError if it lacks them."""
    begin, end = f"<!-- {part}:begin -->", f"<!-- {part}:end -->"
    before, found_begin, rest = readme.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"README.md: expected the lines {begin} and {end}")
    return f"{before}{begin}\n{content}{end}{after}"


def layout(package: str | Path) -> str:
    """The modules of the Python package in the folder `package` as a Markdown block, each with its first line."""
    package = Path(package)
    return "\n".join(["```text", f"src/{package.name}/", *_tree(package, "  "), "```", ""])


def _tree(folder: Path, indent: str) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        init = path / "__init__.py"
        if path.suffix == ".py" and path.name != "__init__.py":
            yield f"{indent}{path.name:<{26 - len(indent)}} {_first_line(path)}"
        elif init.exists():
            yield f"{indent}{path.name + '/':<{26 - len(indent)}} {_first_line(init)}"
            yield from _tree(path, indent + "  ")


def _first_line(module: Path) -> str:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def verdicts(claims: pd.DataFrame) -> str:
    """The table claims as Markdown: what is claimed, reported and measured, the control, and the verdict."""
    rows = claims.set_index("claim")
    columns = {
        Column("Claim"): lambda pair: _statement(pair[0], pair[1].statement),
        Column("Reported"): lambda pair: _reported(pair[0], pair[1].paper_value),
        Column("Measured, 95 % interval"): lambda pair: _measured(pair[0], pair[1], "measured", "ci"),
        Column("Control, 95 % interval"): lambda pair: _measured(
            pair[0], pair[1], "control_measured", "control"
        ),
        Column("Verdict"): lambda pair: pair[1].verdict,
    }
    pairs = [(claim, rows.loc[claim.name]) for claim in CLAIMS if claim.name in rows.index]
    return markdown([grid(pairs, columns)])


def _again(claim: Claim) -> bool:
    return claim.name.endswith("_uniform")


def _statement(claim: Claim, statement: str) -> str:
    return "… again, on uniformly drawn partitions" if _again(claim) else typeset(statement)


def _reported(claim: Claim, paper_value: str | float | None) -> str:
    return MISSING if _again(claim) or pd.isna(paper_value) else typeset(paper_value)


def _measured(claim: Claim, row: pd.Series, value: str, ends: str) -> str:
    words = [with_unit(row[value], claim.unit), interval(row[f"{ends}_low"], row[f"{ends}_high"])]
    return " ".join(filter(None, words)) or MISSING
