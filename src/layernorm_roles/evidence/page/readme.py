"""The two parts of the README that are made: the verdicts of the kept reproduction, and the tree of the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from layernorm_roles import store
from layernorm_roles.evidence.tables.output import markdown
from layernorm_roles.evidence.tables.verdicts import judged, table_of

VERDICTS, LAYOUT = "verdicts", "layout"
"""Names of the made parts; each stands between the lines <!-- NAME:begin --> and <!-- NAME:end -->."""

CARRYING = (
    "faster",
    "accurate_best_rate",
    "parallel",
    "project_values",
    "random_keys_layernorm",
    "table_1",
    "loss_gap",
    "loss_gap_best_rate_bytes",
    "loss_gap_keys_bytes",
    "heads",
    "heads_of_practical_width",
)
"""The claims that the README shows: those that carry its section "What it finds". The page shows all."""


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
    """The claims that carry what this repository finds, from the table claims, as Markdown."""
    return markdown([table_of([found for found in judged(claims) if found.claim.name in CARRYING])])
